"""Sets of fields as `managedFields` writes them, and how two objects differ by fields.

Sets are values: none is changed once it is made, so results may share parts of what they were made
of.

A set is the nested dict of FieldsV1: `f:name` is a field or a map's key, `k:{…}` the item of a
keyed list, `v:…` an item of a set, `.` the thing itself where it also has members. The rules are
those of structured-merge-diff: what is atomic has one owner, empty things are owned themselves.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from dray.api import lists, schema
from dray.api.schema import Form, Type

Object = dict[str, Any]
FieldSet = dict[str, Any]
SELF = "."


class _Absent:
    """Not there, which is not the same as null."""


ABSENT = _Absent()


class Place(NamedTuple):
    """Where in the schema a value stands: its type, and how it merges."""

    type: Type | None
    list_type: str = lists.ATOMIC
    keys: tuple[str, ...] = ()
    is_atomic: bool = False


UNKNOWN = Place(None)


@functools.cache
def root(type_name: str) -> Place:
    return Place(schema.type_named(type_name))


def member(place: Place, name: str) -> Place:
    """The place of a structure's field or of a map's value."""
    type_ = place.type
    if type_ is None:
        return UNKNOWN
    if type_.form is Form.MAP:
        return _plain(type_.element)
    return _field(type_.name, name) if type_.form is Form.STRUCT else UNKNOWN


@functools.cache
def _plain(type_: Type | None) -> Place:
    return Place(type_)


@functools.lru_cache(maxsize=65536)
def _field(type_name: str, name: str) -> Place:
    field = schema.fields(type_name).get(name)
    if field is None:
        return UNKNOWN
    rule = lists.rule(type_name, name)
    atomic = lists.is_atomic(type_name, name)
    return Place(field.type, rule.list_type, rule.keys, atomic)


@functools.cache
def item(place: Place) -> Place:
    element = place.type.element if place.type else None
    is_atomic = element is not None and element.name in lists.ATOMIC_STRUCTS
    return Place(element, is_atomic=is_atomic)


def members(value: Any, place: Place) -> dict[str, tuple[Any, Place]] | None:
    """What a value is made of, by path element; None for what has one owner as a whole."""
    if place.is_atomic or place.type is None:
        return None
    if isinstance(value, dict) and place.type.form in (Form.STRUCT, Form.MAP):
        return {f"f:{key}": (each, member(place, key)) for key, each in value.items()}
    if isinstance(value, list) and place.type.form is Form.LIST:
        if place.list_type == lists.MAP:
            return {_key_element(each, place): (each, item(place)) for each in value}
        if place.list_type == lists.SET:
            return {f"v:{_json(each)}": (each, UNKNOWN) for each in value}
    return None


def _key_element(value: Any, place: Place) -> str:
    element = place.type.element if place.type else None
    key = {}
    for name in place.keys:
        found = value.get(name) if isinstance(value, dict) else None
        if found is None and element is not None:
            found = lists.key_default(element.name, name)
        if found is not None:
            key[name] = found
    return f"k:{_json(key)}"


_encode = msgspec.json.Encoder(order="sorted").encode


def _json(value: Any) -> str:
    return _encode(value).decode()


def of(value: Any, place: Place) -> FieldSet:
    """The fields that an applied configuration speaks of."""
    parts = members(value, place)
    if not parts:
        return {}
    result: FieldSet = {}
    for element, (each, inner) in parts.items():
        below = of(each, inner)
        if element.startswith("k:"):
            below = {SELF: {}, **below}
        result[element] = below
    return result


Walk = Callable[[Any], FieldSet]
"""Makes the set of the members of a new value."""


def created(value: Object, zero: Object, place: Place) -> FieldSet:
    """What `compare` finds added and modified in a new object; `zero` is what there was before.

    The same rules in one walk, because every create pays for it; the set comes out sorted.
    """
    result: FieldSet = {}
    for name in sorted(value):
        element, walk, inner = _known_field(place, name)
        if name not in zero:
            result[element] = _owned(value[name], walk)
            continue
        each, was = value[name], zero[name]
        if isinstance(each, dict) and isinstance(was, dict):
            below = created(each, was, inner)
        else:
            below = walk(each) if walk is not None else {}
        if below or _is_modified(was, each, None, members(each, inner)):
            result[element] = below
    return result


@functools.lru_cache(maxsize=65536)
def _known_field(place: Place, name: str) -> tuple[str, Walk | None, Place]:
    inner = member(place, name)
    return f"f:{name}", _walk(inner), inner


def _owned(value: Any, walk: Walk | None) -> FieldSet:
    """The set of something new: the thing itself, and all that it is made of."""
    below = walk(value) if walk is not None else None
    return {SELF: {}, **below} if below else {}


@functools.cache
def _walk(place: Place) -> Walk | None:
    """None where a value has one owner as a whole."""
    if place.is_atomic or place.type is None:
        return None
    match place.type.form:
        case Form.STRUCT:
            return _struct_walk(place)
        case Form.MAP:
            return _map_walk(_walk(_plain(place.type.element)))
        case Form.LIST if place.list_type == lists.MAP:
            return _keyed_list_walk(place)
        case Form.LIST if place.list_type == lists.SET:
            return lambda value: {f"v:{each}": {} for each in sorted(map(_json, value or ()))}
    return None


def _struct_walk(place: Place) -> Walk:
    # Filled while it is used, because structures may contain themselves.
    walks: dict[str, tuple[str, Walk | None]] = {}

    def walk_struct(value: Any) -> FieldSet:
        result: FieldSet = {}
        for name in sorted(value or ()):
            known = walks.get(name)
            if known is None:
                known = walks[name] = (f"f:{name}", _walk(member(place, name)))
            element, walk = known
            result[element] = _owned(value[name], walk)
        return result

    return walk_struct


def _map_walk(walk: Walk | None) -> Walk:
    def walk_map(value: Any) -> FieldSet:
        return {f"f:{name}": _owned(value[name], walk) for name in sorted(value or ())}

    return walk_map


def _keyed_list_walk(place: Place) -> Walk:
    def walk_list(value: Any) -> FieldSet:
        keyed = {_key_element(each, place): each for each in value or ()}
        walk = _walk(item(place))
        return {element: _owned(keyed[element], walk) for element in sorted(keyed)}

    return walk_list


class Difference(NamedTuple):
    """What one object has that another has not, in which values they differ, what is missing."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet

    @property
    def changed(self) -> FieldSet:
        return union(self.added, self.modified)


def compare(old: Any, new: Any, place: Place) -> Difference:
    found = Difference({}, {}, {})
    _compare(old, new, place, (), found)
    return Difference(*map(tidy, found))


def _compare(old: Any, new: Any, place: Place, path: tuple[str, ...], found: Difference) -> None:
    if old == new:
        return
    old_parts = None if old is ABSENT else members(old, place)
    new_parts = None if new is ABSENT else members(new, place)
    if path:
        if old is ABSENT:
            insert(found.added, path)
        elif new is ABSENT:
            insert(found.removed, path)
        elif _is_modified(old, new, old_parts, new_parts):
            insert(found.modified, path)
    for element in (old_parts or {}) | (new_parts or {}):
        left, left_place = (old_parts or {}).get(element, (ABSENT, None))
        right, right_place = (new_parts or {}).get(element, (ABSENT, None))
        inner = right_place or left_place
        assert inner is not None
        _compare(left, right, inner, (*path, element), found)


def _is_modified(old: Any, new: Any, old_parts: object, new_parts: object) -> bool:
    """Whether the thing itself changed; where it has members, they say what changed."""
    if old_parts is not None and new_parts is not None:
        return False
    null_became_container = old is None and new_parts is not None
    container_became_null = new is None and old_parts is not None
    return bool(old != new) and not (null_became_container or container_became_null)


def insert(fields: FieldSet, path: tuple[str, ...]) -> None:
    """Add one path; what then has members and is in the set itself is marked with `.`."""
    level = fields
    for element in path[:-1]:
        inner = level.get(element)
        if inner is None:
            inner = level[element] = {_ONLY_PATH: {}}
        elif not inner:
            inner[SELF] = {}
        level = inner
    last = level.get(path[-1])
    if last is None:
        level[path[-1]] = {}
    elif _ONLY_PATH in last:
        del last[_ONLY_PATH]
        last[SELF] = {}
    elif last:
        last[SELF] = {}


_ONLY_PATH = ""
"""Marks, while a set is built, an element that is only on the way to others."""


def tidy(fields: FieldSet) -> FieldSet:
    """The set without the marks of its building."""
    return {key: tidy(inner) for key, inner in fields.items() if key != _ONLY_PATH}


def _is_own(fields: FieldSet) -> bool:
    """Whether the element that has these members is itself in the set."""
    return not fields or SELF in fields


def _members(fields: FieldSet) -> Iterator[tuple[str, FieldSet]]:
    return ((key, inner) for key, inner in fields.items() if key not in (SELF, _ONLY_PATH))


def _combined(is_own: bool, inner: dict[str, FieldSet]) -> FieldSet | None:
    """The members of one element, or None where neither it nor they are left."""
    if not inner:
        return {} if is_own else None
    return {SELF: {}, **inner} if is_own else inner


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    result: FieldSet = {}
    for key in {**left, **right}:
        if key in (SELF, _ONLY_PATH):
            continue
        if key in left and key in right:
            is_own = _is_own(left[key]) or _is_own(right[key])
            combined = _combined(is_own, union(left[key], right[key]))
            result[key] = {} if combined is None else combined
        else:
            result[key] = left[key] if key in left else right[key]
    return result


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """What is in `left` and not in `right`."""
    result: FieldSet = {}
    for key, inner in _members(left):
        other = right.get(key)
        if other is None:
            result[key] = inner
            continue
        is_own = _is_own(inner) and not _is_own(other)
        combined = _combined(is_own, difference(inner, other))
        if combined is not None:
            result[key] = combined
    return result


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    result: FieldSet = {}
    for key, inner in _members(left):
        other = right.get(key)
        if other is None:
            continue
        is_own = _is_own(inner) and _is_own(other)
        combined = _combined(is_own, intersection(inner, other))
        if combined is not None:
            result[key] = combined
    return result


def paths(fields: FieldSet, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every path in the set, members before the thing they belong to."""
    for key, inner in _members(fields):
        yield from paths(inner, (*prefix, key))
        if _is_own(inner):
            yield (*prefix, key)


def text(path: tuple[str, ...]) -> str:
    """A path as conflicts name it: `.metadata.labels.team`, `.spec.containers[name="c"].image`."""
    words = []
    for element in path:
        kind, _, rest = element.partition(":")
        if kind == "f":
            words.append(f".{rest}")
        elif kind == "k":
            pairs = json.loads(rest).items()
            words.append(f"[{','.join(f'{name}={_json(value)}' for name, value in pairs)}]")
        else:
            words.append(f"[={rest}]")
    return "".join(words)
