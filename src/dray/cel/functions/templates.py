"""Templates of `string.format`, taken apart (cel-go ext/formatting.go, parseFormatString).

The checker reads them for literal templates, `format` itself for all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

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


def pieces(template: str) -> Iterator[str | Clause]:
    """Text to take over and clauses, in order."""
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
    """The clause behind a `%` and where it ends."""
    precision: int | None = None
    if found := _PRECISION.match(template, position):
        position = found.end()
        if position == len(template):
            return _unreadable_precision("could not find end of precision specifier"), position
        precision = _integer(found[1])
        if precision is None:
            return _unreadable_precision(_conversion_problem(found[1])), position
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
    """What to say of a value whose type a clause does not take."""
    return f"error during formatting: {REFUSALS[verb]}, was given {type_name}"


def _unreadable_precision(problem: str) -> Clause:
    return _unreadable(f"error while parsing precision: {problem}")


def _unreadable(problem: str) -> Clause:
    return Clause(problem=f"could not parse formatting clause: {problem}")
