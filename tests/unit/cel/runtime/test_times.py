"""Durations and timestamps are read and taken apart as Go's package time does."""

from __future__ import annotations

import pytest

from dray.cel.runtime import times
from dray.cel.runtime.values import EvaluationError, Timestamp

SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("-0", 0),
        ("1h45m47s", 6347 * SECOND),
        ("-1.5s", -1_500_000_000),
        ("+1ms", 1_000_000),
        ("1us", 1_000),
        ("1µs", 1_000),
        ("1μs", 1_000),
        (".5s", 500_000_000),
        ("1.s", SECOND),
        ("1s1h", 3601 * SECOND),
        ("0.3333333333333333333h", 1_200_000_000_000),
        ("9223372036854775807ns", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
        ("0000000000000000000000001s", SECOND),
    ],
)
def test_durations(text: str, nanoseconds: int) -> None:
    assert times.parse_duration(text).nanoseconds == nanoseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "1",
        "1d",
        ".s",
        "s",
        "1s ",
        " 1s",
        "1.5.5s",
        "--1s",
        "9223372036854775808ns",
        "2562047h48m",
        "9" * 10_000 + "s",
        "١s",
    ],
)
def test_texts_that_are_no_duration(text: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        times.parse_duration(text)
    message = "type conversion error from 'string' to 'google.protobuf.Duration'"
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "seconds", "nanoseconds", "offset"),
    [
        ("1970-01-01T00:00:00Z", 0, 0, 0),
        ("2023-02-03T23:31:20+00:00", 1675467080, 0, 0),
        ("2023-02-03T23:31:20.5-08:30", 1675497680, 500_000_000, -30600),
        ("2024-02-29T1:02:03,123456789123Z", 1709168523, 123_456_789, 0),
        ("0001-01-01T00:00:00Z", times.MINIMUM_UNIX_SECONDS, 0, 0),
        ("9999-12-31T23:59:59.999999999Z", times.MAXIMUM_UNIX_SECONDS, 999_999_999, 0),
        ("2000-01-01T00:00:00+24:60", 946684800 - 25 * 3600, 0, 25 * 3600),
    ],
)
def test_timestamps(text: str, seconds: int, nanoseconds: int, offset: int) -> None:
    parsed = times.parse_timestamp(text)
    assert parsed.nanoseconds == seconds * SECOND + nanoseconds
    assert parsed.offset_seconds == offset


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2023-02-03",
        "2023-02-03 23:31:20Z",
        "2023-02-03t23:31:20z",
        "2023-02-29T00:00:00Z",
        "2023-13-01T00:00:00Z",
        "2023-00-01T00:00:00Z",
        "2023-01-00T00:00:00Z",
        "2023-01-01T24:00:00Z",
        "2023-01-01T00:60:00Z",
        "2023-01-01T00:00:60Z",
        "2023-01-01T00:00:00",
        "2023-01-01T00:00:00.Z",
        "2023-01-01T00:00:00+25:00",
        "2023-01-01T00:00:00+0100",
        "12023-01-01T00:00:00Z",
    ],
)
def test_texts_that_are_no_timestamp(text: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        times.parse_timestamp(text)
    message = "type conversion error from 'string' to 'google.protobuf.Timestamp'"
    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["0000-12-31T23:59:59Z", "9999-12-31T23:59:59-00:01"])
def test_timestamps_outside_the_years_1_to_9999(text: str) -> None:
    with pytest.raises(EvaluationError, match=r"^timestamp overflow$"):
        times.parse_timestamp(text)


def test_calendar_in_a_zone() -> None:
    instant = times.parse_timestamp("2023-01-01T05:30:45.123456789Z")
    at = times.calendar(instant, times.offset_in_zone(instant, "America/Los_Angeles"))
    assert at == (2022, 12, 31, 364, 6, 21, 30, 45, 123456789)


@pytest.mark.parametrize(
    ("zone", "offset"),
    [
        ("", 0),
        ("UTC", 0),
        ("Local", 0),
        ("+02:30", 9000),
        ("-08:00", -28800),
        ("5:00", 18000),
        ("-00:30", -1800),
        ("Asia/Kolkata", 19800),
        ("Europe/Berlin", 7200),
    ],
)
def test_zones(zone: str, offset: int) -> None:
    summer = times.parse_timestamp("2023-07-14T10:30:45Z")
    assert times.offset_in_zone(summer, zone) == offset


@pytest.mark.parametrize("seconds", [times.MINIMUM_UNIX_SECONDS, times.MAXIMUM_UNIX_SECONDS])
@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Pacific/Kiritimati", "-23:59", "+23:59"])
def test_zones_at_the_ends_of_time(seconds: int, zone: str) -> None:
    instant = Timestamp(seconds * SECOND)
    at = times.calendar(instant, times.offset_in_zone(instant, zone))
    assert at.year in (0, 1, 9999, 10000)


@pytest.mark.parametrize(
    ("zone", "message"),
    [
        ("Nowhere/City", "unknown time zone Nowhere/City"),
        ("America", "unknown time zone America"),
        ("../UTC", "time: invalid location name"),
        ("/etc/passwd", "time: invalid location name"),
        ("x:00", 'strconv.Atoi: parsing "x": invalid syntax'),
        ("01:", 'strconv.Atoi: parsing "": invalid syntax'),
        ("\0", "unknown time zone \0"),
    ],
)
def test_unknown_zones(zone: str, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        times.offset_in_zone(Timestamp(0), zone)
    assert str(caught.value) == message


@pytest.mark.parametrize("year", [1, 4, 100, 400, 1900, 1970, 2000, 2024, 9999])
def test_calendar_is_the_inverse_of_parsing(year: int) -> None:
    for month, day in [(1, 1), (2, 28), (3, 1), (12, 31)]:
        at = times.calendar(times.parse_timestamp(f"{year:04d}-{month:02d}-{day:02d}T00:00:00Z"), 0)
        assert (at.year, at.month, at.day) == (year, month, day)
