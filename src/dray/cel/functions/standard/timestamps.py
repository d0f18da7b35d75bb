"""The fields of timestamps and durations: getFullYear, getHours and their like."""

from __future__ import annotations

from collections.abc import Callable

from dray.cel.functions import dispatching
from dray.cel.functions.overloads import Function, Library, Overload, member
from dray.cel.runtime import text_format, times
from dray.cel.runtime.times import Calendar
from dray.cel.runtime.values import Duration, Timestamp
from dray.cel.types import DURATION, INT, STRING, TIMESTAMP

Field = Callable[[Calendar], int]


def _overloads(id: str, zoned_id: str, field: Field) -> tuple[Overload, Overload]:
    """Return the overloads of a field; without a zone it is in UTC."""

    def in_utc(instant: Timestamp) -> int:
        return field(times.calendar(instant, 0))

    def in_zone(instant: Timestamp, zone: str) -> int:
        return field(times.calendar(instant, times.offset_in_zone(instant, zone)))

    return (
        member(id, (TIMESTAMP,), INT, in_utc),
        member(zoned_id, (TIMESTAMP, STRING), INT, in_zone),
    )


def _date_field(name: str, id: str, field: Field) -> Function:
    return dispatching.function(name, *_overloads(id, f"{id}_with_tz", field))


def _time_field(
    name: str,
    unit: str,
    field: Field,
    of_duration: Callable[[Duration], int],
    zoned: str = "with_tz",
) -> Function:
    id = f"timestamp_to_{unit}"
    return dispatching.function(
        name,
        *_overloads(id, f"{id}_{zoned}", field),
        member(f"duration_to_{unit}", (DURATION,), INT, of_duration),
    )


def whole_hours(span: Duration) -> int:
    return int(text_format.hours(span))


def whole_minutes(span: Duration) -> int:
    return int(text_format.minutes(span))


def whole_seconds(span: Duration) -> int:
    return int(text_format.seconds(span))


def whole_milliseconds(span: Duration) -> int:
    milliseconds = abs(span.nanoseconds) // 10**6
    return milliseconds if span.nanoseconds > 0 else -milliseconds


def _milliseconds(at: Calendar) -> int:
    return at.nanosecond // 10**6


LIBRARY: Library = (
    _date_field("getFullYear", "timestamp_to_year", lambda at: at.year),
    _date_field("getMonth", "timestamp_to_month", lambda at: at.month - 1),
    _date_field("getDayOfYear", "timestamp_to_day_of_year", lambda at: at.day_of_year),
    _date_field("getDayOfMonth", "timestamp_to_day_of_month", lambda at: at.day - 1),
    _date_field("getDate", "timestamp_to_day_of_month_1_based", lambda at: at.day),
    _date_field("getDayOfWeek", "timestamp_to_day_of_week", lambda at: at.weekday),
    _time_field("getHours", "hours", lambda at: at.hour, whole_hours),
    _time_field("getMinutes", "minutes", lambda at: at.minute, whole_minutes),
    _time_field("getSeconds", "seconds", lambda at: at.second, whole_seconds, "tz"),
    _time_field("getMilliseconds", "milliseconds", _milliseconds, whole_milliseconds),
)
