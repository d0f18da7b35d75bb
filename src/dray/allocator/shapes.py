"""Shapes: what an expression reads of a device, as a value that can be compared.

Devices of equal shape have equal answers. Reading a few fields of a device is much cheaper than
showing it to an expression, and a fleet has few shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from dray.api import semver
from dray.api.slices import Device, DeviceAttribute

Path = tuple[str, ...]
"""(device, attributes, DOMAIN, ID) and the like; a shorter path means all below it."""

WHOLE_DEVICE: Path = ("device",)

Reader = Callable[[str, Device], Hashable]
"""A driver's device to its shape."""


def reader(paths: Iterable[Path]) -> Reader:
    """What reads the shape for an expression that looks at `paths`, given in order."""
    parts = [_part(path) for path in paths]

    def read(driver: str, device: Device) -> Hashable:
        if has_unusable_attribute(device):
            return tuple(device.attributes.items())
        return tuple([part(driver, device) for part in parts])

    return read


def has_unusable_attribute(device: Device) -> bool:
    """Whether no expression can be evaluated, whichever attributes it reads."""
    for attribute in device.attributes.values():
        if (
            attribute.string_value is None
            and attribute.int_value is None
            and attribute.bool_value is None
            and not _has_usable_versions_or_list(attribute)
        ):
            return True
    return False


def _has_usable_versions_or_list(attribute: DeviceAttribute) -> bool:
    versions = attribute.version_values
    if attribute.version_value is not None:
        versions = (*versions, attribute.version_value)
    if versions:
        return all(map(_is_version, versions))
    return bool(attribute.int_values or attribute.bool_values or attribute.string_values)


def _is_version(text: str) -> bool:
    try:
        semver.parse(text)
    except semver.VersionError:
        return False
    return True


def _part(path: Path) -> Reader:
    match path:
        case (_, "driver"):
            return lambda driver, device: driver
        case (_, "allowMultipleAllocations"):
            return lambda driver, device: bool(device.allow_multiple_allocations)
        case (_, "attributes", domain, identifier):
            return _one_attribute(domain, identifier)
        case (_, "capacity", domain, identifier):
            return _one_capacity(domain, identifier)
        case _:
            return _everything


def _one_attribute(domain: str, identifier: str) -> Reader:
    name = f"{domain}/{identifier}"

    def read(driver: str, device: Device) -> Hashable:
        attributes = device.attributes
        if domain == driver and identifier in attributes:
            return attributes[identifier], attributes.get(name)
        return attributes.get(name)

    return read


def _one_capacity(domain: str, identifier: str) -> Reader:
    name = f"{domain}/{identifier}"

    def read(driver: str, device: Device) -> Hashable:
        capacity = device.capacity.get(name)
        own = device.capacity.get(identifier) if domain == driver else None
        return capacity and capacity.value, own and own.value

    return read


def _everything(driver: str, device: Device) -> Hashable:
    amounts = [(name, capacity.value) for name, capacity in device.capacity.items()]
    return (
        driver,
        bool(device.allow_multiple_allocations),
        frozenset(device.attributes.items()),
        frozenset(amounts),
    )
