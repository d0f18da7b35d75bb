"""String functions: those of the language and cel-go's extension library, version 2.

Positions and sizes count code points. See ext/strings.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dray.cel import types
from dray.cel.functions import cost_estimates, dispatching, runtime_costs
from dray.cel.functions.overloads import (
    UNKNOWN,
    CallEstimate,
    Function,
    Library,
    Operand,
    Overload,
    Range,
)
from dray.cel.runtime import text_format, values
from dray.cel.runtime.values import EvaluationError
from dray.cel.syntax.nodes import Literal
from dray.cel.types import Type

_STRING, _INT = types.STRING, types.INT
_STRINGS = types.list_of(_STRING)

# What Go calls space; Python's strip() also takes the separators \x1c to \x1f.
_SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_TO_LOWER = str.maketrans(_UPPER, _UPPER.lower())
_TO_UPPER = str.maketrans(_UPPER.lower(), _UPPER)
_QUOTED = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)

MAXIMUM_RESULT = 1_000_000
"""No call makes a longer string: upstream charges too little for it."""


def contains(text: Any, part: Any) -> bool:
    if text.__class__ is str and part.__class__ is str:
        return part in text
    raise values.no_such_overload()


def starts_with(text: Any, part: Any) -> bool:
    if text.__class__ is str and part.__class__ is str:
        return bool(text.startswith(part))
    raise values.no_such_overload()


def ends_with(text: Any, part: Any) -> bool:
    if text.__class__ is str and part.__class__ is str:
        return bool(text.endswith(part))
    raise values.no_such_overload()


def _out_of_range(position: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {position}")


def char_at(text: str, position: int) -> str:
    if not 0 <= position <= len(text):
        raise _out_of_range(position)
    return text[position : position + 1]


def index_of(text: str, part: str, offset: int = 0) -> int:
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    return text.find(part, offset)


def last_index_of(text: str, part: str) -> int:
    if not part:
        return len(text)
    return text.rfind(part)


def last_index_of_before(text: str, part: str, offset: int) -> int:
    """Return the last position of `part` at or before `offset`, or -1."""
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    if offset >= len(text):
        return -1
    return text.rfind(part, 0, offset + len(part))


def lower_ascii(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_TO_LOWER)


def upper_ascii(text: str) -> str:
    return text.upper() if text.isascii() else text.translate(_TO_UPPER)


def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    if len(new) > len(old):
        count = text.count(old) if limit < 0 else min(text.count(old), limit)
        if len(text) + count * (len(new) - len(old)) > MAXIMUM_RESULT:
            raise values.CostExceeded
    return text.replace(old, new, max(limit, -1))


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    if not limit:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    if 0 < limit < len(text):
        return [*text[: limit - 1], text[limit - 1 :]]
    return list(text)


def substring(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    return text[start:]


def substring_between(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for position in (start, end):
        if not 0 <= position <= len(text):
            raise _out_of_range(position)
    return text[start:end]


def trim(text: str) -> str:
    return text.strip(_SPACES)


def quote(text: str) -> str:
    return f'"{text.translate(_QUOTED)}"'


def join(parts: values.CelList, separator: str = "") -> str:
    length = len(separator) * len(parts)
    for part in values.bounded(parts):
        if part.__class__ is not str:
            raise EvaluationError(f"join: invalid input: {text_format.printed(part)}")
        length += len(part)
        if length > MAXIMUM_RESULT:
            raise values.CostExceeded
    return separator.join(parts)


def _split_estimate(operands: Sequence[Operand]) -> CallEstimate:
    size = operands[0].size_or_unknown
    high = size.high
    if len(operands) > 2 and isinstance(operands[2].node, Literal):
        limit = operands[2].node.value
        if limit.__class__ is int:
            assert isinstance(limit, int)
            high = cost_estimates.wrapped(limit)
    return CallEstimate(size.scale(2 * runtime_costs.STRING_FACTOR), Range(0, high))


def _join_estimate(operands: Sequence[Operand]) -> CallEstimate:
    target = operands[0]
    count = target.size_or_unknown
    size = Range(0, 0)
    if target.type.parameters:
        element = target.element.size_or_unknown if target.element else UNKNOWN
        size = count.multiply(element)
    if len(operands) > 1:
        separators = Range(max(count.low - 1, 0), max(count.high - 1, 0))
        size = size.add(operands[1].size_or_unknown.multiply(separators))
    return CallEstimate(size.scale(runtime_costs.STRING_FACTOR), size)


def _quote_estimate(operands: Sequence[Operand]) -> CallEstimate:
    size = operands[0].size_or_unknown
    result = Range(cost_estimates.wrapped(size.low + 2), cost_estimates.wrapped(size.high * 2 + 2))
    return CallEstimate(size.scale(runtime_costs.STRING_FACTOR), result)


def _member(
    id: str,
    arguments: tuple[Type, ...],
    result: Type,
    call: Callable[..., Any],
    estimate: cost_estimates.Estimate | None = None,
    cost: runtime_costs.Cost | None = None,
) -> Overload:
    return Overload(id, (_STRING, *arguments), result, call, True, estimate, cost)


def _transformation(name: str, id: str, call: Callable[[str], str]) -> Function:
    """Return a function that reads every character once."""
    overload = _member(id, (), _STRING, call, cost_estimates.scan_keeping_size, runtime_costs.scan)
    return dispatching.function(name, overload, dispatch_cost=runtime_costs.scan)


def _search(id: str, arguments: tuple[Type, ...], call: Callable[..., int]) -> Overload:
    return _member(id, arguments, _INT, call, cost_estimates.traversal, runtime_costs.traversal)


def _test(
    name: str,
    id: str,
    call: Callable[[Any, Any], bool],
    estimate: cost_estimates.Estimate,
    cost: runtime_costs.Cost,
) -> Function:
    overload = _member(id, (_STRING,), types.BOOL, call, estimate, cost)
    return dispatching.operator(name, call, overload, cost=cost)


_SCAN = (cost_estimates.scan_keeping_size, runtime_costs.scan)
_SCAN_SECOND = (cost_estimates.scan_second, runtime_costs.scan_second)
_JOIN = (_join_estimate, runtime_costs.scan_result_twice)
_REPLACE_COST = _SPLIT_COST = runtime_costs.with_output(runtime_costs.scan_twice)


def _splitting(id: str, *limit: Type) -> Overload:
    return Overload(
        id,
        (_STRING, _STRING, *limit),
        _STRINGS,
        split,
        member=True,
        estimate=_split_estimate,
        cost=_SPLIT_COST,
    )


def _replacing(id: str, *limit: Type) -> Overload:
    return Overload(
        id,
        (_STRING, _STRING, _STRING, *limit),
        _STRING,
        replace,
        member=True,
        estimate=cost_estimates.replacement,
        cost=_REPLACE_COST,
    )


LIBRARY = Library(
    "strings",
    (
        _test("contains", "contains_string", contains, cost_estimates.search, runtime_costs.search),
        _test("startsWith", "starts_with_string", starts_with, *_SCAN_SECOND),
        _test("endsWith", "ends_with_string", ends_with, *_SCAN_SECOND),
        dispatching.function("charAt", _member("string_char_at_int", (_INT,), _STRING, char_at)),
        dispatching.function(
            "indexOf",
            _search("string_index_of_string", (_STRING,), index_of),
            _search("string_index_of_string_int", (_STRING, _INT), index_of),
            dispatch_cost=runtime_costs.traversal,
        ),
        dispatching.function(
            "lastIndexOf",
            _search("string_last_index_of_string", (_STRING,), last_index_of),
            _search("string_last_index_of_string_int", (_STRING, _INT), last_index_of_before),
            dispatch_cost=runtime_costs.traversal,
        ),
        _transformation("lowerAscii", "string_lower_ascii", lower_ascii),
        _transformation("upperAscii", "string_upper_ascii", upper_ascii),
        _transformation("trim", "string_trim", trim),
        dispatching.function(
            "replace",
            _replacing("string_replace_string_string"),
            _replacing("string_replace_string_string_int", _INT),
            dispatch_cost=_REPLACE_COST,
        ),
        dispatching.function(
            "split",
            _splitting("string_split_string"),
            _splitting("string_split_string_int", _INT),
            dispatch_cost=_SPLIT_COST,
        ),
        dispatching.function(
            "substring",
            _member("string_substring_int", (_INT,), _STRING, substring, *_SCAN),
            _member("string_substring_int_int", (_INT, _INT), _STRING, substring_between, *_SCAN),
            dispatch_cost=runtime_costs.scan,
        ),
        dispatching.function(
            "strings.quote",
            Overload(
                "strings_quote",
                (_STRING,),
                _STRING,
                quote,
                estimate=_quote_estimate,
                cost=runtime_costs.scan,
            ),
        ),
        dispatching.function(
            "join",
            Overload("list_join", (_STRINGS,), _STRING, join, True, *_JOIN),
            Overload("list_join_string", (_STRINGS, _STRING), _STRING, join, True, *_JOIN),
            dispatch_cost=runtime_costs.scan_result_twice,
        ),
    ),
)
