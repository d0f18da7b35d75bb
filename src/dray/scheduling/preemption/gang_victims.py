"""The search for the cheapest victims of a gang, over the whole cluster.

Few victims are tried in all combinations, the cheapest first. Of many, those of the lowest priority
are removed together, as few priorities as suffice. Then they are restored one by one, the most
expensive first, where the pods of the gang that are in the way find other room. That leaves no
victim that could be spared this way, but other victims may be better.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

from dray.api.ids import PoolId
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.nodes import node_fit
from dray.scheduling.preemption import priorities
from dray.scheduling.preemption.priorities import EvictionCost
from dray.scheduling.preemption.simulation import RemovalSimulation
from dray.scheduling.preemption.victims import Victim, pods_of
from dray.scheduling.state import SchedulingState
from dray.scheduling.steps import Steps

COMBINED_LIMIT = 12
"""The victims that are tried in all combinations."""
TRIALS_LIMIT = 500
"""How often the gang is placed for that."""
SPARED_LIMIT = 64
"""The victims of which it is tried whether the gang fits anywhere else with them."""
_STEP = 64
"""Victims to restore before the caller may pause."""


class PlacementTrial(Protocol):
    """Places as many pods of a gang as it needs, for a trial."""

    @property
    def assignments(self) -> Sequence[NodeAssignment]:
        """Return what the pods have got. It is reserved in the state."""

    @property
    def is_plain(self) -> bool:
        """Return whether each pod can be placed again without regard to where the others are."""

    @property
    def was_ended(self) -> bool:
        """Return whether a search was ended before it was known whether the gang fits."""

    def place(self) -> Steps[bool]:
        """Place the pods, where they had something before too. Returns whether they fit."""

    def move(self, moved: Collection[NodeAssignment]) -> Steps[bool]:
        """Place some of the pods again. Without room for all, they have nothing afterwards."""

    def put_back(self, assignments: Iterable[NodeAssignment]) -> None:
        """Give pods what they had before."""

    def clear(self) -> None:
        """Take everything from the pods."""


class GangVictims(NamedTuple):
    """The victims for a gang, and what its pods get without them."""

    victims: Sequence[Victim]
    assignments: Sequence[NodeAssignment]


class GangVictimSearch:
    """One search for one gang. Afterwards the simulation has to be ended and the trial cleared.

    `is_monotone` says that a further victim never makes it harder to place the gang.
    """

    def __init__(
        self,
        state: SchedulingState,
        victims: Iterable[Victim],
        allowed: Sequence[int],
        simulation: RemovalSimulation,
        trial: PlacementTrial,
        *,
        is_monotone: bool,
    ) -> None:
        self._state, self._allowed = state, allowed
        self._simulation, self._trial = simulation, trial
        self._is_monotone = is_monotone
        self._leaving: list[Victim] = []
        self._others: list[Victim] = []
        # Equal ones are tried in an order that does not depend on when they became known.
        for victim in sorted(victims, key=lambda one: (-one.start, one.pod.metadata.key)):
            (self._leaving if victim.is_leaving else self._others).append(victim)
        self._tries_all = True

    @property
    def is_exhaustive(self) -> bool:
        """Return whether no cheaper victims exist than those that were found."""
        return self._tries_all and not self._trial.was_ended

    def run(self) -> Steps[GangVictims | None]:
        """Return the victims; None if none suffice."""
        found = yield from self._placed(self._others)
        if found is None and self._is_monotone:
            return None
        if self._leaving:
            waiting = yield from self._placed(())
            if waiting is not None:
                return (yield from self._without_needless_waiting(waiting))
        fewer: GangVictims | None = None
        if len(self._others) <= COMBINED_LIMIT:
            fewer = yield from self._combined()
        else:
            self._tries_all = False
        if fewer is None and found is not None:
            fewer = yield from self._reduced(found)
        return None if fewer is None else (yield from self._without_needless_waiting(fewer))

    def _placed(
        self, evicted: Iterable[Victim], leaving: Iterable[Victim] | None = None
    ) -> Steps[GangVictims | None]:
        """Return what the gang gets without some victims and those that are leaving, if it fits."""
        evicted = list(evicted)
        gone = self._leaving if leaving is None else leaving
        self._trial.clear()
        self._simulation.set(pods_of((*gone, *evicted)))
        if (yield from self._trial.place()):
            return GangVictims(evicted, tuple(self._trial.assignments))
        return None

    def _without_needless_waiting(self, found: GangVictims) -> Steps[GangVictims]:
        """Return the victims with those that are leaving, of which some need not be waited for."""
        leaving = self._leaving
        for victim in self._leaving:
            fewer = [other for other in leaving if other is not victim]
            sooner = yield from self._placed(found.victims, fewer)
            if sooner is not None:
                leaving, found = fewer, sooner
        return found._replace(victims=[*leaving, *found.victims])

    def _combined(self) -> Steps[GangVictims | None]:
        """Return the cheapest set of victims; None if none suffices, or too many were tried."""
        serial = itertools.count()
        heap: list[tuple[EvictionCost, int, tuple[int, ...]]] = []
        everyone = range(len(self._others))
        heapq.heappush(heap, (priorities.NO_COST, next(serial), ()))
        trials = 0
        while heap:
            _, _, chosen = heapq.heappop(heap)
            later = everyone[chosen[-1] + 1 if chosen else 0 :]
            trials += 2
            if trials > TRIALS_LIMIT:
                self._tries_all = False
                return None
            found = (yield from self._placed(self._numbered(chosen))) if chosen else None
            if found is not None:
                return found
            if not (later and (yield from self._has_hope((*chosen, *later)))):
                continue
            for number in later:
                following = (*chosen, number)
                cost = priorities.cost_of(self._numbered(following), self._allowed)
                heapq.heappush(heap, (cost, next(serial), following))
        return None

    def _has_hope(self, largest: Iterable[int]) -> Steps[bool]:
        """Return whether a part of a set may suffice: mostly, if the whole set does."""
        return not self._is_monotone or bool((yield from self._placed(self._numbered(largest))))

    def _numbered(self, numbers: Iterable[int]) -> list[Victim]:
        return [self._others[number] for number in numbers]

    def _reduced(self, found: GangVictims) -> Steps[GangVictims]:
        """Return victims of the lowest priorities, of which none can be spared one by one.

        Without all victims, the gang fits as `found`.
        """
        ordered = self._cheapest_first()
        # As many priorities as suffice; all of them do.
        ends = [
            number
            for number in range(1, len(ordered) + 1)
            if number == len(ordered) or ordered[number][0] != ordered[number - 1][0]
        ]
        low, high = 0, len(ends) - 1
        while low < high:
            middle = (low + high) // 2
            fewer = yield from self._placed(victim for _, victim in ordered[: ends[middle]])
            low, high = (low, middle) if fewer else (middle + 1, high)
            found = fewer or found
        victims = [victim for _, victim in reversed(ordered[: ends[low]])]
        if not self._trial.is_plain:
            return (yield from self._restored(victims, [], found))
        self._return_to(found)
        victims = yield from self._restored_singly(victims)
        found = GangVictims(victims, tuple(self._trial.assignments))
        return (yield from self._without_spared(found))

    def _return_to(self, found: GangVictims) -> None:
        """Remove the victims that were found, and give the gang what it got then."""
        self._trial.clear()
        self._simulation.set(pods_of((*self._leaving, *found.victims)))
        self._trial.put_back(found.assignments)

    def _without_spared(self, found: GangVictims) -> Steps[GangVictims]:
        """Leave out victims that can be spared if the whole gang is placed again."""
        for victim in found.victims[:SPARED_LIMIT]:
            fewer = yield from self._placed(other for other in found.victims if other is not victim)
            found = fewer or found
        return found

    def _cheapest_first(self) -> list[tuple[tuple[bool, int], Victim]]:
        """Return the victims with whether they exceed budgets and their priority, in that order."""
        left = list(self._allowed)
        ranked: list[tuple[tuple[bool, int], Victim]] = []
        for victim in priorities.in_budget_order(self._others):
            exceeds = False
            for number in itertools.chain.from_iterable(victim.budgets):
                left[number] -= 1
                exceeds |= left[number] < 0
            ranked.append(((exceeds, victim.priority), victim))
        # Of equal ones, those that started last are the cheapest.
        return sorted(ranked, key=lambda one: (one[0], len(one[1].pods), -one[1].start))

    def _restored_singly(self, victims: Sequence[Victim]) -> Steps[list[Victim]]:
        """Restore each victim if only pods of the gang beside it have to move for that."""
        kept: list[Victim] = []
        beside = _Beside(self._trial.assignments)
        for number, victim in enumerate(victims, 1):
            if number % _STEP == 0:
                yield None
            near = beside.near(victim)
            self._restore(victim)
            if not near or self._is_in_nobodys_way(victim, near):
                continue
            if (yield from self._trial.move(near)):
                beside = _Beside(self._trial.assignments)
                continue
            for pod in victim.pods:
                self._simulation.remove(pod)
            self._trial.put_back(near)
            kept.append(victim)
        return kept

    def _restore(self, victim: Victim) -> None:
        for pod in victim.pods:
            self._simulation.restore(pod)

    def _is_in_nobodys_way(self, victim: Victim, near: Iterable[NodeAssignment]) -> bool:
        """Return whether a victim needs nothing of what pods of the gang have, for sure."""
        if self._state.features.device_compatibility_groups:
            return False
        held = {(device.pool, device.device) for device in victim.held}
        pools = self._state.inventory.pools()
        for device in victim.held:
            pool = pools.get(device.pool)
            published = pool.slices.values() if pool is not None else ()
            if any(resource_slice.spec.shared_counters for resource_slice in published):
                return False
        for assignment in near:
            for assigned in assignment.fit.claims:
                if assigned.allocation is not None and any(
                    (result.pool_id, result.device) in held
                    for result in assigned.allocation.devices.results
                ):
                    return False
        names = {pod.spec.node_name for pod in victim.pods}
        return all(self._has_room(name) for name in names if name)

    def _has_room(self, name: str) -> bool:
        node = self._state.nodes.get(name)
        if node is None:
            return True
        if any(usage.ports for usage in node.usages.values()):
            return False
        fits_pods = len(node.usages) <= node.allocatable.get(node_fit.PODS, 0)
        return fits_pods and all(
            amount <= node.allocatable.get(resource, 0)
            for resource, amount in node.requested.items()
        )

    def _restored(
        self, victims: Sequence[Victim], others: Sequence[Victim], found: GangVictims
    ) -> Steps[GangVictims]:
        """Return what was found, without those of some victims that can be spared beside others.

        Without all of them and the others, the gang fits as `found`.
        """
        fewer = (yield from self._placed(others)) if victims else None
        if fewer is not None or len(victims) <= 1:
            return fewer or found
        half = len(victims) // 2
        first, second = victims[:half], victims[half:]
        # The most expensive ones are spared first, while all others are gone.
        found = yield from self._restored(first, (*second, *others), found)
        later = {victim.uid for victim in second}
        left = [victim for victim in found.victims if victim.uid not in later]
        return (yield from self._restored(second, left, found))


class _Beside:
    """The pods of a gang by node and by pool."""

    def __init__(self, assignments: Iterable[NodeAssignment]) -> None:
        self._by_node: dict[str, list[NodeAssignment]] = {}
        self._by_pool: dict[PoolId, list[NodeAssignment]] = {}
        for assignment in assignments:
            self._by_node.setdefault(assignment.node, []).append(assignment)
            for assigned in assignment.fit.claims:
                if assigned.allocation is not None:
                    for result in assigned.allocation.devices.results:
                        self._by_pool.setdefault(result.pool_id, []).append(assignment)

    def near(self, victim: Victim) -> list[NodeAssignment]:
        """Return the pods of the gang on the nodes of a victim, or with devices of its pools."""
        found: dict[str, NodeAssignment] = {}
        for pod in victim.pods:
            for assignment in self._by_node.get(pod.spec.node_name or "", ()):
                found[assignment.pod.metadata.uid] = assignment
        for device in victim.held:
            for assignment in self._by_pool.get(device.pool, ()):
                found[assignment.pod.metadata.uid] = assignment
        return list(found.values())
