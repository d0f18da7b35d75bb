"""String functions: those of the language and cel-go's extension library, version 2.

Positions and sizes count code points. See ext/strings.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dray.cel import types
from dray.cel.functions import cost_estimates, prices, runtime_costs
from dray.cel.functions.dispatching import charged, function, operator
from dray.cel.functions.overloads import (
    UNKNOWN,
    CallEstimate,
    Function,
    Library,
    Operand,
    Overload,
    Range,
    member,
)
from dray.cel.functions.prices import Price
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
    {plain: f"\\{letter}" for plain, letter in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)}
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


def _transformation(name: str, id: str, call: Callable[[str], str]) -> Function:
    """Return a function that reads every character once."""
    return charged(name, member(id, (_STRING,), _STRING, call, *prices.SCAN_KEEPING_SIZE))


def _search(id: str, call: Callable[..., int], *offset: Type) -> Overload:
    return member(id, (_STRING, _STRING, *offset), _INT, call, *prices.TRAVERSAL)


def _test(name: str, id: str, call: Callable[[Any, Any], bool], price: Price) -> Function:
    overload = member(id, (_STRING, _STRING), types.BOOL, call, *price)
    return operator(name, call, overload, cost=overload.cost)


def _substring(id: str, call: Callable[..., str], *positions: Type) -> Overload:
    return member(id, (_STRING, *positions), _STRING, call, *prices.SCAN_KEEPING_SIZE)


_JOIN = (_join_estimate, runtime_costs.scan_result_twice)
_SPLIT = (_split_estimate, runtime_costs.with_output(runtime_costs.scan_twice))
_REPLACE = (cost_estimates.replacement, runtime_costs.with_output(runtime_costs.scan_twice))
_QUOTE = (_quote_estimate, runtime_costs.scan)


def _splitting(id: str, *limit: Type) -> Overload:
    return member(id, (_STRING, _STRING, *limit), _STRINGS, split, *_SPLIT)


def _replacing(id: str, *limit: Type) -> Overload:
    return member(id, (_STRING, _STRING, _STRING, *limit), _STRING, replace, *_REPLACE)


LIBRARY: Library = (
    _test("contains", "contains_string", contains, prices.SEARCH),
    _test("startsWith", "starts_with_string", starts_with, prices.SCAN_SECOND),
    _test("endsWith", "ends_with_string", ends_with, prices.SCAN_SECOND),
    function("charAt", member("string_char_at_int", (_STRING, _INT), _STRING, char_at)),
    charged(
        "indexOf",
        _search("string_index_of_string", index_of),
        _search("string_index_of_string_int", index_of, _INT),
    ),
    charged(
        "lastIndexOf",
        _search("string_last_index_of_string", last_index_of),
        _search("string_last_index_of_string_int", last_index_of_before, _INT),
    ),
    _transformation("lowerAscii", "string_lower_ascii", lower_ascii),
    _transformation("upperAscii", "string_upper_ascii", upper_ascii),
    _transformation("trim", "string_trim", trim),
    charged(
        "replace",
        _replacing("string_replace_string_string"),
        _replacing("string_replace_string_string_int", _INT),
    ),
    charged(
        "split",
        _splitting("string_split_string"),
        _splitting("string_split_string_int", _INT),
    ),
    charged(
        "substring",
        _substring("string_substring_int", substring, _INT),
        _substring("string_substring_int_int", substring_between, _INT, _INT),
    ),
    function("strings.quote", Overload("strings_quote", (_STRING,), _STRING, quote, *_QUOTE)),
    charged(
        "join",
        member("list_join", (_STRINGS,), _STRING, join, *_JOIN),
        member("list_join_string", (_STRINGS, _STRING), _STRING, join, *_JOIN),
    ),
)
