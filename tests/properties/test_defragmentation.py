"""Plans of moves, against all sequences of moves on small clusters, each placed from nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

from dray.api import features
from dray.api.ids import ObjectKey
from dray.api.semantics import pod_claims
from dray.api.types.core import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from dray.api.types.dra import (
    ResourceClaim,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from dray.api.types.meta import LabelSelector, ObjectMeta, OwnerReference
from dray.api.types.nodes import Node, NodeSpec, NodeStatus
from dray.api.types.pods import Pod, PodResourceClaimStatus, PodStatus
from dray.planner.cluster_model import ClusterModel
from dray.planner.defragmentation import goals
from dray.planner.defragmentation import plan as planning
from dray.planner.placement import place as placing
from dray.planner.placement.place import PlannedPod
from dray.planner.submission.submitted_pods import SubmittedPod
from tests import builders, rounds

EFFORT = 3000
# No pod is evicted for another one: moves are the only way to make room.
FEATURES = msgspec.structs.replace(features.DEFAULT, preemption=False)
NODES = ("n1", "n2", "n3")
SHAPES: dict[str, dict[str, Any]] = {
    "whole": {"selector": 'device.attributes["gpu.example.com"].size == "whole"'},
    "half": {"selector": 'device.attributes["gpu.example.com"].size == "half"'},
    "quarter": {"selector": 'device.attributes["gpu.example.com"].size == "quarter"'},
    "two": {"selector": 'device.attributes["gpu.example.com"].size == "whole"', "count": 2},
}


def template(shape: str) -> ResourceClaimTemplate:
    wanted = SHAPES[shape]
    request = builders.request("gpu", wanted["selector"], count=wanted.get("count", 1))
    spec = ResourceClaimTemplateSpec(spec=builders.claim(request).spec)
    return ResourceClaimTemplate(ObjectMeta(name=shape, namespace="default"), spec)


def submitted(name: str, shape: str, **spec: Any) -> SubmittedPod:
    """A pod of a ReplicaSet with a claim from a template, as controllers would make them."""
    owner = OwnerReference("apps/v1", "ReplicaSet", "set", "set-uid", controller=True)
    pod = builders.pod(name, templates={"gpu": shape}, uid=name, **spec)
    metadata = msgspec.structs.replace(
        pod.metadata, owner_references=(owner,), labels={"app": name[0]}
    )
    pod = Pod(
        metadata,
        pod.spec,
        PodStatus(resource_claim_statuses=(PodResourceClaimStatus("gpu", f"{name}-gpu"),)),
    )
    return SubmittedPod(pod, [claim_for(pod, shape)])


def claim_for(pod: Pod, shape: str) -> ResourceClaim:
    owner = OwnerReference("v1", "Pod", pod.metadata.name, pod.metadata.uid, controller=True)
    metadata = ObjectMeta(
        name=f"{pod.metadata.name}-gpu", namespace="default", owner_references=(owner,)
    )
    return ResourceClaim(metadata, template(shape).spec.spec)


def only(model: ClusterModel, *names: str) -> ClusterModel:
    """The cluster in which all other nodes are cordoned."""
    return model.with_objects(
        msgspec.structs.replace(node, spec=NodeSpec(unschedulable=node.metadata.name not in names))
        for node in model.of(Node)
    )


def bound(model: ClusterModel, planned: PlannedPod) -> ClusterModel:
    """The cluster with a pod on the node and with the devices that it gets."""
    pod = planned.submitted.pod
    pod = msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, node_name=planned.node)
    )
    claims = [
        msgspec.structs.replace(
            claim, status=ResourceClaimStatus(allocation, (pod_claims.pod_consumer(pod),))
        )
        for claim, allocation in planned.allocations()
    ]
    return model.with_objects([pod, *claims])


def placed(model: ClusterModel, item: SubmittedPod, node: str) -> PlannedPod | None:
    (planned,) = placing.place(only(model, node), [item]).pods
    return planned if planned.node else None


def without(model: ClusterModel, pod: Pod) -> ClusterModel:
    gone = model.without(Pod, lambda other: other.metadata.key == pod.metadata.key)
    name = f"{pod.metadata.name}-gpu"
    return gone.without(ResourceClaim, lambda claim: claim.metadata.name == name)


def again(pod: Pod, suffix: str = "") -> SubmittedPod:
    """The pod that its controller makes after it."""
    shape = pod.spec.resource_claims[0].resource_claim_template_name or ""
    return submitted(pod.metadata.name + suffix, shape, priority=pod.spec.priority)


def moved(model: ClusterModel, pod: Pod, node: str) -> ClusterModel | None:
    """The cluster after a move of a pod, or None if it gets no place on a node."""
    left = without(model, pod)
    late = placed(left, again(pod), node)
    if late is None:
        return None
    # The new pod may be placed before the old one is gone: that must not matter.
    early = placed(model, again(pod, "x"), node)
    if early is not None and early.devices() != late.devices():
        return None
    return bound(left, late)


def picture(model: ClusterModel) -> frozenset[Any]:
    claims = {claim.metadata.name: claim for claim in model.of(ResourceClaim)}
    return frozenset(
        (
            pod.metadata.name,
            pod.spec.node_name,
            str(claims[f"{pod.metadata.name}-gpu"].status.allocation),
        )
        for pod in model.of(Pod)
    )


class Question:
    """A random cluster, and what pods are to be moved for."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.cluster = self._draw()
        names = {pod.spec.node_name for pod in self.cluster.of(Pod)}
        self.node = self.dice.choice(sorted(names)) if self.dice.random() < 0.4 and names else ""
        self.incoming = self._incoming()

    def _draw(self) -> ClusterModel:
        """Place pods on random nodes, and remove some of them: what stays is fragmented."""
        dice = self.dice
        status = NodeStatus(allocatable={"pods": "10"})
        model = ClusterModel(features=FEATURES).with_objects(
            [
                *(Node(ObjectMeta(name=name), status=status) for name in NODES),
                *(
                    each
                    for name in NODES
                    for each in builders.mig_slices(name, dice.choice((1, 1, 1, 2)))
                ),
                *map(template, SHAPES),
                builders.device_class(),
                *map(self._budget, "abc"),
            ]
        )
        for number in range(dice.choice((6, 9, 12))):
            shape = dice.choice(("quarter", "quarter", "half", "half", "whole"))
            item = submitted(
                f"{dice.choice('abc')}{number}", shape, priority=dice.choice((0, 0, 9))
            )
            planned = placed(model, item, dice.choice(NODES))
            model = bound(model, planned) if planned else model
        for pod in model.of(Pod):
            if dice.random() < 0.3:
                model = without(model, pod)
        return only(model, *NODES)

    def _incoming(self) -> SubmittedPod:
        """A pod that does not fit, if there is such a one."""
        priority = self.dice.choice((5, 5, 0))
        for shape in (*self.dice.sample(("whole", "half"), 2), "two"):
            item = submitted("f", shape, priority=priority)
            if not placing.place(self.cluster, [item]).fits:
                break
        return item

    def _budget(self, label: str) -> PodDisruptionBudget:
        return PodDisruptionBudget(
            ObjectMeta(name=label, namespace="default"),
            PodDisruptionBudgetSpec(selector=LabelSelector({"app": label})),
            PodDisruptionBudgetStatus(disruptions_allowed=self.dice.choice((1, 1, 1, 0))),
        )

    def plan(self) -> planning.Defragmentation:
        if self.node:
            return planning.empty_node(self.cluster, self.node, effort=EFFORT)
        return planning.room_for(self.cluster, [self.incoming], effort=EFFORT)

    def is_reached(self, model: ClusterModel) -> bool:
        if self.node:
            return all(pod.spec.node_name != self.node for pod in model.of(Pod))
        return placing.place(only(model, *NODES), [self.incoming]).fits

    def movable(self) -> list[ObjectKey]:
        """The pods that priorities and budgets allow to move."""
        pods, allowed = self.cluster.of(Pod), self.allowed()
        here = [pod.spec.priority or 0 for pod in pods if pod.spec.node_name == self.node]
        highest = max(here, default=0) if self.node else self.incoming.pod.spec.priority or 0
        return [
            pod.metadata.key
            for pod in pods
            if allowed[pod.metadata.labels["app"]]
            and (pod.spec.node_name == self.node or (pod.spec.priority or 0) <= highest)
        ]

    def allowed(self) -> dict[str, int]:
        budgets = self.cluster.of(PodDisruptionBudget)
        return {budget.metadata.name: budget.status.disruptions_allowed for budget in budgets}

    def next_clusters(self, model: ClusterModel) -> Iterator[ClusterModel]:
        for pod in model.of(Pod):
            if pod.metadata.key in self.movable():
                for node in NODES:
                    after = moved(model, pod, node) if node != self.node else None
                    if after is not None:
                        yield after

    def fewest(self, limit: int) -> int | None:
        """The fewest moves of all sequences with at most `limit`, or None."""
        level, seen = [self.cluster], {picture(self.cluster)}
        for number in range(limit + 1):
            if any(map(self.is_reached, level)):
                return number
            if number < limit:
                after = [next_ for model in level for next_ in self.next_clusters(model)]
                level = [model for model in after if picture(model) not in seen]
                level = list({picture(model): model for model in level}.values())
                seen |= set(map(picture, level))
        return None

    def check(self, moves: Sequence[planning.Move]) -> None:
        """Make the moves one after the other, each placed from nothing."""
        model, allowed, movable = self.cluster, self.allowed(), self.movable()
        for move in moves:
            (pod,) = move.pods
            (old,) = (each for each in model.of(Pod) if each.metadata.key == pod.key)
            assert pod.key in movable
            assert allowed[old.metadata.labels["app"]] >= 1
            left = without(only(model, *set(NODES) - move.cordoned), old)
            (planned,) = placing.place(left, [again(old)]).pods
            assert pod.after is not None
            assert (planned.node, tuple(planned.devices())) == pod.after
            model = bound(left, planned)
        assert self.is_reached(model)


@pytest.mark.parametrize("seed", rounds.seeds(30, long=300))
def test_no_sequence_of_moves_is_shorter(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    question = Question(seed)
    if question.dice.random() < 0.5:
        # As in a large cluster.
        monkeypatch.setattr(planning, "FEW_UNITS", 0)
        monkeypatch.setattr(goals, "REMOVALS_LIMIT", 0)
    found = question.plan()
    if found.moves is None:
        assert question.fewest(2) is None
    else:
        assert found.is_proved
        question.check(found.moves)
        assert question.fewest(len(found.moves)) == len(found.moves)
