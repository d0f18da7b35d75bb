"""How many pods fit, against the decisions of the scheduler on that many pods and one more."""

from __future__ import annotations

import datetime
import random

import hypothesis
import msgspec
from hypothesis import strategies as st

from dray.allocator.inventory.cluster_inventory import AllocatedState
from dray.api.ids import DeviceId
from dray.api.types.dra import ResourceSlice
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node, NodeSpec, NodeStatus
from dray.scheduling import fit_counts, pod_copies
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import decide
from dray.scheduling.state import SchedulingState
from tests import builders, rounds
from tests.properties import problems

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
NODES = ("n1", "n2", "n3")


def drawn(seed: int) -> tuple[SchedulingState, str]:
    dice = random.Random(seed)
    problem = problems.draw(dice)
    state = SchedulingState(problem.features)
    for name in NODES:
        status = NodeStatus(allocatable={"pods": str(dice.choice((0, 2, 50)))})
        spec = NodeSpec(unschedulable=dice.random() < 0.1)
        state.put(Node(ObjectMeta(name=name), spec, status))
    for device_class in problem.classes.values():
        state.put(device_class)
    for name in NODES:
        for resource_slice in problems.draw_pool(dice, problem.features):
            state.put(moved(resource_slice, name))
    if dice.random() < 0.3:
        devices = [builders.gpu(f"net-{number}") for number in range(2)]
        state.put(builders.resource_slice(*devices, driver="a.test", all_nodes=True))
    state.inventory.record_state(held(state, dice))
    return state, dice.choice(list(problem.classes))


def moved(resource_slice: ResourceSlice, node: str) -> ResourceSlice:
    pool = msgspec.structs.replace(resource_slice.spec.pool, name=node)
    spec = msgspec.structs.replace(resource_slice.spec, node_name=node, pool=pool)
    return ResourceSlice(ObjectMeta(name=f"{node}-{resource_slice.metadata.name}"), spec)


def held(state: SchedulingState, dice: random.Random) -> AllocatedState:
    ids = [
        DeviceId(*resource_slice.pool_id, device.name)
        for resource_slice in state.inventory.slices()
        for device in resource_slice.spec.devices
    ]
    return AllocatedState([id for id in ids if dice.random() < 0.15])


@rounds.examples(300, long=10_000)
@hypothesis.given(st.integers(min_value=0, max_value=2**63))
def test_so_many_pods_are_placed_and_no_more(seed: int) -> None:
    state, class_name = drawn(seed)
    devices = random.Random(seed).choice((1, 1, 2, 3))
    before = {
        pool: entry.holders.by_device.keys() for pool, entry in state.inventory.pools().items()
    }
    counted = fit_counts.count(state, pod_copies.of_class(class_name, devices))
    after = {
        pool: entry.holders.by_device.keys() for pool, entry in state.inventory.pools().items()
    }
    assert (counted.is_complete, before) == (True, after)
    pods = []
    for number in range(counted.pods + 1):
        name = f"p{number}"
        state.put(builders.claim(builders.request(cls=class_name, count=devices), name=name))
        pods.append(builders.pod(name, claims={"gpu": name}, uid=name))
    decisions = decide(state, pods, now=NOW)
    placed = [decision for decision in decisions if isinstance(decision, NodeAssignment)]
    assert len(placed) == counted.pods, counted


def test_the_count_says_when_it_is_not_complete() -> None:
    state = SchedulingState()
    for node in NODES:
        state.put(Node(ObjectMeta(name=node), status=NodeStatus(allocatable={"pods": "10"})))
        state.put(builders.gpu_slice(node, 4))
    state.put(builders.device_class())
    assert str(fit_counts.count(state, pod_copies.of_class("gpu"))) == "12"
    answers = iter([False, True])
    assert str(fit_counts.count(state, pod_copies.of_class("gpu"), lambda: next(answers))) == "4+"
    assert fit_counts.count(state, pod_copies.of_class("nosuch")).pods == 0
