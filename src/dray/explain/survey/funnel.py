"""Counts of devices that are left after each filter, for one alternative of a request.

A `FunnelBuilder` adds up node after node and keeps only counts, a few examples and the names of
holders: its memory does not grow with the cluster. A device that several nodes reach counts once.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model.candidates import Candidate
from dray.allocator.problem.node_problem import NodeAlternative
from dray.api.ids import ClaimKey, DeviceId
from dray.explain.survey.filters import (
    DeviceFilter,
    FilterKind,
    FilterRejection,
    FilterResult,
    NodeFilters,
)

HOLDERS_KEPT = 20
_HOLDERS_COUNTED = 1 << 16
_LOSING_TO_HOLDERS = frozenset(
    {FilterKind.TAKEN, FilterKind.CAPACITY, FilterKind.GROUPS, FilterKind.COUNTERS}
)
_ON_COUNTERS = frozenset({FilterKind.GROUPS, FilterKind.COUNTERS})
_SHOWN_IF_LOSING = frozenset(
    {FilterKind.FEATURES, FilterKind.CAPACITY, FilterKind.GROUPS, FilterKind.COUNTERS}
)
"""Filters that are shown only if they remove devices."""


class Holder(msgspec.Struct, frozen=True):
    """A claim, and how many of the devices removed by a filter it holds."""

    claim: ClaimKey
    devices: int


class FilterCount(msgspec.Struct):
    """The devices before and after one filter."""

    filter: DeviceFilter
    before: int = 0
    after: int = 0
    failing: int = 0
    """Devices on which the check could not be evaluated."""
    example: DeviceId | None = None
    rejection: FilterRejection | None = None
    """Why the example does not pass."""
    holders: tuple[Holder, ...] = ()
    """The claims that hold most of the removed devices."""
    holding: int = 0
    """How many claims hold any of them."""

    @property
    def lost(self) -> int:
        return self.before - self.after


class NodeCount(msgspec.Struct, frozen=True):
    """A node, and how many of its devices pass all filters of a request."""

    node: str
    left: int


class Blockage(msgspec.Struct, frozen=True):
    """A filter that leaves too few devices: on how many nodes, and one of them."""

    filter: DeviceFilter
    nodes: int
    example: str


class NearMiss(msgspec.Struct, frozen=True):
    """The device that passes most filters, and why it does not pass the others."""

    device: DeviceId
    node: str
    lacks: tuple[FilterRejection, ...]


class Funnel(msgspec.Struct):
    """One alternative of one request over the whole cluster."""

    claim: int
    """The position of the claim."""
    request: str
    device_class: str
    needed: int
    """How many devices; 0 for all that match."""
    most_needed: int = 0
    """The same for all that match: on the node where most do."""
    published: int = 0
    stages: tuple[FilterCount, ...] = ()
    nodes: int = 0
    blocked: tuple[Blockage, ...] = ()
    """The filters that leave too few devices on some nodes."""
    best: NodeCount | None = None
    """The node on which most devices are left."""
    nearest: NearMiss | None = None

    @property
    def key(self) -> tuple[int, str]:
        """Return the position of the claim and the name of the request or subrequest."""
        return self.claim, self.request


class NodeFunnel(NamedTuple):
    """The devices of one node after each filter, and the filter that leaves too few."""

    left: tuple[int, ...]
    blocked: DeviceFilter | None
    depth: int
    """The number of the blocking filter, or of all filters."""
    lost_to_holders: Mapping[int, int]
    """The devices that filters removed because claims hold them, by number of the filter."""


class DistinctDevices:
    """Counts devices; those that several nodes reach count once."""

    def __init__(self) -> None:
        self._seen: dict[tuple[object, str], int] = {}

    def uncounted(self, where: object, inventory: NodeInventory, devices: int) -> int:
        """Return the devices that were not counted at `where` before, and record them."""
        if not devices:
            return 0
        offset = 0
        for node_pool in inventory.node_pools:
            for resource_slice in node_pool.pool.slices:
                width = len(resource_slice.spec.devices)
                if resource_slice.spec.node_name is None:
                    key = (where, resource_slice.metadata.name)
                    seen = self._seen.get(key, 0)
                    members = devices >> offset & (1 << width) - 1
                    self._seen[key] = seen | members
                    devices &= ~(seen << offset)
                offset += width
        return devices

    def count(self, where: object, inventory: NodeInventory, devices: int) -> int:
        return self.uncounted(where, inventory, devices).bit_count()


class _Progress:
    """The counts of one filter while a funnel is built."""

    __slots__ = ("blocked", "blocked_example", "holders", "stage")

    def __init__(self, device_filter: DeviceFilter) -> None:
        self.stage = FilterCount(device_filter)
        self.holders: Counter[ClaimKey] = Counter()
        self.blocked = 0
        self.blocked_example = ""


class FunnelBuilder:
    """Adds up one alternative node by node. Every node has the same filters.

    Equivalent nodes are added at once: the filters of the first and how many nodes there are. The
    holders of their devices differ and are added node by node.
    """

    def __init__(self, alternative: NodeAlternative) -> None:
        parsed = alternative.parsed
        needed = 0 if parsed.is_all else alternative.count
        self._funnel = Funnel(alternative.claim, str(parsed.name), parsed.device_class, needed)
        self._filters: list[_Progress] = []
        self._distinct = DistinctDevices()
        self._left = 0
        self._near_misses = _NearMisses()

    def add(
        self, node_filters: NodeFilters, alternative: NodeAlternative, nodes: int
    ) -> NodeFunnel:
        inventory = node_filters.inventory
        results = list(node_filters.results(alternative))
        if not self._filters:
            self._filters = [_Progress(result.filter) for result in results]
        published = self._distinct.count("published", inventory, inventory.everything)
        self._funnel.nodes += nodes
        self._funnel.published += nodes * published
        counts: list[int] = []
        lost_to_holders: dict[int, int] = {}
        left = inventory.everything
        for number, (progress, result) in enumerate(zip(self._filters, results, strict=True)):
            arriving = self._distinct.uncounted(progress, inventory, left)
            progress.stage.before += nodes * arriving.bit_count()
            lost = left & ~result.passing
            if lost:
                _set_example(progress.stage, node_filters, alternative, result, lost)
                progress.stage.failing += nodes * (arriving & lost & result.failing).bit_count()
                if result.filter.kind in _LOSING_TO_HOLDERS:
                    lost_to_holders[number] = arriving & lost
            left &= result.passing
            counts.append(left.bit_count())
        self._left += nodes * self._distinct.count("left", inventory, left)
        self._near_misses.add(node_filters, alternative, results, counts[-1])
        return self._node_funnel(node_filters, alternative, counts, lost_to_holders, nodes)

    def add_holders(self, device_filter: int, holders: Iterable[ClaimKey]) -> None:
        """Add the holders of devices that the filter of that number removed."""
        progress = self._filters[device_filter]
        counter = progress.holders
        if progress.stage.filter.kind in _ON_COUNTERS and len(counter) >= HOLDERS_KEPT:
            return
        for holder in holders:
            if holder in counter or len(counter) < _HOLDERS_COUNTED:
                counter[holder] += 1

    def holders(
        self, device_filter: int, inventory: NodeInventory, devices: int
    ) -> Iterator[ClaimKey]:
        """Yield the holders of devices that a filter removed on a node, or of their counters."""
        if self._filters[device_filter].stage.filter.kind in _ON_COUNTERS:
            return _holders_on_counters(inventory, devices)
        return _holders_of_devices(inventory, devices)

    def finish(self) -> Funnel:
        funnel = self._funnel
        stages = [progress.stage for progress in self._filters]
        for stage, following in zip(stages, [*stages[1:], None], strict=True):
            stage.after = following.before if following else self._left
        for progress in self._filters:
            most = sorted(progress.holders.items(), key=lambda item: (-item[1], item[0]))
            progress.stage.holders = tuple(Holder(*item) for item in most[:HOLDERS_KEPT])
            progress.stage.holding = len(progress.holders)
        funnel.stages = tuple(
            stage for stage in stages if stage.lost or stage.filter.kind not in _SHOWN_IF_LOSING
        )
        funnel.blocked = tuple(
            Blockage(progress.stage.filter, progress.blocked, progress.blocked_example)
            for progress in self._filters
            if progress.blocked
        )
        funnel.nearest = self._near_misses.nearest()
        return funnel

    def _node_funnel(
        self,
        node_filters: NodeFilters,
        alternative: NodeAlternative,
        counts: list[int],
        lost_to_holders: Mapping[int, int],
        nodes: int,
    ) -> NodeFunnel:
        node = node_filters.inventory.node.metadata.name
        best = self._funnel.best
        if best is None or counts[-1] > best.left:
            self._funnel.best = NodeCount(node, counts[-1])
        needed = max(node_filters.needed(alternative), 1)
        self._funnel.most_needed = max(self._funnel.most_needed, needed)
        for depth, (count, progress) in enumerate(zip(counts, self._filters, strict=True)):
            if count < needed:
                progress.blocked += nodes
                progress.blocked_example = progress.blocked_example or node
                return NodeFunnel(tuple(counts), progress.stage.filter, depth, lost_to_holders)
        return NodeFunnel(tuple(counts), None, len(counts), lost_to_holders)


def _set_example(
    stage: FilterCount,
    node_filters: NodeFilters,
    alternative: NodeAlternative,
    result: FilterResult,
    lost: int,
) -> None:
    """Set the example of a filter: a removed device, best one that raises an error."""
    failing = lost & result.failing
    if stage.example is None or (failing and not stage.failing):
        device = next(node_filters.inventory.members(failing or lost))
        stage.example = device.id
        stage.rejection = node_filters.rejection(alternative, stage.filter, device)


def _holders_of_devices(inventory: NodeInventory, devices: int) -> Iterator[ClaimKey]:
    for device in inventory.members(devices):
        yield from inventory.holders_of(device)


def _holders_on_counters(inventory: NodeInventory, devices: int) -> Iterator[ClaimKey]:
    """Yield the claims that draw from the counter sets of the devices."""
    sets = {
        (device.pool_index, consumption.counter_set)
        for device in inventory.members(devices)
        for consumption in device.device.consumes_counters
    }
    for node_pool, counter_set in sorted(sets):
        yield from inventory.holders_on(node_pool, counter_set)


class _NearMisses:
    """Finds the device that the fewest filters reject.

    A class that rejects a device counts twice: it is a device of another kind.
    """

    def __init__(self) -> None:
        self._fewest = 4
        self._most_left = -1
        self._nearest: tuple[NodeFilters, NodeAlternative, Candidate, list[DeviceFilter]] | None = (
            None
        )

    def add(
        self,
        node_filters: NodeFilters,
        alternative: NodeAlternative,
        results: list[FilterResult],
        left: int,
    ) -> None:
        everything = node_filters.inventory.everything
        refused = [0, 0, 0]
        for result in results:
            objecting = everything & ~result.passing
            for _ in range(2 if result.filter.kind is FilterKind.CLASS else 1):
                refused[2] |= refused[1] & objecting
                refused[1] |= refused[0] & objecting
                refused[0] |= objecting
        for misses, (at_least, more) in enumerate(itertools.pairwise([*refused, 0]), start=1):
            if at_least & ~more:
                self._compare(node_filters, alternative, results, at_least & ~more, misses, left)
                return

    def _compare(
        self,
        node_filters: NodeFilters,
        alternative: NodeAlternative,
        results: list[FilterResult],
        devices: int,
        misses: int,
        left: int,
    ) -> None:
        if (misses, -left) >= (self._fewest, -self._most_left):
            return
        self._fewest, self._most_left = misses, left
        device = next(node_filters.inventory.members(devices))
        lacks = [result.filter for result in results if not result.passing & device.bit]
        self._nearest = (node_filters, alternative, device, lacks)

    def nearest(self) -> NearMiss | None:
        if self._nearest is None:
            return None
        node_filters, alternative, device, filters = self._nearest
        rejected_by = [node_filters.rejection(alternative, lack, device) for lack in filters]
        lacks = tuple(rejection for rejection in rejected_by if rejection is not None)
        return NearMiss(device.id, node_filters.inventory.node.metadata.name, lacks)
