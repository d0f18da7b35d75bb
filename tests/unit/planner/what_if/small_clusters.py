"""Small clusters with running pods, for the tests of changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from dray.api.semantics import pod_claims
from dray.api.types.dra import ResourceClaim, ResourceClaimTemplate, ResourceClaimTemplateSpec
from dray.api.types.meta import ObjectMeta, OwnerReference
from dray.api.types.nodes import Node, NodeStatus
from dray.api.types.pods import Pod
from dray.planner.cluster_model import ClusterModel
from dray.planner.submission import expansion
from dray.planner.what_if import changes, compare
from dray.planner.what_if.changes import Change
from dray.planner.what_if.compare import WhatIf
from tests import builders

REPLICA_SET = OwnerReference("apps/v1", "ReplicaSet", "web-5d9", "uid-web", controller=True)
DAEMON_SET = OwnerReference("apps/v1", "DaemonSet", "agent", "uid-agent", controller=True)


def node(name: str) -> Node:
    return Node(
        ObjectMeta(name=name, labels={"kubernetes.io/hostname": name}),
        status=NodeStatus(allocatable={"pods": "10", "cpu": "8"}),
    )


def template() -> ResourceClaimTemplate:
    spec = ResourceClaimTemplateSpec(spec=builders.claim(builders.request()).spec)
    return ResourceClaimTemplate(ObjectMeta(name="one-gpu", namespace="default"), spec)


def running(
    name: str,
    node: str,
    *devices: str,
    owner: OwnerReference | None = REPLICA_SET,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> list[Pod | ResourceClaim]:
    """Return a pod with a claim of its own for each device; the claims are allocated."""
    uid = f"uid-{name}"
    entries = [f"gpu-{number}" for number in range(len(devices))]
    pod = builders.pod(
        name,
        uid=uid,
        templates=dict.fromkeys(entries, "one-gpu"),
        nodeName=node,
        status={
            "phase": "Running",
            "resourceClaimStatuses": [
                {"name": entry, "resourceClaimName": f"{name}-{entry}"} for entry in entries
            ],
        },
        **spec,
    )
    metadata = msgspec.structs.replace(
        pod.metadata, owner_references=(owner,) if owner else (), labels=labels or {}
    )
    pod = msgspec.structs.replace(pod, metadata=metadata)
    made_for = OwnerReference("v1", "Pod", name, uid, controller=True)
    claims = []
    for entry, device in zip(entries, devices, strict=True):
        claim = builders.claim(builders.request(), name=f"{name}-{entry}")
        claim = reserved(builders.allocated(claim, device, pool=node), pod)
        owned = msgspec.structs.replace(claim.metadata, owner_references=(made_for,))
        claims.append(msgspec.structs.replace(claim, metadata=owned))
    return [pod, *claims]


def reserved(claim: ResourceClaim, *pods: Pod) -> ResourceClaim:
    consumers = tuple(pod_claims.pod_consumer(pod) for pod in pods)
    status = msgspec.structs.replace(claim.status, reserved_for=consumers)
    return msgspec.structs.replace(claim, status=status)


def cluster(*objects: Any, nodes: Iterable[str] = ("n1", "n2"), gpus: int = 2) -> ClusterModel:
    """Return nodes with GPUs, and more objects; lists are flattened."""
    flat = [item for each in objects for item in (each if isinstance(each, list) else [each])]
    machines = [item for name in nodes for item in (node(name), builders.gpu_slice(name, gpus))]
    return ClusterModel().with_objects([*machines, builders.device_class(), template(), *flat])


def what_if(model: ClusterModel, *made: Change, policy: str | None = None) -> WhatIf:
    changed = changes.apply_all(model, made)
    return compare.compare(
        expansion.expand((), model), expansion.expand((), changed.cluster), changed, policy=policy
    )


def results(found: WhatIf) -> dict[str, str]:
    """Return what happens to each pod, with its node afterwards."""
    return {
        each.pod.metadata.name: f"{each.result.value} {each.after.node}".strip()
        for each in found.pods
    }
