"""Equal parts of slices, stored once.

Forty thousand GPUs of four models publish the same few attribute values and capacity maps. Slices
pass through an `Interner` right after decoding, so that a device keeps only what is its own.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from dray.api.types import dra
from dray.api.types.dra import DeviceAttribute

_ATTRIBUTES_LIMIT = 1 << 18
_force = msgspec.structs.force_setattr


class Interner:
    """A cache of equal parts; it is cleared when it reaches its limit."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._attributes: dict[DeviceAttribute, DeviceAttribute] = {}
        self._attribute_maps: dict[Hashable, dict[str, DeviceAttribute]] = {}
        self._capacities: dict[Hashable, dict[str, dra.DeviceCapacity]] = {}
        self._consumptions: dict[Hashable, tuple[dra.DeviceCounterConsumption, ...]] = {}

    def share(self, resource_slice: dra.ResourceSlice) -> dra.ResourceSlice:
        """Replace parts of the slice by equal ones seen before; return the slice itself."""
        for device in resource_slice.spec.devices:
            self._share_device(device)
        return resource_slice

    def _share_device(self, device: dra.Device) -> None:
        _force(device, "name", self._texts.setdefault(device.name, device.name))
        if device.attributes:
            _force(device, "attributes", self._shared_attributes(device.attributes))
        if device.capacity:
            key: Hashable = tuple(device.capacity.items())
            _force(device, "capacity", self._capacities.setdefault(key, device.capacity))
        if device.consumes_counters:
            consumed = device.consumes_counters
            key = tuple([_consumption_key(consumption) for consumption in consumed])
            _force(device, "consumes_counters", self._consumptions.setdefault(key, consumed))

    def _shared_attributes(
        self, published: dict[str, DeviceAttribute]
    ) -> dict[str, DeviceAttribute]:
        cached = self._attributes
        if len(cached) >= _ATTRIBUTES_LIMIT:
            cached.clear()
            self._attribute_maps.clear()
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
            return published
        key = (tuple(published), tuple([id(attribute) for attribute in published.values()]))
        return self._attribute_maps.setdefault(key, published)


def _consumption_key(consumption: dra.DeviceCounterConsumption) -> Hashable:
    counters = tuple(consumption.counters.items())
    return consumption.counter_set, consumption.compatibility_groups, counters
