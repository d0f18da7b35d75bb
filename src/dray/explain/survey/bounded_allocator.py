"""The allocator with a limit on the positions that a search may visit."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model.rejections import AllocationError
from dray.allocator.placement import Allocator, Fit, FitResult
from dray.api.types.dra import ResourceClaim
from dray.scheduling import sampling

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
        self._cluster = cluster
        self._allocator = Allocator(
            cluster, new_share_id=new_share_id, should_stop=self._is_budget_spent
        )

    def confirmed_fit(self, claims: Sequence[ResourceClaim], nodes: Iterable[str]) -> Fit | None:
        """Return the fit that the scheduler decides for, if the claims fit on one of these nodes.

        Raises AllocationError as `fit_in_any_order`.
        """
        with contextlib.suppress(AllocationError):
            if self.first_fit(claims, nodes) is None:
                return None
        return self.fit_in_any_order(claims)

    def fit_in_any_order(self, claims: Sequence[ResourceClaim]) -> Fit | None:
        """Return the first fit, or None, as the scheduler decides.

        Raises AllocationError also if a selector fails on a node after the first fit, unless the
        claims fit on more nodes than kube-scheduler looks for.
        """
        failure = self._first_failure(claims)
        if failure is None:
            return self.first_fit(claims, self.nodes)
        enough = sampling.nodes_to_find(len(self.nodes))
        fits = self._fits(claims) if len(self.nodes) > enough else iter(())
        first = next(fits, None)
        if first is None or sum(1 for _ in itertools.islice(fits, enough)) < enough:
            raise failure
        return first

    def _first_failure(self, claims: Sequence[ResourceClaim]) -> AllocationError | None:
        may_fail = self._nodes_that_may_fail(claims)
        for node in self.nodes if may_fail else ():
            if may_fail >> self._cluster.nodes[node].index & 1:
                try:
                    self.allocate_on(claims, node)
                except AllocationError as failure:
                    return failure
        return None

    def _nodes_that_may_fail(self, claims: Sequence[ResourceClaim]) -> int:
        selectors = self._allocator.selectors_of(claims)
        steps = self._cluster.selector_failures.nodes(selectors)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return int(end.value)

    def _fits(self, claims: Sequence[ResourceClaim]) -> Iterator[Fit]:
        for node in self.nodes:
            with contextlib.suppress(AllocationError):
                result = self.allocate_on(claims, node)
                if isinstance(result, Fit):
                    yield result

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
