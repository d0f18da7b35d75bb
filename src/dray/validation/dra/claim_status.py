"""Rules for the status of a ResourceClaim: allocation, reservations, reports of drivers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from dray.api import ids
from dray.api.formats import gotext
from dray.api.types import dra
from dray.validation import fields, identifiers, ip_addresses, lists, metadata, selector_rules
from dray.validation.dra import claims as claim_rules
from dray.validation.dra import classes, devices, taints

DEVICE_CONDITIONS_MAX_ITEMS: Final = 8
DEVICE_DATA_MAX_BYTES: Final = 10 * 1024
ADDRESSES_MAX_ITEMS: Final = 16
INTERFACE_NAME_MAX_BYTES: Final = 256
HARDWARE_ADDRESS_MAX_BYTES: Final = 128
CONFIGURATION_SOURCES: Final = ("FromClaim", "FromClass")


def status_update(new: dra.ResourceClaim, old: dra.ResourceClaim) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from lists.limited_set(
        new.status.reserved_for,
        dra.RESERVED_FOR_MAX_SIZE,
        _consumer,
        lambda reference: reference.uid,
        fields.STATUS.child("reservedFor"),
        covered=True,
    )
    yield from _devices(new.status, fields.STATUS.child("devices"))
    yield from _reservations_allowed(new, old)
    yield from _allocation_update(new, old)


def _consumer(reference: dra.ResourceClaimConsumerReference, path: fields.Path) -> fields.Errors:
    for field, value in (
        ("resource", reference.resource),
        ("name", reference.name),
        ("uid", reference.uid),
    ):
        yield from fields.required_text(path.child(field), value)


def _reservations_allowed(new: dra.ResourceClaim, old: dra.ResourceClaim) -> fields.Errors:
    reserved = new.status.reserved_for
    path = fields.STATUS.child("reservedFor")
    if reserved and new.status.allocation is None:
        yield fields.forbidden(path, "may not be specified when `allocated` is not set")
    elif new.metadata.deletion_timestamp is not None and not (
        set(reserved) <= set(old.status.reserved_for)
    ):
        yield fields.forbidden(
            path,
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` "
            "are set",
        )


def _allocation_update(new: dra.ResourceClaim, old: dra.ResourceClaim) -> fields.Errors:
    allocation, old_allocation = new.status.allocation, old.status.allocation
    if allocation is None:
        return
    path = fields.STATUS.child("allocation")
    if old_allocation is None:
        yield from _allocation(allocation, path, claim_rules.request_references(new.spec.devices))
    else:
        unchanged = fields.immutable(path, allocation, old_allocation)
        yield from fields.covered(unchanged, "update")


def _allocation(
    allocation: dra.AllocationResult, path: fields.Path, references: Collection[str]
) -> fields.Errors:
    yield from lists.limited(
        allocation.devices.results,
        dra.ALLOCATION_RESULTS_MAX_SIZE,
        lambda result, result_path: _result(result, result_path, references),
        path.child("devices").child("results"),
        size_covered=True,
    )
    yield from lists.limited(
        allocation.devices.config,
        2 * classes.CONFIGURATIONS_MAX_ITEMS,
        lambda config, config_path: _configuration(config, config_path, references),
        path.child("devices").child("config"),
        size_covered=True,
    )
    if allocation.node_selector is not None:
        yield from selector_rules.node_selector(
            allocation.node_selector, path.child("nodeSelector")
        )


def _result(
    result: dra.DeviceRequestAllocationResult, path: fields.Path, references: Collection[str]
) -> fields.Errors:
    yield from claim_rules.request_reference(result.request, path.child("request"), references)
    yield from identifiers.covered_driver_name(result.driver, path.child("driver"))
    yield from fields.covered(identifiers.pool_name(result.pool, path.child("pool")))
    yield from identifiers.dns_label(result.device, path.child("device"))
    yield from devices.binding_conditions(
        result.binding_conditions, result.binding_failure_conditions, path
    )
    yield from lists.each_item(result.tolerations, taints.toleration, path.child("tolerations"))
    yield from _share_id(result.share_id, path.child("shareID"))
    yield from devices.skipped_node_operations(
        result.skip_node_operations, path.child("skipNodeOperations")
    )


def _configuration(
    config: dra.DeviceAllocationConfiguration, path: fields.Path, references: Collection[str]
) -> fields.Errors:
    yield from fields.required_one_of(
        path.child("source"), config.source, CONFIGURATION_SOURCES, covered=True
    )
    yield from claim_rules.configured_requests(config.requests, path.child("requests"), references)
    yield from classes.opaque_configuration(config.opaque, path, is_stored=False)


def _share_id(share_id: str | None, path: fields.Path) -> fields.Errors:
    if share_id is not None:
        yield from fields.covered(identifiers.uuid(share_id, path))


def _devices(status: dra.ResourceClaimStatus, path: fields.Path) -> fields.Errors:
    results = status.allocation.devices.results if status.allocation else ()
    allocated = frozenset(_shared_id(result) for result in results)
    for index, device in enumerate(status.devices):
        yield from _device(device, path.index(index), allocated)
    yield from lists.distinct(status.devices, _shared_id, path, shown=_printed_id, covered=True)


def _shared_id(
    device: dra.AllocatedDeviceStatus | dra.DeviceRequestAllocationResult,
) -> ids.SharedDeviceId:
    return ids.SharedDeviceId(device.driver, device.pool, device.device, device.share_id or "")


def _printed_id(device: dra.AllocatedDeviceStatus) -> dra.AllocatedDeviceStatus:
    """Return the fields that identify a device; the others are left out of the message."""
    return dra.AllocatedDeviceStatus(
        driver=device.driver, pool=device.pool, device=device.device, share_id=device.share_id
    )


def _device(
    device: dra.AllocatedDeviceStatus, path: fields.Path, allocated: Collection[ids.SharedDeviceId]
) -> fields.Errors:
    yield from identifiers.driver_name(device.driver, path.child("driver"))
    yield from identifiers.pool_name(device.pool, path.child("pool"))
    yield from identifiers.dns_label(device.device, path.child("device"))
    yield from _share_id(device.share_id, path.child("shareID"))
    if _shared_id(device) not in allocated:
        yield fields.invalid(path, _printed_id(device), "must be an allocated device in the claim")
    conditions = path.child("conditions")
    yield from fields.limited_items(conditions, device.conditions, DEVICE_CONDITIONS_MAX_ITEMS)
    yield from metadata.conditions(device.conditions, conditions)
    if device.data is not msgspec.UNSET and device.data is not None:
        yield from classes.raw_object(device.data, path.child("data"), DEVICE_DATA_MAX_BYTES)
    if device.network_data is not None:
        yield from _network(device.network_data, path.child("networkData"))


def _network(data: dra.NetworkDeviceData, path: fields.Path) -> fields.Errors:
    for field, value, maximum in (
        ("interfaceName", data.interface_name, INTERFACE_NAME_MAX_BYTES),
        ("hardwareAddress", data.hardware_address, HARDWARE_ADDRESS_MAX_BYTES),
    ):
        if len(value.encode()) > maximum:
            yield fields.too_long(path.child(field), maximum, origin="maxBytes", covered=True)
    yield from lists.limited_set(
        data.ips,
        ADDRESSES_MAX_ITEMS,
        _interface_address,
        lists.itself,
        path.child("ips"),
        covered=True,
    )


def _interface_address(value: str, path: fields.Path) -> fields.Errors:
    canonical = ip_addresses.canonical_interface_address(value)
    if canonical is None:
        yield fields.invalid(
            path,
            value,
            "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)",
        )
    elif value != canonical:
        yield fields.invalid(path, value, f"must be in canonical form ({gotext.quote(canonical)})")
