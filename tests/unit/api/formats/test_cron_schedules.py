"""Schedules of CronJobs: when they come next, and what is none."""

from __future__ import annotations

import datetime

import pytest

from dray.api.formats import cron_schedules


def at(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("* * * * *", "2026-01-01T00:00:00", "2026-01-01T00:01:00"),
        ("* * * * ?", "2026-01-01T00:00:59.5", "2026-01-01T00:01:00"),
        ("*/15 * * * *", "2026-01-01T00:46:00", "2026-01-01T01:00:00"),
        ("5/20 * * * *", "2026-01-01T00:26:00", "2026-01-01T00:45:00"),
        ("0 0 1 1 *", "2026-01-01T00:00:00", "2027-01-01T00:00:00"),
        ("30 6-16/4 * * mon-fri", "2026-01-02T14:30:00", "2026-01-05T06:30:00"),
        ("0 0 29 2 *", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
        # Both days are restricted: either of them counts.
        ("0 0 13 * FRI", "2026-01-01T00:00:00", "2026-01-02T00:00:00"),
        ("0 0 */2 * 0", "2026-01-04T00:00:00", "2026-01-05T00:00:00"),
        ("@hourly", "2026-01-01T00:10:00", "2026-01-01T01:00:00"),
        ("@weekly", "2026-01-01T00:00:00", "2026-01-04T00:00:00"),
        ("@every 1h30m", "2026-01-01T00:00:00.7", "2026-01-01T01:30:00"),
        ("@every 1ms", "2026-01-01T00:00:00", "2026-01-01T00:00:01"),
    ],
)
def test_the_next_time(schedule: str, after: str, expected: str) -> None:
    assert cron_schedules.parse(schedule).next(at(after)) == at(expected)


def test_a_day_that_never_comes() -> None:
    assert cron_schedules.parse("0 0 31 2 *").next(at("2026-01-01T00:00:00")) is None


def test_an_hour_that_clocks_leave_out_or_repeat() -> None:
    berlin = cron_schedules.zone("Europe/Berlin")
    half_past_two = cron_schedules.parse("30 2 * * *", berlin)
    # On 29 March 2026 there is no 02:30; on 25 October there are two.
    assert half_past_two.next(at("2026-03-28T02:00:00")) == at("2026-03-30T00:30:00")
    first = half_past_two.next(at("2026-10-24T12:00:00"))
    assert first == at("2026-10-25T00:30:00")
    assert half_past_two.next(first) == at("2026-10-25T01:30:00")


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-2 * * * *", "beginning of range (5) beyond end of range (2): 5-2"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        (
            "x * * * *",
            'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax',
        ),
        ("@never", "unrecognized descriptor: @never"),
        ("@every soon", 'failed to parse duration @every soon: time: invalid duration "soon"'),
    ],
)
def test_what_is_no_schedule(schedule: str, message: str) -> None:
    with pytest.raises(cron_schedules.ScheduleError) as refusal:
        cron_schedules.parse(schedule)
    assert str(refusal.value) == message


def test_what_is_no_time_zone() -> None:
    for name in ("Nowhere/Town", "../etc/passwd", "/etc/passwd", "Europe", "a\0b"):
        with pytest.raises(ValueError, match="unknown time zone"):
            cron_schedules.zone(name)
