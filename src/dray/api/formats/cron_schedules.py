"""Schedules of CronJobs: five fields of cron, or a word such as `@daily` or `@every 90m`.

As github.com/robfig/cron, which Kubernetes uses: lists, ranges and steps; names of months and days;
a day counts if the day of the month or that of the week matches, where both are restricted.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from dray.api.formats.durations import GO_DURATION_PART

__all__ = ["Schedule", "ScheduleError", "parse", "zone"]

_DAYS_AHEAD = 5 * 366
_ONE_DAY = datetime.timedelta(days=1)
_DESCRIBED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_UNITS = {
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ns": 1e-9,
}


class ScheduleError(ValueError):
    """The text is no schedule."""


class Schedule(Protocol):
    def next(self, after: datetime.datetime) -> datetime.datetime | None:
        """Return the first time after this one, or None if there is none in five years."""


class _Bounds(NamedTuple):
    least: int
    most: int
    names: Mapping[str, int] = {}


class _Field(NamedTuple):
    values: frozenset[int]
    is_any: bool
    """Whether it restricts nothing: `*` or `?`."""


_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_BOUNDS = (
    _Bounds(0, 59),
    _Bounds(0, 23),
    _Bounds(1, 31),
    _Bounds(1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    _Bounds(0, 6, {name: number for number, name in enumerate(_DAYS)}),
)


def zone(name: str) -> datetime.tzinfo:
    """Return a time zone by its name. Raises ValueError."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"unknown time zone {name}") from error


def parse(text: str, time_zone: datetime.tzinfo = datetime.UTC) -> Schedule:
    """Return the schedule of a text. Raises ScheduleError."""
    if not text:
        raise ScheduleError("empty spec string")
    if text.startswith(_EVERY):
        return _Interval(_seconds(text))
    if text.startswith("@") and text not in _DESCRIBED:
        raise ScheduleError(f"unrecognized descriptor: {text}")
    parts = _DESCRIBED.get(text, text).split()
    if len(parts) != len(_BOUNDS):
        shown = " ".join(parts)
        raise ScheduleError(f"expected exactly 5 fields, found {len(parts)}: [{shown}]")
    minutes, hours, days, months, weekdays = map(_field, parts, _BOUNDS)
    return _Fields(minutes, hours, days, months, weekdays, time_zone)


class _Interval(NamedTuple):
    seconds: int

    def next(self, after: datetime.datetime) -> datetime.datetime | None:
        return after.replace(microsecond=0) + datetime.timedelta(seconds=self.seconds)


class _Fields(NamedTuple):
    minutes: _Field
    hours: _Field
    days: _Field
    months: _Field
    weekdays: _Field
    time_zone: datetime.tzinfo

    def next(self, after: datetime.datetime) -> datetime.datetime | None:
        day = after.astimezone(self.time_zone).date()
        for _ in range(_DAYS_AHEAD):
            if self._has(day):
                for time in self._times(day):
                    if time > after:
                        return time
            day += _ONE_DAY
        return None

    def _has(self, day: datetime.date) -> bool:
        if day.month not in self.months.values:
            return False
        in_month = day.day in self.days.values
        in_week = day.isoweekday() % 7 in self.weekdays.values
        if self.days.is_any or self.weekdays.is_any:
            return in_month and in_week
        return in_month or in_week

    def _times(self, day: datetime.date) -> Iterator[datetime.datetime]:
        """Yield the times of one day in order; an hour that clocks repeat counts twice."""
        hours, minutes = sorted(self.hours.values), sorted(self.minutes.values)
        midnight = datetime.datetime.combine(day, datetime.time(), self.time_zone)
        if midnight.utcoffset() == (midnight + _ONE_DAY).utcoffset():
            start = midnight.astimezone(datetime.UTC)
            for hour in hours:
                for minute in minutes:
                    yield start + datetime.timedelta(hours=hour, minutes=minute)
            return
        times = set()
        for hour in hours:
            for minute in minutes:
                for fold in (0, 1):
                    local = midnight.replace(hour=hour, minute=minute, fold=fold)
                    time = local.astimezone(datetime.UTC)
                    # An hour that clocks leave out does not come.
                    if time.astimezone(self.time_zone).replace(fold=0) == local.replace(fold=0):
                        times.add(time)
        yield from sorted(times)


def _field(text: str, bounds: _Bounds) -> _Field:
    values: set[int] = set()
    is_any = False
    for part in filter(None, text.split(",")):
        found, is_star = _range(part, bounds)
        values.update(found)
        is_any = is_any or is_star
    return _Field(frozenset(values), is_any)


def _range(text: str, bounds: _Bounds) -> tuple[range, bool]:
    limits, *steps = text.split("/")
    low, *high = limits.split("-")
    is_star = low in ("*", "?")
    if is_star:
        start, end = bounds.least, bounds.most
    else:
        if len(high) > 1:
            raise ScheduleError(f"too many hyphens: {text}")
        start = _number(low, bounds.names)
        end = _number(high[0], bounds.names) if high else start
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {text}")
    step = _number(steps[0], {}) if steps else 1
    if steps and not high:
        end = bounds.most
    _check_range(text, start, end, step, bounds)
    return range(start, end + 1, step), is_star and step == 1


def _check_range(text: str, start: int, end: int, step: int, bounds: _Bounds) -> None:
    if start < bounds.least:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({bounds.least}): {text}")
    if end > bounds.most:
        raise ScheduleError(f"end of range ({end}) above maximum ({bounds.most}): {text}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")


def _number(text: str, names: Mapping[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        why = f'strconv.Atoi: parsing "{text}": invalid syntax'
        raise ScheduleError(f"failed to parse int from {text}: {why}")
    if len(text) > 18:
        why = f'strconv.Atoi: parsing "{text}": value out of range'
        raise ScheduleError(f"failed to parse int from {text}: {why}")
    if int(text) < 0:
        raise ScheduleError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)


def _seconds(text: str) -> int:
    """Return the whole seconds of `@every 1h30m`, at least one."""
    duration = text.removeprefix(_EVERY)
    if not re.fullmatch(f"(?:{GO_DURATION_PART.pattern})+", duration):
        why = f'time: invalid duration "{duration}"'
        raise ScheduleError(f"failed to parse duration {text}: {why}")
    total = sum(float(number) * _UNITS[unit] for number, unit in GO_DURATION_PART.findall(duration))
    if total > 2**63 / 1e9:
        why = f'time: invalid duration "{duration}"'
        raise ScheduleError(f"failed to parse duration {text}: {why}")
    return max(int(total), 1)
