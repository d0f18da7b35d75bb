"""The search for the fewest moves: all sequences of one move, then of two, and so on."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dray.api.types.pods import Pod
from dray.planner.defragmentation.goals import MoveGoal
from dray.planner.defragmentation.movable_pods import MoveUnit
from dray.planner.defragmentation.simulation import Simulation
from dray.scheduling.disruption_budgets import DisruptionBudget

PLACES_LIMIT = 16
"""Places that are tried for one move, and nodes that are cordoned to get to one."""


class MoveChoice(NamedTuple):
    """A unit to move, and the nodes that are cordoned meanwhile."""

    unit: MoveUnit
    cordoned: frozenset[str]


class SearchResult(NamedTuple):
    """The moves that were found."""

    moves: Sequence[MoveChoice] | None
    """None if there are none."""
    is_proved: bool
    """Whether there are no fewer moves; without moves, whether there are none at all."""

    @property
    def most_of_fewer(self) -> int | None:
        """The number of pods that a better plan has at most; None without moves."""
        if self.moves is None:
            return None
        return sum(len(choice.unit.keys) for choice in self.moves) - 1


class _EffortSpent(Exception):
    """The search has made as many decisions as it may."""


class MoveSearch:
    """Searches moves for a goal. The simulation is the same afterwards.

    `effort` is the number of decisions that it may make.
    """

    def __init__(
        self,
        simulation: Simulation,
        goal: MoveGoal,
        units: Sequence[MoveUnit],
        budgets: Sequence[DisruptionBudget],
        effort: int,
    ) -> None:
        self._simulation, self._goal, self._units = simulation, goal, units
        self._budgets, self._end = budgets, simulation.decisions + effort
        self._is_cut = self._is_partial = False
        self._seen: dict[object, int] = {}

    def run(self, most: int | None = None) -> SearchResult:
        """Return the fewest moves; None if there are none, or not as few as `most`."""
        mark = self._simulation.mark()
        try:
            return self._deepen(most)
        except _EffortSpent:
            return SearchResult(None, is_proved=False)
        finally:
            self._simulation.back_to(mark)

    def _deepen(self, most: int | None) -> SearchResult:
        fewest = self._goal.at_least(self._simulation, self._units, 0)
        for limit in itertools.count(fewest) if most is None else range(fewest, most + 1):
            self._is_cut = False
            self._seen.clear()
            moves = self._moves(limit)
            if moves is not None:
                is_proved = limit == fewest or not self._is_partial
                return SearchResult(moves, is_proved)
            if not self._is_cut:
                break
            # Not before the first limit: mostly that suffices, and this looks at all pods.
            if limit == fewest and not self._goal.is_possible(self._simulation, self._units):
                return SearchResult(None, is_proved=True)
        return SearchResult(None, is_proved=not self._is_partial)

    def _moves(self, left: int) -> list[MoveChoice] | None:
        """Return at most `left` moves from here to the goal, or None."""
        simulation = self._simulation
        needed = self._goal.at_least(simulation, self._units, left)
        self._check_effort()
        if not needed:
            return []
        if needed > left:
            self._is_cut = True
            return None
        state = simulation.fingerprint()
        if self._seen.get(state, 0) >= left:
            return None
        self._seen[state] = left
        mark = simulation.mark()
        for choice in self._choices(left):
            rest = self._moves(left - len(choice.unit.keys))
            simulation.back_to(mark)
            if rest is not None:
                return [choice, *rest]
        return None

    def _choices(self, left: int) -> Iterator[MoveChoice]:
        """Yield the moves that are possible now; each is made while the caller has it."""
        must_move = {pod.metadata.key for pod in self._goal.must_move(self._simulation)}
        spare = left - len(must_move)
        for unit in self._units:
            self._check_effort()
            pods = self._simulation.pods_of(unit)
            others = sum(pod.metadata.key not in must_move for pod in pods)
            if len(pods) < len(unit.keys):
                continue
            if others > spare or len(pods) > left:
                self._is_cut = True
            elif is_within_budgets(self._budgets, self._simulation, pods):
                if len(pods) < left or self._goal.may_help(self._simulation, unit):
                    yield from self._places(unit, pods)
                else:
                    self._is_cut = True

    def _places(self, unit: MoveUnit, pods: Sequence[Pod]) -> Iterator[MoveChoice]:
        """Yield a move of the unit to every place that the scheduler can be made to choose.

        A node that it prefers is cordoned to get to the next one.
        """
        simulation, mark = self._simulation, self._simulation.mark()
        cordoned = self._goal.cordoned
        for _ in range(PLACES_LIMIT):
            self._check_effort()
            target = _target(simulation, unit) if simulation.move(unit, cordoned) else None
            simulation.back_to(mark)
            if target is None or target in cordoned:
                return
            choice = self._steady(MoveChoice(unit, cordoned | _others(pods, target)), target)
            if choice is not None:
                yield choice
                simulation.back_to(mark)
            if not target:
                return
            cordoned |= {target}
        self._is_partial = True

    def _steady(self, choice: MoveChoice, target: str) -> MoveChoice | None:
        """Make a move with the cordons it needs to have the same result at any speed.

        Returns None if there is no such move.
        """
        mark = self._simulation.mark()
        for _ in range(PLACES_LIMIT):
            self._check_effort()
            outcome = make(self._simulation, choice)
            if outcome.is_move:
                return choice
            self._simulation.back_to(mark)
            early = outcome.early - choice.cordoned - {target}
            if not early:
                return None
            choice = MoveChoice(choice.unit, choice.cordoned | early)
        self._is_partial = True
        return None

    def _check_effort(self) -> None:
        if self._simulation.decisions > self._end:
            raise _EffortSpent


class MoveOutcome(NamedTuple):
    """The outcome of a move."""

    is_move: bool
    """False if a pod gets no place, or its old one again, or if that depends on times."""
    early: frozenset[str] = frozenset()
    """Nodes that replacements would get instead if they were placed before the pods are gone."""


def make(simulation: Simulation, choice: MoveChoice) -> MoveOutcome:
    """Make a move."""
    pods = simulation.pods_of(choice.unit)
    before = [simulation.place_of(pod) for pod in pods]
    beside = simulation.places_beside(pods, choice.cordoned)
    if not simulation.move(choice.unit, choice.cordoned):
        return MoveOutcome(is_move=False)
    after = [simulation.place_of(pod) for pod in simulation.pods_of(choice.unit)]
    if not after:
        return MoveOutcome(is_move=True)
    # A controller makes the new pod while the old one is leaving. If it fits before that has left,
    # it does not wait for a better place.
    pairs = zip(beside, after, strict=True)
    early = frozenset(place.node for place, late in pairs if place is not None and place != late)
    return MoveOutcome(after != before and not early, early)


def is_within_budgets(
    budgets: Sequence[DisruptionBudget], simulation: Simulation, pods: Sequence[Pod]
) -> bool:
    """Return whether budgets allow to delete pods now: all pods but the lost ones run again."""
    return all(budget.allows([*simulation.lost, *pods]) for budget in budgets)


def _target(simulation: Simulation, unit: MoveUnit) -> str:
    """Return the node of the first pod of a unit; empty if nothing makes the pod again."""
    moved = simulation.pods_of(unit)
    return moved[0].spec.node_name if moved else ""


def _others(pods: Sequence[Pod], target: str) -> frozenset[str]:
    """Return the nodes of pods, without the one that they move to: they must not come back."""
    return frozenset(pod.spec.node_name for pod in pods) - {target} if target else frozenset()
