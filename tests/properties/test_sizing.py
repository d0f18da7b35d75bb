"""The fewest machines, against all combinations of machines tried one by one."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any

import hypothesis
import msgspec
from hypothesis import strategies as st

from dray.api import features as gates
from dray.api.types.dra import ResourceClaim, ResourceSlice
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node, NodeStatus
from dray.api.types.pods import Pod
from dray.planner.cluster_model import ClusterModel
from dray.planner.placement import place as placing
from dray.planner.sizing import fewest_machines as sizing
from dray.planner.sizing import machine_types
from dray.planner.sizing.fewest_machines import Sizing
from dray.planner.sizing.lower_bound import LowerBound
from dray.planner.sizing.machine_types import MachineType
from dray.planner.submission import submitted_pods
from dray.planner.submission.submitted_pods import Submission, SubmittedPod
from tests import builders, rounds

ATTRIBUTES = f'device.attributes["{builders.DRIVER}"]'
CLASSES = (
    builders.device_class(),
    builders.device_class("quarter", f'{ATTRIBUTES}.?size.orValue("") == "quarter"'),
    builders.device_class("half", f'{ATTRIBUTES}.?size.orValue("") == "half"'),
    # Fails on devices that are not partitions.
    builders.device_class("failing", f'{ATTRIBUTES}.size == "half"'),
)
MOST = 4
"""Combinations are tried up to this size."""


def node(name: str, dice: random.Random) -> Node:
    labels = {"kubernetes.io/hostname": name, "zone": dice.choice("ab")}
    amounts = {"cpu": str(dice.choice((2, 4, 8))), "pods": str(dice.choice((2, 10)))}
    return Node(ObjectMeta(name=name, labels=labels), status=NodeStatus(allocatable=amounts))


def slices(name: str, dice: random.Random) -> list[ResourceSlice]:
    match dice.randrange(7):
        case 0:
            return []
        case 1 | 2 | 3:
            return builders.mig_slices(name, gpus=dice.choice((1, 2)))
        case 4:
            return [builders.gpu_slice(name, 1, shareable=True)]
        case _:
            return [builders.gpu_slice(name, dice.choice((1, 2, 4)), product=dice.choice("AB"))]


def machine_type(number: int, seed: int) -> MachineType:
    def make(count: int) -> Iterator[Node | ResourceSlice]:
        for machine in range(count):
            dice = random.Random(seed)
            name = f"t{number}-{machine}"
            yield node(name, dice)
            yield from slices(name, dice)

    return MachineType(f"t{number}", make)


def submitted(name: str, dice: random.Random) -> SubmittedPod:
    cpu = dice.choice((0, 1, 2, 3))
    requests = {"cpu": str(cpu)} if cpu else {}
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": "i", "resources": {"requests": requests}}]
    }
    if dice.random() < 0.1:
        spec["nodeSelector"] = {"zone": dice.choice("ab")}
    if dice.random() < 0.15:
        spec["topologySpreadConstraints"] = [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
             "labelSelector": {}}
        ]  # fmt: skip
    if dice.random() < 0.1:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        spec["affinity"] = {dice.choice(("podAntiAffinity", "podAffinity")): affinity}
    if dice.random() < 0.2:
        return SubmittedPod(builders.pod(name, uid=name, **spec))
    pod = builders.pod(name, claims={"gpu": name}, uid=name, **spec)
    return SubmittedPod(pod, [claim(name, dice)])


def running(name: str, on: str) -> Pod:
    """A pod that others may evict."""
    resources = {"requests": {"cpu": "1"}}
    containers = [{"name": "main", "image": "i", "resources": resources}]
    return builders.pod(name, uid=name, nodeName=on, priority=-1, containers=containers)


def claim(name: str, dice: random.Random) -> ResourceClaim:
    cls = dice.choices(("gpu", "quarter", "half", "failing"), (8, 3, 3, 1))[0]
    match dice.randrange(8):
        case 0:
            first, second = builders.option("a", cls="quarter"), builders.option("b", count=2)
            return builders.claim(builders.alternatives("gpu", first, second), name=name)
        case 1:
            selector = f'{ATTRIBUTES}.?productName.orValue("") == "{dice.choice("AB")}"'
            return builders.claim(builders.request("gpu", selector), name=name)
        case 2:
            pair = (builders.request("one", cls=cls), builders.request("two"))
            return builders.claim(*pair, name=name)
        case _:
            return builders.claim(
                builders.request(cls=cls, count=dice.choice((1, 1, 2))), name=name
            )


class Case:
    """A small cluster, pods and types of machines."""

    def __init__(self, seed: int) -> None:
        dice = random.Random(seed)
        nodes = [f"n{number}" for number in range(dice.choice((0, 0, 1, 2)))]
        objects = [item for name in nodes for item in (node(name, dice), *slices(name, dice))]
        features = msgspec.structs.replace(gates.DEFAULT, preemption=dice.random() < 0.5)
        self.cluster = ClusterModel(features=features).with_objects([*CLASSES, *objects])
        self.types = [
            machine_type(number, dice.getrandbits(32))
            for number in range(dice.choice((1, 2, 2, 3)))
        ]
        self.pods = [submitted(f"p{number}", dice) for number in range(dice.choice((1, 2, 3, 5)))]
        self.waiting: list[SubmittedPod] = []
        if nodes and dice.random() < 0.3:
            self.cluster = self.cluster.with_objects([running("r", nodes[0])])
        if dice.random() < 0.2:
            item = submitted("w", dice)
            self.waiting = [item._replace(claims=())]
            self.cluster = self.cluster.with_objects([item.pod, *item.claims])

    def submit(self, cluster: ClusterModel) -> Submission:
        return Submission(cluster, self.pods, submitted_pods.waiting(cluster))

    def answer(self) -> Sizing:
        return sizing.fewest_machines(self.cluster, self.submit, self.types)

    def fits(self, counts: Sequence[int]) -> bool:
        cluster = machine_types.with_machines(self.cluster, self.types, counts)
        plan = placing.place(cluster, [*self.waiting, *self.pods])
        own = plan.pods[len(self.waiting) :]
        return all(each.node for each in own) and not any(each.evicted for each in plan.pods)

    def all_fitting(self) -> list[tuple[int, ...]]:
        """Every combination up to some size that suffices, the fewest machines first."""
        every = itertools.product(range(MOST + 1), repeat=len(self.types))
        small = [counts for counts in every if sum(counts) <= MOST and self.fits(counts)]
        return sorted(small, key=lambda counts: (sum(counts), [-count for count in counts]))


@rounds.examples(60, long=300)
@hypothesis.example(2059)  # A machine that only takes a pod of the cluster that waits.
@hypothesis.given(st.integers(min_value=0, max_value=2**63))
def test_no_combination_has_fewer_machines(seed: int) -> None:
    case = Case(seed)
    fitting, answer = case.all_fitting(), case.answer()
    if fitting:
        assert (answer.counts, answer.is_proved) == (fitting[0], True)
        assert all(planned.node for planned in answer.pods)
    elif answer.counts is None:
        assert answer.waiting.pods
    else:
        assert sum(answer.counts) > MOST
        assert case.fits(answer.counts)
    assert all(less.waiting.pods for less in answer.one_less)


@rounds.examples(60, long=300)
@hypothesis.example(226969745079976)  # As well.
@hypothesis.given(st.integers(min_value=0, max_value=2**63))
def test_sums_exclude_nothing_that_suffices(seed: int) -> None:
    case = Case(seed)
    bound = LowerBound(case.submit(case.cluster), case.types)
    fitting = case.all_fitting()
    assert not [counts for counts in fitting if bound.excludes(counts)]
    assert not (fitting and bound.hopeless())
    for number, useful in enumerate(bound.useful):
        assert useful or all((*c[:number], 0, *c[number + 1 :]) in fitting for c in fitting)
