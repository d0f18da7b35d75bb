"""Trials: the decisions of the scheduler in a cluster with more machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from dray.api.types.pods import Pod
from dray.planner.cluster_model import ClusterModel
from dray.planner.placement import place as placing
from dray.planner.placement.place import Plan, PlannedPod
from dray.planner.sizing import machine_types
from dray.planner.sizing.machine_types import MachineType
from dray.planner.submission.submitted_pods import Submission, SubmittedPod
from dray.scheduling import wake_events
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decider
from dray.scheduling.unschedulable import Unschedulable

Counts = tuple[int, ...]
"""How many machines of each type there are."""

Submit = Callable[[ClusterModel], Submission]
"""Return what is submitted to a cluster; a DaemonSet makes a pod for each of its nodes.

If that is nothing, the pods of the cluster that wait have to fit.
"""


class Trials:
    """Places the same pods with different machines. Remembers which numbers of them suffice."""

    def __init__(
        self,
        cluster: ClusterModel,
        submit: Submit,
        types: Sequence[MachineType],
        policy: str | None = None,
    ) -> None:
        self._cluster, self._submit, self._policy = cluster, submit, policy
        self.types = types
        self._known: dict[Counts, bool] = {}

    def cluster(self, counts: Counts) -> ClusterModel:
        return machine_types.with_machines(self._cluster, self.types, counts)

    def submission(self, counts: Counts) -> Submission:
        """Return the pods that have to fit, and the cluster without them."""
        found = self._submit(self.cluster(counts))
        if found.pods:
            return found
        keys = {item.pod.metadata.key for item in found.waiting}
        cluster = found.cluster.without(Pod, lambda pod: pod.metadata.key in keys)
        return Submission(cluster, found.waiting)

    def plan(self, counts: Counts) -> Plan:
        """Return the decisions for the pods that have to fit.

        Pods of the cluster that wait come first. With others after them they need not fit, but
        those that evict pods are in the plan too.
        """
        cluster, pods, first = self._submit(self.cluster(counts))
        plan = placing.place(cluster, [*first, *pods], policy=self._policy)
        if not pods:
            return plan
        evicting = [planned for planned in plan.pods[: len(first)] if planned.evicted]
        return plan._replace(pods=[*evicting, *plan.pods[len(first) :]])

    def fits(self, counts: Counts) -> bool:
        """Return whether every pod gets a node, and none is evicted for that."""
        if counts not in self._known:
            self._known[counts] = all(map(has_room, self.plan(counts).pods))
        return self._known[counts]


def has_room(planned: PlannedPod) -> bool:
    """Return whether a pod gets a node without taking it from others."""
    return bool(planned.node) and not planned.evicted


def alone(cluster: ClusterModel, pods: Iterable[SubmittedPod]) -> Iterator[PlannedPod]:
    """Yield the decision for each pod as if it were the only one that is submitted."""
    # A pod that others would be evicted for keeps its node from those that are asked about later.
    features = msgspec.structs.replace(cluster.features, preemption=False)
    state = ClusterModel(cluster.objects, features).state()
    decider = Decider(state)
    for item in pods:
        if item.refusal:
            yield PlannedPod(item, Unschedulable(error=item.refusal))
            continue
        for claim in item.claims:
            state.put(claim)
        (decision,) = decider.decide([item.pod], placing.NOW)
        if isinstance(decision, NodeAssignment):
            state.release(decision)
        state.drop_pod(item.pod.metadata.key)
        for claim in item.claims:
            state.claims.drop(claim.key)
        yield PlannedPod(item, decision)


def may_fit_among_others(planned: PlannedPod) -> bool:
    """Return whether a pod with this decision may fit in the same cluster with more pods in it.

    Pods take resources and devices, so those that have none left for the first pod have none for
    a later one. Only a neighbour that a pod wants, its group, or a device on which a selector
    fails and that somebody takes can change a decision to the better.
    """
    decision = planned.decision
    if isinstance(decision, NodeAssignment):
        return True
    if planned.submitted.refusal:
        return False
    is_grouped = any(event.what == wake_events.GROUP for event in decision.wake_events)
    is_final = not (decision.error or decision.group_message or decision.is_retried or is_grouped)
    return not is_final or wake_events.POD_PLACED in decision.wake_events
