"""Victims of preemption: single pods, and PodGroups that are disrupted as a whole."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dray.api.ids import ClaimKey, PoolId
from dray.api.semantics import pod_claims
from dray.api.types.core import PodDisruptionBudget
from dray.api.types.dra import DeviceRequestAllocationResult, ResourceClaim
from dray.api.types.pods import Pod
from dray.scheduling import pod_index
from dray.scheduling.disruption_budgets import DisruptionBudget
from dray.scheduling.preemption import leaving, priorities
from dray.scheduling.preemption.priorities import NO_COST, PRIORITY_OFFSET, EvictionCost
from dray.scheduling.state import SchedulingState


class VictimDevice(NamedTuple):
    """A device that a claim of a victim holds; `share` is what it consumes of it, else None."""

    pool: PoolId
    device: str
    share: tuple[tuple[str, str], ...] | None


class Victim(NamedTuple):
    """Pods that are evicted together. The cached form is valid while pods and claims are the same.

    All pods of a PodGroup with disruptionMode All are one victim, others are one each.
    """

    pods: tuple[Pod, ...]
    priority: int
    start: int
    """When the first of the pods started."""
    is_leaving: bool
    """The pod is being deleted already."""
    budgets: tuple[tuple[int, ...], ...]
    """For each pod the disruption budgets that cover it, by number."""
    claims: tuple[tuple[ClaimKey, ResourceClaim | None], ...]
    held: tuple[VictimDevice, ...]
    is_sharing: bool
    """A claim of the pods has other consumers as well."""

    @property
    def pod(self) -> Pod:
        """Return the first of the pods, which stands for all."""
        return self.pods[0]

    @property
    def uid(self) -> str:
        return self.pods[0].metadata.uid


class Victims:
    """The pods of a state as victims."""

    def __init__(self, state: SchedulingState) -> None:
        self._state = state
        self._known: dict[str, Victim] = {}
        self._objects: Sequence[PodDisruptionBudget] = ()
        self._now: datetime.datetime
        self.budgets: Sequence[DisruptionBudget] = ()
        self.allowed: Sequence[int] = ()
        """How many pods each of the budgets allows to evict."""

    def refresh(self, now: datetime.datetime, evicted: Iterable[Pod]) -> None:
        """Take over changes of the budgets, and forget pods that are gone.

        `evicted` are victims of others. They use up budgets whose status does not show it yet.
        """
        self._now = now
        ordered = [budget for _, budget in sorted(self._state.budgets.items())]
        is_same = len(ordered) == len(self._objects) and all(
            one is other for one, other in zip(ordered, self._objects, strict=True)
        )
        if not is_same or len(self._known) > 2 * len(self._state.pods):
            self._known.clear()
        if not is_same:
            self._objects = ordered
            self.budgets = list(map(DisruptionBudget.of, ordered))
        still_there = [pod for pod in evicted if self._is_still_there(pod)]
        self.allowed = [
            budget.allowed - sum(map(budget.counts, still_there)) for budget in self.budgets
        ]

    def _is_still_there(self, pod: Pod) -> bool:
        known = self._state.pods.get(pod.metadata.key)
        return (
            known is not None
            and known.metadata.uid == pod.metadata.uid
            and known.metadata.deletion_timestamp is None
        )

    def below(self, priority: int, pods: Iterable[Pod]) -> list[Victim]:
        """Return the victims of lower priority among some pods, each once."""
        found: dict[str, Victim] = {}
        for pod in pods:
            if priorities.effective_priority(pod, self._state) >= priority:
                continue
            if leaving.is_stuck(pod, self._now):
                continue
            victim = self._of(pod)
            found[victim.uid] = victim
        return list(found.values())

    def least_cost(self, priority: int, pods: Iterable[Pod]) -> EvictionCost | None:
        """Return what victims `below` a priority cost at least, without a look at what they hold.

        If there are none, return None.
        """
        lowest, latest = priority, 0
        for pod in pods:
            own = priorities.effective_priority(pod, self._state)
            if own >= priority:
                continue
            if pod.metadata.deletion_timestamp is not None:
                if leaving.is_stuck(pod, self._now):
                    continue
                return NO_COST
            # Of equal priorities, those that started last cost least.
            if own < lowest:
                lowest, latest = own, priorities.start_of(pod)
            elif own == lowest:
                latest = max(latest, priorities.start_of(pod))
        if lowest == priority:
            return None
        weight = lowest + PRIORITY_OFFSET
        return EvictionCost(0, weight, weight, 1, -latest)

    def of_all(self, pods: Iterable[Pod]) -> list[Victim]:
        """Return what pods are evicted as, if these are exactly the pods to evict."""
        parts: dict[object, list[Pod]] = {}
        for pod in pods:
            parts.setdefault(unit_key(pod, self._state), []).append(pod)
        return [self._read(tuple(part)) for part in parts.values()]

    def violated(self, victims: Iterable[Victim]) -> list[DisruptionBudget]:
        """Return the budgets of which more pods are evicted than they allow."""
        used = [0] * len(self.budgets)
        for victim in victims:
            for budgets in victim.budgets if not victim.is_leaving else ():
                for number in budgets:
                    used[number] += 1
        return [
            budget
            for budget, pods, allowed in zip(self.budgets, used, self.allowed, strict=True)
            if pods > max(allowed, 0)
        ]

    def _of(self, pod: Pod) -> Victim:
        pods = _members(pod, self._state)
        known = self._known.get(pods[0].metadata.uid)
        find = self._state.claims.get
        if (
            known is None
            or len(known.pods) != len(pods)
            or any(map(operator.is_not, known.pods, pods))
            or any(find(key) is not claim for key, claim in known.claims)
        ):
            known = self._known[pods[0].metadata.uid] = self._read(pods)
        return known

    def _read(self, pods: tuple[Pod, ...]) -> Victim:
        find = self._state.claims.get
        keys = dict.fromkeys([key for pod in pods for key in pod_claims.used_claims(pod)])
        claims = tuple([(key, find(key)) for key in keys])
        uids = {pod.metadata.uid for pod in pods}
        held: list[VictimDevice] = []
        is_sharing = False
        for _, claim in claims:
            if claim is None or claim.status.allocation is None:
                continue
            consumers = claim.status.reserved_for
            for consumer in consumers:
                if consumer.uid not in uids:
                    is_sharing = True
            for result in claim.status.allocation.devices.results if consumers else ():
                if not result.admin_access:
                    held.append(_held(result))
        return Victim(
            pods,
            priorities.effective_priority(pods[0], self._state),
            min([priorities.start_of(pod) for pod in pods]),
            pods[0].metadata.deletion_timestamp is not None,
            tuple([self._budgets_of(pod) for pod in pods]),
            claims,
            tuple(held),
            is_sharing,
        )

    def _budgets_of(self, pod: Pod) -> tuple[int, ...]:
        return tuple([number for number, budget in enumerate(self.budgets) if budget.counts(pod)])


def _held(result: DeviceRequestAllocationResult) -> VictimDevice:
    share = None
    if result.share_id is not None:
        share = tuple(sorted(result.consumed_capacity.items()))
    return VictimDevice(result.pool_id, result.device, share)


def pods_of(victims: Iterable[Victim]) -> list[Pod]:
    return [pod for victim in victims for pod in victim.pods]


def unit_key(pod: Pod, state: SchedulingState) -> object:
    """Return a key that is equal for pods that are evicted together."""
    return pod_index.group_key(pod) if _is_part(pod, state) else pod.metadata.uid


def _members(pod: Pod, state: SchedulingState) -> tuple[Pod, ...]:
    """Return the pods that are evicted together with a pod, and itself.

    One that is leaving already makes no difference to the others.
    """
    key = pod_index.group_key(pod)
    if key is None or pod.metadata.deletion_timestamp is not None or not _is_part(pod, state):
        return (pod,)
    return tuple(
        other
        for other in state.pods.in_group(key)
        if other.spec.node_name and other.metadata.deletion_timestamp is None
    )


def _is_part(pod: Pod, state: SchedulingState) -> bool:
    group = state.group_of(pod) if state.features.generic_workload else None
    mode = group.spec.disruption_mode if group is not None else None
    return mode is not None and mode.all is not None
