"""`string.format`: parse a template and fill in its arguments (cel-go ext/formatting.go)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from dray.api.formats import gotext
from dray.cel import types
from dray.cel.functions import cost_estimates, dispatching, runtime_costs
from dray.cel.functions.overloads import Library, member
from dray.cel.functions.standard.strings import MAXIMUM_RESULT
from dray.cel.runtime import text_format, values
from dray.cel.runtime.values import Duration, EvaluationError, StepBudget, Timestamp, UInt

UNEXPECTED_END = "unexpected end of string"

_HEXADECIMAL = "only integers, byte buffers, and strings can be formatted as hex"
REFUSALS = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
    "types, durations, and timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": _HEXADECIMAL,
    "X": _HEXADECIMAL,
    "o": "octal clause can only be used on integers",
}

_MAX_PRECISION = 2**63 - 1
_MAX_PRECISION_DIGITS = 19
_PRECISION = re.compile(r"\.([0-9]*)")


class Clause(NamedTuple):
    """`%d`, `%.3f`: what to do with the next argument.

    `problem` says why it cannot be read; nothing follows such a clause. It counts only after it is
    known that there is an argument for the clause.
    """

    verb: str = ""
    precision: int | None = None
    problem: str | None = None


def template_parts(template: str) -> Iterator[str | Clause]:
    """Yield literal text and clauses, in order."""
    position = 0
    while (percent := template.find("%", position)) >= 0:
        yield template[position:percent]
        if template.startswith("%%", percent):
            yield "%"
            position = percent + 2
            continue
        clause, position = _clause(template, percent + 1)
        yield clause
        if clause.problem is not None:
            return
    yield template[position:]


def _clause(template: str, position: int) -> tuple[Clause, int]:
    """Parse the clause behind a `%`. Returns it and its end."""
    precision: int | None = None
    if match := _PRECISION.match(template, position):
        position = match.end()
        if position == len(template):
            return _unreadable_precision("could not find end of precision specifier"), position
        precision = _integer(match[1])
        if precision is None:
            return _unreadable_precision(_conversion_problem(match[1])), position
    if position == len(template):
        return Clause(problem=UNEXPECTED_END), position
    verb = template[position]
    if verb not in REFUSALS:
        first_byte = chr(verb.encode("utf-8", "surrogatepass")[0])
        return _unreadable(f'unrecognized formatting clause "{first_byte}"'), position
    return Clause(verb, precision), position + 1


def _integer(digits: str) -> int | None:
    significant = digits.lstrip("0")
    if not digits or len(significant) > _MAX_PRECISION_DIGITS:
        return None
    value = int(significant or "0")
    return value if value <= _MAX_PRECISION else None


def _conversion_problem(digits: str) -> str:
    reason = "value out of range" if digits else "invalid syntax"
    problem = f'strconv.Atoi: parsing "{digits}": {reason}'
    return f"error while converting precision to integer: {problem}"


def refusal(verb: str, type_name: str) -> str:
    """Return the message for a value whose type a clause does not take."""
    return f"error during formatting: {REFUSALS[verb]}, was given {type_name}"


def _unreadable_precision(problem: str) -> Clause:
    return _unreadable(f"error while parsing precision: {problem}")


def _unreadable(problem: str) -> Clause:
    return Clause(problem=f"could not parse formatting clause: {problem}")


_DEFAULT_PRECISION = 6
_MAXIMUM_FRACTION = 1074
"""Digits after the point of the smallest double; all further ones are zero."""

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_NAMED_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_PRINTED_AS_STRING = frozenset(
    {int, UInt, float, bool, str, bytes, Timestamp, Duration, types.Type}
)


class _Refused(Exception):
    """The clause does not take a value of this type."""


def format(template: str, arguments: values.CelList) -> str:
    effort = StepBudget(MAXIMUM_RESULT)
    parts: list[str] = []
    position = 0
    for part in template_parts(template):
        if isinstance(part, Clause):
            text = _format_clause(part, arguments, position, effort)
            position += 1
        else:
            text = part
        effort.spend(len(text))
        parts.append(text)
    return "".join(parts)


def _format_clause(
    clause: Clause, arguments: values.CelList, position: int, effort: StepBudget
) -> str:
    if position >= len(arguments):
        raise EvaluationError(f"index {position} out of range")
    if clause.problem is not None:
        raise EvaluationError(clause.problem)
    value = arguments[position]
    try:
        if clause.verb == "s":
            return _string(value, effort)
        return _VERBS[clause.verb](value, clause)
    except _Refused:
        message = refusal(clause.verb, values.type_name(value))
        raise EvaluationError(message) from None


def _in_base(value: Any, clause: Clause) -> str:
    if value.__class__ is int or value.__class__ is UInt:
        # Python names the bases by the same letters.
        return int(value).__format__(clause.verb)
    raise _Refused


def _binary(value: Any, clause: Clause) -> str:
    if value.__class__ is bool:
        return "1" if value else "0"
    return _in_base(value, clause)


def _hexadecimal(value: Any, clause: Clause) -> str:
    if value.__class__ is str:
        value = value.encode("utf-8", "surrogatepass")
    if value.__class__ is bytes:
        digits: str = value.hex()
        return digits.upper() if clause.verb == "X" else digits
    return _in_base(value, clause)


def _number(value: Any) -> float:
    if value.__class__ is float:
        return float(value)
    if value.__class__ is str and value in _NAMED_NUMBERS:
        return _NAMED_NUMBERS[value]
    raise _Refused


def _fixed(value: Any, clause: Clause) -> str:
    number = _number(value)
    if not math.isfinite(number):
        return _special(number)
    precision = _DEFAULT_PRECISION if clause.precision is None else clause.precision
    text = f"{abs(number):,.{min(precision, _MAXIMUM_FRACTION)}f}"
    # The least number of digits is kept in 8 bits.
    if precision > 255:
        whole, _, fraction = text.partition(".")
        fraction = fraction.rstrip("0").ljust(precision % 256, "0")
        text = f"{whole}.{fraction}" if fraction else whole
    return f"-{text}" if number < 0 else text


def _scientific(value: Any, clause: Clause) -> str:
    number = _number(value)
    width = _DEFAULT_PRECISION if clause.precision is None else clause.precision % 2**16
    if not math.isfinite(number):
        return _special(number).rjust(width)
    mantissa, _, exponent = f"{abs(number):.{_DEFAULT_PRECISION}e}".partition("e")
    power = exponent.lstrip("+").translate(_SUPERSCRIPTS)
    sign = "-" if number < 0 else ""
    return f"{sign}{mantissa}×10{power}".rjust(width)


def _special(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "∞" if number > 0 else "-∞"


_VERBS: dict[str, Callable[[Any, Clause], str]] = {
    "d": _in_base,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "o": _in_base,
    "x": _hexadecimal,
    "X": _hexadecimal,
}


def _string(value: Any, effort: StepBudget) -> str:
    if value.__class__ in values.LIST_CLASSES:
        return _list(value, effort)
    if value.__class__ in values.MAP_CLASSES:
        return _map(value, effort)
    if value is None:
        return "null"
    if value.__class__ in _PRINTED_AS_STRING:
        return _scalar(value)
    raise _Refused


def _scalar(value: Any) -> str:
    kind = value.__class__
    if kind is str:
        return str(value)
    if kind is bytes:
        return _utf8(value)
    if kind is Duration:
        return text_format.duration(value)
    if kind is Timestamp:
        return text_format.timestamp(value)
    if kind is types.Type:
        return str(value.name)
    return text_format.printed(value)


def _utf8(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise EvaluationError(
            "error during formatting: could not convert argument "
            '"invalid UTF-8 in bytes, cannot convert to string" to string'
        ) from None


def _list(elements: values.CelList, effort: StepBudget) -> str:
    effort.spend(len(elements))
    return f"[{', '.join([_literal(element, effort) for element in elements])}]"


def _map(entries: values.CelMap, effort: StepBudget) -> str:
    effort.spend(len(entries))
    printed = [
        (_key(values.key_value(key)), _literal(entry, effort)) for key, entry in entries.items()
    ]
    printed.sort(key=lambda pair: pair[0])
    return f"{{{', '.join([f'{key}:{entry}' for key, entry in printed])}}}"


def _key(key: Any) -> str:
    if key.__class__ is str:
        return gotext.quote(key)
    if key.__class__ in (bool, int, UInt):
        return text_format.printed(key)
    raise EvaluationError(
        "error during formatting: no formatting function for map key of type "
        + values.type_name(key)
    )


def _literal(value: Any, effort: StepBudget) -> str:
    """Format a value inside a list or map as CEL would write it."""
    text = _literal_text(value, effort)
    effort.spend(len(text))
    return text


def _literal_text(value: Any, effort: StepBudget) -> str:
    kind = value.__class__
    if kind is str:
        return gotext.quote(value)
    if kind is bytes:
        return f"b{gotext.quote(_utf8(value))}"
    if kind is float:
        return _double_literal(value)
    if kind is Timestamp:
        return f'timestamp("{text_format.timestamp(value)}")'
    if kind is Duration:
        return f'duration("{text_format.duration(value)}")'
    try:
        return _string(value, effort)
    except _Refused:
        raise EvaluationError(
            f"error during formatting: no formatting function for {values.type_name(value)}"
        ) from None


def _double_literal(number: float) -> str:
    if math.isfinite(number):
        return f"{number:.{_DEFAULT_PRECISION}f}"
    return f'"{text_format.double(number)}"'


_PRICE = (cost_estimates.scan, runtime_costs.with_output(runtime_costs.scan))
_ARGUMENTS = (types.STRING, types.list_of(types.DYN))
LIBRARY: Library = (
    dispatching.function(
        "format", member("string_format", _ARGUMENTS, types.STRING, format, *_PRICE)
    ),
)
