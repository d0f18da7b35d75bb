"""Compare a cluster before and after changes: where pods run, which wait, what is left."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dray.api.ids import DeviceId, ObjectKey
from dray.api.semantics import pod_claims, pod_status
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.planner.cluster_model import ClusterModel
from dray.planner.placement.place import Plan, PlannedPod, place
from dray.planner.submission.submitted_pods import Submission
from dray.planner.what_if import drain_budgets, evictions
from dray.planner.what_if.changes import Changed
from dray.planner.what_if.drain_budgets import BlockedDrain
from dray.scheduling import fit_counts, pod_copies
from dray.scheduling.fit_counts import FitCount

__all__ = ["PodComparison", "PodOutcome", "PodPosition", "WhatIf", "compare", "room"]


class PodOutcome(enum.Enum):
    """An effect of changes on a pod."""

    STAYS = "stays"
    RESTARTS = "restarts"
    """It gets the same node and devices again."""
    MOVES = "moves"
    STARTS = "starts"
    WAITS = "waits"
    """It waited before, too."""
    STOPS = "stops"
    """It ran before and waits now."""
    LOST = "lost"
    """It ran before, and no controller makes it again."""
    ENDS = "ends"
    """It is of a DaemonSet or static, and its node is not for it any more."""
    REMOVED = "removed"


class PodPosition(NamedTuple):
    """The node and devices of a pod; empty while it waits or does not exist."""

    node: str = ""
    devices: tuple[DeviceId, ...] = ()


class PodComparison(NamedTuple):
    """A pod before and after the changes."""

    pod: Pod
    owner: str
    result: PodOutcome
    before: PodPosition
    after: PodPosition
    planned: PlannedPod | None = None
    """The scheduler's decision after the changes; None for a pod that is not made again."""
    is_submitted: bool = False


class WhatIf(NamedTuple):
    """A cluster before and after changes."""

    pods: Sequence[PodComparison]
    """Those that the changes concern, those that wait, and those that are submitted."""
    running: int
    """How many other pods run on as they are."""
    blocked: Sequence[BlockedDrain]
    """PodDisruptionBudgets at which draining a node stops."""
    before: Plan
    after: Plan

    @property
    def is_good(self) -> bool:
        """Whether submitted pods run, and those that ran; without such pods, those that waited."""
        bad = {PodOutcome.STOPS, PodOutcome.LOST, PodOutcome.WAITS}
        asked = [
            compared for compared in self.pods if compared.is_submitted or compared.before.node
        ] or self.pods
        return not self.blocked and all(compared.result not in bad for compared in asked)


def compare(
    before: Submission,
    after: Submission,
    changed: Changed,
    *,
    policy: str | None = None,
) -> WhatIf:
    """Return what changes do, for a submission to the cluster before and after them.

    `policy` is that of the scheduler after the changes.
    """
    plan_before = place(before.cluster, [*before.waiting, *before.pods])
    plan_after = place(after.cluster, [*after.waiting, *after.pods], policy=policy)
    victims = [pod for planned in plan_after.pods for pod in planned.evicted]
    positions = {
        **_positions(before.cluster, [*changed.evicted, *changed.removed, *victims]),
        **{planned.submitted.pod.metadata.key: _planned(planned) for planned in plan_before.pods},
    }
    restarted = frozenset(pod.metadata.key for pod in changed.evicted)
    submitted = frozenset(item.pod.metadata.key for item in after.pods)
    pods = [_placed(planned, positions, restarted, submitted) for planned in plan_after.pods]
    listed = {compared.pod.metadata.key for compared in pods}
    preempted = [pod for pod in victims if pod.metadata.key not in listed]
    pods += _gone(changed, preempted, positions)
    running = [pod for pod in after.cluster.of(Pod) if pod.spec.node_name]
    return WhatIf(
        pods,
        sum(map(pod_status.is_active, running)) - len(preempted),
        drain_budgets.blocked(after.cluster, changed.drained, plan_after),
        plan_before,
        plan_after,
    )


def room(
    found: WhatIf, should_stop: Callable[[], bool] = lambda: False
) -> dict[str, tuple[FitCount, FitCount]]:
    """Return how many more pods with one device of a class fit before and after, by class.

    When `should_stop` returns True, the rest is not counted.
    """
    states = found.before.state, found.after.state
    names = sorted({name for state in states for name in state.inventory.classes})
    before, after = (
        [fit_counts.count(state, pod_copies.of_class(name), should_stop) for name in names]
        for state in states
    )
    return dict(zip(names, zip(before, after, strict=True), strict=True))


def _positions(cluster: ClusterModel, pods: Iterable[Pod]) -> dict[ObjectKey, PodPosition]:
    """Return where pods run."""
    claims = {claim.key: claim for claim in cluster.of(ResourceClaim)}
    positions = {}
    for pod in pods:
        used = filter(None, (claims.get(key) for key in pod_claims.used_claims(pod)))
        devices = [
            DeviceId(result.driver, result.pool, result.device)
            for claim in used
            if claim.status.allocation is not None
            for result in claim.status.allocation.devices.results
        ]
        positions[pod.metadata.key] = PodPosition(pod.spec.node_name, tuple(devices))
    return positions


def _planned(planned: PlannedPod) -> PodPosition:
    return PodPosition(planned.node, tuple(planned.devices()))


def _placed(
    planned: PlannedPod,
    positions: Mapping[ObjectKey, PodPosition],
    restarted: frozenset[ObjectKey],
    submitted: frozenset[ObjectKey],
) -> PodComparison:
    pod, key = planned.submitted.pod, planned.submitted.pod.metadata.key
    before, after = positions.get(key, PodPosition()), _planned(planned)
    if not after.node:
        result = PodOutcome.STOPS if before.node else PodOutcome.WAITS
    elif not before.node:
        result = PodOutcome.STARTS
    elif before == after:
        result = PodOutcome.RESTARTS if key in restarted else PodOutcome.STAYS
    else:
        result = PodOutcome.MOVES
    is_submitted = key in submitted
    owner = planned.submitted.owner if is_submitted else evictions.owner_of(pod)
    return PodComparison(pod, owner, result, before, after, planned, is_submitted)


def _gone(
    changed: Changed, preempted: Iterable[Pod], positions: Mapping[ObjectKey, PodPosition]
) -> Iterator[PodComparison]:
    """Yield the pods that nobody makes again; those that were being deleted are left out."""
    for pod in preempted:
        result = PodOutcome.STOPS if evictions.is_made_again(pod) else PodOutcome.LOST
        yield _without_after(pod, result, positions)
    for pod in changed.evicted:
        if pod_status.is_active(pod) and not evictions.is_made_again(pod):
            result = PodOutcome.ENDS if evictions.belongs_to_node(pod) else PodOutcome.LOST
            yield _without_after(pod, result, positions)
    for pod in changed.removed:
        yield _without_after(pod, PodOutcome.REMOVED, positions)


def _without_after(
    pod: Pod, result: PodOutcome, positions: Mapping[ObjectKey, PodPosition]
) -> PodComparison:
    before = positions.get(pod.metadata.key, PodPosition())
    return PodComparison(pod, evictions.owner_of(pod), result, before, PodPosition())
