"""Rankings that are updated after each change equal those that are made anew."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.planner.policies.by_name import POLICIES
from dray.planner.policies.interface import Ties
from dray.planner.policies.rooms import NodeRoom, PodRequest
from dray.planner.replay.ranking import Rankings

SHAPES = [
    PodRequest(2000, 10),
    PodRequest(1000, 5, 1, 300),
    PodRequest(3000, 5, 1, 500, frozenset({"A", "B"})),
    PodRequest(1000, 5, 1, 1000),
    PodRequest(4000, 20, 2, 1000),
    PodRequest(2000, 20, 3, 1000, frozenset({"B"})),
]


def fleet() -> list[NodeRoom]:
    sizes = [(8000, 60, 2, "A"), (16_000, 60, 4, "B"), (8000, 30, 1, "C"), (12_000, 90, 3, "A")]
    return [
        NodeRoom(index, f"n{index}", cpu=cpu, memory=memory, gpus=gpus, model=model)
        for index, (cpu, memory, gpus, model) in enumerate(sizes * 2)
    ]


@pytest.mark.parametrize("name", POLICIES)
@given(steps=st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=60), seed=st.integers())
def test_the_best_node_is_that_of_scoring_all_nodes(
    name: str, steps: list[tuple[bool, int]], seed: int
) -> None:
    policy = POLICIES[name](dict.fromkeys(SHAPES, 1))
    nodes, draw = fleet(), random.Random(seed)
    rankings = Rankings(nodes, policy, draw)
    placed: list[tuple[NodeRoom, PodRequest, list[int]]] = []
    for leaves, shape in steps:
        if leaves and placed:
            node, request, gpus = placed.pop(shape % len(placed))
            node.release(request, gpus)
            rankings.changed(node)
            continue
        request = SHAPES[shape]
        for node in nodes:
            node.cache.clear()
        scores = {n.index: policy.score(n, request) for n in nodes if n.fits(request)}
        best = [index for index, score in scores.items() if score == max(scores.values())]
        chosen = rankings.best(request)
        if not best:
            assert chosen is None
            continue
        assert chosen is not None
        assert chosen.index in (best if policy.ties is Ties.DRAWN else [min(best)])
        gpus = list(policy.gpus(chosen, request, draw))
        chosen.take(request, gpus)
        rankings.changed(chosen)
        assert min(chosen.gpus) >= 0
        assert min(chosen.cpu, chosen.memory) >= 0
        placed.append((chosen, request, gpus))
