"""The devices that the status of a pod calls unhealthy."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dray.api.ids import ClaimKey, ObjectKey
from dray.api.semantics import pod_claims, pod_status
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.client.cache import ObjectChange
from dray.explain.pod import device_problems, obstacles
from dray.ui.model.fleet_state import FleetState

ClaimOf = Callable[[ClaimKey], ResourceClaim | None]


class ReportedHealth:
    """Passes on what pods report; callers pass on every change of pods."""

    def __init__(self, fleet: FleetState, claim_of: ClaimOf) -> None:
        self._fleet, self._claim_of = fleet, claim_of
        self._reported: dict[ObjectKey, frozenset[str]] = {}

    def pod_changed(self, change: ObjectChange[Pod]) -> None:
        before = self._reported.pop(change.key, frozenset())
        after = frozenset(self._unhealthy(change.new)) if change.new is not None else frozenset()
        if after:
            self._reported[change.key] = after
        if before != after:
            self._fleet.health_changed(before - after, after - before)

    def _unhealthy(self, pod: Pod) -> Iterable[str]:
        if pod_status.has_ended(pod) or not _reports_health(pod):
            return
        keys = (
            ClaimKey(pod.metadata.namespace, used.name or "")
            for used in pod_claims.claims_of_pod(pod)
        )
        found = {key: claim for key in keys if (claim := self._claim_of(key)) is not None}
        for problem in device_problems.device_problems(pod, found, (), ()):
            if isinstance(problem, obstacles.DeviceUnhealthy):
                yield problem.device


def _reports_health(pod: Pod) -> bool:
    containers = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return any(container.allocated_resources_status for container in containers)
