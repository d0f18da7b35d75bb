"""How Go prints a bad value inside a message: a string quoted, everything else as JSON.

Kubernetes validates its internal types, which have no JSON tags. So a struct in a message shows
Go's field names, every field, and null for whatever is empty. Declarative rules see the versioned
types instead and show what travels on the wire. `Internal` marks a value of the first kind.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec

from dray.api.formats import gotext
from dray.api.types import dra, meta, pods, workloads


class Internal(NamedTuple):
    """A wire struct (or a sequence of them) to be printed as Kubernetes' internal type."""

    value: Any


class Fields(NamedTuple):
    """An internal struct that has no wire form: field names as Go writes them, and values."""

    values: dict[str, Any]


def printed(value: Any) -> str:
    return gotext.quote(value) if isinstance(value, str) else to_json(value)


def to_json(value: Any) -> str:
    """Go's json.Marshal, which escapes what HTML would read as markup."""
    text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))
    return text.translate(_HTML_ESCAPES)


_HTML_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def plain(value: Any) -> Any:
    """The value as maps, lists and scalars."""
    if isinstance(value, Internal):
        return _internal(value.value)
    if isinstance(value, Fields):
        return {name: _internal(part) for name, part in value.values.items()}
    if isinstance(value, meta.Wire):
        return _versioned(value)
    return _container(value, plain)


def _container(value: Any, convert: Any) -> Any:
    if value is msgspec.UNSET:
        return None
    if isinstance(value, tuple | list):
        return [convert(part) for part in value] or None
    if isinstance(value, dict):
        return {key: convert(value[key]) for key in sorted(value)} or None
    return value


def _versioned(struct: meta.Wire) -> dict[str, Any]:
    always = _ALWAYS_WRITTEN.get(type(struct), frozenset())
    written = {}
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        is_absent = value in (field.default, {})
        if not is_absent or field.encode_name in always:
            is_raw = (type(struct), field.name) in _RAW
            written[field.encode_name] = _raw(value) if is_raw else plain(value)
    return written


def _internal(value: Any) -> Any:
    if isinstance(value, _TAGGED):
        return _versioned(value)
    if not isinstance(value, meta.Wire):
        return _container(value, _internal)
    written: dict[str, Any] = {}
    for name in value.__struct_fields__:
        part = getattr(value, name)
        if isinstance(part, meta.ObjectMeta):
            written |= _versioned(part)
        elif (type(value), name) in _RAW:
            written[_go_name(name)] = _raw(part)
        else:
            written[_go_name(name)] = _internal(part)
    return written


def _raw(value: Any) -> Any:
    return None if value is msgspec.UNSET else value


# Any JSON, which is printed as it was written.
_RAW = {(dra.OpaqueDeviceConfiguration, "parameters"), (dra.AllocatedDeviceStatus, "data")}

# Types of apimachinery: the internal types use them as they are, tags included.
_TAGGED = (
    meta.Condition,
    meta.LabelSelector,
    meta.LabelSelectorRequirement,
    meta.ObjectMeta,
    meta.OwnerReference,
)

_INITIALISM_WORDS = (
    "api cel cidr dns fqdn fs grpc http id ip ipc os pid qos se tcp ttl tty uid uuid"
)
_INITIALISMS = {word: word.upper() for word in _INITIALISM_WORDS.split()}
_INITIALISMS |= {"cidrs": "CIDRs", "ips": "IPs"}


def _go_name(attribute: str) -> str:
    return "".join(_INITIALISMS.get(word, word.capitalize()) for word in attribute.split("_"))


# Fields whose JSON tag has no "omitempty".
_ALWAYS_WRITTEN: dict[type[meta.Wire], frozenset[str]] = {
    dra.AllocatedDeviceStatus: frozenset(("driver", "pool", "device", "conditions")),
    dra.DeviceDerivedAttribute: frozenset(("name", "expression")),
    dra.DeviceRequest: frozenset(("name",)),
    dra.DeviceSubRequest: frozenset(("name", "deviceClassName")),
    dra.ExactDeviceRequest: frozenset(("deviceClassName",)),
    dra.ResourceClaimConsumerReference: frozenset(("resource", "name", "uid")),
    dra.CELDeviceSelector: frozenset(("expression",)),
    dra.OpaqueDeviceConfiguration: frozenset(("driver", "parameters")),
    meta.Condition: frozenset(("type", "status", "lastTransitionTime", "reason", "message")),
    meta.LabelSelectorRequirement: frozenset(("key", "operator")),
    meta.OwnerReference: frozenset(("apiVersion", "kind", "name", "uid")),
    pods.NodeAllocatableMappedResources: frozenset(("name", "quantity")),
    pods.NodeAllocatableOverheadResources: frozenset(("name",)),
    pods.NodeAllocatableResourceClaimStatus: frozenset(("resourceClaimName",)),
    workloads.PodGroupResourceClaim: frozenset(("name",)),
    workloads.PodGroupResourceClaimStatus: frozenset(("name",)),
    dra.Counter: frozenset(("value",)),
    dra.CounterSet: frozenset(("name",)),
    dra.DeviceCounterConsumption: frozenset(("counterSet",)),
}
