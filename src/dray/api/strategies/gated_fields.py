"""Fields that belong to a feature gate: dropped on write while the gate is off.

A field that an object already uses stays, so that switching a gate off loses nothing. In a path,
`[]` stands for every element of a list and `{}` for every value of a map.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dray.api.features import Features
from dray.api.types.meta import JsonObject

Path = tuple[str, ...]
Gate = Callable[[Features], bool]


def _paths(*texts: str) -> tuple[Path, ...]:
    return tuple(tuple(text.split(".")) for text in texts)


def _binding_conditions(features: Features) -> bool:
    return features.device_binding_conditions and features.resource_claim_device_status


def _claim_spec(root: str) -> tuple[tuple[Gate, tuple[Path, ...]], ...]:
    requests = f"{root}devices.requests.[]"
    exact, alternative = f"{requests}.exactly", f"{requests}.firstAvailable.[]"
    return (
        (lambda f: f.prioritized_list, _paths(f"{requests}.firstAvailable")),
        (lambda f: f.admin_access, _paths(f"{exact}.adminAccess")),
        (lambda f: f.device_taints, _paths(f"{exact}.tolerations", f"{alternative}.tolerations")),
        (
            lambda f: f.consumable_capacity,
            _paths(
                f"{root}devices.constraints.[].distinctAttribute",
                f"{exact}.capacity",
                f"{alternative}.capacity",
            ),
        ),
        (
            lambda f: f.derived_attributes,
            _paths(f"{exact}.derivedAttributes", f"{alternative}.derivedAttributes"),
        ),
    )


_RESULTS = "status.allocation.devices.results.[]"
_DEVICES = "spec.devices.[]"

GATED: Mapping[str, tuple[tuple[Gate, tuple[Path, ...]], ...]] = {
    "ResourceClaim": (
        *_claim_spec("spec."),
        (lambda f: f.resource_claim_device_status, _paths("status.devices")),
        (lambda f: f.admin_access, _paths(f"{_RESULTS}.adminAccess")),
        (
            lambda f: f.consumable_capacity,
            _paths(
                f"{_RESULTS}.shareID", f"{_RESULTS}.consumedCapacity", "status.devices.[].shareID"
            ),
        ),
        (
            _binding_conditions,
            _paths(f"{_RESULTS}.bindingConditions", f"{_RESULTS}.bindingFailureConditions"),
        ),
        (lambda f: f.optional_node_operations, _paths(f"{_RESULTS}.skipNodeOperations")),
    ),
    "ResourceClaimTemplate": _claim_spec("spec.spec."),
    "ResourceSlice": (
        (lambda f: f.device_taints, _paths(f"{_DEVICES}.taints")),
        (
            lambda f: f.partitionable_devices,
            _paths(
                "spec.sharedCounters",
                "spec.perDeviceNodeSelection",
                f"{_DEVICES}.consumesCounters",
                f"{_DEVICES}.nodeName",
                f"{_DEVICES}.nodeSelector",
                f"{_DEVICES}.allNodes",
            ),
        ),
        (
            _binding_conditions,
            _paths(
                f"{_DEVICES}.bindingConditions",
                f"{_DEVICES}.bindingFailureConditions",
                f"{_DEVICES}.bindsToNode",
            ),
        ),
        (
            lambda f: f.consumable_capacity,
            _paths(
                f"{_DEVICES}.allowMultipleAllocations", f"{_DEVICES}.capacity.{{}}.requestPolicy"
            ),
        ),
        (
            lambda f: f.device_compatibility_groups,
            _paths(f"{_DEVICES}.consumesCounters.[].compatibilityGroups"),
        ),
        (lambda f: f.node_allocatable_resources, _paths(f"{_DEVICES}.nodeAllocatableResources")),
        (
            lambda f: f.list_type_attributes,
            _paths(
                f"{_DEVICES}.attributes.{{}}.ints",
                f"{_DEVICES}.attributes.{{}}.bools",
                f"{_DEVICES}.attributes.{{}}.strings",
                f"{_DEVICES}.attributes.{{}}.versions",
            ),
        ),
        (lambda f: f.partitionable_devices_type, _paths("spec.partitionTypeAttribute")),
        (lambda f: f.optional_node_operations, _paths("spec.skipNodeOperations")),
    ),
    "DeviceClass": ((lambda f: f.extended_resource, _paths("spec.extendedResourceName")),),
    # The gate CompositePodGroup is alpha and off, and dray has no CompositePodGroups.
    "Workload": ((lambda _features: False, _paths("spec.compositePodGroupTemplates")),),
    "ResourcePoolStatusRequest": (
        (lambda f: f.partitionable_devices_type, _paths("spec.defaultPartitionTypeAttribute")),
    ),
}


def drop(kind: str, new: JsonObject, old: JsonObject | None, features: Features) -> None:
    """Remove from `new` what is switched off and `old` did not use."""
    switched_off = _switched_off(kind, features)
    if not switched_off.below:
        return
    before = old or {}
    changed = {key: value for key, value in new.items() if value is not before.get(key)}
    uses: list[_Use] = []
    _find(changed, switched_off, uses)
    for use in uses:
        if not any(_is_used(before, path) for path in use.together):
            use.owner.pop(use.field, None)


class _Step(NamedTuple):
    """The disabled fields below a path; `together` are the paths that are dropped with it."""

    below: dict[str, _Step]
    together: list[Path]


class _Use(NamedTuple):
    owner: JsonObject
    field: str
    together: Sequence[Path]


@functools.lru_cache(maxsize=256)
def _switched_off(kind: str, features: Features) -> _Step:
    """All such paths as a tree, so that an object is looked through once."""
    tree = _Step({}, [])
    for is_on, paths in GATED.get(kind, ()):
        for path in paths if not is_on(features) else ():
            step = tree
            for name in path:
                step = step.below.setdefault(name, _Step({}, []))
            step.together.extend(paths)
    return tree


def _find(value: Any, tree: _Step, uses: list[_Use]) -> None:
    for name, step in tree.below.items():
        if name == "[]" or name == "{}":
            for item in _items(value, name):
                _find(item, step, uses)
        elif isinstance(value, dict) and name in value:
            if step.together:
                uses.append(_Use(value, name, step.together))
            if step.below:
                _find(value[name], step, uses)


def _items(value: Any, step: str) -> Iterable[Any]:
    if step == "[]":
        return value if isinstance(value, list) else ()
    return value.values() if isinstance(value, dict) else ()


def _is_used(value: Any, path: Path) -> bool:
    """Whether something stands at the path that is not empty."""
    if not path:
        return bool(value)
    name, rest = path[0], path[1:]
    if name == "[]" or name == "{}":
        return any(_is_used(item, rest) for item in _items(value, name))
    return isinstance(value, dict) and _is_used(value.get(name), rest)
