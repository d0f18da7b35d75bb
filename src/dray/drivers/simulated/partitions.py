"""Partitionable devices: one device per placement, all consuming one set of counters.

As NVIDIA's driver publishes MIG: the counters of a GPU are what its largest profile has, and one
for each memory slice, so that placements which overlap cannot be allocated together and a whole GPU
excludes all of its partitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from dray.api.formats import quantity
from dray.api.types import dra
from dray.api.types.dra import Counter, CounterSet, Device, DeviceAttribute
from dray.drivers.simulated import templates
from dray.drivers.simulated.fleet_file import Partitioning, PartitionProfile

TYPE, PROFILE, UUID, PARENT = "type", "profile", "uuid", "parentUUID"
START, SIZE = "placementStart", "placementSize"
MIG = "mig"
_OF_THE_WHOLE = frozenset(
    {"index", "minor", "powerLimitWatts", "thermalSlowdownCelsius", "thermalShutdownCelsius"}
)
_UPPER = re.compile("[A-Z]")
_NOT_IN_NAMES = re.compile("[^a-z0-9]+")


def counter_set(whole: Device, partitioning: Partitioning) -> CounterSet:
    slots = _slots(0, partitioning.slots)
    return CounterSet(_set_name(whole), {**_counters(_largest(partitioning)), **slots})


def whole_device(whole: Device, partitioning: Partitioning) -> Device:
    """Return the whole device, which consumes everything that its partitions could."""
    everything = counter_set(whole, partitioning)
    consumption = dra.DeviceCounterConsumption(everything.name, everything.counters)
    sizes = {**templates.capacities(_largest(partitioning)), **whole.capacity}
    return msgspec.structs.replace(whole, capacity=sizes, consumes_counters=(consumption,))


def partitions(whole: Device, partitioning: Partitioning, identity: str) -> Iterator[Device]:
    for name, profile in partitioning.profiles.items():
        capacity = templates.capacities(profile.capacity)
        for start, size in profile.placements:
            yield _partition(whole, name, profile, capacity, (start, size), identity)


def _partition(
    whole: Device,
    profile_name: str,
    profile: PartitionProfile,
    capacity: dict[str, dra.DeviceCapacity],
    placement: tuple[int, int],
    identity: str,
) -> Device:
    start, size = placement
    label = _NOT_IN_NAMES.sub("-", profile_name.replace(".", ""))
    name = f"{whole.name}-mig-{label}-{profile.id}-{start}"
    consumed = {**_counters(profile.capacity), **_slots(start, size)}
    placed = {START: DeviceAttribute(int_value=start), SIZE: DeviceAttribute(int_value=size)}
    return Device(
        name=name,
        attributes={**_attributes(whole, profile_name, f"{identity}/{name}"), **placed},
        capacity=capacity,
        consumes_counters=(dra.DeviceCounterConsumption(_set_name(whole), consumed),),
    )


def _attributes(whole: Device, profile: str, identity: str) -> dict[str, DeviceAttribute]:
    inherited = {
        name: value for name, value in whole.attributes.items() if name not in _OF_THE_WHOLE
    }
    inherited[TYPE] = DeviceAttribute(string_value=MIG)
    inherited[PROFILE] = DeviceAttribute(string_value=profile)
    inherited[PARENT] = whole.attributes[UUID]
    inherited[UUID] = DeviceAttribute(string_value=f"MIG-{templates.unique_id(identity)}")
    return inherited


def _set_name(whole: Device) -> str:
    return f"{whole.name}-counter-set"


def _slots(start: int, size: int) -> dict[str, Counter]:
    return {f"memory-slice-{slot}": Counter("1") for slot in range(start, start + size)}


def _counters(capacity: Mapping[str, int | str]) -> dict[str, Counter]:
    """Return the counters of a capacity; copyEngines becomes copy-engines, a DNS label."""
    return {
        _UPPER.sub(lambda upper: f"-{upper[0].lower()}", name): Counter(str(value))
        for name, value in capacity.items()
    }


def _largest(partitioning: Partitioning) -> dict[str, int | str]:
    """Return the maximum of each capacity over the profiles."""
    largest: dict[str, int | str] = {}
    for profile in partitioning.profiles.values():
        for name, value in profile.capacity.items():
            if name not in largest or _amount(value) > _amount(largest[name]):
                largest[name] = value
    return largest


def _amount(value: int | str) -> quantity.Quantity:
    return quantity.parse(str(value))
