"""Random combinations of changes, against a cluster that is built like that from nothing."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

import msgspec
import pytest

from dray.api.ids import ObjectKey
from dray.api.types.dra import DeviceTaint, ResourceClaim
from dray.api.types.nodes import NodeSpec, Taint
from dray.api.types.pods import Pod
from dray.planner.cluster_model import ClusterModel
from dray.planner.placement.place import place
from dray.planner.submission.submitted_pods import SubmittedPod
from dray.planner.what_if import compare
from dray.planner.what_if.changes import Change
from dray.planner.what_if.compare import PodOutcome
from dray.planner.what_if.device_changes import FailDevice
from dray.planner.what_if.node_changes import AddNodes, CopyNode, DrainNode, RemoveNode, TaintNode
from dray.planner.what_if.other_changes import RemovePod
from dray.scheduling import fit_counts
from tests import builders, rounds
from tests.unit.planner.what_if import small_clusters as small

TAINT = Taint(key="team", value="a", effect="NoExecute")


@dataclasses.dataclass
class Machine:
    """A node as the test describes it."""

    gpus: int
    failed: set[str] = dataclasses.field(default_factory=set)
    is_cordoned: bool = False
    is_tainted: bool = False

    def objects(self, name: str) -> list[object]:
        taint = DeviceTaint(f"{builders.DRIVER}/unhealthy", "", "NoExecute")
        devices = [
            builders.gpu(device, taints=[taint] if device in self.failed else ())
            for device in (f"gpu-{number}" for number in range(self.gpus))
        ]
        spec = NodeSpec(unschedulable=self.is_cordoned, taints=(TAINT,) if self.is_tainted else ())
        node = msgspec.structs.replace(small.node(name), spec=spec)
        return [node, builders.resource_slice(*devices, node=name)]


@dataclasses.dataclass
class Workload:
    """A running pod as the test describes it."""

    node: str
    devices: tuple[str, ...]
    owner: str
    is_tolerant: bool

    def objects(self, name: str) -> list[Pod | ResourceClaim]:
        owner = {"set": small.REPLICA_SET, "daemon": small.DAEMON_SET}.get(self.owner)
        tolerations = [{"key": "team", "operator": "Exists"}] if self.is_tolerant else []
        return small.running(name, self.node, *self.devices, owner=owner, tolerations=tolerations)


@dataclasses.dataclass
class World:
    """A cluster as the test describes it, and what becomes of its pods."""

    machines: dict[str, Machine]
    pods: dict[str, Workload]
    results: dict[str, PodOutcome] = dataclasses.field(default_factory=dict)
    again: list[str] = dataclasses.field(default_factory=list)

    def model(self) -> ClusterModel:
        objects: list[object] = []
        for name, machine in self.machines.items():
            objects += machine.objects(name)
        for name, pod in self.pods.items():
            if name not in self.again and name not in self.results:
                objects += pod.objects(name)
        return small.cluster(objects, nodes=())

    def running(self) -> list[str]:
        return [name for name in self.pods if name not in {*self.again, *self.results}]

    def evict(self, names: list[str]) -> None:
        for name in names:
            owner = self.pods[name].owner
            if owner == "set":
                self.again.append(name)
            else:
                self.results[name] = PodOutcome.ENDS if owner == "daemon" else PodOutcome.LOST


def draw_world(dice: random.Random) -> World:
    machines = {f"n{number}": Machine(dice.randint(1, 4)) for number in range(dice.randint(2, 5))}
    free = [(node, f"gpu-{n}") for node, machine in machines.items() for n in range(machine.gpus)]
    dice.shuffle(free)
    pods = {}
    for number in range(dice.randint(1, 8)):
        node = dice.choice(list(machines))
        own = [place for place in free if place[0] == node][: dice.randint(0, 2)]
        free = [place for place in free if place not in own]
        owner = dice.choice(["set", "set", "set", "bare", "daemon"])
        devices = tuple(device for _, device in own)
        pods[f"pod-{number}"] = Workload(node, devices, owner, dice.random() < 0.3)
    return World(machines, pods)


def draw_changes(dice: random.Random, world: World) -> Iterator[Change]:
    """Yield changes that can be made, and make each of them in the description as well."""
    for number in range(dice.randint(1, 4)):
        name = dice.choice(list(world.machines))
        machine = world.machines[name]
        here = [pod for pod in world.running() if world.pods[pod].node == name]
        daemons = [pod for pod in here if world.pods[pod].owner == "daemon"]
        match dice.choice(["add", "copy", "remove", "drain", "taint", "fail", "without"]):
            case "add":
                added = Machine(2)
                world.machines[f"added-{number}"] = added
                node, published = added.objects(f"added-{number}")
                yield AddNodes([node], [published])  # type: ignore[list-item]
            # Daemons would follow to the copy; the unit tests have that.
            case "copy" if f"{name}-copy-1" not in world.machines and not daemons:
                copy = Machine(machine.gpus, is_tainted=machine.is_tainted)
                world.machines[f"{name}-copy-1"] = copy
                yield CopyNode(name)
            case "remove" if len(world.machines) > 1:
                del world.machines[name]
                world.evict(here)
                yield RemoveNode(name)
            case "drain" if not machine.is_cordoned:
                machine.is_cordoned = True
                world.evict([pod for pod in here if world.pods[pod].owner != "daemon"])
                yield DrainNode(name)
            case "taint" if not machine.is_tainted:
                machine.is_tainted = True
                world.evict([pod for pod in here if not world.pods[pod].is_tolerant])
                yield TaintNode(name, TAINT)
            case "fail" if "gpu-0" not in machine.failed:
                machine.failed.add("gpu-0")
                world.evict([pod for pod in here if "gpu-0" in world.pods[pod].devices])
                yield FailDevice(name, "gpu-0")
            case "without" if world.running():
                pod = dice.choice(world.running())
                world.results[pod] = PodOutcome.REMOVED
                yield RemovePod(ObjectKey("default", pod))


def submitted(name: str, world: World) -> SubmittedPod:
    """Return a pod in place of one that had to go, with claims that have no devices yet."""
    bound, *allocated = world.pods[name].objects(name)
    assert isinstance(bound, Pod)
    uid = f"{name}-new"
    metadata = msgspec.structs.replace(bound.metadata, uid=uid)
    pod = msgspec.structs.replace(
        bound, metadata=metadata, spec=msgspec.structs.replace(bound.spec, node_name="")
    )
    claims = []
    for claim in allocated:
        assert isinstance(claim, ResourceClaim)
        (owner,) = claim.metadata.owner_references
        owned = msgspec.structs.replace(
            claim.metadata, owner_references=(msgspec.structs.replace(owner, uid=uid),)
        )
        claims.append(ResourceClaim(owned, claim.spec))
    return SubmittedPod(pod, claims)


@pytest.mark.parametrize("seed", rounds.seeds(60, long=3000))
def test_changes_give_the_cluster_that_is_built_like_that(seed: int) -> None:
    dice = random.Random(seed)
    world = draw_world(dice)
    model = world.model()
    changes = list(draw_changes(dice, world))
    found = small.what_if(model, *changes)
    expected = place(world.model(), [submitted(name, world) for name in world.again])
    after = {each.pod.metadata.name: each for each in found.pods}
    assert {name: each.result for name, each in after.items() if not each.planned} == world.results
    placed = {
        planned.submitted.pod.metadata.name: (planned.node, tuple(planned.devices()))
        for planned in expected.pods
    }
    assert {name: after[name].after for name in world.again} == placed
    assert found.running == len(world.running())
    for each in found.pods:
        was = world.pods[each.pod.metadata.name]
        assert each.before.node == was.node
        assert tuple(device.device for device in each.before.devices) == was.devices
    assert compare.room(found)["gpu"][1] == fit_counts.count(expected.state, "gpu")
    assert {node.name for node in found.after.state.nodes} == set(world.machines)
