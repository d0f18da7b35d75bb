"""The shapes of claims, and their requests as columns: what each asks of the devices of a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from dray.allocator.fragmentation import mix
from dray.allocator.fragmentation.node_units import Column
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model import requests
from dray.allocator.model.rejections import AllocationError
from dray.allocator.model.requests import Alternative
from dray.allocator.problem import node_problem, resolution
from dray.allocator.problem.resolution import ResolvedClaim
from dray.api.types.dra import DeviceClaim, ResourceClaim

Shape = bytes
"""What a claim requests, whatever its name and configuration."""

_SHAPES = 16
"""How many shapes are compared at most."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(DeviceClaim).decode


def shape_of(claim: ResourceClaim) -> Shape | None:
    """Return the shape of a claim; None if it takes no device away from others."""
    asked = claim.spec.devices
    exactly = [request.exactly for request in asked.requests]
    if not exactly or any(request is not None and request.admin_access for request in exactly):
        return None
    return _encode(msgspec.structs.replace(asked, config=()) if asked.config else asked)


def mix_of(counts: Mapping[Shape, int]) -> dict[Shape, float]:
    """Return the shapes that claims are expected to have, with their weights."""
    common = sorted(counts, key=lambda shape: (-counts[shape], shape))[:_SHAPES]
    return mix.most_common({shape: counts[shape] for shape in common}, lambda shape: shape)


class Asked(NamedTuple):
    """An alternative of a request: its column, and the number of devices; None for all."""

    column: int
    devices: int | None


Requests = Sequence[Sequence[Asked]]
"""The alternatives of each request."""


class ShapeColumns:
    """The columns of some shapes, as long as the classes of the cluster stay as they are."""

    def __init__(self, cluster: ClusterInventory) -> None:
        self._cluster = cluster
        self._resolved: list[ResolvedClaim] = []
        self._requests: dict[Shape, Requests] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._requests)

    def __contains__(self, shape: Shape) -> bool:
        return shape in self._requests

    def requests_of(self, shape: Shape) -> Requests:
        """Return the requests of a shape that was added."""
        return self._requests[shape]

    def add(self, shape: Shape) -> None:
        cluster = self._cluster
        parsed = requests.parse_claim(_decode(shape))
        self._resolved += resolution.resolve(
            [parsed], cluster.classes, cluster.selectors, cluster.features
        )
        self._requests[shape] = [
            [self._asked(alternative) for alternative in request.alternatives]
            for request in parsed.requests
        ]

    def _asked(self, alternative: Alternative) -> Asked:
        column, self._count = self._count, self._count + 1
        return Asked(column, None if alternative.is_all else alternative.count)

    def on_node(self, inventory: NodeInventory) -> list[Column]:
        """Return all columns on a node."""
        columns: list[Column] = []
        for resolved in self._resolved:
            try:
                problem = node_problem.build(inventory, [resolved], self._cluster.selectors)
                columns += problem.alternatives()
            except AllocationError:
                columns += [None] * sum(1 for _ in resolved.alternatives())
        return columns
