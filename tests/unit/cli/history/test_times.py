"""Times on the command line."""

from __future__ import annotations

import datetime

import pytest

from dray.cli.command_errors import WrongUsage
from dray.cli.history import times


def test_times_of_day_are_local_and_others_have_their_zone() -> None:
    expected = datetime.datetime(2026, 11, 15, 12, 2, tzinfo=datetime.UTC)
    assert times.moment("--at", "2026-11-15T14:02:00+02:00") == expected
    local = datetime.datetime.now().astimezone().replace(hour=14, minute=2, second=0, microsecond=0)
    assert times.moment("--at", "14:02") == local
    assert times.moment("--at", "") is None
    with pytest.raises(WrongUsage, match="--at noon: write 14:02"):
        times.moment("--at", "noon")


def test_a_start_may_be_given_as_how_long_ago_it_is() -> None:
    now = datetime.datetime.now(datetime.UTC)
    found = times.since("--since", "1h30m")
    assert found is not None
    assert datetime.timedelta(0) <= found - (now - datetime.timedelta(minutes=90))
    assert times.since("--since", "2026-11-15T12:02:00Z") == times.moment(
        "--at", "2026-11-15T12:02:00Z"
    )
    for wrong in ("noon", "2 hours", "-1h", "99999999999999d"):
        with pytest.raises(WrongUsage, match="--since"):
            times.since("--since", wrong)


def test_times_are_written_to_the_millisecond() -> None:
    time = datetime.datetime(2026, 11, 15, 12, 2, 3, 4567, tzinfo=datetime.UTC)
    assert times.written(time) == "2026-11-15T12:02:03.004Z"
