"""Which of the fitting nodes, and how a ranking follows what changes."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.types.dra import AllocationResult, ResourceClaim
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.scheduling.nodes import node_fit, pod_requirements, scoring
from dray.scheduling.nodes.node_fit import Nodes
from dray.scheduling.nodes.pod_requirements import PodRequirements
from dray.scheduling.nodes.scoring import Ranking
from tests import rounds
from tests.unit.scheduler import world


def never(_name: str) -> bool:
    return False


def make_needs(cpu: str = "1", **spec: Any) -> PodRequirements:
    body = world.pod("p", requests={"cpu": cpu}, **spec)
    return pod_requirements.requirements_of(msgspec.convert(body, Pod))


class Setting:
    """A fleet and nodes in step."""

    def __init__(self) -> None:
        self.fleet, self.nodes = ClusterInventory(), Nodes()

    def add(self, name: str, labels: Any = None, taints: Any = (), **allocatable: str) -> None:
        body = world.node(name, labels, **allocatable)
        node = msgspec.convert({**body, "spec": {"taints": list(taints)}}, Node)
        self.fleet.put_node(node)
        self.nodes.put(node, self.fleet.nodes[name].index)

    def drop(self, name: str) -> None:
        self.nodes.drop(name)
        self.fleet.drop_node(name)

    def ranking(self, wanted: PodRequirements) -> Ranking:
        return Ranking(self.nodes, self.fleet, wanted, scoring.by_default, never)


def best(ranking: Ranking) -> str:
    for _ in ranking.update():
        pass
    state = ranking.best()
    return state.name if state else ""


def in_order(ranking: Ranking) -> list[str]:
    for _ in ranking.update():
        pass
    taken = []
    while (state := ranking.take()) is not None:
        taken.append(state)
    ranking.put_back(taken)
    return [state.name for state in taken]


def test_the_emptiest_node_comes_first() -> None:
    setting = Setting()
    for name in ("a", "b", "c"):
        setting.add(name)
    busy = pod_requirements.PodUsage({"cpu": 32_000}, 32_000, 0)
    setting.nodes.add_pod("x", "a", busy)
    setting.nodes.add_pod("y", "b", pod_requirements.PodUsage({"cpu": 16_000}, 16_000, 0))
    assert in_order(setting.ranking(make_needs())) == ["c", "b", "a"]


def test_a_preferred_node_comes_before_an_emptier_one() -> None:
    setting = Setting()
    setting.add("empty")
    setting.add("preferred", {"disk": "fast"})
    setting.nodes.add_pod("x", "preferred", pod_requirements.PodUsage({"cpu": 20_000}, 20_000, 0))
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]}
    preference = [{"weight": 100, "preference": term}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preference}}
    assert best(setting.ranking(make_needs(affinity=affinity))) == "preferred"


def test_a_node_that_would_rather_not_comes_last() -> None:
    setting = Setting()
    setting.add("reluctant", None, [{"key": "k", "effect": "PreferNoSchedule"}])
    setting.add("busy")
    setting.nodes.add_pod("x", "busy", pod_requirements.PodUsage({"cpu": 60_000}, 60_000, 0))
    assert best(setting.ranking(make_needs())) == "busy"


def test_earlier_alternatives_score_higher() -> None:
    alternatives = [{"name": name, "deviceClassName": "c"} for name in ("a", "b", "c")]
    claim = msgspec.convert(
        world.claim("x", {"name": "r", "firstAvailable": alternatives}), ResourceClaim
    )

    def score(chosen: str) -> int:
        results = [{"request": f"r/{chosen}", "driver": "d", "pool": "p", "device": "d"}]
        allocation = msgspec.convert({"devices": {"results": results}}, AllocationResult)
        return scoring.alternatives([(claim, allocation)])

    assert [score(name) for name in "abc"] == [8, 7, 6]


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(5, long=200))
def test_a_ranking_that_follows_changes_is_as_good_as_a_new_one(seed: int) -> None:
    rng, setting = random.Random(seed), Setting()
    kinds = [make_needs(cpu) for cpu in ("1", "8", "40")]
    rankings = [setting.ranking(wanted) for wanted in kinds]
    for step in range(300):
        name = f"n{rng.randrange(12)}"
        match rng.randrange(4):
            case 0:
                setting.add(name, None, cpu=str(rng.randint(2, 64)))
            case 1:
                setting.drop(name)
            case 2:
                setting.nodes.add_pod(f"p{rng.randrange(20)}", name, rng.choice(kinds).usage)
            case 3:
                setting.nodes.remove_pod(f"p{rng.randrange(20)}")
        if step % 3:
            continue
        for wanted, ranking in zip(kinds, rankings, strict=True):
            fresh = setting.ranking(wanted)
            assert in_order(ranking) == in_order(fresh)
            assert ranking.reasons() == fresh.reasons()


def test_a_refused_node_is_no_candidate_until_something_changes_there() -> None:
    setting = Setting()
    setting.add("a")
    setting.add("b")
    ranking = setting.ranking(make_needs())
    assert best(ranking) == "a"
    state = setting.nodes.get("a")
    assert state is not None
    ranking.reject(state, (node_fit.HAD_TAINTS,))
    assert best(ranking) == "b"
    setting.nodes.add_pod("x", "b", make_needs().usage)
    assert best(ranking) == "b"
    setting.nodes.add_pod("y", "a", make_needs().usage)
    assert in_order(ranking) == ["a", "b"]
