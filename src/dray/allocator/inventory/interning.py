"""Equal parts of slices, stored once.

Forty thousand GPUs of four models publish the same few attribute values and capacity maps. Slices
pass through an `Interner` right after decoding, so that a device keeps only what is its own. Slices
with equal devices then have the same tuple of them, by which `node_classes` recognizes alike nodes.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from dray.api.types import dra
from dray.api.types.dra import DeviceAttribute

_ATTRIBUTES_LIMIT = 1 << 18
_SLICES_LIMIT = 1 << 12
_force = msgspec.structs.force_setattr


class Interner:
    """A cache of equal parts; it is cleared when it reaches its limit."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._attributes: dict[DeviceAttribute, DeviceAttribute] = {}
        self._attribute_maps: dict[Hashable, dict[str, DeviceAttribute]] = {}
        self._capacities: dict[Hashable, dict[str, dra.DeviceCapacity]] = {}
        self._consumptions: dict[Hashable, tuple[dra.DeviceCounterConsumption, ...]] = {}
        self._devices: dict[Hashable, tuple[dra.Device, ...]] = {}
        self._counter_sets: dict[Hashable, tuple[dra.CounterSet, ...]] = {}

    def share(self, resource_slice: dra.ResourceSlice) -> dra.ResourceSlice:
        """Replace parts of the slice by equal ones seen before; return the slice itself."""
        spec = resource_slice.spec
        if spec.shared_counters:
            self._share_counters(spec)
        shares_all = [self._share_parts(device) for device in spec.devices]
        if all(shares_all):
            if len(self._devices) >= _SLICES_LIMIT:
                self._devices.clear()
            key = tuple(map(_device_key, spec.devices))
            _force(spec, "devices", self._devices.setdefault(key, spec.devices))
        return resource_slice

    def _share_counters(self, spec: dra.ResourceSliceSpec) -> None:
        sets = spec.shared_counters
        key = tuple([(found.name, tuple(found.counters.items())) for found in sets])
        if len(self._counter_sets) >= _SLICES_LIMIT:
            self._counter_sets.clear()
        _force(spec, "shared_counters", self._counter_sets.setdefault(key, sets))

    def _share_parts(self, device: dra.Device) -> bool:
        """Replace parts of a device; return whether others may have all of them."""
        shares_all = not device.node_allocatable_resources
        _force(device, "name", self._texts.setdefault(device.name, device.name))
        if device.attributes:
            attributes = self._shared_attributes(device.attributes)
            if attributes is None:
                shares_all = False
            else:
                _force(device, "attributes", attributes)
        if device.capacity:
            key: Hashable = tuple(device.capacity.items())
            _force(device, "capacity", self._capacities.setdefault(key, device.capacity))
        if device.consumes_counters:
            consumed = device.consumes_counters
            key = tuple([_consumption_key(consumption) for consumption in consumed])
            _force(device, "consumes_counters", self._consumptions.setdefault(key, consumed))
        return shares_all

    def _shared_attributes(
        self, published: dict[str, DeviceAttribute]
    ) -> dict[str, DeviceAttribute] | None:
        """Return an equal map that others use too, or None if there cannot be one."""
        cached = self._attributes
        if len(cached) >= _ATTRIBUTES_LIMIT:
            cached.clear()
            self._attribute_maps.clear()
            self._devices.clear()
        is_new = False
        for name, attribute in published.items():
            same = cached.get(attribute)
            if same is None:
                cached[attribute] = attribute
                is_new = True
            else:
                published[name] = same
        if is_new:
            # A map with a value of its own, such as a UUID, will not be seen again.
            return None
        key = (tuple(published), tuple([id(attribute) for attribute in published.values()]))
        return self._attribute_maps.setdefault(key, published)


def _device_key(device: dra.Device) -> Hashable:
    """Return a key that is equal for equal devices whose parts are shared."""
    # Each empty map is an object of its own.
    return (
        device.name,
        id(device.attributes) if device.attributes else 0,
        id(device.capacity) if device.capacity else 0,
        id(device.consumes_counters) if device.consumes_counters else 0,
        device.node_name,
        device.node_selector,
        device.all_nodes,
        device.taints,
        device.binds_to_node,
        device.binding_conditions,
        device.binding_failure_conditions,
        device.allow_multiple_allocations,
    )


def _consumption_key(consumption: dra.DeviceCounterConsumption) -> Hashable:
    counters = tuple(consumption.counters.items())
    return consumption.counter_set, consumption.compatibility_groups, counters
