"""Sets of fields as `managedFields` writes them, and how two objects differ by fields.

Sets are immutable, so results may share parts of their operands. Sets of objects are sorted, and
so are all sets that are computed from them.

A set is the nested dict of FieldsV1: `f:name` is a field or a map's key, `k:{…}` the item of a
keyed list, `v:…` an item of a set, `.` the element itself if it also has members. The rules are
those of structured-merge-diff: an atomic value has one owner, an empty value is owned itself.
https://github.com/kubernetes-sigs/structured-merge-diff/tree/master/fieldpath
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from dray.apiserver.patching import schema_node
from dray.apiserver.patching.schema_node import SchemaNode

FieldSet = dict[str, Any]
SELF = "."
LEAF: FieldSet = {}
"""A set without members: the element itself. One for all, because sets are immutable."""
CACHED_BYTES = range(128, 4096)
"""A shorter list is traversed as fast as it is looked up; a longer one costs too much memory."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def of(value: Any, node: SchemaNode) -> FieldSet:
    """Return the fields that an applied configuration sets."""
    result: FieldSet = {}
    parts = node.parts(value) or {}
    for name in sorted(parts):
        element, inner = node.part(name)
        below = of(parts[name], inner)
        # To apply an item of a keyed list is to own the item, even if it has other fields.
        result[element] = {SELF: LEAF, **below} if name.startswith("k:") else below
    return result


class Difference(NamedTuple):
    """Fields added or changed in an object, and fields removed from it."""

    changed: FieldSet
    removed: FieldSet


def compare(old: Any, new: Any, node: SchemaNode) -> Difference:
    """Return the fields in which `new` differs from `old`."""
    return _compare(node.parts(old) or {}, node.parts(new) or {}, node)


def _compare(old: Mapping[str, Any], new: Mapping[str, Any], node: SchemaNode) -> Difference:
    """Compare the parts of two values."""
    changes = Difference({}, {})
    # Whole subtrees are compared in C first: nearly all of an updated object is equal.
    differing = [name for name in new if name not in old or old[name] != new[name]]
    differing += [name for name in old if name not in new]
    for name in sorted(differing):
        element, inner = node.part(name)
        if name not in old:
            changes.changed[element] = _owned(new[name], inner)
        elif name not in new:
            changes.removed[element] = _owned(old[name], inner)
        elif inner.has_parts:
            _compare_inside(changes, element, old[name], new[name], inner)
        else:
            changes.changed[element] = LEAF
    return changes


def added(nothing: Mapping[str, Any], value: Mapping[str, Any], node: SchemaNode) -> FieldSet:
    """Return the changes of a new struct from an empty one; as `compare`, but faster.

    `nothing` is the canonical form without fields, which has members too (`status: {}`).
    """
    result: FieldSet = {}
    cached = node.known_parts
    for name in sorted(value):
        element, inner = cached.get(name) or node.part(name)
        member = value[name]
        if name not in nothing:
            result[element] = _owned(member, inner)
        elif not inner.has_parts:
            if member != nothing[name]:
                result[element] = LEAF
        elif members := _added_members(nothing[name], member, inner):
            # Without SELF: the empty struct has the element, too.
            result[element] = members
    return result


def _added_members(nothing: Any, value: Any, node: SchemaNode) -> FieldSet:
    if not value:
        return LEAF
    if node.has_keyed_items:
        return _owned_items(value, node)
    return added(nothing or {}, value, node) if node.has_fields else _owned_parts(value, node)


def _compare_inside(
    changes: Difference, element: str, old: Any, new: Any, node: SchemaNode
) -> None:
    old_parts, new_parts = node.parts(old), node.parts(new)
    below = _compare(old_parts or {}, new_parts or {}, node)
    if _is_replaced(old, new, old_parts, new_parts):
        changes.changed[element] = {SELF: LEAF, **below.changed} if below.changed else LEAF
    elif below.changed:
        changes.changed[element] = below.changed
    if below.removed:
        changes.removed[element] = below.removed


def _is_replaced(old: Any, new: Any, old_parts: object, new_parts: object) -> bool:
    """Whether an element itself changed, and not only its members; null has no members."""
    # A map that was null and now has members is owned through its members only.
    if old_parts is None:
        return new_parts is None or old is not None
    return new_parts is None and new is not None


def _owned(value: Any, node: SchemaNode) -> FieldSet:
    """Return the set of a new value: the element itself, and all of its members."""
    if not value or not node.has_parts:
        return LEAF
    members = _owned_items(value, node) if node.has_keyed_items else _owned_parts(value, node)
    return {SELF: LEAF, **members} if members else LEAF


def _owned_items(items: list[Any], node: SchemaNode) -> FieldSet:
    """Return the members of a keyed list, cached by its encoded form."""
    # Pods of one template have equal containers, and to encode them is cheaper than the set.
    encoded = _encode(items)
    if len(encoded) in CACHED_BYTES:
        return _cached_items(encoded, node)
    return _owned_parts(items, node)


@functools.lru_cache(maxsize=1024)
def _cached_items(encoded: bytes, node: SchemaNode) -> FieldSet:
    return _owned_parts(_decode(encoded), node)


def _owned_parts(value: Any, node: SchemaNode) -> FieldSet:
    parts = node.parts(value) or {}
    cached = node.known_parts
    result: FieldSet = {}
    for name in sorted(parts):
        element, inner = cached.get(name) or node.part(name)
        result[element] = _owned(parts[name], inner) if inner.has_parts else LEAF
    return result


def is_own(fields: FieldSet) -> bool:
    """Return whether the element with these members is in the set itself."""
    return not fields or SELF in fields


def members(fields: FieldSet) -> Iterator[tuple[str, FieldSet]]:
    return ((key, inner) for key, inner in fields.items() if key != SELF)


def _combined(is_own: bool, inner: dict[str, FieldSet]) -> FieldSet | None:
    """Return the set of one element, or None if neither it nor a member is left."""
    if not inner:
        return {} if is_own else None
    return {SELF: LEAF, **inner} if is_own else inner


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left or not right:
        return left or right
    result: FieldSet = {}
    # SELF is left out here and below: the caller decides about the element itself (`is_own`).
    for key in sorted(left.keys() | right.keys()):
        if key == SELF:
            continue
        if key in left and key in right:
            owned = is_own(left[key]) or is_own(right[key])
            combined = _combined(owned, union(left[key], right[key]))
            result[key] = {} if combined is None else combined
        else:
            result[key] = left[key] if key in left else right[key]
    return result


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the elements of `left` that are not in `right`."""
    result: FieldSet = {}
    for key, inner in members(left):
        other = right.get(key)
        if other is None:
            result[key] = inner
            continue
        # An element that only `left` owns stays, even if all its members are in `right`.
        owned = is_own(inner) and not is_own(other)
        combined = _combined(owned, difference(inner, other))
        if combined is not None:
            result[key] = combined
    return result


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    result: FieldSet = {}
    for key, inner in members(left):
        other = right.get(key)
        if other is None:
            continue
        owned = is_own(inner) and is_own(other)
        combined = _combined(owned, intersection(inner, other))
        if combined is not None:
            result[key] = combined
    return result


def paths(fields: FieldSet, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield every path in the set; on each level first the elements, then their members.

    Conflicts are listed in this order by Kubernetes.
    """
    for key, inner in members(fields):
        if is_own(inner):
            yield (*prefix, key)
    for key, inner in members(fields):
        yield from paths(inner, (*prefix, key))


def text(path: tuple[str, ...]) -> str:
    """Return a path as in a conflict: `.spec.containers[name="c"].image`."""
    words = []
    for element in path:
        kind, _, rest = element.partition(":")
        if kind == "f":
            words.append(f".{rest}")
        elif kind == "k":
            pairs = _key_pairs(rest)
            words.append(
                f"[{','.join(f'{name}={schema_node.text(value)}' for name, value in pairs)}]"
            )
        else:
            words.append(f"[={rest}]")
    return "".join(words)


def _key_pairs(text: str) -> list[tuple[str, Any]]:
    """Return the keys of an item's path element; clients may write any text into one."""
    try:
        key = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return list(key.items()) if isinstance(key, dict) else []


def is_well_formed(fields: Any) -> bool:
    """Return whether a client's value is a set of fields, all the way down."""
    level = [fields]
    while level:
        if set(map(type, level)) != {dict}:
            return False
        level = list(itertools.chain.from_iterable(map(dict.values, level)))
    return True
