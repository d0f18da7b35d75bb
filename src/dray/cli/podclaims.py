"""The claims of a pod as they are, or as its templates would make them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dray.api.claims import ResourceClaim, ResourceClaimTemplate
from dray.api.meta import ObjectMeta
from dray.api.nodes import Node
from dray.api.pods import Pod, PodResourceClaim
from dray.cli.world import World

DEFAULT_NAMESPACE = "default"

Named = ResourceClaim | ResourceClaimTemplate | Pod

WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job")


@dataclass(slots=True)
class Asked:
    """What is to be explained: claims that have to be served together, and where."""

    title: str
    claims: list[ResourceClaim] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Sentences about what the pod names and is not there."""
    nodes: list[str] | None = None
    """The nodes that the pod may go to; None for all."""


def of_claim(claim: ResourceClaim) -> Asked:
    metadata = msgspec.structs.replace(claim.metadata, namespace=namespace_of(claim))
    in_namespace = msgspec.structs.replace(claim, metadata=metadata)
    return Asked(f"claim/{claim.metadata.name}", [in_namespace])


def of_template(template: ResourceClaimTemplate) -> Asked:
    name = f"{template.metadata.name}-claim"
    return Asked(f"template/{template.metadata.name}", [_made_from(template, name)])


def of_pod(pod: Pod, world: World) -> Asked:
    asked = Asked(f"pod/{pod.metadata.name}", nodes=_nodes(pod, world.of(Node)))
    for source in pod.spec.resource_claims:
        found = _claim(pod, source, world)
        if isinstance(found, ResourceClaim):
            asked.claims.append(found)
        elif found:
            asked.missing.append(found)
    return asked


def namespace_of(named: Named) -> str:
    return named.metadata.namespace or DEFAULT_NAMESPACE


def _claim(pod: Pod, source: PodResourceClaim, world: World) -> ResourceClaim | str:
    """The claim behind one entry of a pod, or why there is none."""
    namespace = namespace_of(pod)
    made = [
        each.resource_claim_name
        for each in pod.status.resource_claim_statuses
        if each.name == source.name
    ]
    name = source.resource_claim_name or (made[0] if made else None)
    if name:
        return find(world.of(ResourceClaim), name, namespace) or _not_there(
            "ResourceClaim", name, namespace, world.of(ResourceClaim)
        )
    template_name = source.resource_claim_template_name or ""
    template = find(world.of(ResourceClaimTemplate), template_name, namespace)
    if template is None:
        every = world.of(ResourceClaimTemplate)
        return _not_there("ResourceClaimTemplate", template_name, namespace, every)
    return _made_from(template, f"{pod.metadata.name}-{source.name}")


def _made_from(template: ResourceClaimTemplate, name: str) -> ResourceClaim:
    metadata = ObjectMeta(name=name, namespace=namespace_of(template))
    return ResourceClaim(metadata=metadata, spec=template.spec.spec)


def find(among: Iterable[Any], name: str, namespace: str) -> Any | None:
    for each in among:
        if each.metadata.name == name and namespace_of(each) == namespace:
            return each
    return None


def _not_there(kind: str, name: str, namespace: str, among: Iterable[Named]) -> str:
    elsewhere = sorted(namespace_of(each) for each in among if each.metadata.name == name)
    hint = f"; one of that name is in namespace {elsewhere[0]}" if elsewhere else ""
    return f"there is no {kind} {name} in namespace {namespace}{hint}"


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
