"""Fields that belong to a feature gate: dropped on write while the gate is off.

A field that an object already uses stays, so that switching a gate off loses nothing. In a path,
`[]` stands for every element of a list and `{}` for every value of a map.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dray.api.features import GATES, Features, is_enabled
from dray.api.types.meta import JsonObject

Path = tuple[str, ...]
Gates = tuple[str, ...]
"""The names of feature gates that have to be on together."""


def _paths(*texts: str) -> tuple[Path, ...]:
    return tuple(tuple(text.split(".")) for text in texts)


_ELEMENTS = ("[]", "{}")
_BINDING_CONDITIONS = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")


def _claim_spec(root: str) -> tuple[tuple[Gates, tuple[Path, ...]], ...]:
    requests = f"{root}devices.requests.[]"
    exact, alternative = f"{requests}.exactly", f"{requests}.firstAvailable.[]"
    return (
        (("DRAPrioritizedList",), _paths(f"{requests}.firstAvailable")),
        (("DRAAdminAccess",), _paths(f"{exact}.adminAccess")),
        (("DRADeviceTaints",), _paths(f"{exact}.tolerations", f"{alternative}.tolerations")),
        (
            ("DRAConsumableCapacity",),
            _paths(
                f"{root}devices.constraints.[].distinctAttribute",
                f"{exact}.capacity",
                f"{alternative}.capacity",
            ),
        ),
        (
            ("DRADerivedAttributes",),
            _paths(f"{exact}.derivedAttributes", f"{alternative}.derivedAttributes"),
        ),
    )


_RESULTS = "status.allocation.devices.results.[]"
_DEVICES = "spec.devices.[]"

GATED: Mapping[str, tuple[tuple[Gates, tuple[Path, ...]], ...]] = {
    "ResourceClaim": (
        *_claim_spec("spec."),
        (("DRAResourceClaimDeviceStatus",), _paths("status.devices")),
        (("DRAAdminAccess",), _paths(f"{_RESULTS}.adminAccess")),
        (
            ("DRAConsumableCapacity",),
            _paths(
                f"{_RESULTS}.shareID", f"{_RESULTS}.consumedCapacity", "status.devices.[].shareID"
            ),
        ),
        (
            _BINDING_CONDITIONS,
            _paths(f"{_RESULTS}.bindingConditions", f"{_RESULTS}.bindingFailureConditions"),
        ),
        (("DRAOptionalNodeOperations",), _paths(f"{_RESULTS}.skipNodeOperations")),
    ),
    "ResourceClaimTemplate": _claim_spec("spec.spec."),
    "ResourceSlice": (
        (("DRADeviceTaints",), _paths(f"{_DEVICES}.taints")),
        (
            ("DRAPartitionableDevices",),
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
            _BINDING_CONDITIONS,
            _paths(
                f"{_DEVICES}.bindingConditions",
                f"{_DEVICES}.bindingFailureConditions",
                f"{_DEVICES}.bindsToNode",
            ),
        ),
        (
            ("DRAConsumableCapacity",),
            _paths(
                f"{_DEVICES}.allowMultipleAllocations", f"{_DEVICES}.capacity.{{}}.requestPolicy"
            ),
        ),
        (
            ("DRADeviceCompatibilityGroups",),
            _paths(f"{_DEVICES}.consumesCounters.[].compatibilityGroups"),
        ),
        (("DRANodeAllocatableResources",), _paths(f"{_DEVICES}.nodeAllocatableResources")),
        (
            ("DRAListTypeAttributes",),
            _paths(
                f"{_DEVICES}.attributes.{{}}.ints",
                f"{_DEVICES}.attributes.{{}}.bools",
                f"{_DEVICES}.attributes.{{}}.strings",
                f"{_DEVICES}.attributes.{{}}.versions",
            ),
        ),
        (("DRAPartitionableDevicesType",), _paths("spec.partitionTypeAttribute")),
        (("DRAOptionalNodeOperations",), _paths("spec.skipNodeOperations")),
    ),
    "DeviceClass": ((("DRAExtendedResource",), _paths("spec.extendedResourceName")),),
    # This gate is alpha and off, and dray has no CompositePodGroups.
    "Workload": ((("CompositePodGroup",), _paths("spec.compositePodGroupTemplates")),),
    "ResourcePoolStatusRequest": (
        (("DRAPartitionableDevicesType",), _paths("spec.defaultPartitionTypeAttribute")),
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


class GatedField(NamedTuple):
    """A field of an object, and the feature gates that it needs."""

    path: str
    gates: Gates


def fields_of(kind: str, document: JsonObject) -> Iterator[GatedField]:
    """Yield the fields of an object that belong to a gate and are not empty."""
    for gates, paths in GATED.get(kind, ()):
        for path in paths:
            for place in _places(document, path, ""):
                yield GatedField(place, gates)


def gates_off(gates: Gates, features: Features) -> Gates:
    """Return those of the gates that are off."""
    return tuple(name for name in gates if name not in GATES or not is_enabled(features, name))


def _places(value: Any, path: Path, place: str) -> Iterator[str]:
    if not path:
        if value:
            yield place
    elif path[0] == "[]":
        for number, item in enumerate(value if isinstance(value, list) else ()):
            yield from _places(item, path[1:], f"{place}[{number}]")
    elif isinstance(value, dict):
        for name in value if path[0] == "{}" else (path[0],):
            yield from _places(value.get(name), path[1:], f"{place}.{name}" if place else name)


class _Step(NamedTuple):
    """The disabled fields below a path; `together` are the paths that are dropped with it."""

    below: dict[str, _Step]
    together: list[Path]

    def may_be_in(self, item: Any) -> bool:
        """Return whether a disabled field may be in an element of a list or map; most have none."""
        below = self.below.keys()
        return (
            not isinstance(item, dict)
            or not below.isdisjoint(item)
            or not below.isdisjoint(_ELEMENTS)
        )


class _Use(NamedTuple):
    owner: JsonObject
    field: str
    together: Sequence[Path]


@functools.lru_cache(maxsize=256)
def _switched_off(kind: str, features: Features) -> _Step:
    """All such paths as a tree, so that an object is looked through once."""
    tree = _Step({}, [])
    for gates, paths in GATED.get(kind, ()):
        for path in paths if gates_off(gates, features) else ():
            step = tree
            for name in path:
                step = step.below.setdefault(name, _Step({}, []))
            step.together.extend(paths)
    return tree


def _find(value: Any, tree: _Step, uses: list[_Use]) -> None:
    for name, step in tree.below.items():
        if name in _ELEMENTS:
            for item in _items(value, name):
                if step.may_be_in(item):
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
