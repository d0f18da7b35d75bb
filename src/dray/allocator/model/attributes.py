"""Attribute lookup, and attribute values in a form that constraints compare.

A value is `(kind, members)`: without DRAListTypeAttributes one scalar is one member, with it every
list is the set of its members. Upstream compares forms, not only contents: int 1, true and "1"
are three values.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import NamedTuple

from dray.api.types.dra import Device, DeviceAttribute


class Value(NamedTuple):
    """An attribute value in the form that constraints compare; no kind: it cannot be compared."""

    kind: str
    members: frozenset[Hashable]

    def __str__(self) -> str:
        return _text(self.kind, self.members)


@functools.lru_cache(maxsize=1 << 13)
def _text(kind: str, members: frozenset[Hashable]) -> str:
    # A search that rejects many devices names few values. The kind tells 1 from true.
    return ", ".join(sorted(map(str, members)))


INCOMPARABLE = Value("", frozenset())


def lookup(device: Device, driver: str, name: str) -> DeviceAttribute | None:
    """Return the attribute of a qualified name, or None.

    The driver may publish its own attributes without their domain. Follows
    incubating/allocator_incubating.go lookupAttribute.
    """
    attribute = device.attributes.get(name)
    if attribute is not None:
        return attribute
    domain, slash, identifier = name.partition("/")
    if not slash or domain != driver:
        return None
    return device.attributes.get(identifier)


def scalar_value(attribute: DeviceAttribute) -> Value:
    if attribute.string_value is not None:
        return _value("string", (attribute.string_value,))
    if attribute.int_value is not None:
        return _value("int", (attribute.int_value,))
    if attribute.bool_value is not None:
        return _value("bool", (attribute.bool_value,))
    if attribute.version_value is not None:
        return _value("version", (attribute.version_value,))
    return INCOMPARABLE


def set_value(attribute: DeviceAttribute) -> Value:
    """Return the members of a list, or a scalar as the only member.

    Follows experimental/allocator_experimental.go attributeAsSet.
    """
    for kind, members in (
        ("int", attribute.int_values),
        ("bool", attribute.bool_values),
        ("string", attribute.string_values),
        ("version", attribute.version_values),
    ):
        if members:
            return _value(kind, members)
    return scalar_value(attribute)


@functools.lru_cache(maxsize=1 << 13)
def _value(kind: str, members: tuple[Hashable, ...]) -> Value:
    # A fleet has few values, and every node reads them again.
    return Value(kind, frozenset(members))
