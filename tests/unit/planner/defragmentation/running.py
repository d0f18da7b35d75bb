"""Small clusters with running pods for the tests of moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dray.api.semantics import pod_claims
from dray.api.types.core import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from dray.api.types.dra import (
    ResourceClaim,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from dray.api.types.meta import LabelSelector, ObjectMeta, OwnerReference
from dray.api.types.nodes import Node, NodeSpec, NodeStatus
from dray.api.types.pods import Pod
from dray.planner.cluster_model import ClusterModel
from dray.planner.submission.submitted_pods import SubmittedPod
from tests import builders


def cluster(nodes: Mapping[str, int], *objects: Any) -> ClusterModel:
    """A cluster with so many GPUs on each node, and templates for one GPU and for two."""
    slices = [builders.gpu_slice(name, count) for name, count in nodes.items() if count]
    templates = [template("one", 1), template("two", 2)]
    given = [each for group in objects for each in (group if isinstance(group, list) else [group])]
    return ClusterModel().with_objects(
        [*map(node, nodes), *slices, builders.device_class(), *templates, *given]
    )


def node(name: str, *, cordoned: bool = False) -> Node:
    status = NodeStatus(allocatable={"pods": "10", "cpu": "8"})
    metadata = ObjectMeta(name=name, labels={"kubernetes.io/hostname": name})
    return Node(metadata, NodeSpec(unschedulable=cordoned), status)


def template(name: str, count: int) -> ResourceClaimTemplate:
    spec = builders.claim(builders.request(count=count)).spec
    metadata = ObjectMeta(name=name, namespace="default")
    return ResourceClaimTemplate(metadata, ResourceClaimTemplateSpec(spec=spec))


def pod(name: str, node: str = "", *, kind: str = "ReplicaSet", **fields: Any) -> Pod:
    """A pod of a controller; without a kind, of none."""
    made = builders.pod(name, uid=f"uid-{name}", **fields)
    owners = (OwnerReference("apps/v1", kind, "web", "uid-web", controller=True),) if kind else ()
    metadata = msgspec.structs.replace(
        made.metadata, owner_references=owners, labels={"app": name.partition("-")[0]}
    )
    spec = msgspec.structs.replace(made.spec, node_name=node)
    return msgspec.structs.replace(made, metadata=metadata, spec=spec)


def running(name: str, place: str, *, kind: str = "ReplicaSet", **spec: Any) -> list[Any]:
    """A pod that has devices by a template, and its claim; `place` is NODE:NUMBER,…"""
    node, _, numbers = place.partition(":")
    devices = [f"gpu-{number}" for number in numbers.split(",")]
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]}
    templates = {"gpu": "one" if len(devices) == 1 else "two"}
    made = pod(name, node, kind=kind, templates=templates, status=status, **spec)
    owner = OwnerReference("v1", "Pod", name, made.metadata.uid, controller=True)
    claim = allocated(f"{name}-gpu", node, devices, [made])
    metadata = msgspec.structs.replace(claim.metadata, owner_references=(owner,))
    return [made, msgspec.structs.replace(claim, metadata=metadata)]


def allocated(name: str, node: str, devices: Sequence[str], users: Sequence[Pod]) -> ResourceClaim:
    waiting = builders.claim(builders.request(count=len(devices)), name=name)
    selector = builders.nodes_labelled("kubernetes.io/hostname", node)
    given = builders.allocated(waiting, *devices, pool=node, node_selector=selector)
    reserved = tuple(map(pod_claims.pod_consumer, users))
    status = ResourceClaimStatus(given.status.allocation, reserved)
    return msgspec.structs.replace(given, status=status)


def incoming(name: str = "train", count: int = 2, **spec: Any) -> SubmittedPod:
    """A pod that is submitted, with a claim of its own."""
    made = builders.pod(name, claims={"gpu": f"{name}-claim"}, uid=name, **spec)
    claim = builders.claim(builders.request(count=count), name=f"{name}-claim")
    return SubmittedPod(made, [claim], f"pod/{name}")


def budget(label: str, allowed: int) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        ObjectMeta(name=label, namespace="default"),
        PodDisruptionBudgetSpec(selector=LabelSelector({"app": label})),
        PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )
