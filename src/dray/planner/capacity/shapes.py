"""The shapes in use: what the pods of a cluster that use devices need, each shape once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from dray.allocator.model import requests
from dray.api.ids import ClaimKey
from dray.api.semantics import owner_references, pod_claims, pod_status
from dray.api.types.dra import ResourceClaim
from dray.api.types.meta import ObjectMeta
from dray.api.types.pods import Affinity, Pod, PodResourceClaim
from dray.planner.cluster_model import ClusterModel
from dray.scheduling.claims.extended_resources import Classes
from dray.scheduling.nodes import pod_requirements
from dray.scheduling.pod_copies import PodCopies

MOST = 20
"""Shapes that are looked at; those of most pods come first."""


class PodShape(NamedTuple):
    """A pod that stands for all pods with the same needs."""

    name: str
    """NAMESPACE/NAME of one of them."""
    copies: PodCopies
    pods: int
    """How many pods of the cluster have this shape."""


def in_use(cluster: ClusterModel) -> list[PodShape]:
    """Return the shapes of pods that use devices, those of most pods first.

    Pods of DaemonSets are left out: more of them come with nodes alone.
    """
    claims = {claim.key: claim for claim in cluster.of(ResourceClaim)}
    counts: Counter[Hashable] = Counter()
    examples: dict[Hashable, tuple[Pod, list[ResourceClaim]]] = {}
    for pod, used in _pods_with_claims(cluster.of(Pod), claims):
        key = (pod_requirements.requirements_of(pod), requests.signature(used))
        counts[key] += 1
        examples.setdefault(key, (pod, used))
    return [
        PodShape(str(examples[key][0].metadata.key), _copies(*examples[key]), count)
        for key, count in counts.most_common()
    ]


def classes_of(copies: PodCopies, classes: Classes) -> Iterator[str]:
    """Yield the device classes that a pod asks for, in claims and as extended resources."""
    for claim in copies.claims:
        for request in claim.spec.devices.requests:
            for alternative in (request.exactly, *request.first_available):
                if alternative is not None:
                    yield alternative.device_class_name
    amounts = pod_requirements.requirements_of(copies.pod).usage.amounts
    for resource in classes.provided(amounts):
        yield classes.class_of(resource)


def _pods_with_claims(
    pods: Iterable[Pod], claims: dict[ClaimKey, ResourceClaim]
) -> Iterator[tuple[Pod, list[ResourceClaim]]]:
    for pod in pods:
        extended = pod.status.extended_resource_claim_status is not None
        if not (pod.spec.resource_claims or extended) or pod_status.has_ended(pod):
            continue
        owner = owner_references.controller_of(pod.metadata)
        if owner is not None and owner.kind == "DaemonSet":
            continue
        named = (pod_claims.claim_of(pod, source).name for source in pod.spec.resource_claims)
        keys = [ClaimKey(pod.metadata.namespace, name) for name in named if name]
        if keys or extended:
            yield pod, [claims[key] for key in keys if key in claims]


def _copies(pod: Pod, used: list[ResourceClaim]) -> PodCopies:
    """Return copies with claims of their own and without rules about other pods."""
    metadata = ObjectMeta(name="fit", namespace=pod.metadata.namespace, uid="fit")
    claims = [
        ResourceClaim(
            ObjectMeta(name=f"fit-{number}", namespace=pod.metadata.namespace), claim.spec
        )
        for number, claim in enumerate(used)
    ]
    sources = tuple(
        PodResourceClaim(claim.metadata.name, resource_claim_name=claim.metadata.name)
        for claim in claims
    )
    affinity = pod.spec.affinity and Affinity(node_affinity=pod.spec.affinity.node_affinity)
    spec = msgspec.structs.replace(
        pod.spec,
        node_name="",
        resource_claims=sources,
        scheduling_gates=(),
        affinity=affinity,
        topology_spread_constraints=(),
        scheduling_group=None,
    )
    return PodCopies(Pod(metadata, spec), claims)
