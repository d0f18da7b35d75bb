"""Pools: which slices belong to one, and which of them are current."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from dray.api.ids import PoolId
from dray.api.types.dra import ResourcePool
from dray.api.types.meta import ObjectMeta

__all__ = ["current_slices", "current_slices_of_pools", "group_by_pool", "newest_generation"]


class _SliceSpec(Protocol):
    @property
    def pool(self) -> ResourcePool: ...


class _Slice(Protocol):
    """A ResourceSlice, or a struct with only some of its fields."""

    @property
    def metadata(self) -> ObjectMeta: ...
    @property
    def spec(self) -> _SliceSpec: ...
    @property
    def pool_id(self) -> PoolId: ...


SliceT = TypeVar("SliceT", bound=_Slice)


def newest_generation(slices: Iterable[_Slice]) -> int:
    """Return the newest generation among slices of one pool, or 0 without slices."""
    return max((item.spec.pool.generation for item in slices), default=0)


def current_slices(slices: Sequence[SliceT]) -> list[SliceT]:
    """Return the slices of the newest generation of one pool, in the given order.

    The allocator's `pools_of_node` decides otherwise on purpose: it leaves out slices that the
    node cannot reach before it looks for the newest generation, as upstream does.
    """
    newest = newest_generation(slices)
    return [item for item in slices if item.spec.pool.generation == newest]


def current_slices_of_pools(slices: Iterable[SliceT]) -> Iterator[SliceT]:
    """Yield the slices of each pool's newest generation, ordered by pool and name."""
    ordered = sorted(slices, key=lambda item: (item.pool_id, item.metadata.name))
    for pool_slices in group_by_pool(ordered).values():
        yield from current_slices(pool_slices)


def group_by_pool(slices: Iterable[SliceT]) -> dict[PoolId, list[SliceT]]:
    """Group slices by pool, in the given order."""
    pools: dict[PoolId, list[SliceT]] = {}
    for resource_slice in slices:
        pools.setdefault(resource_slice.pool_id, []).append(resource_slice)
    return pools
