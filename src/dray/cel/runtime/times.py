"""Durations and timestamps as text and as calendar fields, as Go's package time has them."""

from __future__ import annotations

import datetime
import functools
import re
import zoneinfo
from typing import NamedTuple

from dray.api.formats import gotext
from dray.cel import types
from dray.cel.runtime import values
from dray.cel.runtime.values import Duration, EvaluationError, Timestamp

NANOSECONDS_PER_SECOND = 10**9
MINIMUM_UNIX_SECONDS = -62135596800
MAXIMUM_UNIX_SECONDS = 253402300799
"""From year 1 to year 9999."""

_SECONDS_PER_DAY = 86400
_ZERO_TIME = MINIMUM_UNIX_SECONDS * NANOSECONDS_PER_SECOND

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_DURATION_PART = re.compile(r"([0-9]*+)(?:\.([0-9]*+))?+([^0-9.]++)", re.ASCII)
_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})"
    r"(?:[.,]([0-9]+))?(Z|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)
_OFFSET_NUMBER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


def parse_duration(text: str) -> Duration:
    """Parse as Go's time.ParseDuration: "1h45m", "-1.5s", "0"."""
    unsigned = text[1:] if text[:1] in ("-", "+") else text
    if unsigned == "0":
        return Duration(0)
    total = _parse_unsigned_duration(unsigned)
    if text[:1] == "-":
        total = -total
    if total > values.MAXIMUM_INT:
        raise values.conversion_error(types.DURATION)
    return Duration(total)


def _parse_unsigned_duration(text: str) -> int:
    position, total = 0, 0
    while position < len(text) or not position:
        part = _DURATION_PART.match(text, position)
        unit = _UNITS.get(part[3]) if part else None
        if not part or unit is None or not (part[1] or part[2]):
            raise values.conversion_error(types.DURATION)
        total += _part_nanoseconds(part[1], part[2] or "", unit)
        if total > -values.MINIMUM_INT:
            raise values.conversion_error(types.DURATION)
        position = part.end()
    return total


def _part_nanoseconds(whole: str, fraction: str, unit: int) -> int:
    digits = whole.lstrip("0") or "0"
    if len(digits) > 19:
        raise values.conversion_error(types.DURATION)
    # Go multiplies the fraction in floating point and drops digits past 64 bits.
    numerator, scale = 0, 1.0
    for digit in fraction[:19]:
        if numerator > values.MAXIMUM_INT // 10:
            break
        numerator, scale = numerator * 10 + int(digit), scale * 10
    return int(digits) * unit + int(float(numerator) * (unit / scale))


def parse_timestamp(text: str) -> Timestamp:
    """Parse as Go's time.Parse for RFC 3339, within the years 1 to 9999."""
    match = _RFC3339.fullmatch(text)
    if not match:
        raise values.conversion_error(types.TIMESTAMP)
    year, month, day, hour, minute, second = (int(match[group]) for group in range(1, 7))
    offset = _parse_offset(match[8])
    is_valid_time = hour < 24 and minute < 60 and second < 60
    if not (is_valid_time and _is_valid_date(year, month, day)) or offset is None:
        raise values.conversion_error(types.TIMESTAMP)
    days = _days_from_civil(year, month, day)
    seconds = days * _SECONDS_PER_DAY + hour * 3600 + minute * 60 + second - offset
    nanoseconds = int((match[7] or "")[:9].ljust(9, "0"))
    return timestamp_at(seconds * NANOSECONDS_PER_SECOND + nanoseconds, offset)


def timestamp_at(nanoseconds: int, offset_seconds: int = 0) -> Timestamp:
    """Return an instant. Raises EvaluationError outside the years 1 to 9999."""
    seconds = nanoseconds // NANOSECONDS_PER_SECOND
    if not MINIMUM_UNIX_SECONDS <= seconds <= MAXIMUM_UNIX_SECONDS:
        raise EvaluationError("timestamp overflow")
    return Timestamp(nanoseconds, offset_seconds)


def is_zero_time(timestamp: Timestamp) -> bool:
    """Return whether this is Go's zero time, the start of year 1."""
    return timestamp.nanoseconds == _ZERO_TIME


def _parse_offset(text: str) -> int | None:
    if text == "Z":
        return 0
    hours, minutes = int(text[1:3]), int(text[4:6])
    # Go accepts an offset of 24 hours and of 60 minutes.
    if hours > 24 or minutes > 60:
        return None
    seconds = (hours * 60 + minutes) * 60
    return -seconds if text[0] == "-" else seconds


def _is_valid_date(year: int, month: int, day: int) -> bool:
    if not 1 <= month <= 12:
        return False
    following = (year + 1, 1) if month == 12 else (year, month + 1)
    return 1 <= day <= _days_from_civil(*following, 1) - _days_from_civil(year, month, 1)


def _days_from_civil(year: int, month: int, day: int) -> int:
    """Return the days since 1970 in the proleptic Gregorian calendar, of any year."""
    shifted_year = year - (month <= 2)
    era, year_of_era = divmod(shifted_year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146097 + day_of_era - 719468


class Calendar(NamedTuple):
    """The fields of an instant in some zone; `weekday` counts from Sunday, the rest as written."""

    year: int
    month: int
    day: int
    day_of_year: int
    weekday: int
    hour: int
    minute: int
    second: int
    nanosecond: int


def calendar(timestamp: Timestamp, offset_seconds: int) -> Calendar:
    seconds, nanosecond = divmod(timestamp.nanoseconds, NANOSECONDS_PER_SECOND)
    days, second_of_day = divmod(seconds + offset_seconds, _SECONDS_PER_DAY)
    era, day_of_era = divmod(days + 719468, 146097)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096
    ) // 365
    shifted_day = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * shifted_day + 2) // 153
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    year = era * 400 + year_of_era + (month <= 2)
    return Calendar(
        year,
        month,
        shifted_day - (153 * shifted_month + 2) // 5 + 1,
        days - _days_from_civil(year, 1, 1),
        (days + 4) % 7,
        second_of_day // 3600,
        second_of_day // 60 % 60,
        second_of_day % 60,
        nanosecond,
    )


def offset_in_zone(timestamp: Timestamp, zone: str) -> int:
    """Return the seconds east of UTC in a zone: a name, or an offset such as "-08:00"."""
    hours, colon, minutes = zone.partition(":")
    if not colon:
        return _offset_in_named_zone(timestamp, zone)
    total_minutes = _offset_number(hours) * 60
    total_minutes += -_offset_number(minutes) if zone[0] == "-" else _offset_number(minutes)
    return total_minutes * 60


def _offset_number(text: str) -> int:
    if not _OFFSET_NUMBER.fullmatch(text):
        raise EvaluationError(f"strconv.Atoi: parsing {gotext.quote(text)}: invalid syntax")
    return int(text)


def _offset_in_named_zone(timestamp: Timestamp, name: str) -> int:
    zone = _load_zone(name)
    if zone is None:
        return 0
    seconds = timestamp.nanoseconds // NANOSECONDS_PER_SECOND
    # datetime cannot leave the years 1 to 9999, not even by the offset itself.
    margin = 2 * _SECONDS_PER_DAY
    seconds = min(max(seconds, MINIMUM_UNIX_SECONDS + margin), MAXIMUM_UNIX_SECONDS - margin)
    moment = datetime.datetime.fromtimestamp(seconds, zone)
    offset = moment.utcoffset()
    return int(offset.total_seconds()) if offset else 0


@functools.lru_cache(maxsize=64)
def _load_zone(name: str) -> zoneinfo.ZoneInfo | None:
    """Load a zone as Go's time.LoadLocation; None is UTC."""
    if name in ("", "UTC", "Local"):
        return None
    if ".." in name or name[0] in "/\\":
        raise EvaluationError("time: invalid location name")
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {name}") from None
