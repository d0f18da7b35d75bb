"""Devices with their partitions: what shares counters is one device to whoever counts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from dray.allocator.device_states import DeviceAvailability, DeviceState
from dray.api.types.dra import ResourceSlice

HELD = frozenset({DeviceState.IN_USE, DeviceState.SHARED})
AVAILABLE = frozenset({DeviceState.FREE, DeviceState.SHARED})


def groups(members: Iterable[DeviceAvailability]) -> Collection[list[DeviceAvailability]]:
    """Return each device with its partitions; those of a counter set without one are a group."""
    found: dict[tuple[str, bool], list[DeviceAvailability]] = {}
    for device in members:
        # A counter set may have the name of a device that is missing.
        is_missing = device.device is None
        found.setdefault((root(device), is_missing), []).append(device)
    return found.values()


def root(device: DeviceAvailability) -> str:
    """Return the device that this one is a part of, or itself."""
    return device.parent or device.id.device


def node_of(device: DeviceAvailability, slices: Sequence[ResourceSlice]) -> str:
    """Return the node of a device of a pool with these slices; empty if it has several or none."""
    if device.device is None or device.resource_slice is None:
        names = {found.spec.node_name for found in slices}
        return (names.pop() if len(names) == 1 else "") or ""
    return device.device.node_name or device.resource_slice.spec.node_name or ""


def combined(states: Iterable[DeviceState]) -> DeviceState:
    """Return the state of a device whose parts have these states."""
    found = set(states)
    if DeviceState.MISSING in found:
        return DeviceState.MISSING
    if not found.isdisjoint(HELD):
        is_available = not found.isdisjoint(AVAILABLE)
        return DeviceState.SHARED if is_available else DeviceState.IN_USE
    return DeviceState.FREE if DeviceState.FREE in found else DeviceState.BLOCKED
