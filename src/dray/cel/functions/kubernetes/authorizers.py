"""Kubernetes' authorizer library (apiserver, cel/library/authz.go).

An authorizer and the checks made from it are values that only functions use. The decision itself
is a callback of the authorizer, so that this package knows nothing of users and rules.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from dray.api.formats import names
from dray.cel.functions import dispatching
from dray.cel.functions.overloads import CallEstimate, Library, Operand, Overload, Range, member
from dray.cel.runtime.values import EvaluationError
from dray.cel.types import BOOL, STRING, Type, object_type

AUTHORIZER = object_type("kubernetes.authorization.Authorizer")
RESOURCE_CHECK = object_type("kubernetes.authorization.ResourceCheck")
_PATH_CHECK = object_type("kubernetes.authorization.PathCheck")
_GROUP_CHECK = object_type("kubernetes.authorization.GroupCheck")
_DECISION = object_type("kubernetes.authorization.Decision")

CHECK_COST = 350_000
"""The cost of one check, as upstream counts it: few of them fit into one evaluation."""


class ServiceAccountName(NamedTuple):
    namespace: str
    name: str


@dataclass(frozen=True)
class CheckedAction:
    """The subject of a check: a path, or else a resource."""

    verb: str = ""
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


@dataclass(frozen=True)
class AuthorizationResult:
    cel_type: ClassVar[Type] = _DECISION
    is_allowed: bool
    reason: str = ""
    error: str = ""


Authorize = Callable[[ServiceAccountName | None, CheckedAction], AuthorizationResult]
"""Decides for a service account or, with None, for the user of the request."""


@dataclass(frozen=True)
class AuthorizerValue:
    """Makes checks for one user."""

    cel_type: ClassVar[Type] = AUTHORIZER
    authorize: Authorize
    service_account: ServiceAccountName | None = None

    def check(self, action: CheckedAction) -> AuthorizationResult:
        return self.authorize(self.service_account, action)


@dataclass(frozen=True)
class _Check:
    authorizer: AuthorizerValue
    action: CheckedAction = CheckedAction()

    def check(self, verb: str) -> AuthorizationResult:
        return self.authorizer.check(dataclasses.replace(self.action, verb=verb))


class PathCheck(_Check):
    cel_type: ClassVar[Type] = _PATH_CHECK


class GroupCheck(_Check):
    cel_type: ClassVar[Type] = _GROUP_CHECK


class ResourceCheck(_Check):
    cel_type: ClassVar[Type] = RESOURCE_CHECK


def _path(authorizer: AuthorizerValue, path: str) -> PathCheck:
    if not path.strip():
        raise EvaluationError("path must not be empty")
    return PathCheck(authorizer, CheckedAction(path=path))


def _group(authorizer: AuthorizerValue, group: str) -> GroupCheck:
    return GroupCheck(authorizer, CheckedAction(group=group))


def _service_account(authorizer: AuthorizerValue, namespace: str, name: str) -> AuthorizerValue:
    if names.dns_subdomain_errors(name):
        raise EvaluationError("Invalid service account name")
    if names.dns_label_errors(namespace):
        raise EvaluationError("Invalid service account namespace")
    return AuthorizerValue(authorizer.authorize, ServiceAccountName(namespace, name))


def _resource(check: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise EvaluationError("resource must not be empty")
    return ResourceCheck(check.authorizer, dataclasses.replace(check.action, resource=resource))


def _setter(field: str) -> Callable[[ResourceCheck, str], ResourceCheck]:
    def set_field(check: ResourceCheck, value: str) -> ResourceCheck:
        changed = dataclasses.replace(check.action, **{field: value})
        return ResourceCheck(check.authorizer, changed)

    return set_field


def _check_estimate(operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(Range.exactly(CHECK_COST))


def _check_cost(arguments: Sequence[Any], result: Any) -> int:
    return CHECK_COST


_CHECK_PRICE = (_check_estimate, _check_cost)

# Function, receiver, number of string arguments, result, the id of the overload, what it does.
_SIGNATURES: tuple[tuple[str, Type, int, Type, str, Callable[..., Any]], ...] = (
    ("path", AUTHORIZER, 1, _PATH_CHECK, "authorizer_path", _path),
    ("group", AUTHORIZER, 1, _GROUP_CHECK, "authorizer_group", _group),
    ("serviceAccount", AUTHORIZER, 2, AUTHORIZER, "authorizer_serviceaccount", _service_account),
    ("resource", _GROUP_CHECK, 1, RESOURCE_CHECK, "groupcheck_resource", _resource),
    (
        *("subresource", RESOURCE_CHECK, 1, RESOURCE_CHECK),
        *("resourcecheck_subresource", _setter("subresource")),
    ),
    (
        *("namespace", RESOURCE_CHECK, 1, RESOURCE_CHECK),
        *("resourcecheck_namespace", _setter("namespace")),
    ),
    ("name", RESOURCE_CHECK, 1, RESOURCE_CHECK, "resourcecheck_name", _setter("name")),
    (
        *("fieldSelector", RESOURCE_CHECK, 1, RESOURCE_CHECK),
        *("authorizer_fieldselector", _setter("field_selector")),
    ),
    (
        *("labelSelector", RESOURCE_CHECK, 1, RESOURCE_CHECK),
        *("authorizer_labelselector", _setter("label_selector")),
    ),
    ("check", _PATH_CHECK, 1, _DECISION, "pathcheck_check", PathCheck.check),
    ("check", RESOURCE_CHECK, 1, _DECISION, "resourcecheck_check", ResourceCheck.check),
    ("errored", _DECISION, 0, BOOL, "decision_errored", lambda result: bool(result.error)),
    ("error", _DECISION, 0, STRING, "decision_error", lambda result: result.error),
    ("allowed", _DECISION, 0, BOOL, "decision_allowed", lambda result: result.is_allowed),
    ("reason", _DECISION, 0, STRING, "decision_reason", lambda result: result.reason),
)


def _overloads(name: str) -> Iterator[Overload]:
    for function, receiver, strings, result, id, call in _SIGNATURES:
        if function == name:
            price = _CHECK_PRICE if name == "check" else (None, None)
            yield member(id, (receiver, *[STRING] * strings), result, call, *price)


LIBRARY: Library = tuple(
    dispatching.function(
        name, *_overloads(name), dispatch_cost=_check_cost if name == "check" else None
    )
    for name in dict.fromkeys(signature[0] for signature in _SIGNATURES)
)
