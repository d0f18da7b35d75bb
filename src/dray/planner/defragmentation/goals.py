"""Goals of moves: a node without pods, or a place for other pods."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from dray.api.ids import ObjectKey
from dray.api.types.pods import Pod
from dray.planner.defragmentation import movable_pods
from dray.planner.defragmentation.movable_pods import MoveUnit
from dray.planner.defragmentation.simulation import Simulation
from dray.planner.submission.submitted_pods import SubmittedPod
from dray.planner.what_if.compare import PodPosition
from dray.scheduling.preemption.priorities import priority_of

REMOVALS_LIMIT = 500
"""Sets of pods that are removed for a lower bound of the number of moves."""


class MoveGoal(Protocol):
    """A goal with what the search needs to know about it."""

    @property
    def cordoned(self) -> frozenset[str]:
        """The nodes that are cordoned during all moves."""

    def highest_priority(self, simulation: Simulation) -> int:
        """Return the highest priority that a pod may have to be moved for the goal."""

    def must_move(self, simulation: Simulation) -> list[Pod]:
        """Return the pods that have to be moved in any case."""

    def is_possible(self, simulation: Simulation, units: Sequence[MoveUnit]) -> bool:
        """Return False if the goal cannot be reached even if all other pods were gone."""

    def without_place(
        self, simulation: Simulation, units: Sequence[MoveUnit], removed: Sequence[MoveUnit]
    ) -> set[ObjectKey]:
        """Return the pods that have to be moved and get no place even without `removed`."""

    def may_help(self, simulation: Simulation, unit: MoveUnit) -> bool:
        """Return False if a last move of this unit cannot reach the goal."""

    def at_least(self, simulation: Simulation, units: Sequence[MoveUnit], left: int) -> int:
        """Return a lower bound of the moves to the goal: 0 if it is reached.

        It is exact only up to `left`: more than that is as good as any higher number.
        """


@dataclass(frozen=True, slots=True)
class EmptyNode:
    """A node is empty, but for pods of DaemonSets and static pods."""

    node: str

    @property
    def cordoned(self) -> frozenset[str]:
        return frozenset({self.node})

    def highest_priority(self, simulation: Simulation) -> int:
        return max(map(priority_of, self.must_move(simulation)), default=0)

    def must_move(self, simulation: Simulation) -> list[Pod]:
        obstacle = simulation.movability.obstacle
        on_node = simulation.state.pods.on_node(self.node)
        return [pod for pod in on_node if obstacle(pod) not in movable_pods.STAYING]

    def is_possible(self, simulation: Simulation, units: Sequence[MoveUnit]) -> bool:
        return not self.without_place(simulation, units, units)

    def at_least(self, simulation: Simulation, units: Sequence[MoveUnit], left: int) -> int:
        pods = self.must_move(simulation)
        if not pods or len(pods) > left:
            return len(pods)
        # Who has no place although the node is empty needs one more pod to move, on another node.
        here = [unit for unit in units if self._is_here(simulation, unit)]
        return len(pods) + bool(self.without_place(simulation, units, here))

    def may_help(self, simulation: Simulation, unit: MoveUnit) -> bool:
        return True

    def _is_here(self, simulation: Simulation, unit: MoveUnit) -> bool:
        return any(pod.spec.node_name == self.node for pod in simulation.pods_of(unit))

    def without_place(
        self, simulation: Simulation, units: Sequence[MoveUnit], removed: Sequence[MoveUnit]
    ) -> set[ObjectKey]:
        pods = self.must_move(simulation)
        missing = {pod.metadata.key for pod in pods if not movable_pods.depends_on_others(pod)}
        mark = simulation.mark()
        simulation.forget_waiting()
        here = [unit for unit in units if missing.intersection(unit.keys)]
        for other in removed:
            if other not in here:
                simulation.remove(simulation.pods_of(other))
        for unit in here:
            inner = simulation.mark()
            for other in here if removed else ():
                if not set(unit.keys).intersection(other.keys):
                    simulation.remove(simulation.pods_of(other))
            if simulation.move(unit, self.cordoned):
                missing.difference_update(unit.keys)
            simulation.back_to(inner)
        simulation.back_to(mark)
        return missing


@dataclass(frozen=True, slots=True)
class RoomFor:
    """All of some pods fit."""

    pods: Sequence[SubmittedPod]
    cordoned: frozenset[str] = frozenset()

    def highest_priority(self, simulation: Simulation) -> int:
        # The lowest of several: nobody moves for a pod of a lower priority.
        return min(priority_of(item.pod) for item in self.pods)

    def must_move(self, simulation: Simulation) -> list[Pod]:
        return []

    def is_possible(self, simulation: Simulation, units: Sequence[MoveUnit]) -> bool:
        if any(item.refusal for item in self.pods):
            return False
        return self._depends_on_others() or self.fits_without(simulation, units)

    def at_least(self, simulation: Simulation, units: Sequence[MoveUnit], left: int) -> int:
        mark = simulation.mark()
        is_reached = self.places(simulation) is not None
        simulation.back_to(mark)
        if is_reached:
            return 0
        # Replacements only take room: without them, at least as much fits.
        for removed in range(1, left + 1):
            combinations = math.comb(len(units), removed)
            if self._depends_on_others() or combinations > REMOVALS_LIMIT:
                return removed
            sets = itertools.combinations(units, removed)
            if any(self.fits_without(simulation, some) for some in sets):
                return removed
        return left + 1

    def without_place(
        self, simulation: Simulation, units: Sequence[MoveUnit], removed: Sequence[MoveUnit]
    ) -> set[ObjectKey]:
        return set()

    def may_help(self, simulation: Simulation, unit: MoveUnit) -> bool:
        return self._depends_on_others() or self.fits_without(simulation, [unit])

    def _depends_on_others(self) -> bool:
        return any(movable_pods.depends_on_others(item.pod) for item in self.pods)

    def places(self, simulation: Simulation) -> dict[ObjectKey, PodPosition] | None:
        """Submit the pods and return what they get, or None if not all of them fit."""
        simulation.cordon(self.cordoned)
        simulation.settle()
        for item in self.pods:
            simulation.submit(item.pod, item.claims)
        simulation.settle()
        return dict(self._found(simulation)) if self._fit(simulation) else None

    def fits_without(self, simulation: Simulation, units: Sequence[MoveUnit]) -> bool:
        """Return whether the pods fit if others were gone, also those that wait."""
        mark = simulation.mark()
        simulation.forget_waiting()
        for unit in units:
            simulation.remove(simulation.pods_of(unit))
        result = self.places(simulation) is not None
        simulation.back_to(mark)
        return result

    def _fit(self, simulation: Simulation) -> bool:
        return not any(
            item.refusal or simulation.is_waiting(item.pod.metadata.key) for item in self.pods
        )

    def _found(self, simulation: Simulation) -> Iterator[tuple[ObjectKey, PodPosition]]:
        for item in self.pods:
            pod = simulation.state.pods.get(item.pod.metadata.key)
            if pod is not None:
                yield pod.metadata.key, simulation.place_of(pod)
