"""Which of the published slices count: those of each pool's newest generation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dray.api.ids import PoolId
from dray.api.types.dra import ResourceSlice


def pool_of(piece: ResourceSlice) -> PoolId:
    return PoolId(piece.spec.driver, piece.spec.pool.name)


def current(slices: Iterable[ResourceSlice]) -> Iterator[ResourceSlice]:
    """Pool by pool, in the order of their slices' names."""
    known = sorted(slices, key=lambda piece: (pool_of(piece), piece.metadata.name))
    newest: dict[PoolId, int] = {}
    for piece in known:
        pool = pool_of(piece)
        newest[pool] = max(newest.get(pool, 0), piece.spec.pool.generation)
    return (piece for piece in known if piece.spec.pool.generation == newest[pool_of(piece)])
