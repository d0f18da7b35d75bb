"""Strategic merge patch: a merge patch with keyed lists.

`$patch: delete|replace`, `$retainKeys`, `$setElementOrder/LIST` and `$deleteFromPrimitiveList/LIST`
work as in apimachinery, util/strategicpatch. Pure: the document given is not changed.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

import msgspec

from dray.api.schema import field_types, merge_rules
from dray.api.schema.field_types import Type, WireForm
from dray.api.types.meta import JsonObject
from dray.apiserver.patching.json_patch import PatchMalformed

_encode = msgspec.json.Encoder(order="sorted").encode

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_ITEMS = "$deleteFromPrimitiveList/"
SET_ORDER = "$setElementOrder/"

ItemKey = str | bytes
"""What two items of a list are compared by: a text, or the encoded form of any other value."""


def merge(document: JsonObject | None, patch: JsonObject, type_name: str) -> JsonObject:
    """Return `document`, an object of the type, after the patch."""
    return _merge_struct(document or {}, patch, type_name)


def _merge_struct(original: JsonObject, patch: JsonObject, type_name: str) -> JsonObject:
    directive = patch.get(DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    if directive is not None and directive != "merge":
        raise PatchMalformed(f"Unknown patch type: {directive}")
    result = _retained(original, patch)
    fields = field_types.fields(type_name) if type_name else {}
    directives: JsonObject = {}
    for key, value in patch.items():
        if key.startswith("$"):
            directives[key] = value
        elif value is None:
            result.pop(key, None)
        elif not isinstance(value, (dict, list)):
            result[key] = value
        elif (field := fields.get(key)) is None:
            result[key] = _merge_unknown(result.get(key), value)
        else:
            result[key] = _merge_field(result.get(key), value, type_name, key, field.type, patch)
    if directives:
        _delete_from_primitive_lists(result, directives)
        _order_untouched_lists(result, patch, directives, type_name)
    return result


def _retained(original: JsonObject, patch: JsonObject) -> JsonObject:
    """Return the members that `$retainKeys` names."""
    keep = patch.get(RETAIN_KEYS)
    if keep is None:
        return dict(original)
    if not isinstance(keep, list):
        raise PatchMalformed(f"{RETAIN_KEYS} is a list of keys")
    kept = {key for key in keep if isinstance(key, str)}
    return {key: value for key, value in original.items() if key in kept}


def _merge_unknown(original: Any, value: Any) -> Any:
    """Merge fields without a schema as JSON merge patch does."""
    if isinstance(value, dict):
        return _merge_struct(original if isinstance(original, dict) else {}, value, "")
    return value


def _merge_field(
    original: Any, value: Any, type_name: str, key: str, type_: Type, patch: JsonObject
) -> Any:
    rule = merge_rules.rule(type_name, key)
    if isinstance(value, dict):
        if merge_rules.REPLACE in rule.strategies:
            return value
        inner = type_.name if type_.form is WireForm.STRUCT else ""
        base = original if isinstance(original, dict) else {}
        if type_.form is WireForm.MAP and type_.element is not None:
            return _merge_map(base, value, type_.element)
        return _merge_struct(base, value, inner)
    if isinstance(value, list) and merge_rules.MERGE in rule.strategies:
        items = original if isinstance(original, list) else []
        order = patch.get(SET_ORDER + key)
        if rule.merge_key:
            assert type_.element is not None
            return _merge_items(items, value, rule.merge_key, type_.element.name, order)
        named = order if isinstance(order, list) else value
        return _ordered(_merge_values(items, value), named, items)
    return value


def _merge_map(original: JsonObject, patch: JsonObject, element: Type) -> JsonObject:
    if patch.get(DIRECTIVE) == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    result = dict(original)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and element.form is WireForm.STRUCT:
            result[key] = _merge_struct(result.get(key) or {}, value, element.name)
        else:
            result[key] = value
    return result


def _merge_values(original: list[Any], patch: list[Any]) -> list[Any]:
    present = set(map(_encode, original))
    return [*original, *(value for value in patch if _encode(value) not in present)]


def _merge_items(
    original: list[Any], patch: list[Any], merge_key: str, item_type: str, order: Any
) -> list[Any]:
    """Merge items of the same key, append others, and follow a directive in the list."""
    if any(item.get(DIRECTIVE) == "replace" for item in patch if isinstance(item, dict)):
        return [
            item
            for item in patch
            if not isinstance(item, dict) or item.get(DIRECTIVE) != "replace" or len(item) > 1
        ]
    # By key, each with its items in order: a patch may have thousands.
    merged: dict[ItemKey, list[Any]] = {}
    for item in original:
        merged.setdefault(_key(item, merge_key), []).append(item)
    for item in patch:
        if not isinstance(item, dict) or merge_key not in item:
            raise PatchMalformed(f"map: {item} does not contain declared merge key: {merge_key}")
        _merge_item(merged, item, merge_key, item_type)
    if not original and order is None and len(merged) == len(patch):
        # A new list of distinct items stands in the order of the patch.
        return [item for items in merged.values() for item in items]
    result = _in_first_order(merged, original, merge_key)
    return _ordered(result, order if isinstance(order, list) else patch, original, merge_key)


def _merge_item(
    merged: dict[ItemKey, list[Any]], item: JsonObject, merge_key: str, item_type: str
) -> None:
    key = _key(item, merge_key)
    if item.get(DIRECTIVE) == "delete":
        merged.pop(key, None)
        return
    existing = merged.setdefault(key, [])
    before = existing[0] if existing and isinstance(existing[0], dict) else {}
    existing[:1] = [_merge_struct(before, item, item_type)]


def _in_first_order(
    merged: dict[ItemKey, list[Any]], original: list[Any], merge_key: str
) -> list[Any]:
    """Return the merged items where the original ones stood, and the new ones behind."""
    waiting = {key: iter(items) for key, items in merged.items()}
    result: list[Any] = []
    for item in original:
        result += itertools.islice(waiting.get(_key(item, merge_key), iter(())), 1)
    for items in waiting.values():
        result += items
    return result


def _delete_from_primitive_lists(result: JsonObject, directives: JsonObject) -> None:
    for key, values in directives.items():
        if key.startswith(DELETE_ITEMS):
            name = key.removeprefix(DELETE_ITEMS)
            if isinstance(result.get(name), list) and isinstance(values, list):
                gone = set(map(_encode, values))
                result[name] = [value for value in result[name] if _encode(value) not in gone]


def _order_untouched_lists(
    result: JsonObject, patch: JsonObject, directives: JsonObject, type_name: str
) -> None:
    """Apply `$setElementOrder` to lists that the patch does not change otherwise."""
    for key, order in directives.items():
        name = key.removeprefix(SET_ORDER)
        if not key.startswith(SET_ORDER) or name in patch or not isinstance(result.get(name), list):
            continue
        merge_key = merge_rules.rule(type_name, name).merge_key if type_name else ""
        if isinstance(order, list):
            result[name] = _ordered(result[name], order, result[name], merge_key)


def _ordered(
    items: list[Any], named: list[Any], before: list[Any], merge_key: str = ""
) -> list[Any]:
    """Return the items that are `named` in that order, with the others in between.

    Each of the others stays in front of the next named item that it stood in front of `before`.
    As strategicpatch, mergeSortedSlice.
    """
    positions = {_key(item, merge_key): number for number, item in enumerate(named)}
    stood = {_key(item, merge_key): number for number, item in enumerate(before)}
    keyed = [(_key(item, merge_key), item) for item in items]
    first = [(key, item) for key, item in keyed if key in positions]
    first.sort(key=lambda pair: positions[pair[0]])
    others = deque((key, item) for key, item in keyed if key not in positions)
    woven = []
    for key, item in first:
        place = stood.get(key, -1)
        while others and stood.get(others[0][0], place) < place:
            woven.append(others.popleft()[1])
        woven.append(item)
    return [*woven, *(item for _, item in others)]


def _key(item: Any, merge_key: str) -> ItemKey:
    value = item.get(merge_key) if merge_key and isinstance(item, dict) else item
    return value if isinstance(value, str) else _encode(value)
