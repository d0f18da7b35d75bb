"""The way of every pod is told as the text kept beside this file says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dray.explain.pod import pod_progress, pod_progress_text
from dray.explain.pod.pod_progress import PodProgress, PodStage, StageState
from tests.conftest import CheckText
from tests.golden.path.ways import WAYS

HERE = Path(__file__).parent
NAMES = sorted(WAYS)


def followed(name: str) -> PodProgress:
    return pod_progress.inspect_pod(*WAYS[name]())


@pytest.mark.parametrize("name", NAMES)
def test_told_as_kept(name: str, check_golden: CheckText) -> None:
    check_golden(HERE / f"{name}.txt", pod_progress_text.text(followed(name)))


@pytest.mark.parametrize("name", NAMES)
def test_has_every_stage_once_and_a_json_form(name: str) -> None:
    way = followed(name)
    assert [step.stage for step in way.steps] == list(PodStage)
    states = [step.state for step in way.steps]
    assert states.count(StageState.BLOCKED) <= 1
    if StageState.BLOCKED in states:
        assert set(states[states.index(StageState.BLOCKED) + 1 :]) <= {StageState.PENDING}
    built = json.loads(json.dumps(pod_progress_text.as_json(way)))
    assert len(built["steps"]) == len(PodStage)
    assert "\n" not in built["summary"]


def test_every_text_belongs_to_a_way() -> None:
    assert sorted(file.stem for file in HERE.glob("*.txt")) == NAMES
