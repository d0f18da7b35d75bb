"""The shapes of devices: what all devices of one model, size and classes have in common."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from dray.ui.model.cells import ShapedDevice, ShapeKey
from dray.ui.model.entries import CellShape

VALUES_KEPT = 64
"""Attributes with more values in one shape are names of single devices, such as a UUID."""


class _Members:
    """The devices of one shape, as the counts of the values that their attributes have."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.number = 0
        self.values: dict[str, Counter[Hashable]] = {}
        self.varying: set[str] = set()

    def add(self, attributes: Mapping[str, Any], sign: int) -> None:
        self.number += sign
        for name, value in attributes.items():
            if name in self.varying:
                continue
            counts = self.values.get(name)
            if counts is None:
                counts = self.values[name] = Counter()
            known = tuple(value) if isinstance(value, list) else value
            counts[known] += sign
            if not counts[known]:
                del counts[known]
            if len(counts) > VALUES_KEPT:
                self.varying.add(name)
                del self.values[name]

    def common(self) -> dict[str, Any]:
        """Return the attributes that every device of the shape has with the same value."""
        return {
            name: value
            for name, counts in self.values.items()
            for value, count in counts.items()
            if count == self.number
        }


class ShapeTable:
    """Gives shapes their short names, and knows which have changed."""

    def __init__(self) -> None:
        self._members: dict[ShapeKey, _Members] = {}
        self._numbers = itertools.count(1)
        self._published: dict[str, CellShape] = {}
        self._dirty: dict[ShapeKey, None] = {}

    @property
    def shapes(self) -> Mapping[str, CellShape]:
        return self._published

    def add(self, device: ShapedDevice) -> str:
        """Count a device, and return the name of its shape."""
        members = self._members.get(device.shape)
        if members is None:
            members = self._members[device.shape] = _Members(f"s{next(self._numbers)}")
        members.add(device.attributes, 1)
        self._dirty[device.shape] = None
        return members.identity

    def remove(self, device: ShapedDevice) -> None:
        members = self._members[device.shape]
        members.add(device.attributes, -1)
        self._dirty[device.shape] = None

    def changes(self) -> Iterator[tuple[str, CellShape | None]]:
        """Yield the shapes that differ from what was said last; None for those that are gone."""
        for key in self._dirty:
            members = self._members[key]
            if not members.number:
                del self._members[key]
                if self._published.pop(members.identity, None) is not None:
                    yield members.identity, None
                continue
            shape = CellShape(
                key.driver, key.model, key.slots, key.classes, members.common(), key.memory
            )
            if self._published.get(members.identity) != shape:
                self._published[members.identity] = shape
                yield members.identity, shape
        self._dirty.clear()
