"""Where the pods of a manifest are: in a Pod itself, and in the templates of workloads."""

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
    """What a path of names leads to; None where it leads nowhere."""
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def containers(pod_spec: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every container that is one, with its path below the spec."""
    for field in CONTAINERS:
        found = pod_spec.get(field) if isinstance(pod_spec, dict) else None
        for number, each in enumerate(found if isinstance(found, list) else ()):
            if isinstance(each, dict):
                yield f"{field}[{number}]", each
