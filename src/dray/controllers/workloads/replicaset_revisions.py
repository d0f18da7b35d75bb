"""The ReplicaSets of a Deployment as its revisions: their bodies and annotations."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dray.api import kinds
from dray.api.semantics import owner_references
from dray.api.templates import workload_types
from dray.api.templates.workload_types import Deployment, ReplicaSet
from dray.api.types.meta import JsonObject, LabelSelector
from dray.controllers.workloads import rollouts
from dray.controllers.workloads.controller_revisions import short_hash

REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
MAX_HISTORY_CHARACTERS = 2000
LONGEST_NAME = 253

_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        rollouts.REVISION,
        REVISION_HISTORY,
        rollouts.DESIRED_REPLICAS,
        rollouts.MAX_REPLICAS,
    }
)


def following(old: Sequence[ReplicaSet]) -> int:
    return max(map(rollouts.revision, old), default=0) + 1


def size_annotations(deployment: Deployment) -> dict[str, str]:
    return {
        rollouts.DESIRED_REPLICAS: str(workload_types.replicas(deployment)),
        rollouts.MAX_REPLICAS: str(rollouts.max_total(deployment)),
    }


def _copied_annotations(deployment: Deployment) -> dict[str, str]:
    return {
        name: value
        for name, value in deployment.metadata.annotations.items()
        if name not in _NOT_COPIED
    }


def current_annotations(deployment: Deployment, new: ReplicaSet, revision: int) -> dict[str, str]:
    """Return the annotations of the current ReplicaSet. Revisions only increase."""
    annotations = {**new.metadata.annotations, **_copied_annotations(deployment)}
    before = rollouts.revision(new)
    if before < revision:
        annotations[rollouts.REVISION] = str(revision)
        if rollouts.REVISION in new.metadata.annotations:
            annotations[REVISION_HISTORY] = _longer_history(
                new.metadata.annotations.get(REVISION_HISTORY, ""), str(before)
            )
    return annotations


def _longer_history(history: str, revision: str) -> str:
    revisions = [*filter(None, history.split(",")), revision]
    while len(",".join(revisions)) > MAX_HISTORY_CHARACTERS:
        del revisions[0]
    return ",".join(revisions)


def replica_set(deployment: Deployment, size: int, revision: int) -> JsonObject:
    """Return the body of the ReplicaSet for the present template of the deployment."""
    spec, metadata = deployment.spec, deployment.metadata
    hashed = short_hash(spec.template, deployment.status.collision_count)
    label = {rollouts.HASH_LABEL: hashed}
    template = {**spec.template, "metadata": dict(spec.template.get("metadata") or {})}
    labels = {**(template["metadata"].get("labels") or {}), **label}
    template["metadata"]["labels"] = labels
    selector = msgspec.to_builtins(spec.selector or LabelSelector())
    selector["matchLabels"] = {**selector.get("matchLabels", {}), **label}
    prefix = metadata.name[: LONGEST_NAME - len(hashed) - 1]
    return {
        **kinds.REPLICA_SET.type_meta,
        "metadata": {
            "name": f"{prefix}-{hashed}",
            "namespace": metadata.namespace,
            "labels": labels,
            "annotations": {
                **_copied_annotations(deployment),
                **size_annotations(deployment),
                rollouts.REVISION: str(revision),
            },
            "ownerReferences": [owner_references.reference(kinds.DEPLOYMENT, metadata)],
        },
        "spec": {
            "replicas": size,
            "minReadySeconds": spec.min_ready_seconds,
            "selector": selector,
            "template": template,
        },
    }
