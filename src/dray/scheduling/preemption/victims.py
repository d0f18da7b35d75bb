"""The pods that may be evicted for others, as the search for victims looks at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dray.api.ids import ClaimKey, PoolId
from dray.api.semantics import pod_claims
from dray.api.types.core import PodDisruptionBudget
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.scheduling.disruption_budgets import DisruptionBudget
from dray.scheduling.preemption import priorities
from dray.scheduling.state import SchedulingState


class VictimDevice(NamedTuple):
    """A device that a claim of a pod holds; `share` is what it consumes of it, else None."""

    pool: PoolId
    device: str
    share: tuple[tuple[str, str], ...] | None


class Victim(NamedTuple):
    """A pod that may be evicted. Its cached form is valid while pod and claims are the same."""

    pod: Pod
    priority: int
    start: int
    is_leaving: bool
    """The pod is being deleted already."""
    budgets: tuple[int, ...]
    """The disruption budgets that cover it, by number."""
    claims: tuple[tuple[ClaimKey, ResourceClaim | None], ...]
    held: tuple[VictimDevice, ...]
    is_sharing: bool
    """A claim of the pod has other consumers as well."""


class Victims:
    """The pods of a state as victims."""

    def __init__(self, state: SchedulingState) -> None:
        self._state = state
        self._known: dict[str, Victim] = {}
        self._objects: Sequence[PodDisruptionBudget] = ()
        self.budgets: Sequence[DisruptionBudget] = ()

    def refresh(self) -> None:
        """Take over changes of the budgets, and forget pods that are gone."""
        ordered = [budget for _, budget in sorted(self._state.budgets.items())]
        is_same = len(ordered) == len(self._objects) and all(
            one is other for one, other in zip(ordered, self._objects, strict=True)
        )
        if not is_same or len(self._known) > 2 * len(self._state.pods):
            self._known.clear()
        if not is_same:
            self._objects = ordered
            self.budgets = list(map(DisruptionBudget.of, ordered))

    def of(self, pod: Pod) -> Victim:
        known = self._known.get(pod.metadata.uid)
        find = self._state.claims.get
        if (
            known is None
            or known.pod is not pod
            or any(find(key) is not claim for key, claim in known.claims)
        ):
            known = self._known[pod.metadata.uid] = self._read(pod)
        return known

    def _read(self, pod: Pod) -> Victim:
        claims = tuple((key, self._state.claims.get(key)) for key in pod_claims.used_claims(pod))
        held: list[VictimDevice] = []
        is_sharing = False
        uid = pod.metadata.uid
        for _, claim in claims:
            if claim is None or claim.status.allocation is None:
                continue
            consumers = claim.status.reserved_for
            is_sharing |= any(consumer.uid != uid for consumer in consumers)
            for result in claim.status.allocation.devices.results:
                if consumers and not result.admin_access:
                    share = tuple(sorted(result.consumed_capacity.items()))
                    whole = result.share_id is None
                    held.append(
                        VictimDevice(result.pool_id, result.device, None if whole else share)
                    )
        return Victim(
            pod,
            priorities.priority_of(pod),
            priorities.start_of(pod),
            pod.metadata.deletion_timestamp is not None,
            tuple(number for number, budget in enumerate(self.budgets) if budget.counts(pod)),
            claims,
            tuple(held),
            is_sharing,
        )
