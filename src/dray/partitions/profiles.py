"""Profiles: the sizes in which partitions are published.

A profile is what partitions of one size have in common: `2g.20gb`. Its nominal size is that of its
name (2 compute slices, 20Gi), its real size what the device publishes (19968Mi). Requests use
nominal sizes. Devices without such a name are distinguished by what they publish.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from dray.api.formats import quantity
from dray.api.formats.quantity import Quantity
from dray.api.types.dra import Device, ResourceSlice

Sizes = Mapping[str, Quantity]

PROFILE = "profile"
_NOMINAL = re.compile(r"(?:(\d+)c\.)?(\d+)g\.(\d+)gb")
_NOT_IN_LABEL = re.compile(r"[^a-z0-9]+")


class PartitionDevice(NamedTuple):
    """A device that is part of a larger one, and the attribute that names its profile."""

    driver: str
    device: Device
    type_attribute: str = PROFILE

    @property
    def type_name(self) -> str:
        """Return the name of its profile, such as `2g.20gb`, or an empty text."""
        attributes, qualified = self.device.attributes, f"{self.driver}/{self.type_attribute}"
        attribute = attributes.get(self.type_attribute) or attributes.get(qualified)
        return attribute.string_value or "" if attribute else ""


class Profile(NamedTuple):
    """A size of partitions; `sizes` are nominal, `real_sizes` as published."""

    driver: str
    type_attribute: str
    name: str
    sizes: tuple[tuple[str, Quantity], ...]
    real_sizes: tuple[tuple[str, Quantity], ...]

    def is_enough(self, requested: Sizes) -> bool:
        sizes = dict(self.sizes)
        return all(name in sizes and sizes[name] >= amount for name, amount in requested.items())

    @property
    def label(self) -> str:
        """Return the profile's name in the form of a request's name."""
        text = self.name or "-".join(str(amount) for _, amount in self.real_sizes)
        return _NOT_IN_LABEL.sub("-", text.lower()).strip("-")[:40].rstrip("-") or "partition"

    @property
    def expression(self) -> str:
        """Return a CEL expression that matches its devices and fails on no other."""
        if self.name:
            domain, _, attribute = self.type_attribute.rpartition("/")
            field = f'device.attributes["{domain or self.driver}"].{attribute}'
            return f'has({field}) && {field} == "{self.name}"'
        capacity = f'device.capacity["{self.driver}"]'
        return " && ".join(
            f'has({capacity}.{name}) && {capacity}.{name}.compareTo(quantity("{amount}")) == 0'
            for name, amount in self.real_sizes
        )

    def describe(self, names: Iterable[str]) -> str:
        """Return the name with the real sizes of the resources in `names`."""
        real = dict(self.real_sizes)
        sizes = ", ".join(f"{name} {real[name]}" for name in names if name in real)
        title = self.name or self.label
        return f"{title} ({sizes})" if sizes else title


def partition_of(driver: str, device: Device, resource_slice: ResourceSlice) -> PartitionDevice:
    """Return a device of a slice with the attribute that names the profiles of this slice."""
    attribute = resource_slice.spec.partition_type_attribute or PROFILE
    return PartitionDevice(driver, device, attribute.removeprefix(f"{driver}/"))


def partition_devices(resource_slice: ResourceSlice) -> Iterator[PartitionDevice]:
    """Return the devices of a slice that share counters with others."""
    for device in resource_slice.spec.devices:
        if device.consumes_counters:
            yield partition_of(resource_slice.spec.driver, device, resource_slice)


def shares(published: Iterable[PartitionDevice]) -> list[Fraction]:
    """Return which part each device is of the largest one, in compute and memory."""
    found = list(map(_profile, published))
    largest = _largest(found)
    return [_share(profile, largest) / (len(_counted(profile)) or 1) for profile in found]


def distinct_profiles(published: Iterable[PartitionDevice]) -> list[Profile]:
    """Return the profiles of partitions, from the smallest share of a device to the largest."""
    distinct = {
        (profile.driver, profile.name or profile.label): profile
        for profile in map(_profile, published)
    }
    largest = _largest(distinct.values())
    return sorted(distinct.values(), key=lambda profile: (_share(profile, largest), profile.name))


def _profile(partition: PartitionDevice) -> Profile:
    real = {
        name.removeprefix(f"{partition.driver}/"): quantity.parse(capacity.value)
        for name, capacity in partition.device.capacity.items()
    }
    sizes = {**real, **_nominal_sizes(partition.type_name)}
    return Profile(
        partition.driver,
        partition.type_attribute,
        partition.type_name,
        tuple(sorted(sizes.items())),
        tuple(sorted(real.items())),
    )


def _nominal_sizes(name: str) -> dict[str, Quantity]:
    match = _NOMINAL.match(name)
    if match is None:
        return {}
    compute_instances, compute, memory = match.groups()
    return {
        "compute": quantity.of(int(compute_instances or compute)),
        "memory": quantity.parse(f"{memory}Gi"),
    }


def _largest(profiles: Iterable[Profile]) -> dict[str, Quantity]:
    largest: dict[str, Quantity] = {}
    for profile in profiles:
        for name, amount in profile.sizes:
            largest[name] = max(amount, largest.get(name, quantity.ZERO))
    return largest


def _share(profile: Profile, largest: Sizes) -> Fraction:
    """Return its share of the largest profile: that of compute plus that of memory."""
    sizes = dict(profile.sizes)
    shares = (
        Fraction(sizes[name].nano, largest[name].nano)
        for name in _counted(profile)
        if largest[name].sign() > 0
    )
    return sum(shares, start=Fraction(0))


def _counted(profile: Profile) -> list[str]:
    """Return the resources by which profiles are compared: compute and memory, else all."""
    sizes = dict(profile.sizes)
    return [name for name in ("compute", "memory") if name in sizes] or list(sizes)
