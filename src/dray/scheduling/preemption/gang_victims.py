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
    """One search for one gang. Afterwards the simulation has to be ended and the trial cleared."""

    def __init__(
        self,
        state: SchedulingState,
        victims: Iterable[Victim],
        allowed: Sequence[int],
        simulation: RemovalSimulation,
        trial: PlacementTrial,
    ) -> None:
        self._state, self._allowed = state, allowed
        self._simulation, self._trial = simulation, trial
        self._leaving: list[Victim] = []
        self._others: list[Victim] = []
        for victim in victims:
            (self._leaving if victim.is_leaving else self._others).append(victim)
        self.is_exhaustive = True
        """Whether no cheaper victims exist than those that were found."""

    def run(self) -> Steps[GangVictims | None]:
        """Return the victims; None if the gang does not fit without all of them either."""
        if not (yield from self._fits(self._others)):
            return None
        if self._leaving and (yield from self._fits(())):
            return (yield from self._without_needless_waiting(()))
        evicted: Sequence[Victim] | None = None
        if len(self._others) <= COMBINED_LIMIT:
            evicted = yield from self._combined()
        if evicted is None:
            self.is_exhaustive = False
            evicted = yield from self._reduced()
        return (yield from self._without_needless_waiting(evicted))

    def _fits(
        self, evicted: Iterable[Victim], leaving: Iterable[Victim] | None = None
    ) -> Steps[bool]:
        """Return whether the gang fits without some victims and those that are leaving."""
        gone = self._leaving if leaving is None else leaving
        self._trial.clear()
        self._simulation.set(pods_of((*gone, *evicted)))
        return (yield from self._trial.place())

    def _without_needless_waiting(self, evicted: Sequence[Victim]) -> Steps[GangVictims]:
        """Return the victims without those that are leaving and need not be waited for."""
        leaving, assignments = self._leaving, tuple(self._trial.assignments)
        for victim in self._leaving:
            fewer = [other for other in leaving if other is not victim]
            if (yield from self._fits(evicted, fewer)):
                leaving, assignments = fewer, tuple(self._trial.assignments)
        return GangVictims([*leaving, *evicted], assignments)

    def _combined(self) -> Steps[Sequence[Victim] | None]:
        """Return the cheapest set of victims; None if there are too many to try."""
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
                return None
            victims = self._numbered(chosen)
            if chosen and (yield from self._fits(victims)):
                return victims
            # Without hope for the largest set that follows, there is none for the others.
            if not later or not (yield from self._fits(self._numbered((*chosen, *later)))):
                continue
            for number in later:
                following = (*chosen, number)
                cost = priorities.cost_of(self._numbered(following), self._allowed)
                heapq.heappush(heap, (cost, next(serial), following))
        return None

    def _numbered(self, numbers: Iterable[int]) -> list[Victim]:
        return [self._others[number] for number in numbers]

    def _reduced(self) -> Steps[Sequence[Victim]]:
        """Return victims of the lowest priorities, of which none can be spared one by one."""
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
            fits = yield from self._fits(victim for _, victim in ordered[: ends[middle]])
            low, high = (low, middle) if fits else (middle + 1, high)
        victims = [victim for _, victim in ordered[: ends[low]]]
        yield from self._fits(victims)
        victims.reverse()
        if self._trial.is_plain:
            victims = yield from self._restored_singly(victims)
            return (yield from self._without_spared(victims))
        return (yield from self._restored(victims, []))

    def _without_spared(self, victims: list[Victim]) -> Steps[list[Victim]]:
        """Leave out victims that can be spared if the whole gang is placed again."""
        for victim in victims[:SPARED_LIMIT]:
            fewer = [other for other in victims if other is not victim]
            if (yield from self._fits(fewer)):
                victims = fewer
        yield from self._fits(victims)
        return victims

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

    def _restored(self, victims: Sequence[Victim], others: Sequence[Victim]) -> Steps[list[Victim]]:
        """Return which of some victims have to stay removed, beside others."""
        if not victims or (yield from self._fits(others)):
            return []
        if len(victims) == 1:
            yield from self._fits((*victims, *others))
            return list(victims)
        half = len(victims) // 2
        first, second = victims[:half], victims[half:]
        # The most expensive ones are spared first, while all others are gone.
        left = yield from self._restored(first, (*second, *others))
        left += yield from self._restored(second, (*left, *others))
        return left


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
