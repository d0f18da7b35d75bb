"""The claims of small scenarios under each policy."""

from __future__ import annotations

import random
from typing import Any

import pytest

from dray.allocator.placement import Allocator, Fit
from dray.allocator.scenarios import Scenario
from dray.planner.replay import scenario_runs
from tests import builders


def scenario(claims: int, nodes: int = 2, devices: int = 2, count: int = 1) -> Scenario:
    names = [f"n{number}" for number in range(nodes)]
    return Scenario(
        nodes=[builders.node(name) for name in names],
        slices=[builders.gpu_slice(name, devices) for name in names],
        classes=[builders.device_class()],
        claims=[
            builders.claim(builders.request("gpu", count=count), name=f"c{number}")
            for number in range(claims)
        ],
    )


def nodes_of(run: scenario_runs.ScenarioRun) -> list[Any]:
    return [answer and answer["node"] for answer in run.answers.values()]


@pytest.mark.parametrize("policy", ["upstream", "first-fit", "packing", "best-fit", "fgd"])
def test_the_first_node_is_filled_first(policy: str) -> None:
    run = scenario_runs.replay(scenario(5), policy, 1)
    assert nodes_of(run) == ["n0", "n0", "n1", "n1", None]
    assert run.answers["c1"] == {"node": "n0", "devices": ["gpu=gpu.example.com/n0/gpu-1"]}
    assert (run.pods, run.dropped, run.final) == (5, 1, 80.0)


def test_packing_keeps_a_free_node_for_claims_that_need_all_of_it() -> None:
    content = scenario(1, nodes=3)
    taken = scenario_runs.replay(content, "first-fit", 1)
    assert nodes_of(taken) == ["n0"]
    cluster = content.inventory()
    first = scenario_runs.POLICIES["packing"]
    place = first(cluster, content.claims, random.Random(1))
    (claim,) = content.claims
    # n2 has a device in use, so it is taken before the free nodes.
    other = builders.claim(builders.request("gpu"), name="other")
    allocator = Allocator(cluster, new_share_id=str)
    fit = allocator.allocate_on((other,), "n2")
    assert isinstance(fit, Fit)
    cluster.record_allocation(other.key, fit.allocations[0])
    chosen = place(claim)
    assert isinstance(chosen, Fit)
    assert chosen.node == "n2"


def test_gradient_descent_keeps_pairs_together() -> None:
    content = scenario(1)
    content.slices = [builders.gpu_slice("n0", 2), builders.gpu_slice("n1", 3)]
    pairs = [builders.claim(builders.request("gpu", count=2), name=name) for name in ("p", "q")]
    content.claims = [*content.claims, *pairs]
    run = scenario_runs.replay(content, "fgd", 1)
    # One GPU of n0 would make the other one useless for pairs.
    assert nodes_of(run) == ["n1", "n0", "n1"]
    assert nodes_of(scenario_runs.replay(content, "upstream", 1)) == ["n0", "n1", None]


def test_random_uses_all_nodes_and_its_seed_decides() -> None:
    content = scenario(2, nodes=8)
    runs = [scenario_runs.replay(content, "random", seed) for seed in range(30)]
    assert {node for run in runs for node in nodes_of(run)} == {f"n{n}" for n in range(8)}
    assert scenario_runs.replay(content, "random", 3).answers == runs[3].answers


def test_a_claim_that_cannot_be_evaluated_is_recorded_as_an_error() -> None:
    content = scenario(1)
    content.claims = [
        builders.claim(builders.request("gpu", 'device.attributes["a.b"].c == 1'), name="c0")
    ]
    run = scenario_runs.replay(content, "upstream", 1)
    assert list(run.answers["c0"]) == ["error"]
    assert run.dropped == 1
