"""Kubernetes' authorizer library: declarations only.

A selector has no authorizer to call, but the names are known: using one wrongly is "no matching
overload", not "undeclared reference".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from dray.cel import types
from dray.cel.functions import cost_estimates, dispatching, runtime_costs
from dray.cel.functions.overloads import CallEstimate, Function, Library, Operand, Overload, Range
from dray.cel.runtime import values
from dray.cel.types import Type

AUTHORIZER = types.object_type("kubernetes.authorization.Authorizer")
PATH_CHECK = types.object_type("kubernetes.authorization.PathCheck")
GROUP_CHECK = types.object_type("kubernetes.authorization.GroupCheck")
RESOURCE_CHECK = types.object_type("kubernetes.authorization.ResourceCheck")
DECISION = types.object_type("kubernetes.authorization.Decision")

_CHECK_COST = 350_000
_REQUIREMENT_COST = 50.0
_REQUIREMENTS_PER_CHARACTER = 0.5


def _unavailable(*arguments: Any) -> NoReturn:
    raise values.no_such_overload()


def _selector_estimate(operands: Sequence[Operand]) -> CallEstimate:
    length = operands[1].size_or_unknown
    requirements = length.scale(_REQUIREMENTS_PER_CHARACTER).scale(_REQUIREMENT_COST)
    parsing = length.scale(runtime_costs.STRING_FACTOR)
    return CallEstimate(Range.exactly(runtime_costs.LIST_CREATION).add(parsing).add(requirements))


def _member(
    id: str,
    type: Type,
    result: Type,
    estimate: cost_estimates.Estimate | None = None,
    strings: int = 1,
) -> Overload:
    arguments = (type, *[types.STRING] * strings)
    return Overload(id, arguments, result, _unavailable, member=True, estimate=estimate)


def _refinement(name: str, id: str, estimate: cost_estimates.Estimate | None = None) -> Function:
    """A narrower check of a resource."""
    return dispatching.function(name, _member(id, RESOURCE_CHECK, RESOURCE_CHECK, estimate))


def _property(name: str, id: str, result: Type) -> Function:
    return dispatching.function(name, _member(id, DECISION, result, strings=0))


LIBRARY = Library(
    "authorizers",
    (
        dispatching.function("path", _member("authorizer_path", AUTHORIZER, PATH_CHECK)),
        dispatching.function("group", _member("authorizer_group", AUTHORIZER, GROUP_CHECK)),
        dispatching.function(
            "serviceAccount",
            _member("authorizer_serviceaccount", AUTHORIZER, AUTHORIZER, strings=2),
        ),
        dispatching.function(
            "resource", _member("groupcheck_resource", GROUP_CHECK, RESOURCE_CHECK)
        ),
        _refinement("subresource", "resourcecheck_subresource"),
        _refinement("namespace", "resourcecheck_namespace"),
        _refinement("name", "resourcecheck_name"),
        _refinement("fieldSelector", "authorizer_fieldselector", _selector_estimate),
        _refinement("labelSelector", "authorizer_labelselector", _selector_estimate),
        dispatching.function(
            "check",
            _member("pathcheck_check", PATH_CHECK, DECISION, cost_estimates.fixed(_CHECK_COST)),
            _member(
                "resourcecheck_check", RESOURCE_CHECK, DECISION, cost_estimates.fixed(_CHECK_COST)
            ),
        ),
        _property("errored", "decision_errored", types.BOOL),
        _property("error", "decision_error", types.STRING),
        _property("allowed", "decision_allowed", types.BOOL),
        _property("reason", "decision_reason", types.STRING),
    ),
)
