"""The claims that the controller makes of templates for pods and PodGroups."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from dray.api import kinds
from dray.api.conversion import typed_objects
from dray.api.features import Features
from dray.api.ids import ObjectKey
from dray.api.semantics import pod_claims
from dray.api.semantics.pod_claims import ClaimSource
from dray.api.templates import claim_bodies
from dray.api.templates.claim_bodies import CannotGenerate, Owner
from dray.api.templates.workload_types import ClaimTemplate
from dray.api.types.dra import ResourceClaim, ResourceClaimTemplate
from dray.api.types.pods import Pod, PodResourceClaimStatus
from dray.api.types.workloads import PodGroup, PodGroupResourceClaimStatus
from dray.planner.cluster_model import ClusterModel
from dray.planner.submission.quota_book import QuotaBook

User = TypeVar("User", Pod, PodGroup)


class TemplateClaims:
    """Makes claims as the controller does, with names that are free."""

    def __init__(self, cluster: ClusterModel, quotas: QuotaBook) -> None:
        self._features: Features = cluster.features
        self._quotas = quotas
        self._templates = {item.metadata.key: item for item in cluster.of(ResourceClaimTemplate)}
        self._taken = {ObjectKey(*claim.key) for claim in cluster.of(ResourceClaim)}
        self._groups = {group.metadata.key: group for group in cluster.of(PodGroup)}

    def for_pod(self, pod: Pod) -> tuple[Pod, list[ResourceClaim]]:
        """Return the pod with the names of its claims, and those made for it alone.

        Without its template a claim is not made, and the pod waits. Raises Refused if a quota has
        no room for one.
        """
        group = self._groups.get(ObjectKey(pod.metadata.namespace, pod_claims.group_name(pod)))
        made: list[ResourceClaim] = []
        statuses: list[PodResourceClaimStatus] = []
        for source in pod.spec.resource_claims:
            if source.resource_claim_name is not None:
                continue
            if group is not None and pod_claims.is_group(pod_claims.consumer(pod, group, source)):
                name = pod_claims.claim_of(group, source).name
            else:
                claim = self._made(Owner(kinds.POD, pod), source)
                name = claim.metadata.name if claim else None
                made += [claim] if claim else []
            if name:
                statuses.append(PodResourceClaimStatus(source.name, name))
        status = msgspec.structs.replace(pod.status, resource_claim_statuses=tuple(statuses))
        return msgspec.structs.replace(pod, status=status), made

    def for_group(self, group: PodGroup) -> tuple[PodGroup, list[ResourceClaim]]:
        """Return the group with the names of its claims, and the claims. Raises Refused."""
        made: list[ResourceClaim] = []
        statuses: list[PodGroupResourceClaimStatus] = []
        for source in group.spec.resource_claims:
            if source.resource_claim_name is None:
                claim = self._made(Owner(kinds.POD_GROUP, group), source)
                if claim is not None:
                    made.append(claim)
                    statuses.append(PodGroupResourceClaimStatus(source.name, claim.metadata.name))
        status = msgspec.structs.replace(group.status, resource_claim_statuses=tuple(statuses))
        group = msgspec.structs.replace(group, status=status)
        self._groups[group.metadata.key] = group
        return group, made

    def _made(self, owner: Owner, source: ClaimSource) -> ResourceClaim | None:
        """Return the claim of one entry; None as long as something else has to change first."""
        namespace = owner.metadata.namespace
        key = ObjectKey(namespace, source.resource_claim_template_name or "")
        try:
            body = claim_bodies.claim_from(
                owner, source, _as_json(self._templates.get(key)), self._features
            )
        except CannotGenerate:
            return None
        name = self._free_name(namespace, body["metadata"].pop("generateName").rstrip("-"))
        body["metadata"] |= {"name": name, "namespace": namespace, "uid": f"claim-{name}"}
        claim = typed_objects.decode(body, ResourceClaim)
        self._quotas.charge_claim(claim)
        return claim

    def _free_name(self, namespace: str, wanted: str) -> str:
        name, number = wanted, 1
        while ObjectKey(namespace, name) in self._taken:
            number += 1
            name = f"{wanted}-{number}"
        self._taken.add(ObjectKey(namespace, name))
        return name


def _as_json(template: ResourceClaimTemplate | None) -> ClaimTemplate | None:
    if template is None:
        return None
    return ClaimTemplate(template.metadata, msgspec.to_builtins(template.spec))
