"""Asks the allocator, within bounds: whether claims fit, and whether they would after a change.

Effort is counted in positions of the search and in nodes asked, never in time, so that the same
question always gets the same answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model import rejections
from dray.allocator.placement import Fit
from dray.api.types.dra import ResourceClaim
from dray.explain.suggestions.changes import ClusterChange, SuggestedChange
from dray.explain.survey.bounded_allocator import BoundedAllocator
from dray.explain.survey.node_survey import StepKey, UnservedRequests

POSITION_BUDGETS = (200, 2_000)
"""Positions for one trial: most that succeed need few, so the many that do not may cost little."""

_POSITIONS_IN_ALL = 10_000
_NODES_ASKED = 4_000


class ChangeTester:
    """Tries changes on nodes that stand for the others."""

    def __init__(
        self,
        fleet: ClusterInventory,
        nodes: Sequence[str],
        claims: Sequence[ResourceClaim],
        standings: Iterable[UnservedRequests],
    ) -> None:
        self._fleet = fleet
        self._nodes = nodes
        self._claims = claims
        self._standings = tuple(standings)
        self._asking = BoundedAllocator(fleet, nodes, new_share_id=lambda: "")
        self.begin_round(POSITION_BUDGETS[0])

    def begin_round(self, positions: int) -> None:
        """From now on a trial may take that many positions."""
        self._asking.positions = positions
        self._asking.spent = 0
        self._left = _NODES_ASKED
        self.gave_up = False
        """Whether some trial of this round was given up."""

    @property
    def is_over(self) -> bool:
        return self._left <= 0 or self._asking.spent >= _POSITIONS_IN_ALL

    def verify(
        self, change: SuggestedChange, affected: frozenset[StepKey] | None, node: str | None = None
    ) -> SuggestedChange | None:
        """The change with a node on which the claims fit after it; None if it does not help.

        A node that cannot serve a request which the change leaves alone is not asked; `affected` of
        None is all requests. With `node`, only that one is asked.
        """
        changed = change.applied_to(self._claims)
        with change.applied_in(self._fleet), self._asking_about(change) as asking:
            for standing in self._standings:
                if self.is_over:
                    return None
                if node not in (None, standing.node):
                    continue
                if affected is not None and not standing.blocked <= affected:
                    continue
                self._left -= 1
                if self._fits(asking, changed, standing.node):
                    return _confirmed(asking, change, changed)
        return None

    @contextlib.contextmanager
    def _asking_about(self, change: SuggestedChange) -> Iterator[BoundedAllocator]:
        """Whom to ask: what is remembered does not hold in a cluster that was changed."""
        if not isinstance(change, ClusterChange):
            yield self._asking
            return
        asking = BoundedAllocator(
            self._fleet, self._nodes, new_share_id=lambda: "", positions=self._asking.positions
        )
        yield asking
        self._asking.spent += asking.spent

    def _fits(self, asking: BoundedAllocator, claims: Sequence[ResourceClaim], node: str) -> bool:
        try:
            return isinstance(asking.ask(claims, node), Fit)
        except rejections.AllocationError as failure:
            self.gave_up |= isinstance(failure, rejections.SearchTimeout)
            return False


def _confirmed(
    asking: BoundedAllocator, change: SuggestedChange, claims: Sequence[ResourceClaim]
) -> SuggestedChange | None:
    """One node that fits is not enough where another one fails altogether."""
    try:
        answer = asking.first_fit(claims, asking.nodes)
    except rejections.AllocationError:
        return None
    return msgspec.structs.replace(change, node=answer.node) if answer else None
