"""`matches` of the language; `find` and `findAll` of Kubernetes' regex library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dray.cel import types
from dray.cel.functions import cost_estimates, dispatching, runtime_costs
from dray.cel.functions.overloads import CallEstimate, Library, Operand, Overload, Range
from dray.cel.runtime import regexes, values
from dray.cel.runtime.values import EvaluationError
from dray.cel.types import Type

_STRING = types.STRING
_STRINGS = types.list_of(_STRING)


def matches(text: Any, pattern: Any) -> bool:
    if text.__class__ is not str:
        raise dispatching.missing_operation("matches", text)
    if pattern.__class__ is not str:
        raise values.no_such_overload()
    return bool(regexes.compile(pattern).is_in(text.encode()))


def find(text: str, pattern: str) -> str:
    return _compile(pattern).find(text)


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return _compile(pattern).find_all(text, limit)


def _compile(pattern: str) -> regexes.Pattern:
    try:
        return regexes.compile(pattern)
    except EvaluationError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _find_estimate(operands: Sequence[Operand]) -> CallEstimate:
    cost = cost_estimates.match(operands).cost
    return CallEstimate(cost, Range(0, operands[0].size_or_unknown.high))


_FIND_ALL_COST = runtime_costs.with_output(runtime_costs.match)


def _finding_all(id: str, *limit: Type) -> Overload:
    return Overload(
        id,
        (_STRING, _STRING, *limit),
        _STRINGS,
        find_all,
        member=True,
        estimate=_find_estimate,
        cost=_FIND_ALL_COST,
    )


LIBRARY = Library(
    "regular expressions",
    (
        dispatching.operator(
            "matches",
            matches,
            Overload(
                "matches",
                (_STRING, _STRING),
                types.BOOL,
                matches,
                estimate=cost_estimates.match,
                cost=runtime_costs.match,
            ),
            Overload(
                "matches_string",
                (_STRING, _STRING),
                types.BOOL,
                matches,
                member=True,
                estimate=cost_estimates.match,
                cost=runtime_costs.match,
            ),
        ),
        dispatching.function(
            "find",
            Overload(
                "string_find_string",
                (_STRING, _STRING),
                _STRING,
                find,
                member=True,
                estimate=_find_estimate,
                cost=runtime_costs.match,
            ),
            dispatch_cost=runtime_costs.match,
        ),
        dispatching.function(
            "findAll",
            _finding_all("string_find_all_string"),
            _finding_all("string_find_all_string_int", types.INT),
            dispatch_cost=_FIND_ALL_COST,
        ),
    ),
)
