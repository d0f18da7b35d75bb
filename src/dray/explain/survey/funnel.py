"""How many devices of the whole fleet are left after each gate, for one option of a request.

A `Measurement` is shown node after node and keeps only counts, a few examples and the names of
holders: its memory does not grow with the fleet. A device that several nodes reach counts once.
"""

from __future__ import annotations

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
_HOLDING = frozenset(
    {FilterKind.TAKEN, FilterKind.CAPACITY, FilterKind.GROUPS, FilterKind.COUNTERS}
)
_ON_COUNTERS = frozenset({FilterKind.GROUPS, FilterKind.COUNTERS})
_WITHOUT_SAY = frozenset(
    {FilterKind.FEATURES, FilterKind.CAPACITY, FilterKind.GROUPS, FilterKind.COUNTERS}
)
"""Gates that are not mentioned where they keep nothing away."""


class Holder(msgspec.Struct, frozen=True):
    """A claim and how many of the devices lost at a gate, or of their counter sets, it holds."""

    claim: ClaimKey
    devices: int


class FilterCount(msgspec.Struct):
    """What one gate did to the devices that came to it."""

    filter: DeviceFilter
    before: int = 0
    after: int = 0
    failing: int = 0
    """Devices on which the check could not be evaluated."""
    example: DeviceId | None = None
    rejection: FilterRejection | None = None
    """What the gate has against the example."""
    holders: tuple[Holder, ...] = ()
    """Who holds most of what was lost here."""
    holding: int = 0
    """How many claims hold something of it."""

    @property
    def lost(self) -> int:
        return self.before - self.after


class NodeCount(msgspec.Struct, frozen=True):
    """A node and how many of its devices a request could have, each by itself."""

    node: str
    left: int


class Blockage(msgspec.Struct, frozen=True):
    """How many nodes fall below what is needed at a gate, and one of them."""

    filter: DeviceFilter
    nodes: int
    example: str


class NearMiss(msgspec.Struct, frozen=True):
    """The device that passes most gates, and what each of the others has against it."""

    device: DeviceId
    node: str
    lacks: tuple[FilterRejection, ...]


class Funnel(msgspec.Struct):
    """One option of one request over the whole fleet."""

    claim: int
    """The position of the claim among those asked for."""
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
    """At which gates nodes fall below what is needed."""
    best: NodeCount | None = None
    """The node on which most devices are left."""
    nearest: NearMiss | None = None

    @property
    def left(self) -> int:
        return self.stages[-1].after if self.stages else self.published


class NodeFunnel(NamedTuple):
    """What became of a node's devices: how many were left after each gate, and what blocks it."""

    left: tuple[int, ...]
    blocked: DeviceFilter | None
    depth: int
    """The number of the gate that blocks, or of all gates."""
    held: Mapping[int, int]
    """Gates, by number, where devices were lost to claims, and which devices."""


class DistinctDevices:
    """Counts devices, those that several nodes reach only once."""

    def __init__(self) -> None:
        self._seen: dict[tuple[object, str], int] = {}

    def fresh(self, where: object, inventory: NodeInventory, devices: int) -> int:
        """Those of the devices that have not been counted there before."""
        if not devices:
            return 0
        offset = 0
        for section in inventory.sections:
            for resource_slice in section.pool.slices:
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
        return self.fresh(where, inventory, devices).bit_count()


class _Progress:
    """One gate's part of a measurement."""

    __slots__ = ("blocked", "blocked_example", "holders", "stage")

    def __init__(self, device_filter: DeviceFilter) -> None:
        self.stage = FilterCount(device_filter)
        self.holders: Counter[ClaimKey] = Counter()
        self.blocked = 0
        self.blocked_example = ""


class FunnelBuilder:
    """Adds up one option node by node. Every node has the same gates.

    Nodes that are alike are added at once: a panel of the first of them and their number. Who holds
    their devices is another matter for each of them.
    """

    def __init__(self, plan: NodeAlternative) -> None:
        option = plan.option
        needed = 0 if option.is_all else plan.count
        self._funnel = Funnel(plan.claim, str(option.name), option.device_class, needed)
        self._filters: list[_Progress] = []
        self._tally = DistinctDevices()
        self._left = 0
        self._misses = _Misses()

    def add(self, panel: NodeFilters, plan: NodeAlternative, nodes: int) -> NodeFunnel:
        inventory = panel.inventory
        answers = list(panel.answers(plan))
        if not self._filters:
            self._filters = [_Progress(answer.filter) for answer in answers]
        published = self._tally.count("published", inventory, inventory.everything)
        self._funnel.nodes += nodes
        self._funnel.published += nodes * published
        counts: list[int] = []
        held: dict[int, int] = {}
        left = inventory.everything
        for number, (progress, answer) in enumerate(zip(self._filters, answers, strict=True)):
            arriving = self._tally.fresh(progress, inventory, left)
            progress.stage.before += nodes * arriving.bit_count()
            lost = left & ~answer.passing
            if lost:
                _exemplify(progress.stage, panel, plan, answer, lost)
                progress.stage.failing += nodes * (arriving & lost & answer.failing).bit_count()
                if answer.filter.kind in _HOLDING:
                    held[number] = arriving & lost
            left &= answer.passing
            counts.append(left.bit_count())
        self._left += nodes * self._tally.count("left", inventory, left)
        self._misses.add(panel, plan, answers, counts[-1])
        return self._passage(panel, plan, counts, held, nodes)

    def add_holders(self, device_filter: int, holders: Iterable[ClaimKey]) -> None:
        """Of devices that were lost at the gate of that number."""
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
        """Who holds the devices that a node has lost at a gate, or what they draw from."""
        if self._filters[device_filter].stage.filter.kind in _ON_COUNTERS:
            return _holders_on_counters(inventory, devices)
        return _holders_of_devices(inventory, devices)

    def finish(self) -> Funnel:
        funnel = self._funnel
        stages = [progress.stage for progress in self._filters]
        for stage, following in zip(stages, [*stages[1:], None], strict=True):
            stage.after = following.before if following else self._left
        for progress in self._filters:
            most = sorted(progress.holders.items(), key=lambda each: (-each[1], each[0]))
            progress.stage.holders = tuple(Holder(*each) for each in most[:HOLDERS_KEPT])
            progress.stage.holding = len(progress.holders)
        funnel.stages = tuple(
            stage for stage in stages if stage.lost or stage.filter.kind not in _WITHOUT_SAY
        )
        funnel.blocked = tuple(
            Blockage(
                device_filter.stage.filter, device_filter.blocked, device_filter.blocked_example
            )
            for device_filter in self._filters
            if device_filter.blocked
        )
        funnel.nearest = self._misses.nearest()
        return funnel

    def _passage(
        self,
        panel: NodeFilters,
        plan: NodeAlternative,
        counts: list[int],
        held: Mapping[int, int],
        nodes: int,
    ) -> NodeFunnel:
        node = panel.inventory.node.metadata.name
        best = self._funnel.best
        if best is None or counts[-1] > best.left:
            self._funnel.best = NodeCount(node, counts[-1])
        needed = max(panel.wanted(plan), 1)
        self._funnel.most_needed = max(self._funnel.most_needed, needed)
        for depth, (count, progress) in enumerate(zip(counts, self._filters, strict=True)):
            if count < needed:
                progress.blocked += nodes
                progress.blocked_example = progress.blocked_example or node
                return NodeFunnel(tuple(counts), progress.stage.filter, depth, held)
        return NodeFunnel(tuple(counts), None, len(counts), held)


def _exemplify(
    stage: FilterCount, panel: NodeFilters, plan: NodeAlternative, answer: FilterResult, lost: int
) -> None:
    """One of the devices that a gate keeps away, best one on which the check fails."""
    failing = lost & answer.failing
    if stage.example is None or (failing and not stage.failing):
        device = next(panel.inventory.members(failing or lost))
        stage.example = device.id
        stage.rejection = panel.rejection(plan, stage.filter, device)


def _holders_of_devices(inventory: NodeInventory, devices: int) -> Iterator[ClaimKey]:
    for device in inventory.members(devices):
        yield from inventory.holders_of(device)


def _holders_on_counters(inventory: NodeInventory, devices: int) -> Iterator[ClaimKey]:
    """Who draws from the counter sets that the devices draw from."""
    sets = {
        (device.section, consumption.counter_set)
        for device in inventory.members(devices)
        for consumption in device.device.consumes_counters
    }
    for section, counter_set in sorted(sets):
        yield from inventory.holders_on(section, counter_set)


class _Misses:
    """Looks for the device that the fewest gates refuse.

    A class that refuses a device counts twice: it is a device of another kind.
    """

    def __init__(self) -> None:
        self._fewest = 4
        self._most_left = -1
        self._found: tuple[NodeFilters, NodeAlternative, Candidate, list[DeviceFilter]] | None = (
            None
        )

    def add(
        self, panel: NodeFilters, plan: NodeAlternative, answers: list[FilterResult], left: int
    ) -> None:
        everything = panel.inventory.everything
        refused = [0, 0, 0]
        for answer in answers:
            objecting = everything & ~answer.passing
            for _ in range(2 if answer.filter.kind is FilterKind.CLASS else 1):
                refused[2] |= refused[1] & objecting
                refused[1] |= refused[0] & objecting
                refused[0] |= objecting
        for misses, (at_least, more) in enumerate(
            zip(refused, [*refused[1:], 0], strict=True), start=1
        ):
            if at_least & ~more:
                self._note(panel, plan, answers, at_least & ~more, misses, left)
                return

    def _note(
        self,
        panel: NodeFilters,
        plan: NodeAlternative,
        answers: list[FilterResult],
        devices: int,
        misses: int,
        left: int,
    ) -> None:
        if (misses, -left) >= (self._fewest, -self._most_left):
            return
        self._fewest, self._most_left = misses, left
        device = next(panel.inventory.members(devices))
        lacks = [answer.filter for answer in answers if not answer.passing & device.bit]
        self._found = (panel, plan, device, lacks)

    def nearest(self) -> NearMiss | None:
        if self._found is None:
            return None
        panel, plan, device, filters = self._found
        rejected_by = (panel.rejection(plan, device_filter, device) for device_filter in filters)
        node = panel.inventory.node.metadata.name
        return NearMiss(
            device.id, node, tuple(rejection for rejection in rejected_by if rejection is not None)
        )
