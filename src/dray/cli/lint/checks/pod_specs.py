"""Finds parts of manifests: pod specs, also in the templates of workloads, and requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

POD_SPECS: Mapping[str, str] = {
    "Pod": "spec",
    "Deployment": "spec.template.spec",
    "ReplicaSet": "spec.template.spec",
    "StatefulSet": "spec.template.spec",
    "DaemonSet": "spec.template.spec",
    "Job": "spec.template.spec",
    "CronJob": "spec.jobTemplate.spec.template.spec",
}
DEVICES: Mapping[str, str] = {
    "ResourceClaim": "spec.devices",
    "ResourceClaimTemplate": "spec.spec.devices",
}
"""The path of the requests and constraints in the kinds that have them."""
CONTAINERS = ("initContainers", "containers")


def at(value: Any, path: str) -> Any:
    """Return the value at a path of names, or None."""
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def items_at(value: Any, path: str) -> list[Any]:
    """Return the list at a path of names; an empty one if there is none."""
    items = at(value, path)
    return items if isinstance(items, list) else []


def containers(pod_spec: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the containers of a pod spec, with their paths below it; skips malformed ones."""
    for field in CONTAINERS:
        for number, entry in enumerate(items_at(pod_spec, field)):
            if isinstance(entry, dict):
                yield f"{field}[{number}]", entry
