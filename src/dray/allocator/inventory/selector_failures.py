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
        self._changes: list[str] = []
        self._dropped = 0
        """The number of changes that are no longer in `_changes`."""

    def slice_changed(self, name: str) -> None:
        """Take note of a slice that was added, changed or removed."""
        if not self._sequences:
            return
        if len(self._changes) == _CHANGES_LIMIT:
            self._dropped += _CHANGES_LIMIT
            self._changes.clear()
        self._changes.append(name)

    def nodes(self, selectors: SelectorSequence) -> Generator[None, None, int]:
        """Return the set of nodes with a failing device; yields where the caller may pause.

        A device counts although its pool is incomplete, it is in use, or it is for other nodes of
        the slice: the search on the node says whether it is looked at.
        """
        failing = self._sequences.get(selectors)
        if failing is None:
            if len(self._sequences) >= _SEQUENCES_LIMIT:
                self._sequences.clear()
            failing = self._sequences[selectors] = _FailingSlices(selectors)
        while failing.cursor != self._end():
            yield from self._update(failing)
        return failing.nodes

    def _update(self, failing: _FailingSlices) -> Generator[None, None, None]:
        end, start = self._end(), failing.cursor - self._dropped
        is_recorded = failing.cursor >= 0 and start >= 0
        # Slices that were removed are among the failing ones, not among the present ones.
        changed = self._changes[start:] if is_recorded else [*self._slices, *failing.slices]
        for number, name in enumerate(dict.fromkeys(changed), 1):
            failing.look_at(name, self._slices.get(name))
            if number % _STEP == 0:
                yield
        # Not before the end: an update that is abandoned half-way has to be done again.
        failing.cursor = end
        failing.nodes = self._set_of_nodes(failing.slices.values())

    def _end(self) -> int:
        return self._dropped + len(self._changes)


class _FailingSlices:
    """The slices with a device on which one sequence of selectors fails."""

    __slots__ = ("_fails", "_read", "_selectors", "cursor", "nodes", "slices")

    def __init__(self, selectors: SelectorSequence) -> None:
        self._selectors = selectors
        paths = {path for selector in selectors for path in selector.paths}
        self._read = shapes.reader(sorted(paths))
        self._fails: dict[Hashable, bool] = {}
        self.slices: dict[str, ResourceSlice] = {}
        self.nodes = 0
        """The set of nodes for which `slices` are."""
        self.cursor = -1
        """The number of changes that `slices` reflect."""

    def look_at(self, name: str, present: ResourceSlice | None) -> None:
        self.slices.pop(name, None)
        if present is not None and self._fails_on(present):
            self.slices[name] = present

    def _fails_on(self, resource_slice: ResourceSlice) -> bool:
        driver = resource_slice.spec.driver
        devices = [
            Candidate(0, 0, 0, driver, resource_slice, device)
            for device in resource_slice.spec.devices
        ]
        for device, shape in zip(devices, self._read(devices), strict=True):
            # A shape has only what the selectors read; an attribute without a value elsewhere on
            # the device is an error nevertheless.
            if not shapes.is_usable(device.device):
                return True
            fails = self._fails.get(shape)
            if fails is None:
                fails = self._cache(shape, device)
            if fails:
                return True
        return False

    def _cache(self, shape: Hashable, device: Candidate) -> bool:
        if len(self._fails) >= _SHAPES_LIMIT:
            self._fails.clear()
        results = (selector.result(device) for selector in self._selectors)
        first_unmatched = next((result for result in results if result is not True), True)
        fails = self._fails[shape] = isinstance(first_unmatched, str)
        return fails
