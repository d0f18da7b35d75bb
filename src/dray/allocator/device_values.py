"""Plain values of what a device publishes: attributes, model, memory, place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dray.api.types.dra import Device, DeviceAttribute

MODEL_ATTRIBUTES = ("productName", "model", "product", "deviceName", "type")
PROFILE = "profile"
MEMORY = "memory"
PLACEMENT_START, PLACEMENT_SIZE = "placementStart", "placementSize"


def value_of(attribute: DeviceAttribute) -> Any:
    """Return the one value that is set."""
    for value in (
        attribute.string_value,
        attribute.int_value,
        attribute.bool_value,
        attribute.version_value,
    ):
        if value is not None:
            return value
    # Rare, and slower: lists.
    return next(iter(msgspec.to_builtins(attribute).values()), None)


def attributes_of(device: Device) -> dict[str, Any]:
    """Return the attributes of a device with their values."""
    return {name: value_of(value) for name, value in device.attributes.items()}


def model_of(attributes: Mapping[str, Any]) -> str:
    """Return the name of a device's model, with the profile of a partition; "" without any."""
    by_name = {name.rpartition("/")[2]: value for name, value in attributes.items()}
    model = next((str(by_name[name]) for name in MODEL_ATTRIBUTES if name in by_name), "")
    return f"{model} {by_name[PROFILE]}".strip() if PROFILE in by_name else model


def memory_text(capacity: Mapping[str, str]) -> str:
    """Return the quantity of memory among capacities; "" if there is none."""
    texts = (text for name, text in capacity.items() if name.rpartition("/")[2] == MEMORY)
    return next(texts, "")


def placement_of(device: Device) -> tuple[int, int]:
    """Return the first slot and the number of slots of a partition; (0, 0) if it names none."""
    start, size = (_integer(device, name) for name in (PLACEMENT_START, PLACEMENT_SIZE))
    return (start, size) if start is not None and size is not None else (0, 0)


def _integer(device: Device, name: str) -> int | None:
    found = (value for key, value in device.attributes.items() if key.rpartition("/")[2] == name)
    return next((value.int_value for value in found), None)
