"""Quotas after pods are gone for good, with the claims that were made for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from dray.api.admission import quota_charges
from dray.api.admission.quota_charges import Charge
from dray.api.semantics import owner_references, pod_resources
from dray.api.types.core import ResourceQuota
from dray.api.types.dra import DeviceClass, ResourceClaim
from dray.api.types.pods import Pod
from dray.planner.cluster_model import ClusterModel
from dray.planner.submission.expansion import NOW


def freed(cluster: ClusterModel, pods: Iterable[Pod]) -> Iterator[ResourceQuota]:
    """Yield the quotas of a cluster that are charged less without some of its pods."""
    gone = {pod.metadata.uid: pod for pod in pods}
    namespaces = {pod.metadata.namespace for pod in gone.values()}
    # Usage of a quota without a status is counted from the objects that are left.
    quotas = [
        quota
        for quota in cluster.of(ResourceQuota)
        if quota.status.hard and quota.metadata.namespace in namespaces
    ]
    if not quotas:
        return
    charges = list(_charges(cluster, gone))
    for quota in quotas:
        used = pod_resources.parse_amounts(quota.status.used)
        for namespace, charge in charges:
            if namespace == quota.metadata.namespace and charge.concerns(quota):
                used = quota_charges.difference(used, charge.amounts)
        amounts = {name: str(amount) for name, amount in used.items()}
        status = msgspec.structs.replace(quota.status, used=amounts)
        yield msgspec.structs.replace(quota, status=status)


def _charges(cluster: ClusterModel, gone: dict[str, Pod]) -> Iterator[tuple[str, Charge]]:
    """Yield the namespace and charge of every pod and of each claim that goes with it."""
    extended = {
        item.metadata.name: item.spec.extended_resource_name
        for item in cluster.of(DeviceClass)
        if item.spec.extended_resource_name
    }
    for pod in gone.values():
        yield pod.metadata.namespace, quota_charges.of_pod(pod, NOW)
    for claim in cluster.of(ResourceClaim):
        owner = owner_references.controller_of(claim.metadata)
        if owner is not None and owner.uid in gone:
            yield claim.metadata.namespace, quota_charges.of_claim(claim, extended)
