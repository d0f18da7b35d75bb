"""Objects for the tests: as a client sends them, with the API's defaults, as wire structs."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import msgspec

from dray.api import features, kinds
from dray.api.conversion import canonical, defaults
from dray.validation import fields, rules

NOW = "2026-01-01T00:00:00Z"
ALL_ON = features.with_gates(
    features.DEFAULT,
    {
        "DRADerivedAttributes": True,
        "DRADeviceCompatibilityGroups": True,
        "DRAListTypeAttributes": True,
        "DRANodeAllocatableResources": True,
        "DRAOptionalNodeOperations": True,
        "DRAPartitionableDevicesType": True,
        "DRAResourcePoolStatus": True,
    },
)


def decode(content: dict[str, Any], api_version: str = "v1") -> Any:
    """The wire struct of an object, after defaults."""
    stored = {"apiVersion": api_version, **copy.deepcopy(content)}
    defaults.fill(stored, NOW)
    group, version = kinds.parse_api_version(api_version)
    schema_type = kinds.GroupVersionKind(group, version, stored["kind"]).schema_type
    plain = canonical.without_nulls(schema_type, stored)
    return msgspec.convert(plain, rules.struct_of(stored["kind"]))


def metadata(**changes: Any) -> dict[str, Any]:
    return {"name": "example", "namespace": "default", "resourceVersion": "1", **changes}


def pod_spec(**changes: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "busybox"}], **changes}


def pod(spec: dict[str, Any] | None = None, **changes: Any) -> Any:
    content = {"kind": "Pod", "metadata": metadata(), "spec": spec or pod_spec(), **changes}
    return decode(content)


def workload(kind: str, api_version: str = "apps/v1", **spec: Any) -> Any:
    content = {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec()},
        **spec,
    }
    return decode({"kind": kind, "metadata": metadata(), "spec": content}, api_version)


def claim(**changes: Any) -> Any:
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
    content = {"kind": "ResourceClaim", "metadata": metadata(), "spec": spec, **changes}
    return decode(content, "resource.k8s.io/v1")


def resource_slice(*devices: dict[str, Any], **spec: Any) -> Any:
    content = {
        "driver": "gpu.example.com",
        "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "node-1",
        "devices": list(devices),
        **spec,
    }
    meta = {"name": "example", "resourceVersion": "1"}
    return decode(
        {"kind": "ResourceSlice", "metadata": meta, "spec": content}, "resource.k8s.io/v1"
    )


def created(kind: str, value: Any) -> list[str]:
    return messages(rules.validate_create(kind, value, ALL_ON))


def updated(kind: str, new: Any, old: Any) -> list[str]:
    return messages(rules.validate_update(kind, new, old, ALL_ON))


def status_updated(kind: str, new: Any, old: Any) -> list[str]:
    return messages(rules.validate_status_update(kind, new, old, ALL_ON))


def messages(errors: Iterable[fields.FieldError]) -> list[str]:
    return [error.message for error in errors]
