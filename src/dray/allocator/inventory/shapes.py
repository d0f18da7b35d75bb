"""Shapes: the values that an expression reads of a device, as one hashable value.

An expression has the same result for devices of equal shape. Reading a few fields of a device is
much cheaper than evaluating an expression, and a cluster has few shapes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence

from dray.allocator.model.candidates import Candidate
from dray.api.formats import semver
from dray.api.types.dra import Device, DeviceAttribute

Path = tuple[str, ...]
"""Such as (device, attributes, DOMAIN, ID); a shorter path includes everything below it."""

WHOLE_DEVICE: Path = ("device",)
DRIVER: Path = ("driver",)

Reader = Callable[[Sequence[Candidate]], list[Hashable]]
"""Returns the shape of each device."""


def reader(paths: Iterable[Path]) -> Reader:
    """Return the reader of shapes for an expression that reads `paths`, in that order."""
    columns = [_column(path) for path in paths]

    def read(devices: Sequence[Candidate]) -> list[Hashable]:
        if not columns:
            return [()] * len(devices)
        return list(zip(*[column(devices) for column in columns], strict=True))

    return read


def reader_of_one(paths: Iterable[Path]) -> Callable[[Candidate], Hashable]:
    """Return the function that reads the shape of one device, equal to that of `reader`."""
    values = [_value(path) for path in paths]
    return lambda device: tuple([value(device) for value in values])


_INTERNED_LIMIT = 1 << 12
_interned: dict[Hashable, Hashable] = {}


def interned(shape: Hashable) -> Hashable:
    """Return an equal shape that is used elsewhere: thousands of nodes have the same few."""
    if len(_interned) >= _INTERNED_LIMIT:
        _interned.clear()
    return _interned.setdefault(shape, shape)


def is_usable(device: Device) -> bool:
    """Return whether expressions can be evaluated on a device: every attribute has a value."""
    # Runs for every device of every node; the most common types are tested first.
    for attribute in device.attributes.values():
        if (
            attribute.string_value is None
            and attribute.int_value is None
            and attribute.bool_value is None
            and not _has_list_or_version(attribute)
        ):
            return False
    return True


def _has_list_or_version(attribute: DeviceAttribute) -> bool:
    if attribute.version_value is not None:
        return _is_version(attribute.version_value)
    if attribute.version_values:
        return all(map(_is_version, attribute.version_values))
    return bool(attribute.int_values or attribute.bool_values or attribute.string_values)


@functools.lru_cache(maxsize=4096)
def _is_version(text: str) -> bool:
    try:
        semver.parse(text)
    except semver.VersionError:
        return False
    return True


def _value(path: Path) -> Callable[[Candidate], Hashable]:
    """Return the function that reads one path of a device."""
    match _inside(path):
        case ("driver",):
            return lambda device: device.driver
        case ("allowMultipleAllocations",):
            return lambda device: bool(device.device.allow_multiple_allocations)
        case ("attributes", domain, identifier):
            return _attribute(domain, identifier)
        case ("capacity", domain, identifier):
            return _capacity(domain, identifier)
        case _:
            return _everything


def _column(path: Path) -> Reader:
    """Return the function that reads one path of some devices."""
    match _inside(path):
        case ("attributes", domain, identifier):
            return _attributes(domain, identifier)
        case _:
            value = _value(path)
            return lambda devices: list(map(value, devices))


def _inside(path: Path) -> Path:
    return path[1:] if path[:1] == WHOLE_DEVICE else path


def _attribute(domain: str, identifier: str) -> Callable[[Candidate], Hashable]:
    """Return the reader of an attribute; a driver may publish its own without its domain."""
    name = f"{domain}/{identifier}"

    def read(device: Candidate) -> Hashable:
        published = device.device.attributes
        if device.driver == domain:
            return published.get(identifier), published.get(name)
        return published.get(name)

    return read


def _attributes(domain: str, identifier: str) -> Reader:
    # As `_attribute`: most paths are those of attributes, and most devices come with others.
    name = f"{domain}/{identifier}"

    def read(devices: Sequence[Candidate]) -> list[Hashable]:
        return [
            (device.device.attributes.get(identifier), device.device.attributes.get(name))
            if device.driver == domain
            else device.device.attributes.get(name)
            for device in devices
        ]

    return read


def _capacity(domain: str, identifier: str) -> Callable[[Candidate], Hashable]:
    name = f"{domain}/{identifier}"

    def read(device: Candidate) -> Hashable:
        published = device.device.capacity
        own = published.get(identifier) if device.driver == domain else None
        qualified = published.get(name)
        return own and own.value, qualified and qualified.value

    return read


def _everything(candidate: Candidate) -> Hashable:
    device = candidate.device
    amounts = [(name, capacity.value) for name, capacity in device.capacity.items()]
    return (
        candidate.driver,
        bool(device.allow_multiple_allocations),
        frozenset(device.attributes.items()),
        frozenset(amounts),
    )
