"""Values become the text that Go makes of them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dray.api.formats import quantity, semver
from dray.cel import types
from dray.cel.runtime import text_format, times, values
from dray.cel.runtime.values import Duration, Optional, UInt


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (-1.5, "-1.5"),
        (123456.0, "123456"),
        (1234567.0, "1.234567e+06"),
        (1e6, "1e+06"),
        (1e21, "1e+21"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1.5e-300, "1.5e-300"),
        (5e-324, "5e-324"),
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
    ],
)
def test_doubles(number: float, text: str) -> None:
    assert text_format.double(number) == text


@pytest.mark.parametrize(
    ("duration", "seconds", "printed"),
    [
        ("0", "0s", "0s"),
        ("1h45m47s", "6347s", "1h45m47s"),
        ("-1.5s", "-1.5s", "-1.5s"),
        ("1ns", "0.000000001s", "1ns"),
        ("1500us", "0.0015s", "1.5ms"),
        ("1h", "3600s", "1h0m0s"),
        ("1m0.05s", "60.05s", "1m0.05s"),
        ("9223372036854775807ns", "9223372036.854776s", "2562047h47m16.854775807s"),
    ],
)
def test_durations(duration: str, seconds: str, printed: str) -> None:
    span = times.parse_duration(duration)
    assert text_format.duration(span) == seconds
    assert text_format.printed(span) == printed


@pytest.mark.parametrize(
    ("timestamp", "text", "printed"),
    [
        ("2023-02-03T23:31:20+00:00", "2023-02-03T23:31:20Z", "2023-02-03 23:31:20 +0000 UTC"),
        (
            "2023-02-03T23:31:20.120-08:30",
            "2023-02-03T23:31:20.12-08:30",
            "2023-02-03 23:31:20.12 -0830 -0830",
        ),
    ],
)
def test_timestamps_keep_the_zone_they_were_written_in(
    timestamp: str, text: str, printed: str
) -> None:
    instant = times.parse_timestamp(timestamp)
    assert text_format.timestamp(instant) == text
    assert text_format.printed(instant) == printed


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a b", "a b"),
        (True, "true"),
        (None, "0"),
        (UInt(5), "5"),
        (b"ab", "[97 98]"),
        ([1, "a", [2.5]], "[1, a, [2.5]]"),
        ({values.map_key(True): 1, "k": []}, "{true: 1, k: []}"),
        (Optional(1), "optional(1)"),
        (values.NONE, "optional.none()"),
        (types.list_of(types.INT), "list(int)"),
        (quantity.parse("1024Mi"), "1Gi"),
        (semver.parse("1.2.3-a"), "1.2.3-a"),
    ],
)
def test_values_in_messages(value: Any, text: str) -> None:
    assert text_format.printed(value) == text


def test_messages_do_not_grow_without_end() -> None:
    nested: list[Any] = [Duration(1)]
    for _ in range(100):
        nested = [nested, nested]
    assert text_format.printed(nested) == "..."
