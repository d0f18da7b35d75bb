"""Times as Go reads and writes them: RFC 3339, and Go's words for what is not."""

from __future__ import annotations

import contextlib
import datetime
import functools
import re
from typing import NamedTuple

from dray.api.formats import gotext

SECONDS = "2006-01-02T15:04:05Z07:00"
"""Go's layout of a Time."""
MICROSECONDS = "2006-01-02T15:04:05.000000Z07:00"
"""Go's layout of a MicroTime."""


class TimeError(ValueError):
    """The text is not a time in the layout; the message is Go's."""


class _Element(NamedTuple):
    """One element of a layout, what matches it, and the range of its number if it has one."""

    layout: str
    pattern: re.Pattern[str]
    quantity: str = ""
    least: int = 0
    most: int = 0


def _element(
    layout: str, pattern: str, quantity: str = "", least: int = 0, most: int = 0
) -> _Element:
    return _Element(layout, re.compile(pattern, re.ASCII), quantity, least, most)


_DATE_AND_HOUR = (
    _element("2006", r"(\d{4})"),
    _element("-", "-"),
    _element("01", r"(\d\d)", "month", 1, 12),
    _element("-", "-"),
    _element("02", r"(\d\d)"),
    _element("T", "T"),
    _element("15", r"(\d\d?)", "hour", 0, 23),
    _element(":", ":"),
    _element("04", r"(\d\d)", "minute", 0, 59),
    _element(":", ":"),
)
_OFFSET = _element("Z07:00", r"Z|([+-]\d\d):(\d\d)", "time zone offset hour", -24, 24)
_LAYOUTS = {
    SECONDS: (*_DATE_AND_HOUR, _element("05", r"(\d\d)(?:[.,](\d+))?", "second", 0, 59), _OFFSET),
    MICROSECONDS: (
        *_DATE_AND_HOUR,
        _element("05", r"(\d\d)", "second", 0, 59),
        _element(".000000", r"[.,](\d{6})"),
        _OFFSET,
    ),
}


_USUAL = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}Z", re.ASCII)
"""In UTC, without a fraction."""


def parse(text: str, layout: str = SECONDS) -> datetime.datetime:
    """Parse a time as Go, time/format.go, parse does. Raises TimeError."""
    if layout == SECONDS and _USUAL.fullmatch(text):
        # Python is several times as fast. What it refuses, Go has words for.
        with contextlib.suppress(ValueError):
            return datetime.datetime.fromisoformat(text)
    groups: list[str | None] = []
    rest = text
    for element in _LAYOUTS[layout]:
        match = element.pattern.match(rest)
        if match is None:
            raise TimeError(
                f"parsing time {gotext.quote(text)} as {gotext.quote(layout)}:"
                f" cannot parse {gotext.quote(rest)} as {gotext.quote(element.layout)}"
            )
        if element.quantity and match[1] and not element.least <= int(match[1]) <= element.most:
            raise TimeError(f"parsing time {gotext.quote(text)}: {element.quantity} out of range")
        groups += match.groups()
        rest = rest[match.end() :]
    if rest:
        quoted = gotext.quote(text)
        raise TimeError(f"parsing time {quoted}: extra text: {gotext.quote(rest)}")
    return _assemble(text, groups)


def _assemble(text: str, groups: list[str | None]) -> datetime.datetime:
    year, month, day, hour, minute, second = (int(group or 0) for group in groups[:6])
    microsecond = int((groups[6] or "")[:6].ljust(6, "0"))
    offset_hours, offset_minutes = groups[7] or "+0", int(groups[8] or 0)
    sign = -1 if offset_hours.startswith("-") else 1
    offset = datetime.timedelta(hours=int(offset_hours), minutes=sign * offset_minutes)
    try:
        local = datetime.datetime(
            year, month, day, hour, minute, second, microsecond, tzinfo=datetime.UTC
        )
        return local - offset
    except (ValueError, OverflowError):
        raise TimeError(f"parsing time {gotext.quote(text)}: day out of range") from None


@functools.lru_cache(maxsize=64)
def write(time: datetime.datetime, layout: str = SECONDS) -> str:
    """Format a time as Go writes it into JSON: in UTC, cut to the layout's precision."""
    utc = time if time.tzinfo is datetime.UTC else time.astimezone(datetime.UTC)
    written = utc.isoformat(timespec="microseconds" if layout == MICROSECONDS else "seconds")
    return f"{written.removesuffix('+00:00')}Z"
