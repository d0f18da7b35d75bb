"""The sizes in which partitionable devices are published: profiles, and which of them suffice.

Pure. A profile is what partitions of one kind have in common: `2g.20gb`. Its nominal size is what
its name says (2 compute slices, 20Gi), its real size what the device publishes (19968Mi); people
ask for nominal sizes. Devices without such a name are told apart by what they publish.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    """A device that is part of a larger one, and the attribute that says of which sort it is."""

    driver: str
    device: Device
    type_attribute: str = PROFILE

    @property
    def type_name(self) -> str:
        """`2g.20gb`; empty where the device does not say."""
        attributes = self.device.attributes
        found = attributes.get(self.type_attribute) or attributes.get(
            f"{self.driver}/{self.type_attribute}"
        )
        return found.string_value or "" if found else ""


class Profile(NamedTuple):
    driver: str
    type_attribute: str
    name: str
    sizes: tuple[tuple[str, Quantity], ...]
    real_sizes: tuple[tuple[str, Quantity], ...]

    def has(self, wanted: Sizes) -> bool:
        sizes = dict(self.sizes)
        return all(name in sizes and sizes[name] >= amount for name, amount in wanted.items())

    @property
    def label(self) -> str:
        """A name that a request may have."""
        text = self.name or "-".join(str(amount) for _, amount in self.real_sizes)
        return _NOT_IN_LABEL.sub("-", text.lower()).strip("-")[:40].rstrip("-") or "partition"

    @property
    def expression(self) -> str:
        """Selects the devices of this profile, without failing on any other."""
        if self.name:
            domain, _, attribute = self.type_attribute.rpartition("/")
            field = f'device.attributes["{domain or self.driver}"].{attribute}'
            return f'has({field}) && {field} == "{self.name}"'
        return " && ".join(
            f'has({field}) && {field}.compareTo(quantity("{amount}")) == 0'
            for field, amount in self._capacity_fields()
        )

    def _capacity_fields(self) -> Iterator[tuple[str, Quantity]]:
        for name, amount in self.real_sizes:
            yield f'device.capacity["{self.driver}"].{name}', amount

    def describe(self, names: Iterable[str]) -> str:
        """The name and what devices of this profile really have of the resources named."""
        real = dict(self.real_sizes)
        sizes = ", ".join(f"{name} {real[name]}" for name in names if name in real)
        title = self.name or self.label
        return f"{title} ({sizes})" if sizes else title


def offers(resource_slice: ResourceSlice) -> Iterator[PartitionDevice]:
    """The devices of a slice that share counters with others."""
    spec = resource_slice.spec
    attribute = (spec.partition_type_attribute or PROFILE).removeprefix(f"{spec.driver}/")
    for device in spec.devices:
        if device.consumes_counters:
            yield PartitionDevice(spec.driver, device, attribute)


def profiles(published: Iterable[PartitionDevice]) -> list[Profile]:
    """The distinct profiles, from the one that takes least of its device to the largest."""
    found = {
        (profile.driver, profile.name or profile.label): profile
        for profile in map(_profile, published)
    }
    largest = _largest(found.values())
    return sorted(found.values(), key=lambda profile: (_share(profile, largest), profile.name))


def _profile(offer: PartitionDevice) -> Profile:
    real = {
        name.removeprefix(f"{offer.driver}/"): quantity.parse(capacity.value)
        for name, capacity in offer.device.capacity.items()
    }
    sizes = {**real, **_nominal_sizes(offer.type_name)}
    return Profile(
        offer.driver,
        offer.type_attribute,
        offer.type_name,
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


def _largest(found: Iterable[Profile]) -> dict[str, Quantity]:
    largest: dict[str, Quantity] = {}
    for profile in found:
        for name, amount in profile.sizes:
            largest[name] = max(amount, largest.get(name, quantity.ZERO))
    return largest


def _share(profile: Profile, largest: Sizes) -> Fraction:
    """How much of the whole it takes, over compute and memory: what little there is of both."""
    sizes = dict(profile.sizes)
    counted: Sequence[str] = [name for name in ("compute", "memory") if name in sizes] or list(
        sizes
    )
    return sum(
        (
            Fraction(sizes[name].nano, largest[name].nano)
            for name in counted
            if largest[name].sign() > 0
        ),
        start=Fraction(0),
    )
