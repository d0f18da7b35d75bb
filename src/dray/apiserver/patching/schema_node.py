"""Nodes of the merge schema: into which parts `managedFields` divides a value."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from dray.api.schema import field_types, merge_rules
from dray.api.schema.field_types import Form, Type

_HAVE_FIELDS = (Form.STRUCT, Form.MAP)

_encode = msgspec.json.Encoder(order="sorted").encode


class PathElement(NamedTuple):
    """The name of a part of a value in a path (`f:spec`, `k:{"name":"c"}`), and its node."""

    element: str
    node: SchemaNode


@dataclass(eq=False, slots=True)
class SchemaNode:
    """The type of a value, and how it merges."""

    type: Type | None
    list_type: str = merge_rules.ATOMIC
    keys: tuple[str, ...] = ()
    is_atomic: bool = False
    has_fields: bool = field(init=False)
    has_parts: bool = field(init=False)
    """Whether a value can have several owners."""
    has_keyed_items: bool = field(init=False)
    prefix: str = field(init=False)
    """The prefix of a part's name in a path."""
    known_parts: dict[str, PathElement] = field(init=False, default_factory=dict)
    """Cache of `part` for the fields of a struct."""
    _item: SchemaNode | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        form = self.type.form if self.type and not self.is_atomic else None
        self.has_fields = form in _HAVE_FIELDS
        has_items = form is Form.LIST and self.list_type != merge_rules.ATOMIC
        self.has_parts = self.has_fields or has_items
        self.has_keyed_items = has_items and self.list_type == merge_rules.MAP
        self.prefix = "f:" if self.has_fields else ""

    def part(self, name: str) -> PathElement:
        """Return a struct's field, a map's value, or a list's item by its key or by itself."""
        return self.known_parts.get(name) or self._find_part(name)

    def _find_part(self, name: str) -> PathElement:
        if not self.has_fields:
            return PathElement(name, self.item() if self.has_keyed_items else UNKNOWN)
        assert self.type is not None
        if self.type.form is Form.MAP:
            return PathElement(f"f:{name}", self.item())
        struct = self.type.name
        schema_field = field_types.fields(struct).get(name)
        if schema_field is None:
            return PathElement(f"f:{name}", UNKNOWN)
        rule = merge_rules.rule(struct, name)
        node = SchemaNode(
            schema_field.type, rule.list_type, rule.keys, merge_rules.is_atomic(struct, name)
        )
        part = self.known_parts[name] = PathElement(f"f:{name}", node)
        return part

    def item(self) -> SchemaNode:
        """Return the node of a list's items or of a map's values."""
        if self._item is None:
            element = self.type.element if self.type else None
            is_atomic = element is not None and element.name in merge_rules.ATOMIC_STRUCTS
            self._item = SchemaNode(element, is_atomic=is_atomic)
        return self._item

    def parts(self, value: Any) -> Mapping[str, Any] | None:
        """Return the fields of a struct, the values of a map, or the items of a list by name.

        Items are named by their keys or by themselves. None for a value that has one owner.
        """
        if isinstance(value, dict) and self.has_fields:
            return value
        if isinstance(value, list) and self.has_parts and not self.has_fields:
            if self.has_keyed_items:
                return {self._key_element(item): item for item in value}
            return {f"v:{text(item)}": item for item in value}
        return None

    def _key_element(self, value: Any) -> str:
        given = value if isinstance(value, dict) else {}
        key = {name: given[name] for name in self.keys if given.get(name) is not None}
        if len(key) < len(self.keys) and self.type and self.type.element:
            defaults = {
                name: merge_rules.key_default(self.type.element.name, name) for name in self.keys
            }
            key = {name: value for name, value in defaults.items() if value is not None} | key
        return f"k:{text(key)}"


UNKNOWN = SchemaNode(None)


@functools.cache
def root(type_name: str) -> SchemaNode:
    return SchemaNode(field_types.type_named(type_name))


def text(value: Any) -> str:
    """Return a value as in a path element."""
    return _encode(value).decode()
