"""The allocator with a limit on the positions that a search may visit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.placement import Allocator, Fit, FitResult
from dray.api.types.dra import ResourceClaim

POSITIONS_PER_SEARCH = 200_000


class BoundedAllocator:
    """The allocator for some nodes of a cluster, with a limit on positions per search."""

    def __init__(
        self,
        cluster: ClusterInventory,
        nodes: Sequence[str],
        *,
        new_share_id: Callable[[], str],
        positions: int = POSITIONS_PER_SEARCH,
    ) -> None:
        self.nodes = nodes
        self.spent = 0
        """Positions visited by all searches so far."""
        self.positions = self._left = positions
        """The limit for one search."""
        self._allocator = Allocator(
            cluster, new_share_id=new_share_id, should_stop=self._is_budget_spent
        )

    def first_fit(self, claims: Sequence[ResourceClaim], nodes: Iterable[str]) -> Fit | None:
        """Return the first fit on these nodes, or None. Raises AllocationError as `allocate_on`."""
        for node in nodes:
            result = self.allocate_on(claims, node)
            if isinstance(result, Fit):
                return result
        return None

    def allocate_on(self, claims: Sequence[ResourceClaim], node: str) -> FitResult:
        """Return whether the claims fit on a node; results are cached.

        Raises SearchTimeout at the limit, AllocationError for claims that cannot be evaluated.
        """
        self._left = self.positions
        return self._allocator.allocate_on(claims, node)

    def _is_budget_spent(self) -> bool:
        self._left -= 1
        self.spent += 1
        return self._left < 0
