"""Computes a PoolStatus: device counts, partitions that still fit, remaining shared capacity.

As pkg/controller/resourcepoolstatusrequest. Only slices of a pool's newest generation count. Admin
access uses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dray.allocator.checks import taints
from dray.api.formats import quantity
from dray.api.formats.quantity import Quantity
from dray.api.ids import PoolId
from dray.api.semantics import pools
from dray.api.types import dra
from dray.api.types.dra import Device, DeviceTaintRule, PoolStatus, ResourceSlice
from dray.controllers.devices import eviction_times

MAX_ITEMS = 32
MAX_ERROR_BYTES = 256
INCOMPLETE = "PoolIncomplete:"
TYPE_MISSING = "PartitionTypeMissing:"
COST_MISMATCH = "PartitionCostMismatch:"
TOO_MANY_TYPES = "PartitionSummaryOverCap:"
TOO_MANY_CAPACITIES = "ShareableSummaryOverCap:"

Counters = dict[tuple[str, str], Quantity]
"""The remaining amount of each counter of each counter set."""


class ViewError(Exception):
    """A pool cannot be summarised. The message begins with a machine-readable reason."""


class PoolUse(NamedTuple):
    """Devices and capacity of one pool that claims use."""

    devices: frozenset[str] = frozenset()
    capacity: Mapping[str, Quantity] = {}


def uses(results: Iterable[dra.DeviceRequestAllocationResult]) -> dict[PoolId, PoolUse]:
    """Return by pool the devices in use and the capacity consumed of them."""
    by_pool: dict[PoolId, PoolUse] = {}
    for result in results:
        if result.admin_access:
            continue
        before = by_pool.get(result.pool_id, PoolUse())
        capacity = dict(before.capacity)
        for name, amount in result.consumed_capacity.items():
            capacity[name] = capacity.get(name, quantity.ZERO) + quantity.parse(amount)
        devices = before.devices | {result.device}
        by_pool[result.pool_id] = PoolUse(devices, capacity)
    return by_pool


def pool_status(
    slices: Sequence[ResourceSlice],
    use: PoolUse,
    rules: Sequence[DeviceTaintRule],
    default_attribute: str | None,
) -> PoolStatus:
    """Return the status of one pool from all its slices, which must be at least one."""
    current = pools.current_slices(slices)
    first = current[0].spec
    nodes = {item.spec.node_name for item in current}
    status = PoolStatus(
        driver=first.driver,
        pool_name=first.pool.name,
        generation=first.pool.generation,
        node_name=first.node_name if len(nodes) == 1 else None,
    )
    expected = first.pool.resource_slice_count
    if len(current) < expected:
        where = f"pool {first.driver}/{first.pool.name}"
        error = (
            f"{INCOMPLETE} {where} is incomplete: observed {len(current)}/{expected} slices "
            f"at generation {first.pool.generation}"
        )
        return msgspec.structs.replace(status, validation_error=error[:MAX_ERROR_BYTES])
    return _with_views(_with_counts(status, current, use, rules), current, use, default_attribute)


def _with_counts(
    status: PoolStatus,
    current: Sequence[ResourceSlice],
    use: PoolUse,
    rules: Sequence[DeviceTaintRule],
) -> PoolStatus:
    devices = [device for resource_slice in current for device in resource_slice.spec.devices]
    unavailable = sum(_is_unavailable(status, device, rules) for device in devices)
    return msgspec.structs.replace(
        status,
        resource_slice_count=len(current),
        total_devices=len(devices),
        allocated_devices=len(use.devices),
        unavailable_devices=unavailable,
        available_devices=max(len(devices) - len(use.devices) - unavailable, 0),
    )


def _is_unavailable(status: PoolStatus, device: Device, rules: Sequence[DeviceTaintRule]) -> bool:
    if any(map(taints.prevents_allocation, device.taints)):
        return True
    return any(
        taints.prevents_allocation(rule.spec.taint)
        and eviction_times.selects(rule, status.driver, status.pool_name, device.name)
        for rule in rules
    )


def _with_views(
    status: PoolStatus,
    current: Sequence[ResourceSlice],
    use: PoolUse,
    default_attribute: str | None,
) -> PoolStatus:
    """Add the summaries. An error in one sets `validation_error`; the counts stay."""
    error = ""
    partitions: tuple[dra.PartitionTypeStatus, ...] = ()
    shareable: dra.ShareableSummaryStatus | None = None
    try:
        partitions = _partition_summary(status, current, use, default_attribute)
    except ViewError as problem:
        error = str(problem)
    try:
        shareable = _shareable_summary(status, current, use)
    except ViewError as problem:
        error = error or str(problem)
    return msgspec.structs.replace(
        status,
        partition_summary=() if error else partitions,
        shareable_summary=shareable,
        validation_error=error[:MAX_ERROR_BYTES] or None,
    )


def _name(status: PoolStatus) -> str:
    return f"pool {status.driver}/{status.pool_name}"


class _Partition(NamedTuple):
    """A partition of a pool, and the attribute that its type is read from."""

    device: Device
    attribute: str


def _partition_summary(
    status: PoolStatus,
    current: Sequence[ResourceSlice],
    use: PoolUse,
    default_attribute: str | None,
) -> tuple[dra.PartitionTypeStatus, ...]:
    """Return for each partition type the number of partitions, and of those that still fit."""
    grouped = list(_grouped(current, default_attribute))
    if not grouped:
        return ()
    if not any(item.spec.shared_counters for item in current):
        raise ViewError(
            f"{TYPE_MISSING} {_name(status)} declares partitionTypeAttribute but publishes "
            "no sharedCounters"
        )
    groups = _by_type(status, grouped)
    left = _counters_left(current, use)
    summary = tuple(
        dra.PartitionTypeStatus(
            attribute=attribute,
            type=type_,
            total=len(devices),
            allocatable=_fitting(
                (device for device in devices if device.name not in use.devices), dict(left)
            ),
        )
        for (attribute, type_), devices in sorted(groups.items())
    )
    if len(summary) > MAX_ITEMS:
        raise ViewError(
            f"{TOO_MANY_TYPES} {_name(status)} has {len(summary)} partition types, "
            f"exceeding the maximum of {MAX_ITEMS}"
        )
    return summary


def _grouped(
    current: Sequence[ResourceSlice], default_attribute: str | None
) -> Iterator[_Partition]:
    """Yield partitions. The default attribute counts only if no slice names one itself."""
    declared = any(resource_slice.spec.partition_type_attribute for resource_slice in current)
    for resource_slice in current:
        attribute = resource_slice.spec.partition_type_attribute or (
            None if declared else default_attribute
        )
        if attribute:
            yield from (_Partition(device, attribute) for device in resource_slice.spec.devices)


def _by_type(
    status: PoolStatus, grouped: Iterable[_Partition]
) -> dict[tuple[str, str], list[Device]]:
    groups: dict[tuple[str, str], list[Device]] = {}
    for device, attribute in grouped:
        if not device.consumes_counters:
            continue
        type_ = _partition_type(status.driver, device, attribute)
        if type_ is None:
            raise ViewError(
                f'{TYPE_MISSING} device "{device.name}" in {_name(status)} does not carry '
                f'partition type attribute "{attribute}"'
            )
        members = groups.setdefault((attribute, type_), [])
        if members and _cost(members[0]) != _cost(device):
            raise ViewError(
                f'{COST_MISMATCH} devices of partition type "{type_}" in {_name(status)} '
                "consume different counters"
            )
        members.append(device)
    return groups


def _partition_type(driver: str, device: Device, attribute: str) -> str | None:
    """Return the type of a partition, or None.

    An attribute in the domain of the driver may be published without the domain.
    """
    value = device.attributes.get(attribute)
    if value is None and attribute.startswith(f"{driver}/"):
        value = device.attributes.get(attribute.removeprefix(f"{driver}/"))
    return value.string_value if value else None


def _cost(device: Device) -> Counters:
    return {
        (consumption.counter_set, name): quantity.parse(counter.value)
        for consumption in device.consumes_counters
        for name, counter in consumption.counters.items()
    }


def _counters_left(current: Sequence[ResourceSlice], use: PoolUse) -> Counters:
    left = {
        (counters.name, name): quantity.parse(counter.value)
        for resource_slice in current
        for counters in resource_slice.spec.shared_counters
        for name, counter in counters.counters.items()
    }
    for resource_slice in current:
        for device in resource_slice.spec.devices:
            if device.name in use.devices:
                _deduct(_cost(device), left)
    return left


def _deduct(cost: Counters, left: Counters) -> None:
    for key in cost.keys() & left.keys():
        left[key] -= cost[key]


def _fitting(devices: Iterable[Device], left: Counters) -> int:
    """Return the number of devices that fit together into the remaining counters."""
    count = 0
    for device in devices:
        cost = _cost(device)
        if all(key in left and left[key] >= amount for key, amount in cost.items()):
            _deduct(cost, left)
            count += 1
    return count


def _shareable_summary(
    status: PoolStatus, current: Sequence[ResourceSlice], use: PoolUse
) -> dra.ShareableSummaryStatus | None:
    """Return the remaining capacity of shareable devices, or None without such devices."""
    devices = [
        device
        for resource_slice in current
        for device in resource_slice.spec.devices
        if device.allow_multiple_allocations
    ]
    if not devices:
        return None
    total: dict[str, Quantity] = {}
    for device in devices:
        for name, capacity in device.capacity.items():
            total[name] = total.get(name, quantity.ZERO) + quantity.parse(capacity.value)
    if len(total) > MAX_ITEMS:
        raise ViewError(
            f"{TOO_MANY_CAPACITIES} {_name(status)} has {len(total)} shareable capacity keys, "
            f"exceeding the maximum of {MAX_ITEMS}"
        )
    partial = sum(device.name in use.devices for device in devices)
    return dra.ShareableSummaryStatus(
        fully_available_devices=len(devices) - partial,
        partially_available_devices=partial,
        capacity=tuple(_capacity(name, total[name], use) for name in sorted(total)),
    )


def _capacity(name: str, total: Quantity, use: PoolUse) -> dra.ShareableCapacityStatus:
    consumed = use.capacity.get(name, quantity.ZERO)
    left = max(total - consumed, quantity.ZERO)
    return dra.ShareableCapacityStatus(
        name=name, total=str(total), consumed=str(consumed), available=str(left)
    )
