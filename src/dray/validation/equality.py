"""Semantic equality of values: "1024Mi" equals "1Gi" in quantity fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from dray.api.formats import quantity
from dray.api.types import containers, dra, meta, pods

_QUANTITY_FIELDS: dict[type[meta.Wire], frozenset[str]] = {
    dra.CapacityRequirements: frozenset(("requests",)),
    dra.DeviceRequestAllocationResult: frozenset(("consumed_capacity",)),
    containers.ResourceRequirements: frozenset(("limits", "requests")),
    pods.PodSpec: frozenset(("overhead",)),
    dra.CapacityRequestPolicy: frozenset(("default", "valid_values")),
    dra.CapacityRequestPolicyRange: frozenset(("min", "max", "step")),
    dra.Counter: frozenset(("value",)),
    dra.DeviceCapacity: frozenset(("value",)),
    dra.NodeAllocatableMapping: frozenset(("capacity_multiplier", "device_multiplier")),
    dra.NodeAllocatableOverhead: frozenset(("per_pod", "per_container")),
}


def are_equal(first: Any, second: Any) -> bool:
    """Compare as Kubernetes' equality.Semantic.DeepEqual does."""
    return _are_equal(first, second, is_quantity=False)


def _are_equal(first: Any, second: Any, *, is_quantity: bool) -> bool:
    if first == second:
        return True
    if type(first) is not type(second):
        return False
    if isinstance(first, tuple):
        return len(first) == len(second) and all(
            _are_equal(one, other, is_quantity=is_quantity)
            for one, other in zip(first, second, strict=True)
        )
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(
            _are_equal(value, second[key], is_quantity=is_quantity) for key, value in first.items()
        )
    if isinstance(first, meta.Wire):
        if isinstance(first, meta.WireWithJson):
            # Such a type has no quantities, and knows more than its fields.
            return False
        quantities = _QUANTITY_FIELDS.get(type(first), frozenset())
        for name in first.__struct_fields__:
            one, other = getattr(first, name), getattr(second, name)
            if one != other and not _are_equal(one, other, is_quantity=name in quantities):
                return False
        return True
    return is_quantity and isinstance(first, str) and _is_same_amount(first, second)


def changed_fields(new: Any, old: Any, path: str) -> Iterator[str]:
    """Yield the wire paths at which two values of one type differ, as deep as both have them."""
    if are_equal(new, old):
        return
    pairs = list(_pairs(new, old)) if type(new) is type(old) else []
    if not pairs:
        yield path
    for step, new_part, old_part in pairs:
        yield from changed_fields(new_part, old_part, path + step)


def _pairs(new: Any, old: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the parts of two values with their steps; nothing if they have no common parts."""
    if isinstance(new, meta.WireWithJson):
        return
    if isinstance(new, meta.Wire):
        for field in msgspec.structs.fields(new):
            name = field.name
            yield f".{field.encode_name}", getattr(new, name), getattr(old, name)
    elif isinstance(new, tuple) and len(new) == len(old):
        for index, parts in enumerate(zip(new, old, strict=True)):
            yield f"[{index}]", *parts
    elif isinstance(new, dict) and old:
        for key in new | old:
            yield f"[{key}]", new.get(key), old.get(key)


def _is_same_amount(first: str, second: str) -> bool:
    return quantity.parse(first) == quantity.parse(second)
