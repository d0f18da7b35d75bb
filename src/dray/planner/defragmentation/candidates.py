"""The pods that are tried first in a large cluster: those of one node, which others need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dray.planner.defragmentation import movable_pods
from dray.planner.defragmentation.goals import MoveGoal, RoomFor
from dray.planner.defragmentation.movable_pods import MoveUnit
from dray.planner.defragmentation.simulation import Simulation

NODES_LIMIT = 100
"""Nodes on which room is looked for."""


def small_sets(
    simulation: Simulation, goal: MoveGoal, units: Sequence[MoveUnit]
) -> list[Sequence[MoveUnit]]:
    """Return sets of units without which the goal is in reach, those with the fewest pods first.

    No unit of such a set can be left out. Units that have to move in any case are in all of them.
    """
    must_move = {pod.metadata.key for pod in goal.must_move(simulation)}
    base = [unit for unit in units if must_move.intersection(unit.keys)]
    room = _room(simulation, goal, base)
    if room is None:
        return [base]
    others = [unit for unit in units if not must_move.intersection(unit.keys)]
    sets = [[*base, *found] for found in _irreducible(simulation, room, others)]
    return sorted(sets, key=size)


def size(units: Sequence[MoveUnit]) -> int:
    """Return the number of pods in units."""
    return sum(len(unit.keys) for unit in units)


def _room(simulation: Simulation, goal: MoveGoal, base: Sequence[MoveUnit]) -> RoomFor | None:
    """Return what room has to be made for; None if every pod that has to move has a place."""
    if isinstance(goal, RoomFor):
        return goal
    missing = goal.without_place(simulation, base, ())
    pods = [
        simulation.movability.replacement(pod)
        for pod in goal.must_move(simulation)
        if pod.metadata.key in missing
    ]
    return RoomFor([*map(movable_pods.renamed, pods)], goal.cordoned) if pods else None


def _irreducible(
    simulation: Simulation, room: RoomFor, units: Sequence[MoveUnit]
) -> Iterator[Sequence[MoveUnit]]:
    """Yield units of one node each without which pods fit; none of them can be left out."""
    by_node: dict[str, list[MoveUnit]] = {}
    for unit in units:
        for node in {pod.spec.node_name for pod in simulation.pods_of(unit)}:
            by_node.setdefault(node, []).append(unit)
    for needed in sorted(by_node.values(), key=len)[:NODES_LIMIT]:
        if room.fits_without(simulation, needed):
            # From the end, where the pods are that would be lost.
            for unit in reversed(needed):
                fewer = [other for other in needed if other is not unit]
                if room.fits_without(simulation, fewer):
                    needed = fewer
            yield needed
