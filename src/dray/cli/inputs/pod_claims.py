"""The claims of a pod: those that exist, and those its templates would give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from dray.api import kinds
from dray.api.semantics import pod_claims
from dray.api.types.dra import ResourceClaim, ResourceClaimTemplate
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod, PodResourceClaim
from dray.cli.inputs.cluster_objects import ClusterObjects

DEFAULT_NAMESPACE = "default"

Named = ResourceClaim | ResourceClaimTemplate | Pod
T = TypeVar("T", bound=Named)

WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job")


@dataclass(slots=True)
class ExplainTarget:
    """Claims to explain together, and the nodes that count."""

    title: str
    claims: list[ResourceClaim] = field(default_factory=list)
    nodes: list[str] | None = None
    """Nodes that the pod may run on, or None for all."""
    pod: Pod | None = None


def of_claim(claim: ResourceClaim) -> ExplainTarget:
    metadata = msgspec.structs.replace(claim.metadata, namespace=namespace_of(claim))
    in_namespace = msgspec.structs.replace(claim, metadata=metadata)
    return ExplainTarget(f"claim/{claim.metadata.name}", [in_namespace])


def of_template(template: ResourceClaimTemplate) -> ExplainTarget:
    name = f"{template.metadata.name}-claim"
    return ExplainTarget(f"template/{template.metadata.name}", [_from_template(template, name)])


def of_pod(pod: Pod, objects: ClusterObjects) -> ExplainTarget:
    """Return the existing claims of a pod, and those that existing templates would give."""
    metadata = msgspec.structs.replace(pod.metadata, namespace=namespace_of(pod))
    claims = (_claim(pod, source, objects) for source in pod.spec.resource_claims)
    return ExplainTarget(
        f"pod/{pod.metadata.name}",
        [claim for claim in claims if claim is not None],
        _nodes(pod, objects.of(Node)),
        msgspec.structs.replace(pod, metadata=metadata),
    )


def namespace_of(named: Named) -> str:
    return named.metadata.namespace or DEFAULT_NAMESPACE


def _claim(pod: Pod, source: PodResourceClaim, objects: ClusterObjects) -> ResourceClaim | None:
    """Return the claim of one entry of a pod, or None."""
    namespace = namespace_of(pod)
    recorded = pod_claims.claim_of(pod, source)
    if recorded.name:
        return find(objects.of(ResourceClaim), recorded.name, namespace)
    if recorded.is_made:
        return None
    template_name = source.resource_claim_template_name or ""
    template = find(objects.of(ResourceClaimTemplate), template_name, namespace)
    return _from_template(template, f"{pod.metadata.name}-{source.name}") if template else None


def _from_template(template: ResourceClaimTemplate, name: str) -> ResourceClaim:
    metadata = ObjectMeta(name=name, namespace=namespace_of(template))
    return ResourceClaim(metadata=metadata, spec=template.spec.spec)


def find(among: Iterable[T], name: str, namespace: str) -> T | None:
    for candidate in among:
        if candidate.metadata.name == name and namespace_of(candidate) == namespace:
            return candidate
    return None


def _nodes(pod: Pod, nodes: Iterable[Node]) -> list[str] | None:
    """Return the nodes that the pod's node name and node selector allow, or None for all."""
    required, name = pod.spec.node_selector, pod.spec.node_name
    if not required and not name:
        return None
    return [
        node.metadata.name
        for node in nodes
        if name in ("", None, node.metadata.name)
        and required.items() <= node.metadata.labels.items()
    ]


def pods_in(documents: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the pods of manifests, and one for each workload."""
    for document in documents:
        if document.get("kind") in WORKLOADS:
            spec = ((document.get("spec") or {}).get("template") or {}).get("spec") or {}
            metadata = document.get("metadata") or {}
            yield {**kinds.POD.type_meta, "metadata": metadata, "spec": spec}
