"""Fields that belong to a feature gate: dropped on write while the gate is off.

A field that an object already uses stays, so that switching a gate off loses nothing. In a path,
`[]` stands for every element of a list and `{}` for every value of a map.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dray.api.features import Features

Object = dict[str, Any]
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
        (
            lambda f: f.device_taints,
            _paths(f"{exact}.tolerations", f"{alternative}.tolerations"),
        ),
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
                f"{_DEVICES}.allowMultipleAllocations",
                f"{_DEVICES}.capacity.{{}}.requestPolicy",
            ),
        ),
        (
            lambda f: f.device_compatibility_groups,
            _paths(f"{_DEVICES}.consumesCounters.[].compatibilityGroups"),
        ),
        (
            lambda f: f.node_allocatable_resources,
            _paths(f"{_DEVICES}.nodeAllocatableResources"),
        ),
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
    "ResourcePoolStatusRequest": (
        (lambda f: f.partitionable_devices_type, _paths("spec.defaultPartitionTypeAttribute")),
    ),
}


def drop(kind: str, new: Object, old: Object | None, features: Features) -> None:
    """Remove from `new` what is switched off and `old` did not use."""
    for paths in _switched_off(kind, features):
        if old is not None and any(_is_used(old, path) for path in paths):
            continue
        for path in paths:
            for owner in _owners(new, path[:-1]):
                owner.pop(path[-1], None)


@functools.lru_cache(maxsize=256)
def _switched_off(kind: str, features: Features) -> tuple[tuple[Path, ...], ...]:
    return tuple(paths for is_on, paths in GATED.get(kind, ()) if not is_on(features))


def _is_used(document: Object, path: Path) -> bool:
    return any(owner.get(path[-1]) for owner in _owners(document, path[:-1]))


def _owners(value: Any, path: Path) -> Iterator[Object]:
    """Every object that `path` leads to."""
    if not path:
        if isinstance(value, dict):
            yield value
        return
    step, rest = path[0], path[1:]
    items: Iterable[Any]
    if step == "[]":
        items = value if isinstance(value, list) else ()
    elif step == "{}":
        items = value.values() if isinstance(value, dict) else ()
    else:
        items = (value[step],) if isinstance(value, dict) and step in value else ()
    for item in items:
        yield from _owners(item, rest)
