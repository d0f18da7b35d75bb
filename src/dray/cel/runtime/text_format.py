"""Values as text: what `string()` makes of them, and what Go prints of them in messages."""

from __future__ import annotations

import math
from typing import Any

from dray.cel.runtime import times, values
from dray.cel.runtime.values import CostExceeded, Duration, StepBudget, Timestamp

_MAXIMUM_PRINTED = 200
"""Values inside a value that a message shows."""


def double(number: float) -> str:
    """Format as the verb %g: the fewest digits that keep the value."""
    if not math.isfinite(number):
        return _special(number)
    sign, digits, point = _shortest_digits(number)
    exponent = point - 1
    if -4 <= exponent < 6:
        return sign + _positional(digits, point)
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _special(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "+Inf" if number > 0 else "-Inf"


def _shortest_digits(number: float) -> tuple[str, str, int]:
    """Return sign, digits without zeros at either end, and the position of the decimal point."""
    mantissa, _, exponent = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    sign = "-" if math.copysign(1, number) < 0 else ""
    return (sign, digits, point) if digits else (sign, "0", 1)


def _positional(digits: str, point: int) -> str:
    if point <= 0:
        return "0." + "0" * -point + digits
    if len(digits) <= point:
        return digits.ljust(point, "0")
    return f"{digits[:point]}.{digits[point:]}"


def duration(span: Duration) -> str:
    """Format as `string(duration)` does: in seconds."""
    sign, digits, point = _shortest_digits(seconds(span))
    return f"{sign}{_positional(digits, point)}s"


def seconds(span: Duration) -> float:
    """Return Go's Duration.Seconds."""
    return _in_units(span, times.NANOSECONDS_PER_SECOND)


def minutes(span: Duration) -> float:
    return _in_units(span, 60 * times.NANOSECONDS_PER_SECOND)


def hours(span: Duration) -> float:
    return _in_units(span, 3600 * times.NANOSECONDS_PER_SECOND)


def _in_units(span: Duration, unit: int) -> float:
    whole, rest = divmod(abs(span.nanoseconds), unit)
    magnitude = float(whole) + float(rest) / unit
    return -magnitude if span.nanoseconds < 0 else magnitude


def timestamp(instant: Timestamp) -> str:
    """Format as RFC 3339 in the timestamp's own zone."""
    offset = instant.offset_seconds
    return _date_and_time(instant, "T") + (_offset(offset, ":") if offset else "Z")


def _date_and_time(instant: Timestamp, separator: str) -> str:
    at = times.calendar(instant, instant.offset_seconds)
    date = f"{at.year:04d}-{at.month:02d}-{at.day:02d}"
    fraction = f".{at.nanosecond:09d}".rstrip("0") if at.nanosecond else ""
    return f"{date}{separator}{at.hour:02d}:{at.minute:02d}:{at.second:02d}{fraction}"


def _offset(offset_seconds: int, separator: str) -> str:
    total_minutes = abs(offset_seconds) // 60
    sign = "-" if offset_seconds < 0 else "+"
    return f"{sign}{total_minutes // 60:02d}{separator}{total_minutes % 60:02d}"


def printed(value: Any) -> str:
    """Format as the verb %v in messages; values with too many parts are left out."""
    try:
        return _printed(value, StepBudget(_MAXIMUM_PRINTED))
    except CostExceeded:
        return "..."


def _printed(value: Any, effort: StepBudget) -> str:
    effort.spend()
    kind = value.__class__
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if value is None:
        return "0"
    if kind is float:
        return double(value)
    if kind is int or kind is values.UInt:
        return str(int(value))
    if kind is bytes:
        return f"[{' '.join(map(str, value))}]"
    return _printed_object(value, effort)


def _printed_object(value: Any, effort: StepBudget) -> str:
    kind = value.__class__
    if kind is Duration:
        return _printed_duration(value)
    if kind is Timestamp:
        return _printed_timestamp(value)
    if kind in values.LIST_CLASSES:
        return f"[{', '.join([_printed(element, effort) for element in value])}]"
    if kind in values.MAP_CLASSES:
        entries = [
            f"{_printed(values.key_value(key), effort)}: {_printed(entry, effort)}"
            for key, entry in value.items()
        ]
        return f"{{{', '.join(entries)}}}"
    if kind is values.Optional:
        return (
            f"optional({_printed(value.value, effort)})" if value.has_value else "optional.none()"
        )
    return str(value)


def _printed_duration(span: Duration) -> str:
    """Format as Go's Duration.String: "1h0m0.5s", "1.5ms"."""
    nanoseconds = abs(span.nanoseconds)
    sign = "-" if span.nanoseconds < 0 else ""
    if not nanoseconds:
        return "0s"
    for unit, name in ((10**3, "ns"), (10**6, "µs"), (10**9, "ms")):
        if nanoseconds < unit:
            return f"{sign}{_decimal(nanoseconds, unit // 1000)}{name}"
    total_seconds = nanoseconds // times.NANOSECONDS_PER_SECOND
    total_minutes = total_seconds // 60
    rest = nanoseconds - total_minutes * 60 * times.NANOSECONDS_PER_SECOND
    text = f"{_decimal(rest, times.NANOSECONDS_PER_SECOND)}s"
    if total_minutes:
        text = f"{total_minutes % 60}m{text}"
    if total_minutes >= 60:
        text = f"{total_minutes // 60}h{text}"
    return sign + text


def _decimal(number: int, unit: int) -> str:
    whole, rest = divmod(number, unit)
    fraction = str(rest).rjust(len(str(unit)) - 1, "0").rstrip("0") if rest else ""
    return f"{whole}.{fraction}" if fraction else str(whole)


def _printed_timestamp(instant: Timestamp) -> str:
    """Format as Go's Time.String."""
    offset = instant.offset_seconds
    zone = "+0000 UTC" if not offset else f"{_offset(offset, '')} {_offset(offset, '')}"
    return f"{_date_and_time(instant, ' ')} {zone}"
