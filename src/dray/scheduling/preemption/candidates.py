"""Nodes on which the eviction of pods could help, with their victims counted by kind.

Victims of one kind make the same difference to the preemptor and cost the same, but for their
start, so the search counts them. Nodes are alike if they differ in names and starts only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.model.rejections import AllocationError
from dray.api.ids import ObjectKey, PoolId
from dray.api.semantics import pod_claims
from dray.api.types.pods import Pod
from dray.scheduling.claims.device_fit import DeviceMatcher
from dray.scheduling.claims.pod_demand import PodDemand
from dray.scheduling.nodes import node_fit
from dray.scheduling.nodes.node_fit import NodeState
from dray.scheduling.preemption import node_devices, preemptor, priorities
from dray.scheduling.preemption.node_devices import (
    DeviceNeed,
    DeviceTarget,
    Freed,
    NodeDevices,
)
from dray.scheduling.preemption.priorities import EvictionCost
from dray.scheduling.preemption.victims import Victim, Victims
from dray.scheduling.state import SchedulingState


class VictimKind(NamedTuple):
    """A kind of victims."""

    priority: int
    budgets: tuple[tuple[int, ...], ...]
    """For each pod of one of them the disruption budgets that cover it."""
    frees: tuple[int, ...]
    """At most so much does one of them free of what the node lacks, in the order of `lacks`."""
    signature: tuple[int, ...]


class CandidateNode(NamedTuple):
    """A node on which the eviction of pods could help."""

    state: NodeState
    lacks: tuple[int, ...]
    """The least amounts that have to become free, also without the pods that are leaving."""
    kinds: tuple[VictimKind, ...]
    """Lowest priority first."""
    members: tuple[Sequence[Victim], ...]
    """The victims of every kind, those that started last first."""
    leaving: tuple[Victim, ...]
    """Pods of lower priority that are being deleted already."""
    is_monotone: bool
    """Whether a further victim never makes it harder to place the preemptor."""
    key: Hashable
    """Equal for nodes that are alike."""


class _View(NamedTuple):
    """A node as one preemptor sees it."""

    state: NodeState
    devices: NodeDevices | None
    resources: tuple[str, ...]
    """The node resources that it lacks."""
    needs: tuple[DeviceNeed, ...]
    lacks: tuple[int, ...]
    """The amounts of these resources and devices."""
    target: DeviceTarget | None
    """The device to free, where the device that the preemptor gets decides what it lacks."""
    freed: Freed
    """What victims free of it."""
    is_opaque: bool
    """Whether it depends on more than resources and devices which pods have to go."""

    @classmethod
    def of_target(
        cls,
        state: NodeState,
        devices: NodeDevices,
        lacking: Mapping[str, int],
        target: DeviceTarget,
        freed: Freed,
    ) -> _View:
        lacks = (*lacking.values(), *target.lacks)
        return cls(state, devices, tuple(lacking), (), lacks, target, freed, is_opaque=False)


class CandidateReader:
    """Reads candidates for one demand."""

    def __init__(
        self, state: SchedulingState, devices: DeviceMatcher, victims: Victims, demand: PodDemand
    ) -> None:
        self._state, self._devices, self._victims = state, devices, victims
        self._demand = demand
        self._priority = priorities.effective_priority(demand.pod, state)
        self._numbers: dict[Hashable, int] = {}
        self._holders: dict[PoolId, Sequence[Victim]] = {}
        checks = state.affinity.checks_for(demand.pod, demand.requirements)
        # Not only resources count then: which pods have to go is not known before a trial.
        self._is_opaque = checks is not None or bool(demand.requirements.usage.ports)
        self._is_monotone = not (
            state.features.device_compatibility_groups or preemptor.needs_others(demand.pod)
        )

    def least_cost(self, state: NodeState) -> EvictionCost | None:
        """Return what the victims on a node cost at least, without a look at what they hold.

        Without possible victims, return None.
        """
        pods = self._state.pods.on_node(state.name)
        shared = [pod for pool in self._shared_pools(state) for pod in self._pods_with(pool)]
        return self._victims.least_cost(self._priority, [*pods, *shared] if shared else pods)

    def _pods_with(self, pool: PoolId) -> Iterator[Pod]:
        """Yield the victims that use devices of a pool, on any node."""
        for victim in self._holders_in(pool):
            yield from victim.pods

    def _shared_pools(self, state: NodeState) -> Iterable[PoolId]:
        inventory = self._state.inventory
        if not (self._demand.claims or self._demand.extended):
            return ()
        try:
            return node_devices.shared_pools(inventory.inventory(inventory.nodes[state.name]))
        except AllocationError:
            return ()

    def read(self, state: NodeState) -> list[CandidateNode]:
        """Return a node with its possible victims, for each device to free if there are several.

        Without possible victims, return nothing.
        """
        is_opaque, is_monotone, devices = self._is_opaque, self._is_monotone, None
        try:
            problem = self._devices.problem_on(self._demand, state)
        except AllocationError:
            is_opaque = True
        else:
            if problem is not None:
                devices = NodeDevices(problem, self._state.claims, self._number)
                if problem.may_fail or problem.inventory.uses_node_resources:
                    is_opaque, is_monotone = True, False
        victims = list(self._victims_for(state, devices))
        lacking = self._lacking(state)
        if devices is not None and not is_opaque:
            shares_claims = any(victim.is_sharing for victim in victims)
            targets = devices.targets(shares_claims=shares_claims)
            if targets:
                freed = devices.freed(targets, victims)
                views = [
                    _View.of_target(state, devices, lacking, target, of_target)
                    for target, of_target in zip(targets, freed, strict=True)
                ]
                return list(self._for_targets(views, victims, is_monotone))
        view = self._view(state, devices, lacking, is_opaque)
        found = self._with_victims(view, victims, is_monotone)
        return [] if found is None else [found]

    def _for_targets(
        self, views: Iterable[_View], victims: Sequence[Victim], is_monotone: bool
    ) -> Iterator[CandidateNode]:
        by_uid = {victim.uid: victim for victim in victims}
        for view in views:
            # Most victims have to do with one of many devices.
            useful = victims if view.resources else [by_uid[uid] for uid in view.freed]
            found = self._with_victims(view, useful, is_monotone)
            if found is not None:
                yield found

    def _with_victims(
        self, view: _View, victims: Iterable[Victim], is_monotone: bool
    ) -> CandidateNode | None:
        kinds: dict[VictimKind, list[Victim]] = {}
        leaving: list[Victim] = []
        for victim in victims:
            kind = self._kind(view, victim)
            if kind is None:
                continue
            if victim.is_leaving:
                leaving.append(victim)
                reduced = zip(view.lacks, kind.frees, strict=True)
                view = view._replace(lacks=tuple(lack - freed for lack, freed in reduced))
            else:
                kinds.setdefault(kind, []).append(victim)
        if not kinds and not leaving:
            return None
        return self._candidate(view, kinds, leaving, is_monotone)

    def _candidate(
        self,
        view: _View,
        kinds: dict[VictimKind, list[Victim]],
        leaving: list[Victim],
        is_monotone: bool,
    ) -> CandidateNode:
        ordered = sorted(kinds)
        members = tuple(kinds[kind] for kind in ordered)
        for of_kind in members:
            of_kind.sort(key=_latest_first)
        key: Hashable = view.state.name, view.target
        is_plain = view.devices is None or view.devices.is_plain or view.target is not None
        if is_plain and not (view.is_opaque or leaving or self._demand.allocated):
            labels = view.resources, tuple(need.request for need in view.needs)
            devices: Hashable = view.target is not None
            if view.devices is not None and view.target is None:
                devices = view.devices.state()
            key = labels, view.lacks, devices, tuple(ordered), tuple(map(len, members))
        return CandidateNode(
            view.state, view.lacks, tuple(ordered), members, tuple(leaving), is_monotone, key
        )

    def _lacking(self, state: NodeState) -> dict[str, int]:
        """Return what the node lacks of its resources."""
        lacking: dict[str, int] = {}
        amounts = {node_fit.PODS: 1, **self._demand.requirements.usage.amounts}
        for name, amount in amounts.items():
            capacity = state.allocatable.get(name, 0)
            used = len(state.usages) if name == node_fit.PODS else state.requested.get(name, 0)
            # A node with the resource itself serves it; only otherwise devices stand in for it.
            if amount + used > capacity and (capacity or name not in self._demand.extended):
                lacking[name] = amount + used - capacity
        return lacking

    def _view(
        self,
        state: NodeState,
        devices: NodeDevices | None,
        lacking: Mapping[str, int],
        is_opaque: bool,
    ) -> _View:
        needs = tuple(devices.needs()) if devices is not None else ()
        lacks = (*lacking.values(), *(need.lacking for need in needs))
        return _View(state, devices, tuple(lacking), needs, lacks, None, {}, is_opaque)

    def _victims_for(self, state: NodeState, devices: NodeDevices | None) -> Iterable[Victim]:
        """Return the victims on the node, and those with devices that it shares."""
        found = self._victims.below(self._priority, self._state.pods.on_node(state.name))
        if devices is None:
            return found
        shared = list(devices.shared_pools())
        if not shared:
            return found
        every = {victim.uid: victim for victim in found}
        for pool in shared:
            for victim in self._holders_in(pool):
                every.setdefault(victim.uid, victim)
        return every.values()

    def _holders_in(self, pool: PoolId) -> Sequence[Victim]:
        """Return the victims that use devices of a pool, on any node."""
        holders = self._holders.get(pool)
        if holders is None:
            found = self._victims.below(self._priority, self._find_holders(pool))
            # Holders are in the order in which trials have put them back.
            found.sort(key=lambda victim: victim.pod.metadata.key)
            holders = self._holders[pool] = found
        return holders

    def _find_holders(self, pool: PoolId) -> Iterator[Pod]:
        """Yield the pods that use devices of a pool, on any node."""
        by_device = self._state.inventory.pools()[pool].holders.by_device
        keys = dict.fromkeys(key for holders in by_device.values() for key in holders.claims())
        for key in keys:
            claim = self._state.claims.get(key)
            for consumer in claim.status.reserved_for if claim is not None else ():
                pod = self._state.pods.get(ObjectKey(key.namespace, consumer.name))
                if (
                    pod is not None
                    and pod_claims.is_pod(consumer)
                    and pod.metadata.uid == consumer.uid
                    and pod.spec.node_name
                ):
                    yield pod

    def _kind(self, view: _View, victim: Victim) -> VictimKind | None:
        """Return the kind of a victim; None if its eviction makes no difference."""
        frees: list[int] = []
        if view.resources:
            on_node, uids = view.state.usages, [pod.metadata.uid for pod in victim.pods]
            usages = [on_node[uid] for uid in uids if uid in on_node]
            for name in view.resources:
                if name == node_fit.PODS:
                    frees.append(len(usages))
                else:
                    frees.append(sum(usage.amounts.get(name, 0) for usage in usages))
        signature: tuple[int, ...] = ()
        if view.devices is not None and view.target is not None:
            frees += view.freed.get(victim.uid) or [0] * len(view.target.lacks)
        elif view.devices is not None and victim.held:
            whole, signature = view.devices.held_by(victim)
            for need in view.needs:
                frees.append((need.devices & whole).bit_count())
        else:
            frees += [0] * len(view.needs)
        if not (view.is_opaque or signature or any(frees)):
            return None
        # The users of one claim can stand in for each other: all of them have to go.
        is_sharing = victim.is_sharing and not (view.target and view.target.is_one_claim)
        if view.is_opaque or is_sharing or len(victim.pods) > 1:
            signature = (*signature, self._number(victim.uid))
        return VictimKind(victim.priority, victim.budgets, tuple(frees), signature)

    def _number(self, value: Hashable) -> int:
        return self._numbers.setdefault(value, len(self._numbers))


def _latest_first(victim: Victim) -> tuple[int, str, str]:
    metadata = victim.pod.metadata
    return -victim.start, metadata.namespace, metadata.name
