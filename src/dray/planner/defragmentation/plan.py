"""Plans of moves: the fewest that reach a goal, in an order in which every pod has a place."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dray.api.ids import ObjectKey
from dray.api.types.core import PodDisruptionBudget
from dray.api.types.pods import Pod
from dray.planner.cluster_model import ClusterModel
from dray.planner.defragmentation import candidates, movable_pods, search
from dray.planner.defragmentation.goals import EmptyNode, MoveGoal, RoomFor
from dray.planner.defragmentation.movable_pods import Movability, MoveUnit, StayReason
from dray.planner.defragmentation.search import MoveChoice, MoveSearch, SearchResult
from dray.planner.defragmentation.simulation import Simulation
from dray.planner.placement.place import NOW
from dray.planner.submission.submitted_pods import SubmittedPod
from dray.planner.what_if.compare import PodPosition
from dray.scheduling.disruption_budgets import DisruptionBudget
from dray.scheduling.preemption.priorities import priority_of

__all__ = ["Defragmentation", "Move", "MovedPod", "empty_node", "room_for"]

EFFORT = 5_000
"""Decisions after which a search ends without a proof."""
FEW_UNITS = 40
"""With more, a plan is first looked for among the pods of one node."""
SETS_LIMIT = 10


class MovedPod(NamedTuple):
    """A pod with its place before and after a move."""

    key: ObjectKey
    before: PodPosition
    after: PodPosition | None
    """None if nothing makes the pod again."""


class Move(NamedTuple):
    """One step: pods that are deleted together, mostly one, and where their replacements run."""

    pods: Sequence[MovedPod]
    cordoned: frozenset[str]
    """The nodes that are cordoned meanwhile, so that the scheduler chooses this place."""


class Defragmentation(NamedTuple):
    """A plan of moves, or why there is none."""

    moves: Sequence[Move] | None
    """In their order; None without a plan."""
    is_proved: bool
    """Whether no plan has fewer pods; without a plan, whether there is none."""
    places: Mapping[ObjectKey, PodPosition]
    """The places of the pods that room was made for."""
    obstacles: Mapping[ObjectKey, StayReason]
    """Why pods that would have to be moved are not."""
    without_place: Sequence[ObjectKey] = ()
    """Pods that would have to be moved, but have no other place now."""
    left_out: Mapping[StayReason, int] = {}
    """How many other pods were not moved, by the reason."""

    @property
    def moved_pods(self) -> int:
        return sum(len(move.pods) for move in self.moves or ())


def empty_node(
    cluster: ClusterModel,
    node: str,
    *,
    include_bare: bool = False,
    policy: str | None = None,
    now: datetime.datetime = NOW,
    effort: int = EFFORT,
) -> Defragmentation:
    """Return the fewest moves after which a node is empty, but for daemons and static pods."""
    planner = _Planner(cluster, EmptyNode(node), include_bare, policy, now)
    return planner.plan(effort)


def room_for(
    cluster: ClusterModel,
    pods: Sequence[SubmittedPod],
    *,
    include_bare: bool = False,
    policy: str | None = None,
    now: datetime.datetime = NOW,
    effort: int = EFFORT,
) -> Defragmentation:
    """Return the fewest moves after which all of some pods fit; none if they fit already."""
    # A pod that waits already is one of those that room is made for.
    keys = {item.pod.metadata.key for item in pods}
    cluster = cluster.without(Pod, lambda pod: pod.metadata.key in keys)
    return _Planner(cluster, RoomFor(pods), include_bare, policy, now).plan(effort)


class _Planner:
    def __init__(
        self,
        cluster: ClusterModel,
        goal: MoveGoal,
        include_bare: bool,
        policy: str | None,
        now: datetime.datetime,
    ) -> None:
        self._cluster, self._goal = cluster, goal
        self._movability = Movability(cluster, include_bare=include_bare)
        self._policy, self._now = policy, now
        self._budgets = [DisruptionBudget.of(value) for value in cluster.of(PodDisruptionBudget)]

    def plan(self, effort: int) -> Defragmentation:
        simulation = self._simulation()
        must_move = self._goal.must_move(simulation)
        obstacles = {
            pod.metadata.key: obstacle
            for pod in must_move
            if (obstacle := self._obstacle(pod)) is not None
        }
        if obstacles:
            return Defragmentation(None, True, {}, obstacles)
        others, left_out = self._others(simulation, must_move)
        units = movable_pods.units([*must_move, *others], simulation.state.claims)
        found = self._search(simulation, units, effort)
        if found.moves is None:
            without_place = sorted(self._goal.without_place(simulation, units, ()))
            return Defragmentation(None, found.is_proved, {}, {}, without_place, left_out)
        return self._replayed(found.moves, found.is_proved)

    def _search(
        self, simulation: Simulation, units: Sequence[MoveUnit], effort: int
    ) -> SearchResult:
        best = SearchResult(None, is_proved=False)
        # In a large cluster, first among the pods of one node at a time.
        if len(units) > FEW_UNITS:
            for some in candidates.small_sets(simulation, self._goal, units)[:SETS_LIMIT]:
                if best.most_of_fewer is None or candidates.size(some) <= best.most_of_fewer:
                    best = self._better(simulation, some, effort // SETS_LIMIT, best)
        return self._better(simulation, units, effort, best)

    def _better(
        self, simulation: Simulation, units: Sequence[MoveUnit], effort: int, best: SearchResult
    ) -> SearchResult:
        """Return fewer moves than the best so far; otherwise that, and whether it is proved."""
        run = MoveSearch(simulation, self._goal, units, self._budgets, effort).run
        found = run(best.most_of_fewer)
        return found if found.moves is not None else best._replace(is_proved=found.is_proved)

    def _obstacle(self, pod: Pod) -> StayReason | None:
        # Every pod but this one runs at its moment: what a budget allows stays the same.
        if not all(budget.allows([pod]) for budget in self._budgets):
            return self._movability.obstacle(pod) or StayReason.BUDGET
        return self._movability.obstacle(pod)

    def _simulation(self) -> Simulation:
        return Simulation(self._cluster, self._movability, policy=self._policy, now=self._now)

    def _others(
        self, simulation: Simulation, must_move: Sequence[Pod]
    ) -> tuple[list[Pod], Counter[StayReason]]:
        """Return the other pods that may be moved, and how many may not, by the reason."""
        highest = self._goal.highest_priority(simulation)
        keys = {pod.metadata.key for pod in must_move}
        others: list[Pod] = []
        left_out: Counter[StayReason] = Counter()
        for pod in simulation.state.pods:
            if pod.spec.node_name and pod.metadata.key not in keys:
                obstacle = self._obstacle(pod)
                if obstacle is None and priority_of(pod) > highest:
                    obstacle = StayReason.PRIORITY
                if obstacle is None:
                    others.append(pod)
                elif obstacle not in movable_pods.STAYING:
                    left_out[obstacle] += 1
        # Pods without a controller are lost: they come last.
        others.sort(key=movable_pods.is_bare)
        return others, left_out

    def _replayed(self, choices: Sequence[MoveChoice], is_proved: bool) -> Defragmentation:
        """Make the moves again from the start; what happens then is the plan.

        Raises RuntimeError if that does not reach the goal, which would be a fault of the search.
        """
        simulation = self._simulation()
        moves = [self._replay(simulation, choice) for choice in choices]
        places: Mapping[ObjectKey, PodPosition] | None = {}
        if isinstance(self._goal, RoomFor):
            places = self._goal.places(simulation)
        if places is None or self._goal.must_move(simulation):
            raise RuntimeError("the moves do not reach the goal when they are replayed")
        return Defragmentation(moves, is_proved, places, {})

    def _replay(self, simulation: Simulation, choice: MoveChoice) -> Move:
        before = simulation.pods_of(choice.unit)
        places = [simulation.place_of(pod) for pod in before]
        if not search.is_within_budgets(self._budgets, simulation, before):
            raise RuntimeError("a move exceeds a disruption budget when it is replayed")
        if not search.make(simulation, choice).is_move:
            raise RuntimeError("a moved pod gets no place when the move is replayed")
        moved = {
            pod.metadata.key: simulation.place_of(pod) for pod in simulation.pods_of(choice.unit)
        }
        return Move(
            [
                MovedPod(pod.metadata.key, place, moved.get(pod.metadata.key))
                for pod, place in zip(before, places, strict=True)
            ],
            choice.cordoned - simulation.unschedulable,
        )
