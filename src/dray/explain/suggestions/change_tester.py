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
from dray.explain.survey.node_survey import RequestKey, UnservedRequests

POSITION_BUDGETS = (200, 2_000)
"""Positions for one trial: most that succeed need few, so the many that do not may cost little."""

_TOTAL_POSITIONS = 10_000
_NODES_TRIED = 4_000


class ChangeTester:
    """Tries changes on nodes that stand for the others."""

    def __init__(
        self,
        cluster: ClusterInventory,
        nodes: Sequence[str],
        claims: Sequence[ResourceClaim],
        representatives: Iterable[UnservedRequests],
    ) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._claims = claims
        self._representatives = tuple(representatives)
        self._allocator = BoundedAllocator(cluster, nodes, new_share_id=lambda: "")
        self.begin_round(POSITION_BUDGETS[0])

    def begin_round(self, positions: int) -> None:
        """From now on a trial may take that many positions."""
        self._allocator.positions = positions
        self._allocator.spent = 0
        self._left = _NODES_TRIED
        self.gave_up = False
        """Whether some trial of this round was given up."""

    @property
    def is_over(self) -> bool:
        return self._left <= 0 or self._allocator.spent >= _TOTAL_POSITIONS

    def verify(
        self,
        change: SuggestedChange,
        affected: frozenset[RequestKey] | None,
        node: str | None = None,
    ) -> SuggestedChange | None:
        """The change with a node on which the claims fit after it; None if it does not help.

        A node that cannot serve a request which the change leaves alone is not asked; `affected` of
        None is all requests. With `node`, only that one is asked.
        """
        changed = change.applied_to(self._claims)
        with change.applied_in(self._cluster), self._allocator_for(change) as allocator:
            for unserved in self._representatives:
                if self.is_over:
                    return None
                if node not in (None, unserved.node):
                    continue
                if affected is not None and not unserved.blocked <= affected:
                    continue
                self._left -= 1
                if self._fits(allocator, changed, unserved.node):
                    return _confirmed(allocator, change, changed)
        return None

    @contextlib.contextmanager
    def _allocator_for(self, change: SuggestedChange) -> Iterator[BoundedAllocator]:
        """Whom to ask: what is remembered does not hold in a cluster that was changed."""
        if not isinstance(change, ClusterChange):
            yield self._allocator
            return
        allocator = BoundedAllocator(
            self._cluster, self._nodes, new_share_id=lambda: "", positions=self._allocator.positions
        )
        yield allocator
        self._allocator.spent += allocator.spent

    def _fits(
        self, allocator: BoundedAllocator, claims: Sequence[ResourceClaim], node: str
    ) -> bool:
        try:
            return isinstance(allocator.allocate_on(claims, node), Fit)
        except rejections.AllocationError as failure:
            self.gave_up |= isinstance(failure, rejections.SearchTimeout)
            return False


def _confirmed(
    allocator: BoundedAllocator, change: SuggestedChange, claims: Sequence[ResourceClaim]
) -> SuggestedChange | None:
    """One node that fits is not enough where another one fails altogether."""
    try:
        fit = allocator.first_fit(claims, allocator.nodes)
    except rejections.AllocationError:
        return None
    return msgspec.structs.replace(change, node=fit.node) if fit else None
