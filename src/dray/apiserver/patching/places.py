"""Where in the schema a value stands, and what it is made of there, as `managedFields` sees it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dray.api import lists, schema
from dray.api.schema import Form, Type

_HAVE_FIELDS = (Form.STRUCT, Form.MAP)

_encode = msgspec.json.Encoder(order="sorted").encode


@dataclass(eq=False, slots=True)
class Place:
    """The type of a value, and how it merges."""

    type: Type | None
    list_type: str = lists.ATOMIC
    keys: tuple[str, ...] = ()
    is_atomic: bool = False
    has_fields: bool = field(init=False)
    has_parts: bool = field(init=False)
    """Whether a value can have several owners."""
    prefix: str = field(init=False)
    """What stands before the name of a part where it is an element of a path."""
    known: dict[str, Place] = field(init=False, default_factory=dict)
    """The places of the fields of a structure that somebody has asked for: see `member`."""
    _item: Place | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        form = self.type.form if self.type and not self.is_atomic else None
        self.has_fields = form in _HAVE_FIELDS
        has_items = form is Form.LIST and self.list_type != lists.ATOMIC
        self.has_parts = self.has_fields or has_items
        self.prefix = "f:" if self.has_fields else ""

    def member(self, name: str) -> Place:
        """The place of a structure's field or of a map's value."""
        return self.known.get(name) or self._find_member(name)

    def _find_member(self, name: str) -> Place:
        if self.type is None or self.type.form not in _HAVE_FIELDS:
            return UNKNOWN
        if self.type.form is Form.MAP:
            return self.item()
        struct = self.type.name
        known = schema.fields(struct).get(name)
        if known is None:
            return UNKNOWN
        rule = lists.rule(struct, name)
        found = Place(known.type, rule.list_type, rule.keys, lists.is_atomic(struct, name))
        self.known[name] = found
        return found

    def item(self) -> Place:
        """The place of a list's item or of a map's value."""
        if self._item is None:
            element = self.type.element if self.type else None
            is_atomic = element is not None and element.name in lists.ATOMIC_STRUCTS
            self._item = Place(element, is_atomic=is_atomic)
        return self._item

    def parts(self, value: Any) -> Mapping[str, Any] | None:
        """What a value is made of: a structure of its fields, a map of its values, a list of items
        that are named by their keys or by themselves. None for what has one owner as a whole."""
        if isinstance(value, dict) and self.has_fields:
            return value
        if isinstance(value, list) and self.has_parts and not self.has_fields:
            if self.list_type == lists.MAP:
                return {self._key_element(each): each for each in value}
            return {f"v:{text(each)}": each for each in value}
        return None

    def inside(self, part: str) -> Place:
        """The place of one of the parts."""
        if self.has_fields:
            return self.member(part)
        return self.item() if self.list_type == lists.MAP else UNKNOWN

    def _key_element(self, value: Any) -> str:
        element = self.type.element if self.type else None
        key = {}
        for name in self.keys:
            found = value.get(name) if isinstance(value, dict) else None
            if found is None and element is not None:
                found = lists.key_default(element.name, name)
            if found is not None:
                key[name] = found
        return f"k:{text(key)}"


UNKNOWN = Place(None)


@functools.cache
def root(type_name: str) -> Place:
    return Place(schema.type_named(type_name))


def text(value: Any) -> str:
    """A value as path elements write it."""
    return _encode(value).decode()
