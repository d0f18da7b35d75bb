"""Policies on rooms whose scores were computed by hand."""

from __future__ import annotations

import random

import pytest

from dray.planner.policies import simple
from dray.planner.policies.interface import PlacementPolicy
from dray.planner.policies.rooms import NodeRoom, PodRequest

DRAW = random.Random(0)


def room(*free: int, cpu: int = 64_000, index: int = 0) -> NodeRoom:
    """A node with so much free CPU of 64 cores, and so many free parts of each GPU."""
    node = NodeRoom(index, f"n{index}", cpu=64_000, memory=1000, gpus=len(free))
    node.take(PodRequest(64_000 - cpu, 0), ())
    for gpu, left in enumerate(free):
        if left < 1000:
            node.take(PodRequest(0, 0, 1, 1000 - left), (gpu,))
    return node


HALF = PodRequest(8_000, 100, 1, 500)
TWO = PodRequest(8_000, 100, 2, 1000)
NONE = PodRequest(8_000, 100)


@pytest.mark.parametrize(
    ("policy", "node", "request_", "score"),
    [
        # (64 - 8) / 64 of the CPU and 900 of 1000 MiB are left: 87 and 90.
        (simple.Upstream(), room(1000), HALF, 88),
        (simple.FirstFit(), room(1000, index=3), HALF, -3),
        (simple.RandomFit(), room(1000), HALF, 0),
        # CPU 64/128 × 8/128 = 1/32, GPU 2/8 × 0.5/8 = 1/64; half their sum is 3/128.
        (simple.DotProduct(), room(1000, 1000), HALF, 97),
        # CPU 56/128 and GPU 1.5/8 are left over; half of each is 0.3125.
        (simple.BestFit(), room(1000, 1000), HALF, 68),
        (simple.BestFit(), room(1000, 1000, cpu=8_000), TWO, 100),
        (simple.Clustering(), room(1000, 1000), NONE, 0),
        # A free node: a quarter, and 25 × 6/8 for the six GPUs that it does not have.
        (simple.Clustering(), room(1000, 1000), TWO, 25 + 18),
        # A part is used, by pods of the same kind alone: 75 + 25 × (8 - 1.3)/8.
        (simple.Clustering(), room(1000, 300), HALF, 75 + 20),
        # Pods with a part are here, and the pod needs two GPUs.
        (simple.Clustering(), room(1000, 1000, 300), TWO, 0 + 17),
        (simple.Packing(), room(1000, 1000), NONE, 0),
        (simple.Packing(), room(1000, 1000), HALF, 33 - 2),
        (simple.Packing(), room(1000, 400), HALF, 50 - 1),
        (simple.Packing(), room(1000, 1000, 400), TWO, 50 - 2),
        # The GPU with 600 parts left is used: 100 - 60/10.
        (simple.Packing(), room(1000, 600), HALF, 100 - 6),
    ],
)
def test_a_score_is_that_of_the_definition(
    policy: PlacementPolicy, node: NodeRoom, request_: PodRequest, score: int
) -> None:
    assert node.fits(request_)
    assert policy.score(node, request_) == score


def test_clustering_prefers_a_node_with_one_kind_to_one_with_several() -> None:
    node = room(1000, 1000, 300)
    node.take(PodRequest(0, 0, 1, 1000), (0,))
    assert simple.Clustering().score(node, HALF) == 50 + 25 * (8000 - 1300) // 8000


@pytest.mark.parametrize(
    ("policy", "gpu"),
    [
        (simple.Upstream(), 0),
        (simple.FirstFit(), 0),
        (simple.DotProduct(), 2),
        (simple.Clustering(), 2),
        (simple.Packing(), 2),
        (simple.BestFit(), 2),
    ],
)
def test_a_part_is_taken_of_the_gpu_that_the_policy_prefers(
    policy: PlacementPolicy, gpu: int
) -> None:
    assert policy.gpus(room(1000, 400, 600, 600), HALF, DRAW) == (gpu,)
    assert policy.gpus(room(1000, 400, 1000, 1000), TWO, DRAW) == [0, 2]


def test_random_takes_any_gpu_where_the_part_fits() -> None:
    node = room(1000, 400, 600)
    drawn = {tuple(simple.RandomFit().gpus(node, HALF, DRAW)) for _ in range(100)}
    assert drawn == {(0,), (2,)}


@pytest.mark.parametrize(
    ("request_", "fits"),
    [
        (HALF, True),
        (TWO, False),
        (NONE, True),
        (PodRequest(64_001, 0), False),
        (PodRequest(0, 1001), False),
        (HALF._replace(models=frozenset({"T4", "P100"})), True),
        (HALF._replace(models=frozenset({"P100"})), False),
        (PodRequest(0, 0, 1, 1000), True),
    ],
)
def test_a_pod_fits_where_all_that_it_requests_is_free(request_: PodRequest, fits: bool) -> None:
    node = NodeRoom(0, "n0", cpu=64_000, memory=1000, gpus=2, model="T4")
    node.take(PodRequest(0, 0, 1, 600), (0,))
    assert node.fits(request_) is fits


def test_what_a_pod_took_is_free_again_when_it_leaves() -> None:
    node = room(1000, 700)
    before = node.cpu, node.memory, list(node.gpus), dict(node.kinds), node.free_parts, node.whole
    node.take(TWO._replace(gpus=1), (0,))
    assert (node.whole, node.free_parts, node.largest) == (0, 700, 700)
    node.release(TWO._replace(gpus=1), (0,))
    after = node.cpu, node.memory, list(node.gpus), dict(node.kinds), node.free_parts, node.whole
    assert after == before
