"""The nodes with devices on which selectors cannot be evaluated, kept up to date with the slices.

The selectors of a request are evaluated one after the other, and a device that one of them rejects
is not shown to the next. Therefore they are looked at as one sequence: a selector of the request
that only works for devices of its class fails nowhere. Each sequence is evaluated once per shape.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping

from dray.allocator.inventory import shapes
from dray.allocator.inventory.selectors import CachedSelector
from dray.allocator.model.candidates import Candidate
from dray.api.types.dra import ResourceSlice

_SEQUENCES_LIMIT = 1 << 10
_SHAPES_LIMIT = 1 << 13
_CHANGES_LIMIT = 1 << 14
_STEP = 128
"""Slices to look at before the caller may pause."""

SelectorSequence = tuple[CachedSelector, ...]
"""The selectors of a class and a request, in the order in which they are evaluated."""


class SelectorFailures:
    """Finds the nodes with a device on which a sequence of selectors fails."""

    def __init__(
        self,
        slices: Mapping[str, ResourceSlice],
        set_of_nodes: Callable[[Iterable[ResourceSlice]], int],
    ) -> None:
        self._slices = slices
        self._set_of_nodes = set_of_nodes
        """Returns the set of nodes for which the slices are."""
        self._sequences: dict[SelectorSequence, _FailingSlices] = {}
        self._usable: dict[str, bool] = {}
        """By slice, whether every attribute of its devices has a value."""
        self._changes: list[str] = []
        self._dropped = 0
        """The number of changes that are no longer in `_changes`."""

    def slice_changed(self, name: str) -> None:
        """Take note of a slice that was added, changed or removed."""
        if not self._sequences:
            return
        self._usable.pop(name, None)
        if len(self._changes) == _CHANGES_LIMIT:
            self._dropped += _CHANGES_LIMIT
            self._changes.clear()
        self._changes.append(name)

    def nodes(self, sequences: Iterable[SelectorSequence]) -> Generator[None, None, int]:
        """Return the set of nodes with a device on which any of the sequences fails.

        A device counts although its pool is incomplete, it is in use, or it is for other nodes of
        the slice: the search on the node says whether it is looked at. Yields where the caller may
        pause.
        """
        nodes = 0
        for selectors in sequences:
            failing = self._sequences.get(selectors) or self._add(selectors)
            while failing.cursor != self._dropped + len(self._changes):
                yield from self._update(failing)
            nodes |= failing.nodes
        return nodes

    def _add(self, selectors: SelectorSequence) -> _FailingSlices:
        if len(self._sequences) >= _SEQUENCES_LIMIT:
            self._sequences.clear()
            self._usable.clear()
        failing = self._sequences[selectors] = _FailingSlices(selectors)
        return failing

    def _update(self, failing: _FailingSlices) -> Generator[None, None, None]:
        end = self._dropped + len(self._changes)
        start = failing.cursor - self._dropped
        is_recorded = failing.cursor >= 0 and start >= 0
        # Slices that were removed are among the failing ones, not among the present ones.
        changed = self._changes[start:] if is_recorded else [*self._slices, *failing.slices]
        for number, name in enumerate(dict.fromkeys(changed), 1):
            self._look_at(failing, name)
            if number % _STEP == 0:
                yield
        # Not before the end: an update that is abandoned half-way has to be done again.
        failing.cursor = end
        failing.nodes = self._set_of_nodes(failing.slices.values())

    def _look_at(self, failing: _FailingSlices, name: str) -> None:
        present = self._slices.get(name)
        if present is not None and not (self._is_usable(name, present) and failing.works(present)):
            failing.slices[name] = present
        else:
            failing.slices.pop(name, None)

    def _is_usable(self, name: str, resource_slice: ResourceSlice) -> bool:
        """Return whether selectors can be evaluated on all devices of a slice."""
        # A shape has only what the selectors read; an attribute without a value elsewhere on the
        # device is an error nevertheless. That is the same for all sequences.
        usable = self._usable.get(name)
        if usable is None:
            usable = self._usable[name] = all(map(shapes.is_usable, resource_slice.spec.devices))
        return usable


class _FailingSlices:
    """The slices with a device on which one sequence of selectors fails."""

    __slots__ = ("_read", "_selectors", "_works", "cursor", "nodes", "slices")

    def __init__(self, selectors: SelectorSequence) -> None:
        self._selectors = selectors
        paths = {path for selector in selectors for path in selector.paths}
        self._read = shapes.reader(sorted(paths))
        self._works: dict[Hashable, bool] = {}
        self.slices: dict[str, ResourceSlice] = {}
        self.nodes = 0
        """The set of nodes for which `slices` are."""
        self.cursor = -1
        """The number of changes that `slices` reflect."""

    def works(self, resource_slice: ResourceSlice) -> bool:
        """Return whether the selectors can be evaluated on all devices of a slice."""
        driver = resource_slice.spec.driver
        devices = [
            Candidate(0, 0, 0, driver, resource_slice, device)
            for device in resource_slice.spec.devices
        ]
        for device, shape in zip(devices, self._read(devices), strict=True):
            works = self._works.get(shape)
            if works is None:
                works = self._cache(shape, device)
            if not works:
                return False
        return True

    def _cache(self, shape: Hashable, device: Candidate) -> bool:
        if len(self._works) >= _SHAPES_LIMIT:
            self._works.clear()
        results = (selector.result(device) for selector in self._selectors)
        first_unmatched = next((result for result in results if result is not True), True)
        works = self._works[shape] = not isinstance(first_unmatched, str)
        return works
