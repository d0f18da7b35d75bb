"""Ages as kubectl shows them."""

from __future__ import annotations

import datetime

import pytest

from dray.api.formats import durations


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600, "8h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400, "8d"),
        (731 * 86400, "2y1d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_human_duration(seconds: int, expected: str) -> None:
    assert durations.human_duration(datetime.timedelta(seconds=seconds)) == expected


def test_the_age_of_what_has_no_time_is_unknown() -> None:
    now = datetime.datetime(2026, 1, 10, tzinfo=datetime.UTC)
    assert durations.since(None, now) == "<unknown>"
    assert durations.since("2026-01-09T23:59:00Z", now) == "60s"


@pytest.mark.parametrize(
    ("text", "is_duration"),
    [
        *(
            ("0", True),
            ("5s", True),
            ("1h30m", True),
            ("-1.5h", True),
            (".5ms", True),
            ("1µs", True),
        ),
        *(("", False), ("5", False), ("s", False), ("5 s", False), ("1d", False), ("1s\n", False)),
    ],
)
def test_durations_of_go(text: str, is_duration: bool) -> None:
    assert durations.is_go_duration(text) is is_duration
