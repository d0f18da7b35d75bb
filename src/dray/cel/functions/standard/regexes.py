"""`matches` of the language; `find` and `findAll` of Kubernetes' regex library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dray.cel import types
from dray.cel.functions import cost_estimates, dispatching, prices, runtime_costs
from dray.cel.functions.dispatching import charged, operator
from dray.cel.functions.overloads import CallEstimate, Library, Operand, Overload, Range, member
from dray.cel.runtime import regexes, values
from dray.cel.runtime.values import EvaluationError

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


_TEXTS = (_STRING, _STRING)
_FIND = (_find_estimate, runtime_costs.match)
_FIND_ALL = (_find_estimate, runtime_costs.with_output(runtime_costs.match))

LIBRARY: Library = (
    operator(
        "matches",
        matches,
        Overload("matches", _TEXTS, types.BOOL, matches, *prices.MATCH),
        member("matches_string", _TEXTS, types.BOOL, matches, *prices.MATCH),
    ),
    charged("find", member("string_find_string", _TEXTS, _STRING, find, *_FIND)),
    charged(
        "findAll",
        member("string_find_all_string", _TEXTS, _STRINGS, find_all, *_FIND_ALL),
        member("string_find_all_string_int", (*_TEXTS, types.INT), _STRINGS, find_all, *_FIND_ALL),
    ),
)
