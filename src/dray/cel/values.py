"""What a value is while an expression runs, and the errors that running raises.

| CEL                  | Python                                                   |
|----------------------|----------------------------------------------------------|
| null, bool, int      | None, bool, int (64 bit: arithmetic checks the range)     |
| uint                 | UInt, a subclass of int                                   |
| double, string, bytes| float, str, bytes                                         |
| list, map            | list or tuple, dict                                       |
| duration, timestamp  | Duration, Timestamp (whole nanoseconds)                   |
| optional             | Optional                                                  |
| type                 | types.Type                                                |
| Quantity, Semver     | api.quantity.Quantity, api.semver.Version                 |

bool is an int to Python and not to CEL: every dispatch on a type asks for bool first.
"""

from __future__ import annotations


class UInt(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


class EvaluationError(Exception):
    """What cel-go calls an error value: `&&`, `||`, `all` and `exists` may absorb it."""


class CostExceeded(Exception):
    """The run-time cost limit was passed: nothing absorbs it."""
