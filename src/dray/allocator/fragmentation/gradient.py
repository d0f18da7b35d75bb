"""The growth of fragmentation when devices are allocated.

The fragmentation of a node is the free part of its units that a claim drawn from the mix could not
use, as an expected value. A claim can use the free part of every unit that has a device for it, if
the node has enough devices for all of its requests. Constraints between devices do not count.

A result depends on the states of a node's units alone. Most nodes of a cluster have few different
ones, so results are cached by them and not by node; a change costs the nodes that changed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dray.allocator.fragmentation import node_units, shapes, units
from dray.allocator.fragmentation.node_units import PlacedUnit, UnitReader
from dray.allocator.fragmentation.shapes import Asked, Requests, Shape, ShapeColumns
from dray.allocator.fragmentation.units import UnitState, UnitUse
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model.candidates import Candidate
from dray.allocator.model.rejections import AllocationError
from dray.allocator.problem.node_problem import NodeAlternative
from dray.api.types.dra import ResourceClaim

_SHAPES_LIMIT = 64
_STATES_LIMIT = 1 << 16
_RESULTS_LIMIT = 1 << 18

States = tuple[int, ...]
"""The states of a node's units, as numbers, sorted: their order does not matter."""


class _KnownNode(NamedTuple):
    """The units of a node with their states at some version of its inventory."""

    inventory: NodeInventory
    version: int
    placed: Sequence[PlacedUnit]
    states: Sequence[int]
    """The states of its units, in their order."""
    sorted: States


def for_claims(cluster: ClusterInventory, claims: Iterable[ResourceClaim]) -> Fragmentation:
    """Return the fragmentation of a cluster for claims like these."""
    fragmentation = Fragmentation(cluster)
    found = map(shapes.shape_of, claims)
    fragmentation.set_mix(shapes.mix_of(Counter(shape for shape in found if shape is not None)))
    return fragmentation


class Fragmentation:
    """The fragmentation of the nodes of one cluster for a mix of shapes."""

    def __init__(self, cluster: ClusterInventory) -> None:
        self._cluster, self._epoch = cluster, cluster.epoch
        self._mix: Mapping[Shape, float] = {}
        self._columns = ShapeColumns(cluster)
        self._forget_nodes()

    def set_mix(self, mix: Mapping[Shape, float]) -> None:
        """Replace the shapes that claims are expected to have, with their weights."""
        self._mix = mix
        self._add_columns(mix)
        self._measured.clear()
        self._growths.clear()

    def free(self, node: str) -> float:
        """Return how many units of a node are free, in whole and in part."""
        self._add_columns(())
        known = self._node(node)
        return self._free(known.states) if known else 0.0

    def growth(self, asked: Sequence[Shape], node: str) -> float:
        """Return the growth if claims of these shapes get the best devices of a node."""
        self._add_columns(asked)
        known = self._node(node)
        if known is None:
            return 0.0
        growths = self._growths.setdefault(tuple(asked), {})
        growth = growths.get(known.sorted)
        if growth is None:
            if len(growths) >= _RESULTS_LIMIT:
                growths.clear()
            requests = [request for shape in asked for request in self._columns.requests_of(shape)]
            growth = growths[known.sorted] = self._least_growth(requests, known.sorted)
        return growth

    def order(
        self, inventory: NodeInventory, alternative: NodeAlternative, devices: Iterable[Candidate]
    ) -> list[Candidate]:
        """Order devices by the growth that each of them alone causes, the least first."""
        self._add_columns(())
        ordered = list(devices)
        known = self._node(inventory.node.metadata.name) if len(ordered) > 1 else None
        if known is None:
            return ordered
        after = {
            device.index: self._fragmentation(self._after(known, alternative, device))
            for device in ordered
            if alternative.eligible & device.bit
        }
        return sorted(ordered, key=lambda device: after.get(device.index, 0.0))

    def _after(self, known: _KnownNode, alternative: NodeAlternative, device: Candidate) -> States:
        takes = node_units.takes_of(alternative, device)
        states = list(known.states)
        for position, placed in enumerate(known.placed):
            if placed.devices & device.bit:
                state = self._states[states[position]]
                changed = units.after(state, placed.member(device), takes)
                states[position] = self._number(changed)
        return tuple(sorted(states))

    def _least_growth(self, asked: Requests, states: States) -> float:
        """Return the growth with the best device for each request, one after the other."""
        now = states
        for alternatives in asked:
            column, devices = self._chosen(alternatives, now) or alternatives[0]
            for _ in range(self._sums(now)[0][column] if devices is None else devices):
                now = self._best_next(now, column) or now
        return self._fragmentation(now) - self._fragmentation(states)

    def _best_next(self, states: States, column: int) -> States | None:
        """Return the states after the best device that a column can take; None without any."""
        found: list[tuple[float, Any, States]] = []
        for number in dict.fromkeys(states):
            others = list(states)
            others.remove(number)
            for changed in self._changes(number, column):
                after = tuple(sorted([*others, changed]))
                orders = self._states[number].order, self._states[changed].order
                found.append((self._fragmentation(after), orders, after))
        return min(found)[-1] if found else None

    def _changes(self, number: int, column: int) -> Sequence[int]:
        """Return the states of a unit after each device of it that a column can take."""
        known = self._changed.get((number, column))
        if known is None:
            state = self._states[number]
            changed = [
                self._number(units.after(state, device, takes))
                for device in state.unit.devices
                if (takes := device.takes[column]) is not None
                and units.can_take(state, device, takes)
            ]
            known = self._changed[number, column] = list(dict.fromkeys(changed))
        return known

    def _fragmentation(self, states: States) -> float:
        known = self._measured.get(states)
        if known is None:
            if len(self._measured) >= _RESULTS_LIMIT:
                self._measured.clear()
                self._summed.clear()
            free = self._free(states)
            known = math.fsum(
                weight * (free - self._usable(self._columns.requests_of(shape), states))
                for shape, weight in self._mix.items()
            )
            self._measured[states] = known
        return known

    def _free(self, states: Iterable[int]) -> float:
        # Exact sums: the numbers of the states, and with them their order, depend on history.
        return math.fsum(self._uses[number].free for number in states)

    def _usable(self, asked: Requests, states: States) -> float:
        columns: list[int] = []
        for alternatives in asked:
            chosen = self._chosen(alternatives, states)
            if chosen is None:
                return 0.0
            columns.append(chosen.column)
        return self._free(
            number
            for number in states
            if any(self._uses[number].takeable[column] for column in columns)
        )

    def _chosen(self, alternatives: Sequence[Asked], states: States) -> Asked | None:
        """Return the first alternative for which a node has enough devices."""
        takeable, eligible = self._sums(states)
        for asked in alternatives:
            needed = asked.devices
            if needed is None:
                needed = max(eligible[asked.column], 1)
            if takeable[asked.column] >= needed:
                return asked
        return None

    def _sums(self, states: States) -> tuple[Sequence[int], Sequence[int]]:
        """Return how many devices of a node each column can take, and how many are eligible."""
        known = self._summed.get(states)
        if known is None:
            uses = [self._uses[number] for number in states]
            takeable = [sum(column) for column in zip(*(use.takeable for use in uses), strict=True)]
            eligible = [sum(column) for column in zip(*(use.eligible for use in uses), strict=True)]
            known = self._summed[states] = takeable, eligible
        return known

    def _number(self, state: UnitState) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
            self._uses.append(units.use_of(state))
        return number

    def _node(self, name: str) -> _KnownNode | None:
        """Return the units of a node; None for a node without devices."""
        try:
            inventory = self._cluster.inventory(self._cluster.nodes[name])
        except AllocationError:
            return None
        known = self._nodes.get(name)
        if known is not None and known.inventory is inventory:
            if known.version == inventory.version:
                return known
            placed = known.placed
        else:
            placed = self._reader.units(inventory, self._columns.on_node(inventory))
        if not placed:
            return None
        states = [self._number(unit.state(inventory)) for unit in placed]
        known = _KnownNode(inventory, inventory.version, placed, states, tuple(sorted(states)))
        self._nodes[name] = known
        return known

    def _add_columns(self, wanted: Iterable[Shape]) -> None:
        """Make sure that these shapes have columns, and that nothing is out of date."""
        missing = [shape for shape in wanted if shape not in self._columns]
        is_outdated = self._epoch != self._cluster.epoch or len(self._states) > _STATES_LIMIT
        if not missing and not is_outdated:
            return
        if is_outdated or len(self._columns) + len(missing) > _SHAPES_LIMIT:
            self._epoch = self._cluster.epoch
            self._columns = ShapeColumns(self._cluster)
            missing = list(dict.fromkeys((*self._mix, *wanted)))
        for shape in missing:
            self._columns.add(shape)
        self._forget_nodes()

    def _forget_nodes(self) -> None:
        """Forget what depends on the columns."""
        self._reader = UnitReader()
        self._nodes: dict[str, _KnownNode] = {}
        self._numbers: dict[UnitState, int] = {}
        self._states: list[UnitState] = []
        self._uses: list[UnitUse] = []
        self._changed: dict[tuple[int, int], Sequence[int]] = {}
        self._summed: dict[States, tuple[Sequence[int], Sequence[int]]] = {}
        self._measured: dict[States, float] = {}
        self._growths: dict[tuple[Shape, ...], dict[States, float]] = {}
