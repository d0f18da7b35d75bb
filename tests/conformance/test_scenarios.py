"""Whole scenarios: every claim gets the node and devices that Kubernetes' allocator gave it."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import pytest

from dray.allocator import scenarios
from dray.bench import allocate
from dray.planner.replay import scenario_runs
from tests import rounds
from tests.corpus.bench import generate
from tests.corpus.bench.generate import Scale
from tests.recorded import BENCH

OF_EACH_KIND = ("S1", "S3", "S4", "S5")
"""The others ask for the same as S1, of larger clusters."""
NAMES = [PurePath(file).stem for file in BENCH.names("answers/*.json")]


def scenario(name: str) -> dict[str, Any]:
    """Return a scenario: from its file where there is one, made anew otherwise."""
    file = f"scenarios/{name}.json"
    return dict(BENCH.json(file)) if BENCH.has(file) else generate.make(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_goes_where_upstream_put_it(name: str) -> None:
    answers = BENCH.json(f"answers/{name}.json")
    report = allocate.run(scenario(name), answers=answers)
    assert report.difference is None
    assert report.claims == len(answers)


@pytest.mark.parametrize("name", NAMES if rounds.CHOSEN.is_long else OF_EACH_KIND)
def test_a_plan_says_the_same(name: str) -> None:
    run = scenario_runs.replay(scenarios.convert(scenario(name)), "upstream", 1)
    assert run.answers == BENCH.json(f"answers/{name}.json")


@pytest.mark.parametrize("policy", scenario_runs.POLICIES)
@pytest.mark.parametrize(
    ("name", "size"), [("S6a", 14), ("S6a", 20), ("S6b", 5), ("S6c", 7)], ids=lambda each: str(each)
)
def test_a_claim_whose_search_never_ends_upstream_fits_nowhere(
    name: str, size: int, policy: str
) -> None:
    made = scenarios.convert(generate.make(name, Scale(size=size)))
    run = scenario_runs.replay(made, policy, 1)
    assert run.answers == {"claim-00000": None}
