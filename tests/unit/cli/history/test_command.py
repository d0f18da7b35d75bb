"""`dray history`: which words and times it takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dray.api.formats import gotime
from dray.api.ids import DeviceId
from dray.history.facts import (
    FactBegin,
    FactDetails,
    FactEnd,
    HeldFact,
    MarkedFact,
    ObjectRef,
    RecordProgress,
    from_milliseconds,
)
from dray.history.history_file import HistoryFile
from tests.unit.cli.conftest import run

START = 1_763_520_000_000
HOUR = 3_600_000


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["gpu-0/gpu-1"], "Write: dray history device gpu-0/gpu-1"),
        (["pod", "train"], "NODE/DEVICE; events of others: dray events --for pod/train"),
        (["pods/train"], "NODE/DEVICE; events of others: dray events --for pods/train"),
        (["resourceclaim/train"], "Write: dray history claim train"),
        (["nodes", "gpu-0"], "Write: dray history node gpu-0"),
    ],
)
def test_what_has_no_history_is_refused(arguments: list[str], advice: str) -> None:
    asked = run("history", *arguments)
    assert asked.exit_code == 2
    assert advice in asked.output


@pytest.mark.parametrize(("hours", "expected"), [(1, []), (3, ["unhealthy"]), (4, [])])
def test_what_nobody_held_has_its_marks(tmp_path: Path, hours: int, expected: list[str]) -> None:
    path, device = tmp_path / "h.db", DeviceId("gpu.example.com", "gpu-0", "gpu-1")
    fact = MarkedFact(device, "unhealthy", "gpu.example.com/unhealthy")
    with HistoryFile.open(path) as file:
        file.load()
        file.commit([], RecordProgress(START, {}, begins_anew=True))
        changes: list[FactBegin | FactEnd] = [
            FactBegin(fact, FactDetails(), START + 2 * HOUR),
            FactEnd(fact, START + 4 * HOUR),
        ]
        file.commit(changes, RecordProgress(START + 5 * HOUR, {}))
    at = gotime.write(from_milliseconds(START + hours * HOUR))
    asked = run(
        *("history", "device", "gpu-0/gpu-1", "--file", str(path), "--at", at, "-o", "json")
    )
    assert asked.exit_code == 0, asked.output
    found = json.loads(asked.stdout)
    assert (found["items"], [mark["kind"] for mark in found["marks"]]) == ([], expected)


def test_a_device_shows_who_held_its_partitions(tmp_path: Path) -> None:
    path, claim = tmp_path / "h.db", ObjectRef("default", "train", "u")
    part = DeviceId("gpu.example.com", "gpu-0", "gpu-1-1g")
    with HistoryFile.open(path) as file:
        file.load()
        file.commit([], RecordProgress(START, {}, begins_anew=True))
        details = FactDetails(root="gpu-1")
        held, marked = HeldFact(part, claim), MarkedFact(part, "unhealthy", "k")
        changes = [FactBegin(fact, details, START) for fact in (held, marked)]
        file.commit(changes, RecordProgress(START + HOUR, {}))
    whole = run("history", "device", "gpu-0/gpu-1", "--file", str(path))
    assert whole.exit_code == 0, whole.output
    lines = [line.split() for line in whole.stdout.splitlines() if line]
    assert lines[0] == ["SINCE", "UNTIL", "DEVICE", "CLAIM", "USER", "USED", "BY"]
    assert lines[1][-4:] == ["gpu-0/gpu-1-1g", "default/train", "<none>", "<none>"]
    assert lines[-1][-3:] == ["gpu-0/gpu-1-1g", "unhealthy", "k"]
    itself = run("history", "device", "gpu-0/gpu-1-1g", "--file", str(path))
    assert "DEVICE" not in itself.stdout
    assert "default/train" in itself.stdout
