"""Sets of fields as `managedFields` writes them, and how two objects differ by fields.

Sets are values: none is changed once it is made, so results may share parts of what they were made
of. Sets that are made of objects are sorted, and stay so in all that is made of them.

A set is the nested dict of FieldsV1: `f:name` is a field or a map's key, `k:{…}` the item of a
keyed list, `v:…` an item of a set, `.` the thing itself where it also has members. The rules are
those of structured-merge-diff: what is atomic has one owner, empty things are owned themselves.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from dray.apiserver.patching import schema_node
from dray.apiserver.patching.schema_node import SchemaNode

FieldSet = dict[str, Any]
SELF = "."
LEAF: FieldSet = {}
"""What has no members; as all sets, it is never changed, and so one for all."""
REMEMBERED_BYTES = range(128, 4096)
"""A shorter list is gone through as fast; a longer one is not worth the room."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def of(value: Any, place: SchemaNode) -> FieldSet:
    """The fields that an applied configuration speaks of."""
    result: FieldSet = {}
    parts = place.parts(value) or {}
    for name in sorted(parts):
        element, inner = place.part(name)
        below = of(parts[name], inner)
        result[element] = {SELF: LEAF, **below} if name.startswith("k:") else below
    return result


class Difference(NamedTuple):
    """What of one object is new or another than in a second one, and what it lacks."""

    changed: FieldSet
    removed: FieldSet


def compare(old: Any, new: Any, place: SchemaNode) -> Difference:
    """How `new` differs from `old`."""
    return _compare(place.parts(old) or {}, place.parts(new) or {}, place)


def _compare(old: Mapping[str, Any], new: Mapping[str, Any], place: SchemaNode) -> Difference:
    """The same for what two values are made of."""
    found = Difference({}, {})
    differing = [name for name in new if name not in old or old[name] != new[name]]
    differing += [name for name in old if name not in new]
    for name in sorted(differing):
        element, inner = place.part(name)
        if name not in old:
            found.changed[element] = _owned(new[name], inner)
        elif name not in new:
            found.removed[element] = _owned(old[name], inner)
        elif inner.has_parts:
            _compare_inside(found, element, old[name], new[name], inner)
        else:
            found.changed[element] = LEAF
    return found


def added(nothing: Mapping[str, Any], value: Mapping[str, Any], place: SchemaNode) -> FieldSet:
    """What a new structure has over one in which nothing is set; the same as `compare` finds."""
    result: FieldSet = {}
    known = place.known
    for name in sorted(value):
        element, inner = known.get(name) or place.part(name)
        each = value[name]
        if name not in nothing:
            result[element] = _owned(each, inner)
        elif not inner.has_parts:
            if each != nothing[name]:
                result[element] = LEAF
        elif members := _added_members(nothing[name], each, inner):
            # The thing itself is not new: nothing has it, too.
            result[element] = members
    return result


def _added_members(nothing: Any, value: Any, place: SchemaNode) -> FieldSet:
    if not value:
        return LEAF
    if place.has_keyed_items:
        return _owned_items(value, place)
    return added(nothing or {}, value, place) if place.has_fields else _owned_parts(value, place)


def _compare_inside(found: Difference, element: str, old: Any, new: Any, place: SchemaNode) -> None:
    old_parts, new_parts = place.parts(old), place.parts(new)
    below = _compare(old_parts or {}, new_parts or {}, place)
    if _is_replaced(old, new, old_parts, new_parts):
        found.changed[element] = {SELF: LEAF, **below.changed} if below.changed else LEAF
    elif below.changed:
        found.changed[element] = below.changed
    if below.removed:
        found.removed[element] = below.removed


def _is_replaced(old: Any, new: Any, old_parts: object, new_parts: object) -> bool:
    """Whether the thing itself changed. Members speak for it where it has some; null has none."""
    if old_parts is None:
        return new_parts is None or old is not None
    return new_parts is None and new is not None


def _owned(value: Any, place: SchemaNode) -> FieldSet:
    """The set of something new: the thing itself, and all that it is made of."""
    if not value or not place.has_parts:
        return LEAF
    members = _owned_items(value, place) if place.has_keyed_items else _owned_parts(value, place)
    return {SELF: LEAF, **members} if members else LEAF


def _owned_items(items: list[Any], place: SchemaNode) -> FieldSet:
    """Of a keyed list. Most are made from a template: the same containers in pod after pod."""
    encoded = _encode(items)
    if len(encoded) in REMEMBERED_BYTES:
        return _remembered_items(encoded, place)
    return _owned_parts(items, place)


@functools.lru_cache(maxsize=1024)
def _remembered_items(encoded: bytes, place: SchemaNode) -> FieldSet:
    return _owned_parts(_decode(encoded), place)


def _owned_parts(value: Any, place: SchemaNode) -> FieldSet:
    parts = place.parts(value) or {}
    known = place.known
    result: FieldSet = {}
    for name in sorted(parts):
        element, inner = known.get(name) or place.part(name)
        result[element] = _owned(parts[name], inner) if inner.has_parts else LEAF
    return result


def _is_own(fields: FieldSet) -> bool:
    """Whether the element that has these members is itself in the set."""
    return not fields or SELF in fields


def _members(fields: FieldSet) -> Iterator[tuple[str, FieldSet]]:
    return ((key, inner) for key, inner in fields.items() if key != SELF)


def _combined(is_own: bool, inner: dict[str, FieldSet]) -> FieldSet | None:
    """The members of one element, or None where neither it nor they are left."""
    if not inner:
        return {} if is_own else None
    return {SELF: LEAF, **inner} if is_own else inner


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left or not right:
        return left or right
    result: FieldSet = {}
    for key in sorted(left.keys() | right.keys()):
        if key == SELF:
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
    """Every path in the set: of each level what is in it itself first, then what is below."""
    for key, inner in _members(fields):
        if _is_own(inner):
            yield (*prefix, key)
    for key, inner in _members(fields):
        yield from paths(inner, (*prefix, key))


def text(path: tuple[str, ...]) -> str:
    """A path as conflicts name it: `.metadata.labels.team`, `.spec.containers[name="c"].image`."""
    words = []
    for element in path:
        kind, _, rest = element.partition(":")
        if kind == "f":
            words.append(f".{rest}")
        elif kind == "k":
            pairs = json.loads(rest).items()
            words.append(
                f"[{','.join(f'{name}={schema_node.text(value)}' for name, value in pairs)}]"
            )
        else:
            words.append(f"[={rest}]")
    return "".join(words)
