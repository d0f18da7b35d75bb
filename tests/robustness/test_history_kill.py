"""kill -9 of a recorder amid its writes: nothing acknowledged is lost, and nothing is half."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from dray.history.facts import Held, from_milliseconds
from dray.history.history_file import HistoryFile
from dray.history.queries import History
from tests import rounds
from tests.robustness import history_writer

ROUNDS = rounds.count(10, long=100)
PROJECT = Path(__file__).parents[2]


def live_and_die(path: Path, acknowledged_before_death: int) -> int:
    """Return the last commit that was acknowledged."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.robustness.history_writer", str(path)],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    lines = [process.stdout.readline() for _ in range(acknowledged_before_death)]
    process.kill()
    lines += process.stdout.readlines()
    process.stdout.close()
    process.wait()
    return int([line for line in lines if line.endswith(b"\n")][-1])


@pytest.mark.slow
@pytest.mark.random
@pytest.mark.timeout(20 * ROUNDS)
def test_killed_recorders_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    for number in range(ROUNDS):
        chance = random.Random(rounds.seed_of(number))
        acknowledged = live_and_die(path, chance.randrange(1, 60))
        with HistoryFile.open(path) as file:
            found = file.load()
            reached = int(found.versions["commits"])
            # The last one may be on disk without having been acknowledged.
            assert acknowledged <= reached <= acknowledged + 1
            assert found.until == history_writer.time_of(reached)
            expected = {
                fact
                for begun in range(max(1, reached - history_writer.LIFE + 1), reached + 1)
                for pair in history_writer.claims(begun)
                for fact in pair
            }
            assert set(found.facts) == expected
        with History(path) as history:
            for past in chance.sample(range(1, reached + 1), min(reached, 20)):
                assert_as_written(history, past)


def assert_as_written(history: History, past: int) -> None:
    moment = history.at(from_milliseconds(history_writer.time_of(past)))
    expected: dict[object, set[str]] = {}
    for begun in range(max(1, past - history_writer.LIFE + 1), past + 1):
        for held, _ in history_writer.claims(begun):
            assert isinstance(held, Held)
            expected.setdefault(held.device, set()).add(held.claim.uid)
    found = {
        device: {holder.uid for holder in holders} for device, holders in moment.holders.items()
    }
    assert found == expected
    assert all(len(holder.pods) == 1 for each in moment.holders.values() for holder in each)
