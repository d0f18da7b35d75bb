"""The search for the cheapest victims, over all nodes and sets of victims.

Sets are tried in the order of their costs, so the first one without which the preemptor fits is the
best, and no member of it can be spared. Every set without a member would have been tried before.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from dray.api.types.pods import Pod
from dray.scheduling.claims.assignments import NodeFit
from dray.scheduling.nodes.node_fit import NodeState
from dray.scheduling.preemption.candidates import CandidateNode
from dray.scheduling.preemption.priorities import EvictionCost
from dray.scheduling.preemption.victim_sets import AlikeNodes, VictimSet
from dray.scheduling.preemption.victims import Victim, pods_of
from dray.scheduling.steps import Steps

TRIALS_LIMIT = 2_000
"""How often the preemptor is tried for one plan, before any victims that suffice are taken."""
SETS_LIMIT = 50_000
"""How many sets of victims are looked at."""
GREEDY_NODES_LIMIT = 10
"""The nodes on which any victims that suffice are looked for."""
_PARTIAL_LIMIT = 500
"""How many sets are looked at while nodes are left out."""
_STEP = 64
"""Sets to look at before the caller may pause."""

Fits = Callable[[NodeState, Sequence[Pod]], Steps[NodeFit | None]]
"""Returns what the preemptor gets on a node without some pods; None if it does not fit."""


class FoundVictims(NamedTuple):
    """The victims on a node, and what the preemptor gets there without them."""

    node: NodeState
    victims: Sequence[Victim]
    cost: EvictionCost | None
    fit: NodeFit


class VictimSearch:
    """One search for one preemptor.

    With `end`, nodes are left out on which victims cost at least so much. Only victims that cost
    less are looked for then, and only until the first that do not suffice: what is learned from
    these holds for alike nodes, of which some may be missing.
    """

    def __init__(
        self,
        nodes: Iterable[CandidateNode],
        allowed: Sequence[int],
        fits: Fits,
        end: tuple[EvictionCost, str] | None = None,
    ) -> None:
        alike: dict[object, list[CandidateNode]] = {}
        for node in sorted(nodes, key=lambda node: node.state.order):
            alike.setdefault(node.key, []).append(node)
        self._groups = [AlikeNodes(nodes, allowed) for nodes in alike.values()]
        self._fits, self._end = fits, end
        self._serial = itertools.count()
        self._heap: list[tuple[EvictionCost, str, int, VictimSet, AlikeNodes]] = []
        self._looked_at = self._trials = 0
        self.is_exhaustive = True
        """Whether no cheaper victims exist than those that were found."""

    @property
    def needs_all(self) -> bool:
        """Return whether a search of all nodes is better than one of some nodes more.

        Victims were not enough, or there are many sets to look at.
        """
        return self._trials > 0 or self._looked_at >= _PARTIAL_LIMIT

    def run(self) -> Steps[FoundVictims | None]:
        """Return the best victims; None if none suffice on any node."""
        for group in self._groups:
            first = group.first()
            if first is not None:
                self._push(first, group)
        while self._heap and not self._has_ended():
            if self._trials >= TRIALS_LIMIT or self._looked_at >= SETS_LIMIT:
                self.is_exhaustive = False
                return (yield from self._any())
            _, _, _, tried, group = heapq.heappop(self._heap)
            self._looked_at += 1
            if self._looked_at % _STEP == 0:
                yield None
            if tried.is_complete:
                victims = [*tried.node.leaving, *tried.victims()]
                fit = yield from self._try(tried.node, victims)
                if fit is not None:
                    return (yield from self._spared(tried, fit))
                if self._end is not None or not (yield from self._has_hope(group)):
                    continue
            for following in group.after(tried):
                self._push(following, group)
        return None

    def _has_ended(self) -> bool:
        """Return whether nodes that were left out may have cheaper victims than those to come."""
        if self._end is None:
            return False
        cost, order = self._heap[0][:2]
        return (cost, order) >= self._end or self.needs_all

    def _push(self, pushed: VictimSet, group: AlikeNodes) -> None:
        entry = pushed.cost, pushed.order, next(self._serial), pushed, group
        heapq.heappush(self._heap, entry)

    def _try(self, node: CandidateNode, victims: Iterable[Victim]) -> Steps[NodeFit | None]:
        self._trials += 1
        return (yield from self._fits(node.state, pods_of(victims)))

    def _has_hope(self, group: AlikeNodes) -> Steps[bool]:
        """Return whether another set may suffice: on most nodes, if all victims together do."""
        node = group.nodes[0]
        if not group.is_checked and node.is_monotone:
            victims = itertools.chain(node.leaving, *node.members)
            if (yield from self._try(node, victims)) is None:
                return False
            group.is_checked = True
        return True

    def _spared(self, found: VictimSet, fit: NodeFit) -> Steps[FoundVictims]:
        """Return what was found, without the pods that are leaving and need not be waited for."""
        node, evicted = found.node, found.victims()
        leaving = list(node.leaving)
        for victim in node.leaving:
            fewer = [other for other in leaving if other is not victim]
            smaller = yield from self._try(node, [*fewer, *evicted])
            if smaller is not None:
                leaving, fit = fewer, smaller
        cost = found.cost if evicted else None
        return FoundVictims(node.state, [*leaving, *evicted], cost, fit)

    def _any(self) -> Steps[FoundVictims | None]:
        """Return the cheapest victims on a few nodes, as kube-scheduler looks for them.

        https://github.com/kubernetes/kubernetes/blob/release-1.37/pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go
        (SelectVictimsOnNode)
        """
        best: FoundVictims | None = None
        groups = dict.fromkeys(group for *_, group in sorted(self._heap, key=lambda one: one[:3]))
        for group in itertools.islice(groups, GREEDY_NODES_LIMIT):
            found = yield from self._any_on(group)
            if found is not None and (
                best is None or (found.cost is not None and found.cost < (best.cost or found.cost))
            ):
                best = found
        return best

    def _any_on(self, group: AlikeNodes) -> Steps[FoundVictims | None]:
        node = group.nodes[0]
        victims = [*node.leaving, *itertools.chain.from_iterable(node.members)]
        fit = yield from self._try(node, victims)
        if fit is None:
            return None
        for victim in sorted(
            victims, key=lambda victim: (victim.is_leaving, -victim.priority, victim.start)
        ):
            fewer = [other for other in victims if other is not victim]
            smaller = yield from self._try(node, fewer)
            if smaller is not None:
                victims, fit = fewer, smaller
        evicted = {victim.uid for victim in victims if not victim.is_leaving}
        counts = [sum(victim.uid in evicted for victim in of_kind) for of_kind in node.members]
        cost = group.cost(counts) if evicted else None
        return FoundVictims(node.state, victims, cost, fit)
