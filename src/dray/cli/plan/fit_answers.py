"""The answer for each pod of a plan: its node and devices, or what blocks it and would help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dray.api.types.dra import DeviceRequestAllocationResult, ResourceClaim
from dray.api.types.nodes import Node
from dray.explain.pod import pod_context, pod_explanation, pod_fix_text, pod_progress_text
from dray.planner.cluster_model import ClusterModel
from dray.planner.placement.place import NOT_MADE, Plan, PlannedPod
from dray.scheduling import unschedulable
from dray.scheduling.unschedulable import Unschedulable


class BlockedPod(NamedTuple):
    """The reason that a pod does not run, and changes that would help, the best first."""

    check: str
    """The check that blocks it, in one word."""
    reason: str
    fixes: tuple[str, ...] = ()


class FitAnswer(NamedTuple):
    """The answer for one pod."""

    planned: PlannedPod
    obstacle: BlockedPod | None

    @property
    def owner(self) -> str:
        return self.planned.submitted.owner

    def document(self) -> dict[str, Any]:
        """Return the answer as an object for -o json."""
        submitted, metadata = self.planned.submitted, self.planned.submitted.pod.metadata
        document: dict[str, Any] = {
            "owner": submitted.owner,
            "ordinal": submitted.ordinal,
            "namespace": metadata.namespace,
            "pod": metadata.name,
            "fits": self.obstacle is None,
        }
        if self.obstacle is not None:
            check, reason, fixes = self.obstacle
            return {**document, "check": check, "reason": reason, "fixes": list(fixes)}
        document |= {"node": self.planned.node, "devices": list(_devices(self.planned))}
        if self.planned.evicted:
            evicted = [str(pod.metadata.key) for pod in self.planned.evicted]
            document["evicts"] = evicted
        return document


def _devices(planned: PlannedPod) -> Iterator[dict[str, Any]]:
    for claim, result in results(planned):
        device: dict[str, Any] = {
            "claim": claim.metadata.name,
            "request": result.request,
            "driver": result.driver,
            "pool": result.pool,
            "device": result.device,
        }
        if result.consumed_capacity:
            device["share"] = dict(result.consumed_capacity)
        yield device


def results(planned: PlannedPod) -> Iterator[tuple[ResourceClaim, DeviceRequestAllocationResult]]:
    """Yield every device of a pod, with its claim."""
    for claim, allocation in planned.allocations():
        for result in allocation.devices.results:
            yield claim, result


def answers(cluster: ClusterModel, plan: Plan, pods: Sequence[PlannedPod]) -> list[FitAnswer]:
    """Return the answers for some pods of a plan; obstacles are those after all of it."""
    explainer: _Explainer | None = None
    found = []
    for planned in pods:
        obstacle = None
        if isinstance(planned.decision, Unschedulable):
            explainer = explainer or _Explainer(plan.cluster_after(cluster))
            obstacle = explainer.obstacle(planned, planned.decision)
        found.append(FitAnswer(planned, obstacle))
    return found


class _Explainer:
    """Explains pods of one cluster; what holds for equal pods is found once."""

    def __init__(self, cluster: ClusterModel) -> None:
        self._nodes = len(cluster.of(Node))
        self._context = pod_context.from_objects(dict(cluster.objects), cluster.features)
        self._inventory = pod_context.inventory_of(self._context)
        self._known: dict[tuple[str, object], BlockedPod] = {}

    def obstacle(self, planned: PlannedPod, decision: Unschedulable) -> BlockedPod:
        submitted = planned.submitted
        if submitted.refusal:
            return BlockedPod("admission", f"the API server refuses it: {submitted.refusal}")
        if decision.before_nodes == NOT_MADE:
            return BlockedPod("order", decision.before_nodes)
        key = submitted.owner, decision.placement_key or decision.before_nodes
        if key not in self._known:
            self._known[key] = self._explained(planned, decision)
        return self._known[key]

    def _explained(self, planned: PlannedPod, decision: Unschedulable) -> BlockedPod:
        pod = planned.submitted.pod
        explained = pod_explanation.explain_pod(pod, self._context, self._inventory)
        blocked = explained.progress.blocked
        message = unschedulable.message(decision, self._nodes)
        if blocked is None:
            return BlockedPod(decision.category, message)
        reason = pod_progress_text.sentence(blocked.obstacles[0])
        if decision.group_message:
            reason = f"{decision.group_message}; {reason}"
        return BlockedPod(
            decision.category, reason, tuple(map(_plain, pod_fix_text.fixes(explained)))
        )


def _plain(line: str) -> str:
    return line.removeprefix("fix: ").removeprefix("or: ")
