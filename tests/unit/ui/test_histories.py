"""The history of the dashboard: what it says about the time that is known."""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path

import pytest

from dray.clock import utc_now
from dray.history.facts import RecordProgress, milliseconds
from dray.history.history_file import HistoryFile
from dray.ui.pages.histories import EPOCH, Histories

ENDED = utc_now() - datetime.timedelta(hours=1)


def times(gaps: list[list[str | None]]) -> list[list[datetime.datetime | None]]:
    return [
        [datetime.datetime.fromisoformat(time) if time else None for time in gap] for gap in gaps
    ]


@pytest.mark.parametrize("runs", [False, True])
def test_times_without_a_recorder_are_gaps_and_the_last_has_no_end(
    tmp_path: Path, *, runs: bool
) -> None:
    path = tmp_path / "history.db"
    first, again = ENDED - datetime.timedelta(hours=2), ENDED - datetime.timedelta(hours=1)
    with HistoryFile.open(path) as file:
        file.load()
        for time, is_new in ((first, True), (again, True), (ENDED, False)):
            file.commit([], RecordProgress(milliseconds(time), {}, begins_anew=is_new))
        if runs:
            file.commit([], RecordProgress(milliseconds(utc_now()), {}))
    histories = Histories(path)
    try:
        about = asyncio.run(histories.about())
    finally:
        histories.close()
    whole = [time.replace(microsecond=time.microsecond // 1000 * 1000) for time in (first, again)]
    ended = ENDED.replace(microsecond=ENDED.microsecond // 1000 * 1000)
    before = [EPOCH, whole[0]]
    assert times(about["gaps"]) == [before, whole, *([] if runs else [[ended, None]])]
