"""Where in the schema a value stands, and what it is made of there, as `managedFields` sees it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from dray.api.schema import field_types, merge_rules
from dray.api.schema.field_types import Type, WireForm

_HAVE_FIELDS = (WireForm.STRUCT, WireForm.MAP)

_encode = msgspec.json.Encoder(order="sorted").encode


class PathElement(NamedTuple):
    """What names a part of a value in a path (`f:spec`, `k:{"name":"c"}`), and its place."""

    element: str
    place: SchemaNode


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
    """What stands before the name of a part where it is an element of a path."""
    known: dict[str, PathElement] = field(init=False, default_factory=dict)
    """The fields of a structure that somebody has asked for: see `part`."""
    _item: SchemaNode | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        form = self.type.form if self.type and not self.is_atomic else None
        self.has_fields = form in _HAVE_FIELDS
        has_items = form is WireForm.LIST and self.list_type != merge_rules.ATOMIC
        self.has_parts = self.has_fields or has_items
        self.has_keyed_items = has_items and self.list_type == merge_rules.MAP
        self.prefix = "f:" if self.has_fields else ""

    def part(self, name: str) -> PathElement:
        """A structure's field, a map's value, or a list's item by its key or by itself."""
        return self.known.get(name) or self._find_part(name)

    def _find_part(self, name: str) -> PathElement:
        if not self.has_fields:
            return PathElement(name, self.item() if self.has_keyed_items else UNKNOWN)
        assert self.type is not None
        if self.type.form is WireForm.MAP:
            return PathElement(f"f:{name}", self.item())
        struct = self.type.name
        known = field_types.fields(struct).get(name)
        if known is None:
            return PathElement(f"f:{name}", UNKNOWN)
        rule = merge_rules.rule(struct, name)
        place = SchemaNode(
            known.type, rule.list_type, rule.keys, merge_rules.is_atomic(struct, name)
        )
        found = self.known[name] = PathElement(f"f:{name}", place)
        return found

    def item(self) -> SchemaNode:
        """The place of a list's item or of a map's value."""
        if self._item is None:
            element = self.type.element if self.type else None
            is_atomic = element is not None and element.name in merge_rules.ATOMIC_STRUCTS
            self._item = SchemaNode(element, is_atomic=is_atomic)
        return self._item

    def parts(self, value: Any) -> Mapping[str, Any] | None:
        """What a value is made of: a structure of its fields, a map of its values, a list of items
        that are named by their keys or by themselves. None for what has one owner as a whole."""
        if isinstance(value, dict) and self.has_fields:
            return value
        if isinstance(value, list) and self.has_parts and not self.has_fields:
            if self.has_keyed_items:
                return {self._key_element(each): each for each in value}
            return {f"v:{text(each)}": each for each in value}
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
    """A value as path elements write it."""
    return _encode(value).decode()
