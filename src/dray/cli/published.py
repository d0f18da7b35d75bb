"""Which of the published slices count: those of each pool's newest generation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dray.api.ids import PoolId
from dray.api.types.dra import ResourceSlice


def pool_of(resource_slice: ResourceSlice) -> PoolId:
    return resource_slice.pool_id


def current(slices: Iterable[ResourceSlice]) -> Iterator[ResourceSlice]:
    """Pool by pool, in the order of their slices' names."""
    known = sorted(
        slices, key=lambda resource_slice: (pool_of(resource_slice), resource_slice.metadata.name)
    )
    newest: dict[PoolId, int] = {}
    for resource_slice in known:
        pool = pool_of(resource_slice)
        newest[pool] = max(newest.get(pool, 0), resource_slice.spec.pool.generation)
    return (
        resource_slice
        for resource_slice in known
        if resource_slice.spec.pool.generation == newest[pool_of(resource_slice)]
    )
