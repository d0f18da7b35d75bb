"""Conversion of dicts between old versions of the API and the stored one.

The only code that knows old versions. Objects are stored as resource.k8s.io/v1 (a
ResourcePoolStatusRequest exists as v1alpha3 only) and events as core/v1; a client sees each in
the version it asked for. v1beta2 and v1alpha3 have v1's fields. v1beta1 has a flat request instead
of `exactly`, wraps a device in `basic`, and has no absent `nodeName` and `allNodes`.

Nothing is lost: fields that no version knows stay where they are or move along with their
neighbours. Arguments are not changed; results share parts with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dray.api.types.meta import JsonObject

_RESOURCE_V1 = "resource.k8s.io/v1"
_RESOURCE_V1BETA1 = "resource.k8s.io/v1beta1"
_CORE_V1 = "v1"
_EVENTS_V1 = "events.k8s.io/v1"

_STORED_AS = {
    _RESOURCE_V1BETA1: _RESOURCE_V1,
    "resource.k8s.io/v1beta2": _RESOURCE_V1,
    "resource.k8s.io/v1alpha3": _RESOURCE_V1,
    _EVENTS_V1: _CORE_V1,
}
_KINDS_WITH_ONE_VERSION = frozenset(("ResourcePoolStatusRequest",))


def storage_version(api_version: str, kind: str) -> str:
    """Return the apiVersion as which an object of that apiVersion and kind is stored."""
    if kind in _KINDS_WITH_ONE_VERSION:
        return api_version
    return _STORED_AS.get(api_version, api_version)


def to_storage(wire: JsonObject) -> JsonObject:
    """Convert an object from a client's version to the stored one."""
    api_version, kind = wire["apiVersion"], wire["kind"]
    stored_version = storage_version(api_version, kind)
    if stored_version == api_version:
        return wire
    convert = _TO_STORAGE.get((api_version, kind), _unchanged)
    return {**convert(wire), "apiVersion": stored_version}


def from_storage(stored: JsonObject, api_version: str) -> JsonObject:
    """Convert a stored object to `api_version`."""
    if stored["apiVersion"] == api_version:
        return stored
    convert = _FROM_STORAGE.get((api_version, stored["kind"]), _unchanged)
    return {**convert(stored), "apiVersion": api_version}


def has_storage_fields(api_version: str, kind: str) -> bool:
    """Return whether that version shows an object with the very fields that are stored."""
    return (api_version, kind) not in _FROM_STORAGE


_DEPRECATED = {
    _RESOURCE_V1BETA1: ("v1.35", "v1.38"),
    "resource.k8s.io/v1beta2": ("v1.36", "v1.39"),
    "resource.k8s.io/v1alpha3": ("v1.36", "v1.39"),
}
# They came later to their versions than the others did.
_NOT_DEPRECATED = frozenset(
    (
        ("resource.k8s.io/v1beta2", "DeviceTaintRule"),
        ("resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest"),
    )
)


def deprecation(api_version: str, kind: str) -> str:
    """Return the warning for clients of a deprecated version, or an empty string."""
    releases = _DEPRECATED.get(api_version)
    if releases is None or (api_version, kind) in _NOT_DEPRECATED:
        return ""
    deprecated, removed = releases
    return f"{api_version} {kind} is deprecated in {deprecated}+, unavailable in {removed}+"


def _unchanged(wire: JsonObject) -> JsonObject:
    return wire


def _at(path: tuple[str, ...], change: Callable[[Any], Any]) -> Callable[[JsonObject], JsonObject]:
    """Apply a change to the value at `path`, if there is one."""
    if not path:
        return change
    name, change_inside = path[0], _at(path[1:], change)

    def change_field(wire: Any) -> Any:
        if not isinstance(wire, dict) or wire.get(name) is None:
            return wire
        return {**wire, name: change_inside(wire[name])}

    return change_field


def _each_item(change: Callable[[JsonObject], JsonObject]) -> Callable[[Any], Any]:
    def change_items(items: Any) -> Any:
        if not isinstance(items, list):
            return items
        return [change(item) if isinstance(item, dict) else item for item in items]

    return change_items


_FLAT_REQUEST_FIELDS = frozenset(
    (
        "deviceClassName",
        "selectors",
        "allocationMode",
        "count",
        "adminAccess",
        "tolerations",
        "capacity",
        "derivedAttributes",
    )
)


def _flat_request_to_exactly(request: JsonObject) -> JsonObject:
    """Move the fields of a request below `exactly`.

    See pkg/apis/resource/v1beta1/conversion.go, hasAnyMainRequestFieldsSet.
    """
    is_exact = not request.get("firstAvailable")
    exactly = {
        name: value
        for name, value in request.items()
        if name in _FLAT_REQUEST_FIELDS or (is_exact and name not in ("name", "firstAvailable"))
    }
    if not any(_is_set(name, value) for name, value in exactly.items()):
        return request
    rest = {name: value for name, value in request.items() if name not in exactly}
    return {**rest, "exactly": exactly}


def _is_set(name: str, value: Any) -> bool:
    return value is not None and value != "" and not (name == "count" and value == 0)


def _exactly_to_flat_request(request: JsonObject) -> JsonObject:
    exactly = request.get("exactly")
    rest = {name: value for name, value in request.items() if name != "exactly"}
    return {**rest, **exactly} if exactly else rest


def _basic_to_flat_device(device: JsonObject) -> JsonObject:
    rest = {name: value for name, value in device.items() if name != "basic"}
    return {**rest, **(device.get("basic") or {})}


def _flat_device_to_basic(device: JsonObject) -> JsonObject:
    basic = {name: value for name, value in device.items() if name != "name"}
    return {**({"name": device["name"]} if "name" in device else {}), "basic": basic}


def _without_zero_node(spec: JsonObject) -> JsonObject:
    """Drop an empty node name: v1beta1 writes "no node" so, v1 leaves the field out."""
    return {
        name: value
        for name, value in spec.items()
        if not (name == "nodeName" and value == "") and not (name == "allNodes" and value is False)
    }


def _slice_to_storage(wire: JsonObject) -> JsonObject:
    flattened = _at(("spec", "devices"), _each_item(_basic_to_flat_device))(wire)
    return _at(("spec",), _without_zero_node)(flattened)


def _slice_from_storage(stored: JsonObject) -> JsonObject:
    wrapped = _at(("spec", "devices"), _each_item(_flat_device_to_basic))(stored)
    return _at(("spec",), _without_zero_node)(wrapped)


_CORE_EVENT_FIELD = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_EVENTS_FIELD = {core: events for events, core in _CORE_EVENT_FIELD.items()}


def _renamed(names: Mapping[str, str]) -> Callable[[JsonObject], JsonObject]:
    return lambda wire: {names.get(name, name): value for name, value in wire.items()}


_REQUESTS = ("spec", "devices", "requests")
_TEMPLATE_REQUESTS = ("spec", "spec", "devices", "requests")

_TO_STORAGE: Mapping[tuple[str, str], Callable[[JsonObject], JsonObject]] = {
    (_RESOURCE_V1BETA1, "ResourceClaim"): _at(_REQUESTS, _each_item(_flat_request_to_exactly)),
    (_RESOURCE_V1BETA1, "ResourceClaimTemplate"): _at(
        _TEMPLATE_REQUESTS, _each_item(_flat_request_to_exactly)
    ),
    (_RESOURCE_V1BETA1, "ResourceSlice"): _slice_to_storage,
    (_EVENTS_V1, "Event"): _renamed(_CORE_EVENT_FIELD),
}
_FROM_STORAGE: Mapping[tuple[str, str], Callable[[JsonObject], JsonObject]] = {
    (_RESOURCE_V1BETA1, "ResourceClaim"): _at(_REQUESTS, _each_item(_exactly_to_flat_request)),
    (_RESOURCE_V1BETA1, "ResourceClaimTemplate"): _at(
        _TEMPLATE_REQUESTS, _each_item(_exactly_to_flat_request)
    ),
    (_RESOURCE_V1BETA1, "ResourceSlice"): _slice_from_storage,
    (_EVENTS_V1, "Event"): _renamed(_EVENTS_FIELD),
}


def storage_field(api_version: str, kind: str, field: str) -> str:
    """Return the stored name of a field that a field selector of `api_version` names."""
    if (api_version, kind) != (_EVENTS_V1, "Event"):
        return field
    first, dot, rest = field.partition(".")
    return f"{_CORE_EVENT_FIELD.get(first, first)}{dot}{rest}"
