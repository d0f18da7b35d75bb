"""Stranded devices: they stay free, with whichever shape in use their node is filled."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dray.allocator import device_counts, device_groups, device_states
from dray.allocator.device_counts import SelectingClass
from dray.allocator.device_states import DeviceAvailability
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model.candidates import Candidate
from dray.allocator.model.rejections import AllocationError
from dray.planner.capacity import limits, shapes
from dray.planner.capacity.shapes import PodShape
from dray.scheduling import pod_copies
from dray.scheduling.fit_counts import NodeCounter
from dray.scheduling.nodes.node_fit import NodeState
from dray.scheduling.state import SchedulingState


class StrandedDevices(NamedTuple):
    """Devices of one class on a node that no shape in use can get there.

    A device with partitions counts once, and only if nothing of it can be used.
    """

    node: str
    device_class: str
    devices: tuple[str, ...]
    limits: tuple[str, ...]
    """The checks that keep the shapes from them."""


def find(state: SchedulingState, in_use: Sequence[PodShape]) -> list[StrandedDevices]:
    """Return the stranded devices of a cluster, by node and class.

    Without pods that use devices, one device of each class is a shape. At most `shapes.MOST` shapes
    are considered, and the classes that they ask for: other devices are unused, not stranded.
    Devices that several nodes can use are left out.
    """
    copies = [shape.copies for shape in in_use[: shapes.MOST]]
    if not copies:
        copies = [pod_copies.of_class(name) for name in state.inventory.classes]
    asked = {name for shape in copies for name in shapes.classes_of(shape, state.classes)}
    classes = [
        item for item in device_counts.selecting_classes(state.inventory) if item[0] in asked
    ]
    counters = [NodeCounter(state, shape, wants_reasons=True) for shape in copies]
    return [found for node in state.nodes for found in _on_node(state, node, counters, classes)]


def _on_node(
    state: SchedulingState,
    node: NodeState,
    counters: Sequence[NodeCounter],
    classes: Sequence[SelectingClass],
) -> Iterator[StrandedDevices]:
    try:
        inventory = state.inventory.inventory(state.inventory.nodes[node.name])
    except AllocationError:
        return
    free = _matching(inventory, classes) & ~inventory.taken
    found: dict[str, None] = {}
    for counter in counters:
        if not free:
            return
        counted = counter.alone_on(node)
        if counted is None:
            return
        found |= dict.fromkeys(limits.limits_of(counted))
        free &= ~_with_partitions(inventory, counted.devices)
    free &= ~inventory.where(lambda device: _lacks_counters(inventory, device))
    if not free:
        return
    available = _available(state, inventory, free)
    for name, devices in _by_class(available, classes).items():
        is_tainted = all(device.is_tainted for device in devices)
        reasons = (limits.DEVICE_TAINTS,) if is_tainted else tuple(found)
        roots = dict.fromkeys(map(device_groups.root, devices))
        yield StrandedDevices(node.name, name, tuple(roots), reasons)


def _lacks_counters(inventory: NodeInventory, device: Candidate) -> bool:
    """Return whether others use the counters that a device needs."""
    counters = inventory.node_pools[device.pool_index].counters
    return counters is not None and not counters.allows(counters.left, device.need)


def _with_partitions(inventory: NodeInventory, devices: int) -> int:
    """Return the devices and all others that draw from their counters."""
    if not devices & inventory.partitions:
        return devices
    keys = {key for device in inventory.members(devices) for key in _counter_sets(device)}
    return devices | inventory.where(lambda device: not keys.isdisjoint(_counter_sets(device)))


def _counter_sets(device: Candidate) -> Iterator[Hashable]:
    for consumption in device.device.consumes_counters:
        yield device.pool_index, consumption.counter_set


def _available(
    state: SchedulingState, inventory: NodeInventory, devices: int
) -> list[DeviceAvailability]:
    """Return those of some devices that a claim could get."""
    names: dict[int, set[str]] = {}
    for device in inventory.members(devices):
        names.setdefault(device.pool_index, set()).add(device.device.name)
    return [
        device
        for index, chosen in names.items()
        for device in device_states.devices_of_pool(
            state.inventory, inventory.node_pools[index].pool.id
        )
        if device.id.device in chosen and device.state in device_groups.AVAILABLE
    ]


def _matching(inventory: NodeInventory, classes: Sequence[SelectingClass]) -> int:
    """Return the devices of a node that match any of the classes."""
    matching = 0
    for _, selectors in classes:
        of_class = inventory.everything
        for selector in selectors:
            of_class &= selector.matches(inventory).matching
        matching |= of_class
    return matching


def _by_class(
    devices: Sequence[DeviceAvailability], classes: Sequence[SelectingClass]
) -> Mapping[str, list[DeviceAvailability]]:
    by_class: dict[str, list[DeviceAvailability]] = {}
    for name, matching in device_counts.by_class(devices, classes):
        matched = list(itertools.compress(devices, matching))
        if matched and name:
            by_class[name] = matched
    return by_class
