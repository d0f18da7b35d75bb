"""The claims of a pod as they are, or as its templates would make them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dray.api.semantics import pod_claims
from dray.api.types.dra import ResourceClaim, ResourceClaimTemplate
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod, PodResourceClaim
from dray.cli.inputs.cluster_objects import ClusterObjects

DEFAULT_NAMESPACE = "default"

Named = ResourceClaim | ResourceClaimTemplate | Pod

WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job")


@dataclass(slots=True)
class ExplainTarget:
    """What is to be explained: claims that have to be served together, and where."""

    title: str
    claims: list[ResourceClaim] = field(default_factory=list)
    nodes: list[str] | None = None
    """The nodes that the pod may go to; None for all."""
    pod: Pod | None = None


def of_claim(claim: ResourceClaim) -> ExplainTarget:
    metadata = msgspec.structs.replace(claim.metadata, namespace=namespace_of(claim))
    in_namespace = msgspec.structs.replace(claim, metadata=metadata)
    return ExplainTarget(f"claim/{claim.metadata.name}", [in_namespace])


def of_template(template: ResourceClaimTemplate) -> ExplainTarget:
    name = f"{template.metadata.name}-claim"
    return ExplainTarget(f"template/{template.metadata.name}", [_made_from(template, name)])


def of_pod(pod: Pod, world: ClusterObjects) -> ExplainTarget:
    """The claims that are there, and those that templates which are there would make."""
    metadata = msgspec.structs.replace(pod.metadata, namespace=namespace_of(pod))
    found = (_claim(pod, source, world) for source in pod.spec.resource_claims)
    return ExplainTarget(
        f"pod/{pod.metadata.name}",
        [claim for claim in found if claim is not None],
        _nodes(pod, world.of(Node)),
        msgspec.structs.replace(pod, metadata=metadata),
    )


def namespace_of(named: Named) -> str:
    return named.metadata.namespace or DEFAULT_NAMESPACE


def _claim(pod: Pod, source: PodResourceClaim, world: ClusterObjects) -> ResourceClaim | None:
    """The claim behind one entry of a pod."""
    namespace = namespace_of(pod)
    noted = pod_claims.claim_of(pod, source)
    if noted.name:
        found: ResourceClaim | None = find(world.of(ResourceClaim), noted.name, namespace)
        return found
    if noted.is_made:
        return None
    template_name = source.resource_claim_template_name or ""
    template = find(world.of(ResourceClaimTemplate), template_name, namespace)
    return _made_from(template, f"{pod.metadata.name}-{source.name}") if template else None


def _made_from(template: ResourceClaimTemplate, name: str) -> ResourceClaim:
    metadata = ObjectMeta(name=name, namespace=namespace_of(template))
    return ResourceClaim(metadata=metadata, spec=template.spec.spec)


def find(among: Iterable[Any], name: str, namespace: str) -> Any | None:
    for each in among:
        if each.metadata.name == name and namespace_of(each) == namespace:
            return each
    return None


def _nodes(pod: Pod, nodes: Iterable[Node]) -> list[str] | None:
    """Where the pod's own node name and node selector let it go."""
    wanted, name = pod.spec.node_selector, pod.spec.node_name
    if not wanted and not name:
        return None
    return [
        node.metadata.name
        for node in nodes
        if name in ("", None, node.metadata.name) and wanted.items() <= node.metadata.labels.items()
    ]


def pods_in(documents: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The pods that workloads of a manifest would make, one for each."""
    for document in documents:
        if document.get("kind") in WORKLOADS:
            template = (document.get("spec") or {}).get("template") or {}
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": document.get("metadata") or {},
                "spec": template.get("spec") or {},
            }
