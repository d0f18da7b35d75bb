"""Fragmentation gradient descent against the definition, and the mix of requests."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from dray.planner.policies import fragmentation
from dray.planner.policies.fragmentation import FragmentationGradientDescent
from dray.planner.policies.rooms import NodeRoom, PodRequest

cores = st.integers(0, 8).map(lambda number: 2000 * number)
tenths = st.integers(1, 10).map(lambda number: 100 * number)
models = st.sampled_from([frozenset[str](), frozenset({"T4"}), frozenset({"T4", "P100"})])
requests = st.one_of(
    cores.map(lambda cpu: PodRequest(cpu, 0)),
    st.tuples(cores, tenths, models).map(lambda each: PodRequest(each[0], 0, 1, *each[1:])),
    st.tuples(cores, st.integers(2, 4)).map(lambda each: PodRequest(each[0], 0, each[1], 1000)),
)


def node(cpu: int, free: list[int], model: str = "T4") -> NodeRoom:
    made = NodeRoom(0, "n0", cpu=cpu, memory=0, gpus=len(free), model=model)
    for gpu, left in enumerate(free):
        made.take(PodRequest(0, 0, 1, 1000 - left), (gpu,))
    return made


free_parts = st.lists(st.one_of(st.just(0), tenths), min_size=1, max_size=8)
nodes = st.tuples(cores, free_parts, st.sampled_from(["T4", "P100", "V100"])).map(
    lambda each: node(*each)
)


def definition(room: NodeRoom, mix: Mapping[PodRequest, float]) -> float:
    """The free parts that a pod of the mix cannot use: all where it does not fit."""
    total = 0.0
    for request, weight in mix.items():
        usable = 0
        if request.gpus and room.fits(request):
            usable = sum(free for free in room.gpus if free >= request.part)
        total += weight * (sum(room.gpus) - usable)
    return total


def after(room: NodeRoom, request: PodRequest, gpus: list[int]) -> NodeRoom:
    changed = node(room.cpu, room.gpus, room.model)
    changed.take(request, gpus)
    return changed


@given(nodes, st.dictionaries(requests, st.integers(1, 9), min_size=1, max_size=8), requests)
def test_scores_follow_the_definition(
    room: NodeRoom, counts: dict[PodRequest, int], request: PodRequest
) -> None:
    total = sum(counts.values())
    mix = {each: count / total for each, count in counts.items()}
    policy = FragmentationGradientDescent(mix)
    assert math.isclose(policy.fragmentation(room), definition(room, mix), abs_tol=1e-6)
    if not room.fits(request):
        return
    if request.is_fraction:
        places = [[gpu] for gpu, free in enumerate(room.gpus) if free >= request.part]
    else:
        places = [[gpu for gpu, free in enumerate(room.gpus) if free == 1000][: request.gpus]]
    growths = [
        definition(after(room, request, gpus), mix) - definition(room, mix) for gpus in places
    ]
    score = 100 / (1 + math.exp(min(growths) / 1000))
    # A score is cut to a whole number, and rounding errors may decide to which.
    assert policy.score(room, request) in {int(score - 1e-6), int(score + 1e-6)}
    chosen = places.index(list(policy.gpus(room, request, random.Random(0))))
    assert int(100 / (1 + math.exp(growths[chosen] / 1000)) + 1e-6) >= policy.score(room, request)


def test_the_fragmentation_of_a_small_node_by_hand() -> None:
    # Half of the pods need 0.5 of a GPU, half need two GPUs. Of 0.3 and 1.0 free, the first can use
    # 1.0 and the second nothing: 0.5 × 0.3 + 0.5 × 1.3.
    policy = FragmentationGradientDescent(
        {PodRequest(0, 0, 1, 500): 0.5, PodRequest(0, 0, 2, 1000): 0.5}
    )
    assert math.isclose(policy.fragmentation(node(0, [300, 1000])), 800)


def test_a_part_goes_where_less_room_loses_its_use() -> None:
    policy = FragmentationGradientDescent({PodRequest(0, 0, 1, 1000): 1.0})
    assert policy.gpus(node(0, [1000, 600]), PodRequest(0, 0, 1, 500), random.Random(0)) == (1,)


def test_the_mix_is_the_most_common_requests_without_memory() -> None:
    large, small = PodRequest(4000, 7, 1, 1000), PodRequest(1000, 7, 1, 500)
    rare = PodRequest(9000, 7, 8, 1000)
    mix = fragmentation.mix_of({large: 40, large._replace(memory=9): 20, small: 36, rare: 4})
    assert mix == {large._replace(memory=0): 60 / 96, small._replace(memory=0): 36 / 96}
