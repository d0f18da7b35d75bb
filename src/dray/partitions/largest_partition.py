"""The largest part of a device with partitions that a claim could get now."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from dray.allocator import device_groups
from dray.allocator.device_states import DeviceAvailability
from dray.api.formats import quantity
from dray.partitions import profiles
from dray.partitions.profiles import PartitionDevice


class AvailablePartition(NamedTuple):
    """A part of a device, and how much of it this is: 1 is all of it."""

    device: DeviceAvailability
    share: float


def of_group(group: Sequence[DeviceAvailability]) -> AvailablePartition | None:
    """Return the largest part that is available; None if nothing is. `group` is published."""
    best: AvailablePartition | None = None
    parts = profiles.shares(map(partition_of, group))
    if not any(parts):
        parts = _shares_of_counters(group)
    for device, share in zip(group, parts, strict=True):
        if device.state in device_groups.AVAILABLE:
            if not device.parent:
                return AvailablePartition(device, 1.0)
            if best is None or share > best.share:
                best = AvailablePartition(device, round(float(share), 4))
    return best


def partition_of(device: DeviceAvailability) -> PartitionDevice:
    assert device.device is not None
    assert device.resource_slice is not None
    return profiles.partition_of(device.id.driver, device.device, device.resource_slice)


def _shares_of_counters(group: Sequence[DeviceAvailability]) -> list[Fraction]:
    """Return which part each device takes of the counters, for devices without capacity."""
    amounts = [_amounts(device) for device in group]
    most: dict[tuple[str, str], int] = {}
    for taken in amounts:
        for key, amount in taken.items():
            most[key] = max(amount, most.get(key, 0))
    counted = {key: amount for key, amount in most.items() if amount > 0}
    return [
        sum((Fraction(taken.get(key, 0), most[key]) for key in counted), start=Fraction(0))
        / (len(counted) or 1)
        for taken in amounts
    ]


def _amounts(device: DeviceAvailability) -> dict[tuple[str, str], int]:
    assert device.device is not None
    return {
        (consumption.counter_set, name): quantity.parse(counter.value).nano
        for consumption in device.device.consumes_counters
        for name, counter in consumption.counters.items()
    }
