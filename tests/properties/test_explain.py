"""Explanations of random problems: a cause for every no, changes that help, nothing left behind."""

from __future__ import annotations

import random

import hypothesis
from hypothesis import strategies as st

from dray.allocator.placement import Fit
from dray.explain import explain, sentences
from dray.explain.explain import Explanation, Outcome
from tests.properties import problems, worlds


def explained(problem: problems.Problem) -> Explanation:
    fleet = worlds.fleet_of(problem)
    found = explain.explain(fleet, problem.claims, new_share_id=lambda: worlds.SHARE_ID)
    again = explain.explain(fleet, problem.claims, new_share_id=lambda: worlds.SHARE_ID)
    assert sentences.as_json(found) == sentences.as_json(again)
    return found


@hypothesis.settings(max_examples=200, deadline=None)
@hypothesis.given(st.integers(min_value=0, max_value=2**63))
def test_every_no_has_a_cause_and_every_change_helps(seed: int) -> None:
    problem = problems.draw(random.Random(seed))
    answer = worlds.answer_of(worlds.fleet_of(problem), problem.claims, problems.NODE)
    found = explained(problem)
    assert (found.outcome is Outcome.FITS) == isinstance(answer, list)
    if found.outcome is Outcome.FAILED:
        assert found.message == answer
        assert found.faults
    elif found.outcome is Outcome.REFUSED:
        assert found.reasons
    for change in found.changes:
        fleet = worlds.fleet_of(problem)
        with change.applied_in(fleet):
            changed = change.applied_to(problem.claims)
            assert isinstance(worlds.placement_on(fleet).ask(changed, change.node), Fit)
