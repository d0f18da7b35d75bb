"""Sets of victims on alike nodes, generated from the cheapest to the most expensive one.

A set is the number of victims of every kind. Every set has a cost, or a lower bound of it while it
frees less than the nodes lack.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dray.scheduling.preemption.candidates import CandidateNode, VictimKind
from dray.scheduling.preemption.priorities import NO_COST, PRIORITY_OFFSET, EvictionCost
from dray.scheduling.preemption.victims import Victim


class VictimSet(NamedTuple):
    """A set of victims: their number by kind, and the node on which evicting them costs least.

    The order of two sets is that of their costs, then that of the names of their nodes.
    """

    cost: EvictionCost
    order: str
    counts: tuple[int, ...]
    last: int
    """The last kind that was added to; the sets that follow add to this or later kinds."""
    is_complete: bool
    """Whether it may free enough. If not, the cost is a bound for sets that follow."""
    node: CandidateNode

    def victims(self) -> list[Victim]:
        """Return the victims that have to be evicted."""
        members = zip(self.counts, self.node.members, strict=True)
        return [victim for count, of_kind in members for victim in of_kind[:count]]


class AlikeNodes:
    """Nodes that differ in their names and in the starts of their victims only."""

    def __init__(self, nodes: Sequence[CandidateNode], allowed: Sequence[int]) -> None:
        self.nodes = nodes
        self.is_checked = False
        """Whether it is known that the preemptor fits without any of the victims."""
        first = nodes[0]
        self.kinds, self.lacks = first.kinds, first.lacks
        self._sizes = tuple(map(len, first.members))
        self._allowed = allowed
        numbers = range(len(self.kinds))
        # As filterPodsWithPDBViolation, more important pods use up the budgets first; of equally
        # important pods, those with the budgets that come first by name.
        self._in_budget_order = sorted(
            (number for number in numbers if any(self.kinds[number].budgets)),
            key=lambda number: (-self.kinds[number].priority, self.kinds[number].budgets),
        )
        self._latest = max(
            (of_kind[0].start for node in nodes for of_kind in node.members), default=0
        )

    def first(self) -> VictimSet | None:
        """Return the set without any victim; None if no set frees enough."""
        return self._set((0,) * len(self.kinds), 0)

    def after(self, smaller: VictimSet) -> Iterator[VictimSet]:
        """Yield the sets with one victim more, each reached from one smaller set only."""
        for number in range(smaller.last, len(self.kinds)):
            counts = smaller.counts
            if counts[number] < self._sizes[number]:
                more = (*counts[:number], counts[number] + 1, *counts[number + 1 :])
                following = self._set(more, number)
                if following is not None:
                    yield following

    def _set(self, counts: tuple[int, ...], last: int) -> VictimSet | None:
        missing = list(self.lacks)
        for count, kind in zip(counts, self.kinds, strict=True):
            if count:
                for place, freed in enumerate(kind.frees):
                    missing[place] -= count * freed
        cost = self.cost(counts)
        is_complete = all(amount <= 0 for amount in missing)
        if is_complete and cost.pods:
            node, start = self._latest_start(counts)
            cost = cost._replace(start=-start)
            return VictimSet(cost, node.state.order, counts, last, True, node)
        bound = self._bound(cost, counts, last, missing)
        if bound is None:
            return None
        # Pods that are leaving may be enough.
        is_complete &= bool(self.nodes[0].leaving)
        cost = NO_COST if is_complete else bound
        return VictimSet(cost, "", counts, last, is_complete, self.nodes[0])

    def cost(self, counts: Sequence[int]) -> EvictionCost:
        highest = total = pods = 0
        for count, kind in zip(counts, self.kinds, strict=True):
            if count:
                weight, of_kind = kind.priority + PRIORITY_OFFSET, count * len(kind.budgets)
                highest, total, pods = weight, total + of_kind * weight, pods + of_kind
        return EvictionCost(self._violations(counts), highest, total, pods, -self._latest)

    def _violations(self, counts: Sequence[int]) -> int:
        left: dict[int, int] = {}
        violations = 0
        for number in self._in_budget_order:
            count = counts[number]
            for budgets in filter(None, self.kinds[number].budgets if count else ()):
                rooms = [left.get(budget, self._allowed[budget]) for budget in budgets]
                violations += count - max(0, min(count, *rooms))
                left.update(zip(budgets, (room - count for room in rooms), strict=True))
        return violations

    def _bound(
        self, cost: EvictionCost, counts: Sequence[int], last: int, missing: Sequence[int]
    ) -> EvictionCost | None:
        """Return what a set that follows costs at least; None if none frees enough."""
        highest, pods, cheapest = cost.highest, 0, 0
        remaining = [
            (kind, self._sizes[number] - counts[number])
            for number, kind in enumerate(self.kinds[last:], last)
            if counts[number] < self._sizes[number]
        ]
        for place, amount in enumerate(missing):
            if amount <= 0:
                continue
            useful = [(kind, size) for kind, size in remaining if kind.frees[place] > 0]
            needed = _needed(useful, place, amount)
            if needed is None:
                return None
            weight, number = needed
            highest, pods = max(highest, weight), max(pods, number)
            cheapest = max(cheapest, number * (useful[0][0].priority + PRIORITY_OFFSET))
        return cost._replace(highest=highest, total=cost.total + cheapest, pods=cost.pods + pods)

    def _latest_start(self, counts: Sequence[int]) -> tuple[CandidateNode, int]:
        """Return the node whose important victims started last, and when the first of them did."""
        highest = max(
            kind.priority for count, kind in zip(counts, self.kinds, strict=True) if count
        )
        chosen = [
            (number, count - 1)
            for number, count in enumerate(counts)
            if count and self.kinds[number].priority == highest
        ]
        best, latest = self.nodes[0], -1
        # Nodes are in order of their names, and the first of equal ones stays.
        for node in self.nodes:
            start = min(node.members[number][place].start for number, place in chosen)
            if start > latest:
                best, latest = node, start
        return best, latest


def _needed(
    useful: Sequence[tuple[VictimKind, int]], place: int, amount: int
) -> tuple[int, int] | None:
    """Return the priority of some victim and the number of victims needed to free an amount.

    Both are lower bounds, the priority as in `EvictionCost.highest`. None if all free less.
    """
    freed, weight = 0, 0
    for kind, size in useful:
        freed += kind.frees[place] * size
        if freed >= amount:
            weight = kind.priority + PRIORITY_OFFSET
            break
    else:
        return None
    pods = 0
    for most, size in sorted(((kind.frees[place], size) for kind, size in useful), reverse=True):
        wanted = min(size, -(-amount // most))
        pods, amount = pods + wanted, amount - wanted * most
        if amount <= 0:
            break
    return weight, pods
