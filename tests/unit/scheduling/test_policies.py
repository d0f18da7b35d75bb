"""Policies: the nodes and devices that they prefer, and what they leave usable."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping

import pytest

from dray.allocator import verifier
from dray.allocator.fragmentation.gradient import Fragmentation
from dray.api import features as gates
from dray.api.types.containers import Container, ResourceRequirements
from dray.api.types.dra import DeviceRequest, ResourceClaim
from dray.api.types.meta import JsonObject, ObjectMeta
from dray.api.types.pods import Pod, PodResourceClaim, PodSpec
from dray.drivers.simulated import fleet
from dray.drivers.simulated.fleet import Fleet
from dray.scheduling import policies
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decider, decide
from dray.scheduling.state import SchedulingState
from tests import builders, rounds
from tests.unit.scheduler.world import DRIVER, claim, device_class, exactly, gpu_slice, node, pod
from tests.unit.scheduling import objects
from tests.unit.scheduling.objects import NOW, build

NVIDIA = "gpu.nvidia.com"
CARD = f'device.attributes["{NVIDIA}"].type == "gpu"'


def cards(count: int) -> tuple[float, DeviceRequest]:
    return count, builders.request("gpu", CARD, cls=NVIDIA, count=count)


def partition(profile: str, size: float) -> tuple[float, DeviceRequest]:
    selector = f'device.attributes["{NVIDIA}"].profile == "{profile}"'
    return size, builders.request("gpu", selector, cls="mig.nvidia.com")


def share(size: float) -> tuple[float, DeviceRequest]:
    return size, builders.request("gpu", cls=NVIDIA, capacity={"memory": f"{size * 40:g}Gi"})


SMALL, MEDIUM, LARGE = ("1g.10gb", 1 / 8), ("2g.20gb", 1 / 4), ("3g.40gb", 1 / 2)
OFFERS: Mapping[str, tuple[Fleet, list[tuple[float, DeviceRequest]]]] = {
    "partitions": (
        fleet.load("a100-mig", nodes=4),
        [
            *map(cards, (1, 1, 4)),
            *(partition(*each) for each in (SMALL, SMALL, SMALL, MEDIUM, LARGE, LARGE)),
        ],
    ),
    "shares": (
        fleet.load("shared", nodes=12),
        list(map(share, (0.125, 0.125, 0.125, 0.25, 0.25, 0.625, 1.0, 1.0))),
    ),
}
"""Machines, and what pods ask for there, with its size: whole GPUs, partitions, shares."""


class Stream:
    """Pods that come one after the other until they ask for all GPUs, and that stay."""

    def __init__(self, kind: str, policy: str | None, seed: int) -> None:
        self._machines, self._offers = OFFERS[kind]
        self._random = random.Random(seed)
        machines = self._machines
        self.slices = list(machines.slices())
        self._state = SchedulingState.of([*machines.nodes(), *machines.classes(), *self.slices])
        self._decider = Decider(self._state, policy=policy)
        self.gpus = sum(machines.models().values())
        self.claims: list[ResourceClaim] = []
        self.run()

    def run(self) -> None:
        asked = 0.0
        for number in itertools.count():
            size, request = self._random.choice(self._offers)
            asked += size
            if asked > self.gpus:
                return
            self._state.put(builders.claim(request, name=f"c{number}"))
            [decision] = self._decider.decide([_pod(number)], NOW)
            if isinstance(decision, NodeAssignment):
                written = objects.written(decision)
                self.claims += [each for each in written if isinstance(each, ResourceClaim)]

    def used(self) -> float:
        """Return how many GPUs are in use, in whole and in part."""
        fragmentation = Fragmentation(self._state.inventory)
        return self.gpus - sum(fragmentation.free(state.name) for state in self._state.nodes)


def _pod(number: int) -> Pod:
    asked = ResourceRequirements(requests={"cpu": "1", "memory": "4Gi"})
    used = PodResourceClaim(name="gpu", resource_claim_name=f"c{number}")
    name = f"p{number}"
    return Pod(
        ObjectMeta(name=name, namespace="default", uid=name),
        PodSpec(containers=(Container(name="c", resources=asked),), resource_claims=(used,)),
    )


@pytest.mark.random
@pytest.mark.parametrize("kind", OFFERS)
def test_gradient_descent_strands_fewer_devices_than_the_default(kind: str) -> None:
    seeds = [rounds.seed_of(number) for number in range(rounds.count(5, long=60))]
    used = {
        policy: sum(Stream(kind, policy, seed).used() for seed in seeds) for policy in (None, "fgd")
    }
    assert used["fgd"] > used[None]


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(1, long=30))
@pytest.mark.parametrize("kind", OFFERS)
@pytest.mark.parametrize("policy", policies.NAMES)
def test_what_a_policy_decides_is_legal(policy: str, kind: str, seed: int) -> None:
    stream = Stream(kind, policy, seed)
    assert stream.claims
    assert not verifier.find_violations(
        stream.slices,
        stream.claims,
        gates.DEFAULT,
        just_allocated=[claim.key for claim in stream.claims],
    )


def place(policy: str | None, *bodies: JsonObject, cpu: str = "1") -> str:
    """Return the node of a pod with the claim `x`, or without one where there is none."""
    state = build(device_class(), *bodies)
    name = "x" if any(body["metadata"]["name"] == "x" for body in bodies) else ""
    [decision] = decide(
        state, objects.pods(pod("p", name, requests={"cpu": cpu})), now=NOW, policy=policy
    )
    assert isinstance(decision, NodeAssignment)
    return decision.node


def gpus(name: str, count: int, cpu: str = "8") -> list[JsonObject]:
    return [node(name, cpu=cpu), gpu_slice(name, count)]


@pytest.mark.parametrize(
    ("policy", "chosen"),
    [(None, "eight"), ("spread", "eight"), ("pack", "full"), ("best-fit", "two"), ("fgd", "two")],
)
def test_the_node_for_one_gpu(policy: str | None, chosen: str) -> None:
    held = [claim(f"held-{number}") for number in range(4)]
    results = [
        {"request": "gpu", "driver": DRIVER, "pool": "full", "device": f"gpu-{number}"}
        for number in range(4)
    ]
    for body, result in zip(held, results, strict=True):
        body["status"] = {"allocation": {"devices": {"results": [result]}}}
    found = place(
        policy,
        *gpus("full", 7, cpu="4"),
        *gpus("eight", 8),
        *gpus("two", 2),
        *held,
        claim("x", exactly()),
        claim("eight", exactly(count=8)),
        claim("three", exactly(count=3)),
    )
    assert found == chosen


@pytest.mark.parametrize("policy", policies.NAMES)
def test_a_pod_without_claims_gets_a_node(policy: str) -> None:
    assert place(policy, node("small", cpu="1"), node("large", cpu="8"), cpu="2") == "large"


@pytest.mark.parametrize("policy", policies.NAMES)
def test_a_slice_with_an_invalid_selector_does_not_stop_the_others(policy: str) -> None:
    broken = gpu_slice("broken", 1)
    del broken["spec"]["nodeName"]
    term = {"matchExpressions": [{"key": "a b", "operator": "In", "values": ["x"]}]}
    broken["spec"]["nodeSelector"] = {"nodeSelectorTerms": [term]}
    [decision] = decide(
        build(device_class(), node("n"), broken), objects.pods(pod("p")), now=NOW, policy=policy
    )
    assert isinstance(decision, NodeAssignment)
