"""Pods that are submitted, with the claims that are made for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dray.api.semantics import owner_references, pod_status
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.api.well_known import POD_TEMPLATE_HASH_LABEL
from dray.planner.cluster_model import ClusterModel
from dray.scheduling.state import DEFAULT_SCHEDULER_NAME


class SubmittedPod(NamedTuple):
    """A pod that somebody submits, or that a workload would make, with the claims made for it."""

    pod: Pod
    """Has a name, a namespace and a uid of its own."""
    claims: Sequence[ResourceClaim] = ()
    """Claims that templates give; the pod's status names them."""
    owner: str = ""
    """TYPE/NAME of the submitted object, such as deployment/web; the pod itself without one."""
    ordinal: int = 0
    """The number of the pod among those of its owner."""
    after: str = ""
    """The uid of a pod that has to run before this one is made; empty without one."""
    refusal: str = ""
    """Why the API server would refuse the pod or its claims, such as a quota; empty if not."""


class Submission(NamedTuple):
    """The pods of submitted objects, and the cluster with the other objects."""

    cluster: ClusterModel
    """Has the classes, slices, nodes, claims, templates and quotas that are submitted too."""
    pods: Sequence[SubmittedPod]
    """In the order in which they are made."""
    waiting: Sequence[SubmittedPod] = ()
    """Pods of the cluster that wait, and those that its StatefulSets make when these run."""


def waiting(cluster: ClusterModel) -> list[SubmittedPod]:
    """Return the pods of a cluster that wait for its scheduler, in the order of its queue."""
    pods = [pod for pod in cluster.of(Pod) if _waits(pod)]
    pods.sort(key=lambda pod: (-(pod.spec.priority or 0), pod.metadata.creation_timestamp or ""))
    return [SubmittedPod(pod, owner=f"pod/{pod.metadata.name}") for pod in pods]


def _waits(pod: Pod) -> bool:
    scheduler = pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME
    is_unplaced = not pod.spec.node_name and pod_status.is_active(pod)
    return is_unplaced and scheduler == DEFAULT_SCHEDULER_NAME


def workload_of(pod: Pod) -> tuple[str, str, str]:
    """Return namespace, kind and name of the workload that made a pod; empty texts without one."""
    owner = owner_references.controller_of(pod.metadata)
    if owner is None:
        return "", "", ""
    kind, name = owner.kind, owner.name
    template_hash = pod.metadata.labels.get(POD_TEMPLATE_HASH_LABEL)
    if kind == "ReplicaSet" and template_hash and name.endswith(f"-{template_hash}"):
        kind, name = "Deployment", name.removesuffix(f"-{template_hash}")
    return pod.metadata.namespace, kind, name
