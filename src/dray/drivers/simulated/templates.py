"""Fills in the templates of a fleet file with the values of one device."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from dray.api.types.dra import DeviceAttribute, DeviceCapacity
from dray.drivers.simulated.fleet_file import FleetError

_NAMESPACE = uuid.UUID("8f6ff6a1-5b0e-4d07-9a0f-3c7a9c1f9f2e")
_FORMS = frozenset({"int", "bool", "string", "version", "ints", "bools", "strings", "versions"})


@dataclass(frozen=True, slots=True)
class DevicePosition:
    """The device and node that a template is filled in for."""

    node: str
    number: int = 0
    block: int = 0
    index: int = 0
    position: int = 0
    count: int = 1
    identity: str = ""

    def fill(self, text: str) -> str:
        if "{" not in text:
            return text
        try:
            return text.format(
                node=self.node,
                number=self.number,
                block=self.block,
                index=self.index,
                uuid=unique_id(self.identity or self.node) if "{uuid}" in text else "",
            )
        except (KeyError, IndexError, ValueError) as error:
            raise FleetError(f"{text!r} is not a template: {error}") from error

    def of_device(self, index: int, position: int, count: int, identity: str) -> DevicePosition:
        """Return the position of one of the node's devices."""
        node, number, block = self.node, self.number, self.block
        return DevicePosition(node, number, block, index, position, count, identity)

    def choose(self, values: list[Any]) -> Any:
        """Return a list's value for this device: one per device, or per equal share of them."""
        return values[self.position * len(values) // self.count]


def unique_id(identity: str) -> str:
    """Return a UUID that depends on the name alone."""
    return str(uuid.uuid5(_NAMESPACE, identity))


class AttributeTemplates:
    """The attributes of the devices of one group; those without templates are made once."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._templates = {name: value for name, value in raw.items() if _varies(value)}
        anywhere = DevicePosition("")
        fixed = raw.keys() - self._templates.keys()
        # In the order of the file, which the devices keep.
        self._attributes = {
            name: attribute(value, anywhere) if name in fixed else DeviceAttribute()
            for name, value in raw.items()
        }

    def fill(self, place: DevicePosition) -> dict[str, DeviceAttribute]:
        filled = {name: attribute(value, place) for name, value in self._templates.items()}
        return {**self._attributes, **filled}


def _varies(raw: Any) -> bool:
    """Return whether an attribute depends on the device."""
    if isinstance(raw, dict):
        return any(isinstance(value, str) and "{" in value for value in raw.values())
    return isinstance(raw, list) or (isinstance(raw, str) and "{" in raw)


def attribute(raw: Any, place: DevicePosition) -> DeviceAttribute:
    if isinstance(raw, list):
        raw = place.choose(raw)
    if isinstance(raw, dict):
        return _explicit(raw, place)
    if isinstance(raw, str):
        return _scalar("string", place.fill(raw))
    if isinstance(raw, int):
        return _scalar("bool" if isinstance(raw, bool) else "int", raw)
    raise FleetError(f"an attribute cannot be {raw!r}")


def _explicit(raw: dict[str, Any], place: DevicePosition) -> DeviceAttribute:
    """Return an attribute with an explicit type: `{version: 9.0.0}`, `{int: "{index}"}`."""
    if len(raw) != 1 or not raw.keys() <= _FORMS:
        raise FleetError(f"an attribute has one of {', '.join(sorted(_FORMS))}, not {raw!r}")
    ((form, value),) = raw.items()
    if isinstance(value, list):
        return msgspec.convert({form: value}, DeviceAttribute)
    if isinstance(value, str):
        value = place.fill(value)
    try:
        return _scalar(form, int(value) if form == "int" else value)
    except (ValueError, msgspec.ValidationError) as error:
        raise FleetError(f"{raw!r}: {error}") from error


@functools.lru_cache(maxsize=65536, typed=True)
def _scalar(form: str, value: bool | int | str) -> DeviceAttribute:
    """Return an attribute; equal ones are one object, as most devices of a fleet agree."""
    return msgspec.convert({form: value}, DeviceAttribute)


def capacities(raw: Mapping[str, Any]) -> dict[str, DeviceCapacity]:
    return {name: _capacity(value) for name, value in raw.items()}


def _capacity(raw: Any) -> DeviceCapacity:
    if isinstance(raw, dict):
        try:
            return msgspec.convert(raw, DeviceCapacity)
        except msgspec.ValidationError as error:
            raise FleetError(f"capacity {raw!r}: {error}") from error
    return DeviceCapacity(value=str(raw))
