"""Test with the allocator whether claims would fit after a change, within a budget.

The budget counts positions of the search and nodes, never time, so that the same claims always get
the same suggestions.
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
"""Positions for one test, by round. Most tests that succeed need few positions."""

_TOTAL_POSITIONS = 10_000
_NODES_TRIED = 4_000


class ChangeTester:
    """Tests changes on representative nodes."""

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
        """Begin a round in which a test may visit `positions` positions."""
        self._allocator.positions = positions
        self._allocator.spent = 0
        self._left = _NODES_TRIED
        self.gave_up = False
        """Whether a test of this round reached its limit."""

    @property
    def is_over(self) -> bool:
        return self._left <= 0 or self._allocator.spent >= _TOTAL_POSITIONS

    def verify(
        self,
        change: SuggestedChange,
        affected: frozenset[RequestKey] | None,
        node: str | None = None,
    ) -> SuggestedChange | None:
        """Return the change with a node on which the claims then fit, or None if it does not help.

        A node is skipped if it cannot serve a request that the change does not affect; `affected`
        is None if it affects all requests. With `node`, only that node is tried.
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
        """Return the allocator for a change: cached results are not valid in a changed cluster."""
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
    """Return the change with its first node, or None if a node raises an error."""
    try:
        fit = allocator.fit_in_any_order(claims)
    except rejections.AllocationError:
        return None
    return msgspec.structs.replace(change, node=fit.node) if fit else None
