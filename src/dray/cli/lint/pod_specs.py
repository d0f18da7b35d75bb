"""Finds pod specs in manifests: of Pods, and in the templates of workloads."""

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
CONTAINERS = ("initContainers", "containers")


def at(value: Any, path: str) -> Any:
    """Return the value at a path of names, or None."""
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def containers(pod_spec: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the containers of a pod spec, with their paths below it; skips malformed ones."""
    for field in CONTAINERS:
        entries = pod_spec.get(field) if isinstance(pod_spec, dict) else None
        for number, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, dict):
                yield f"{field}[{number}]", entry
