"""Counts of claims by shape, rounded, so that few claims more or less change nothing."""

from __future__ import annotations

from collections import Counter

from dray.allocator.fragmentation import shapes
from dray.allocator.fragmentation.shapes import Shape
from dray.api.types.dra import ResourceClaim

_EXACT_BITS = 2
"""Counts are rounded down to so many binary digits, so by a third at most."""


class ShapeCounts:
    """Counts claims by their shapes."""

    def __init__(self) -> None:
        self._exact: Counter[Shape] = Counter()
        self.rounded: dict[Shape, int] = {}
        self.version = 0
        """Increases with every change of `rounded`."""

    def add(self, claim: ResourceClaim) -> None:
        self._change(claim, 1)

    def remove(self, claim: ResourceClaim) -> None:
        self._change(claim, -1)

    def _change(self, claim: ResourceClaim, sign: int) -> None:
        shape = shapes.shape_of(claim)
        if shape is None:
            return
        self._exact[shape] += sign
        count = rounded_down(self._exact[shape])
        if count == self.rounded.get(shape, 0):
            return
        self.version += 1
        if count:
            self.rounded[shape] = count
        else:
            del self._exact[shape], self.rounded[shape]


def rounded_down(count: int) -> int:
    """Return a count with its first binary digits only."""
    dropped = max(count.bit_length() - _EXACT_BITS, 0)
    return count >> dropped << dropped
