"""Every situation is explained as the text kept beside this file says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dray.allocator.placement import Allocator, Fit
from dray.explain import claim_explanation
from dray.explain.claim_explanation import Explanation, Outcome
from dray.explain.text import explanation_text
from tests.conftest import CheckText
from tests.golden.explain.situations import SITUATIONS, Situation

HERE = Path(__file__).parent
LINES_PER_REQUEST = 12
LINES_BESIDES = 8

NAMES = sorted(SITUATIONS)


def explained(situation: Situation) -> Explanation:
    return claim_explanation.explain(
        situation.cluster, situation.claims, new_share_id=lambda: "share"
    )


@pytest.mark.parametrize("name", NAMES)
def test_explains_as_kept(name: str, check_golden: CheckText) -> None:
    explanation = explained(SITUATIONS[name]())
    text = explanation_text.text(explanation)
    check_golden(
        HERE / f"{name}.txt", f"{text}\nsummary: {explanation_text.summary(explanation)}\n"
    )


@pytest.mark.parametrize("name", NAMES)
def test_names_a_cause(name: str) -> None:
    explanation = explained(SITUATIONS[name]())
    if explanation.outcome is Outcome.REFUSED:
        assert explanation.reasons or not explanation.nodes
    if explanation.outcome is Outcome.FAILED:
        assert explanation.faults
        assert explanation.message


@pytest.mark.parametrize("name", NAMES)
def test_each_change_helps_when_it_is_made(name: str) -> None:
    for number, change in enumerate(explained(SITUATIONS[name]()).changes):
        cluster, claims = SITUATIONS[name]()
        waiting = [claim for claim in claims if claim.status.allocation is None]
        with change.applied_in(cluster):
            changed = change.applied_to(waiting)
            asked = Allocator(cluster, new_share_id=lambda: "share")
            assert isinstance(asked.allocate_on(changed, change.node), Fit), (number, change)


@pytest.mark.parametrize("name", NAMES)
def test_leaves_the_fleet_as_it_was(name: str) -> None:
    situation = SITUATIONS[name]()
    assert explained(situation) == explained(situation)


@pytest.mark.parametrize("name", NAMES)
def test_is_short_and_has_a_json_form(name: str) -> None:
    explanation = explained(SITUATIONS[name]())
    built = json.loads(json.dumps(explanation_text.as_json(explanation)))
    assert built["outcome"] == explanation.outcome
    requests = max(len(explanation.funnels), 1)
    assert len(built["text"].splitlines()) <= LINES_PER_REQUEST * requests + LINES_BESIDES
    assert "\n" not in built["summary"]


def test_every_text_belongs_to_a_situation() -> None:
    assert sorted(path.stem for path in HERE.glob("*.txt")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_ruling_nodes_out_by_counting_changes_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_everywhere = explained(SITUATIONS[name]())
    monkeypatch.setattr(claim_explanation, "NODES_TRIED_FIRST", 1)
    assert explained(SITUATIONS[name]()) == asked_everywhere
