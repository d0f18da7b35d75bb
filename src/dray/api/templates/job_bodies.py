"""The bodies of the pods of a job."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, Final

from dray.api import kinds, well_known
from dray.api.templates import pod_bodies
from dray.api.templates.workload_types import Job
from dray.api.types.meta import JsonObject

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
LONGEST_PREFIX = 58
_NONE: Final[Mapping[str, str]] = types.MappingProxyType({})


def is_indexed(job: Job) -> bool:
    return job.spec.completion_mode == "Indexed"


def body(job: Job) -> JsonObject:
    pod = pod_bodies.pod_from(job.spec.template, kinds.JOB, job.metadata)
    finalizers = pod["metadata"].get("finalizers") or []
    pod["metadata"]["finalizers"] = [*finalizers, well_known.JOB_TRACKING_FINALIZER]
    return pod


def indexed_body(job: Job, index: int, annotations: Mapping[str, str] = _NONE) -> JsonObject:
    """Return the body of a pod with its index as annotation, label, variable and name."""
    pod = body(job)
    metadata, spec = pod["metadata"], pod["spec"]
    for place in ("annotations", "labels"):
        metadata[place] = {**metadata.get(place, {}), well_known.COMPLETION_INDEX: str(index)}
    metadata["annotations"] |= annotations
    suffix = f"-{index}-"
    metadata["generateName"] = job.metadata.name[: LONGEST_PREFIX - len(suffix)] + suffix
    spec["hostname"] = f"{job.metadata.name}-{index}"
    for place in ("initContainers", "containers"):
        if spec.get(place):
            spec[place] = [_with_index_variable(container) for container in spec[place]]
    return pod


def _with_index_variable(container: dict[str, Any]) -> dict[str, Any]:
    variables = container.get("env") or []
    if any(item.get("name") == INDEX_VARIABLE for item in variables):
        return container
    path = f"metadata.labels['{well_known.COMPLETION_INDEX}']"
    variable = {"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}}
    return {**container, "env": [*variables, variable]}
