"""Values of attributes and capacities as typed texts: read from devices and ordered."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from dray.allocator.model import attributes
from dray.allocator.model.candidates import Candidate
from dray.api.formats import quantity, semver
from dray.api.types.dra import DeviceAttribute
from dray.explain.selectors import expressions
from dray.explain.selectors.expressions import ATTRIBUTES, SelectorSubject

QUANTITY, VERSION, LIST = "quantity", "version", "list"

FUNCTION_OF = {QUANTITY: expressions.QUANTITY, VERSION: expressions.SEMVER}
"""The CEL function that converts a text to a value of a type."""


class TypedValue(NamedTuple):
    type: str
    text: str


def read(device: Candidate, subject: SelectorSubject) -> TypedValue | None:
    """Return a device's value of a subject, or None; without a domain, by the published name."""
    name = f"{subject.domain}/{subject.name}"
    if subject.field == ATTRIBUTES:
        attribute = attributes.lookup(device.device, device.driver, name)
        return None if attribute is None else _typed(attribute)
    capacity = device.device.capacity.get(name if subject.domain else subject.name)
    if capacity is None and subject.domain == device.driver:
        capacity = device.device.capacity.get(subject.name)
    return None if capacity is None else TypedValue(QUANTITY, capacity.value)


@functools.lru_cache(maxsize=4096)
def _typed(attribute: DeviceAttribute) -> TypedValue:
    value = attributes.set_value(attribute)
    if attributes.scalar_value(attribute) is attributes.INCOMPARABLE:
        return TypedValue(LIST, str(value))
    if value.kind == "bool":
        return TypedValue("bool", str(attribute.bool_value).lower())
    return TypedValue(value.kind, str(value))


_READ: dict[str, Callable[[str], Any]] = {
    QUANTITY: quantity.parse,
    VERSION: semver.parse,
    "int": int,
}


def ordered(values: Iterable[TypedValue]) -> list[TypedValue]:
    """Return the values in ascending order; empty if they have no common order."""
    typed = list(values)
    if len({value.type for value in typed}) != 1 or typed[0].type not in _READ:
        return []
    to_number = _READ[typed[0].type]
    try:
        return sorted(typed, key=lambda value: to_number(value.text))
    except ValueError:
        return []


def is_less(value: TypedValue, other: TypedValue) -> bool:
    """Return whether one value is less than another of the same type."""
    to_number = _READ[value.type]
    return bool(to_number(value.text) < to_number(other.text))


def is_valid(value: TypedValue) -> bool:
    """Return whether the text is a valid value of its type, and the type has an order."""
    try:
        _READ[value.type](value.text)
    except (KeyError, ValueError):
        return False
    return True
