"""Random clusters: the library decides as the running scheduler, and afresh as incrementally."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from dray.api import features as gates
from dray.api.types.dra import DeviceClass, ResourceClaim, ResourceSlice
from dray.api.types.meta import JsonObject
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.scheduling import policies, unschedulable
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decider, Decision, decide
from dray.scheduling.state import SchedulingObject, SchedulingState
from tests import rounds, virtualtime
from tests.unit.scheduler.world import (
    DRIVER,
    World,
    claim,
    device_class,
    devices_of,
    exactly,
    gpu,
    gpu_slice,
    node,
    pod,
    world,
)
from tests.unit.scheduling import objects
from tests.unit.scheduling.objects import NOW, convert, outcome

IN_LINE = re.compile(r" (It is \w+ in line|At least \d+ pods are ahead of it in line).*")
PREEMPTING = gates.with_gates(gates.DEFAULT, {"DrayPreemption": True})
HOST = "kubernetes.io/hostname"
MEMORY = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'


STORED: dict[str, type[SchedulingObject]] = {
    "deviceclasses": DeviceClass,
    "nodes": Node,
    "resourceslices": ResourceSlice,
    "resourceclaims": ResourceClaim,
}


class Cluster:
    """Random bodies: few nodes with little of everything, so that much does not fit."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.nodes = [self._node(number) for number in range(self._random.randint(1, 5))]
        self.slices = [self.devices(body["metadata"]["name"]) for body in self.nodes]
        self.claims = [self._claim(number) for number in range(self._random.randint(2, 8))]
        self.pods = [self._pod(number) for number in range(self._random.randint(2, 12))]

    def bodies(self) -> list[JsonObject]:
        return [device_class(), *self.nodes, *self.slices, *self.claims]

    def devices(self, node_name: str, generation: int = 1) -> JsonObject:
        devices = [self._gpu(number) for number in range(self._random.randint(0, 4))]
        pool = {"name": node_name, "generation": generation, "resourceSliceCount": 1}
        return gpu_slice(node_name, 0, *devices, pool=pool)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def choose(self, bodies: list[JsonObject]) -> JsonObject:
        return self._random.choice(bodies)

    def _node(self, number: int) -> JsonObject:
        zone = self._random.choice(["a", "b"])
        body = node(f"node-{number}", {"zone": zone}, cpu=str(self._random.randint(2, 8)))
        spec: JsonObject = {}
        if self.chance(0.2):
            spec["taints"] = [{"key": "special", "value": "yes", "effect": "NoSchedule"}]
        if self.chance(0.1):
            spec["unschedulable"] = True
        return {**body, "spec": spec}

    def _gpu(self, number: int) -> JsonObject:
        device = gpu(f"gpu-{number}", self._random.choice(["10Gi", "80Gi"]))
        if self.chance(0.2):
            device["allowMultipleAllocations"] = True
            policy = {"default": "5Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
            device["capacity"]["memory"]["requestPolicy"] = policy
        if self.chance(0.1):
            device["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
        return device

    def _claim(self, number: int) -> JsonObject:
        large = {"selectors": [{"cel": {"expression": MEMORY}}]}
        subrequests = [
            {"name": "large", "deviceClassName": DRIVER, **large},
            {"name": "any", "deviceClassName": DRIVER, "count": 2},
        ]
        request = self._random.choice(
            [
                exactly(),
                exactly(count=2),
                exactly(**large),
                exactly(allocationMode="All"),
                exactly(capacity={"requests": {"memory": "5Gi"}}),
                {"name": "gpu", "firstAvailable": subrequests},
            ]
        )
        return claim(f"claim-{number}", request)

    def _pod(self, number: int) -> JsonObject:
        name = self.choose(self.claims)["metadata"]["name"] if self.chance(0.8) else ""
        spec: JsonObject = {}
        if self.chance(0.2):
            spec["nodeSelector"] = {"zone": self._random.choice(["a", "b"])}
        if self.chance(0.2):
            spec["tolerations"] = [{"key": "special", "operator": "Exists"}]
        if self.chance(0.2):
            term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "db"}}}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            spec["affinity"] = {"podAntiAffinity": required}
        requests = {"cpu": str(self._random.randint(1, 3))} if self.chance(0.7) else None
        body = pod(f"pod-{number}", name, requests=requests, **spec)
        if self.chance(0.4):
            body["metadata"]["labels"] = {"app": "db"}
        return body


def write(state: SchedulingState, decision: Decision) -> None:
    """Feed the state with what the scheduler would write."""
    if isinstance(decision, NodeAssignment):
        for changed in objects.written(decision):
            state.put(changed)
            if isinstance(changed, ResourceClaim):
                state.claims.end_reservation(changed.key)


class Objects:
    """All objects of a cluster in the order in which they came."""

    def __init__(self, bodies: list[JsonObject]) -> None:
        self._objects: dict[tuple[str, str], SchedulingObject] = {}
        for body in bodies:
            self.put(convert(body))

    def __iter__(self) -> Iterator[SchedulingObject]:
        return iter(self._objects.values())

    def put(self, changed: SchedulingObject) -> None:
        self._objects[type(changed).__name__, changed.metadata.name] = changed


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(60, long=3000))
def test_deciding_incrementally_equals_deciding_afresh(seed: int) -> None:
    decide_twice(seed, None)


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(20, long=1000))
@pytest.mark.parametrize("policy", policies.NAMES)
def test_so_it_does_with_a_policy(policy: str, seed: int) -> None:
    decide_twice(seed, policy)


def decide_twice(seed: int, policy: str | None) -> None:
    cluster = Cluster(seed)
    known = Objects(cluster.bodies())
    state = SchedulingState.of(known)
    decider = Decider(state, policy=policy)
    for body in cluster.pods:
        if cluster.chance(0.2):
            name = cluster.choose(cluster.nodes)["metadata"]["name"]
            changed = convert(cluster.devices(name, generation=2))
            known.put(changed)
            state.put(changed)
        [waiting] = objects.pods(body)
        fresh = decide(SchedulingState.of(known), [waiting], now=NOW, policy=policy)
        incremental = decider.decide([waiting], NOW)
        assert list(map(described, incremental)) == list(map(described, fresh))
        for decision in incremental:
            if isinstance(decision, NodeAssignment):
                for changed in objects.written(decision):
                    known.put(changed)
            write(state, decision)
        known.put(state.pods.get(waiting.metadata.key) or waiting)


def described(decision: Decision) -> Any:
    """Return all of a decision that two states must agree on: not the ids of shares."""
    if isinstance(decision, NodeAssignment):
        return outcome(decision), decision.fit.usage
    return (
        decision.category,
        decision.error,
        decision.before_nodes,
        decision.reasons,
        decision.wake_events,
    )


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(12, long=500))
@pytest.mark.parametrize("features", [gates.DEFAULT, PREEMPTING], ids=["default", "preempting"])
def test_the_library_decides_as_the_scheduler(seed: int, features: gates.Features) -> None:
    async def run() -> None:
        async with world(features=features) as here:
            await compare(here, Cluster(seed), features)

    virtualtime.run(run())


async def compare(here: World, cluster: Cluster, features: gates.Features) -> None:
    await here.create(*cluster.bodies())
    state = SchedulingState(features)
    for plural, kind in STORED.items():
        for stored in await here.all(plural):
            state.put(msgspec.convert(stored, kind))
    decider = Decider(state)
    for body in cluster.pods:
        created = await here.create(body)
        [decision] = decider.decide([msgspec.convert(created, Pod)], here.clock())
        write(state, decision)
        name = body["metadata"]["name"]
        if isinstance(decision, NodeAssignment):
            assert await here.bound(name) == decision.node
            assert await devices_in_api(here, body) == objects.devices(decision)
        else:
            message = unschedulable.message(decision, len(cluster.nodes))
            # The scheduler adds the place of the pod among those that ask for the same.
            assert IN_LINE.sub("", await here.refused(name)) == message


async def devices_in_api(here: World, body: JsonObject) -> list[str]:
    names = [source["resourceClaimName"] for source in body["spec"].get("resourceClaims", ())]
    claims = [await here.get("resourceclaims", name) for name in names]
    return [device for allocated in claims for device in devices_of(allocated)]
