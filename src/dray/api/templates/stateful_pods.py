"""The pods of a StatefulSet: their identity by name, host name, labels and volumes."""

from __future__ import annotations

from typing import Any

from dray.api import kinds
from dray.api.templates import pod_bodies, workload_types
from dray.api.templates.workload_types import StatefulSet, Template
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.api.well_known import REVISION_LABEL

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"


def ordinals(stateful_set: StatefulSet) -> range:
    start = stateful_set.spec.ordinals.start if stateful_set.spec.ordinals else 0
    return range(start, start + workload_types.replicas(stateful_set))


def is_ordered(stateful_set: StatefulSet) -> bool:
    """Return whether a pod is made only when those before it are ready."""
    return stateful_set.spec.pod_management_policy != "Parallel"


def ordinal_of(pod: Pod, set_name: str) -> int | None:
    prefix, _, ordinal = pod.metadata.name.rpartition("-")
    return int(ordinal) if prefix == set_name and ordinal.isdigit() else None


def revision_of(pod: Pod) -> str:
    return pod.metadata.labels.get(REVISION_LABEL, "")


def pod_body(
    stateful_set: StatefulSet, ordinal: int, revision: str, template: Template
) -> JsonObject:
    metadata = stateful_set.metadata
    body = pod_bodies.pod_from(template, kinds.STATEFUL_SET, metadata)
    name = f"{metadata.name}-{ordinal}"
    del body["metadata"]["generateName"]
    body["metadata"]["name"] = name
    body["metadata"]["labels"] = {
        **body["metadata"].get("labels", {}),
        REVISION_LABEL: revision,
        POD_NAME_LABEL: name,
        INDEX_LABEL: str(ordinal),
    }
    body["spec"]["hostname"] = name
    if stateful_set.spec.service_name:
        body["spec"]["subdomain"] = stateful_set.spec.service_name
    if stateful_set.spec.volume_claim_templates:
        body["spec"]["volumes"] = _volumes(stateful_set, ordinal, body["spec"])
    return body


def _volumes(stateful_set: StatefulSet, ordinal: int, spec: dict[str, Any]) -> list[Any]:
    """Return the volumes. Those of claim templates replace others of the same name."""
    claimed = {
        template["metadata"]["name"]: _claim_name(stateful_set, template, ordinal)
        for template in stateful_set.spec.volume_claim_templates
    }
    volumes = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim}}
        for name, claim in claimed.items()
    ]
    return volumes + [
        volume for volume in spec.get("volumes") or () if volume["name"] not in claimed
    ]


def _claim_name(stateful_set: StatefulSet, template: dict[str, Any], ordinal: int) -> str:
    return f"{template['metadata']['name']}-{stateful_set.metadata.name}-{ordinal}"


def volume_claims(stateful_set: StatefulSet, ordinal: int) -> list[JsonObject]:
    """Return the volume claims of one pod; they outlive it."""
    selector = stateful_set.spec.selector
    labels = selector.match_labels if selector else {}
    return [
        {
            **kinds.PERSISTENT_VOLUME_CLAIM.type_meta,
            "metadata": {
                **{
                    key: value
                    for key, value in template["metadata"].items()
                    if key in ("annotations", "labels")
                },
                "name": _claim_name(stateful_set, template, ordinal),
                "labels": {**(template["metadata"].get("labels") or {}), **labels},
            },
            "spec": template.get("spec") or {},
        }
        for template in stateful_set.spec.volume_claim_templates
    ]
