"""The quotas of a cluster while objects are submitted: each object charges them, or is refused."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import msgspec

from dray.api.admission import quota_charges
from dray.api.admission.quota_charges import Charge
from dray.api.formats import quantity
from dray.api.ids import GroupResource
from dray.api.semantics import pod_resources, pod_status
from dray.api.semantics import quota as counting
from dray.api.semantics.pod_resources import Amounts
from dray.api.types.core import ResourceQuota, ResourceQuotaStatus
from dray.api.types.dra import DeviceClass, ResourceClaim
from dray.api.types.pods import Pod
from dray.planner.cluster_model import ClusterModel


class QuotaBook:
    """Usage of the quotas. Every method raises Refused where a quota has no room."""

    def __init__(self, cluster: ClusterModel, now: datetime.datetime) -> None:
        self._now = now
        self._extended = {
            device_class.metadata.name: device_class.spec.extended_resource_name
            for device_class in cluster.of(DeviceClass)
            if device_class.spec.extended_resource_name
        }
        self._quotas: dict[str, list[ResourceQuota]] = {}
        for quota in cluster.of(ResourceQuota):
            counted = quota if quota.status.hard else self._counted(quota, cluster)
            self._quotas.setdefault(quota.metadata.namespace, []).append(counted)

    def charge_pod(self, pod: Pod) -> None:
        self._charge(pod.metadata.namespace, quota_charges.of_pod(pod, self._now))

    def charge_claim(self, claim: ResourceClaim) -> None:
        self._charge(claim.metadata.namespace, quota_charges.of_claim(claim, self._extended))

    def charge_object(self, resource: GroupResource, namespace: str) -> None:
        """Charge an object of a kind that has no other charges."""
        amounts = counting.object_charges(resource)
        self._charge(namespace, quota_charges.unscoped(amounts, amounts.__contains__))

    def _charge(self, namespace: str, charge: Charge) -> None:
        quotas = self._quotas.get(namespace)
        if not quotas:
            return
        usages = [quota_charges.usage_with(quota, charge) for quota in quotas]
        self._quotas[namespace] = [
            _with_usage(quota, usage) for quota, usage in zip(quotas, usages, strict=True)
        ]

    def _counted(self, quota: ResourceQuota, cluster: ClusterModel) -> ResourceQuota:
        """Return a quota that is new with the usage that its controller would count."""
        hard = quota.spec.hard
        bare = msgspec.structs.replace(quota, status=ResourceQuotaStatus(hard=hard))
        used: Amounts = dict.fromkeys(hard, quantity.ZERO)
        for amounts in self._charges(bare, cluster):
            pod_resources.add(used, {name: amounts[name] for name in amounts if name in hard})
        return _with_usage(bare, used)

    def _charges(self, quota: ResourceQuota, cluster: ClusterModel) -> Iterator[Amounts]:
        namespace = quota.metadata.namespace
        for pod in cluster.of(Pod):
            if pod.metadata.namespace == namespace and not pod_status.has_ended(pod):
                charge = quota_charges.of_pod(pod, self._now)
                if charge.concerns(quota):
                    yield charge.amounts
        for claim in cluster.of(ResourceClaim):
            if claim.metadata.namespace == namespace:
                charge = quota_charges.of_claim(claim, self._extended)
                if charge.concerns(quota):
                    yield charge.amounts


def _with_usage(quota: ResourceQuota, usage: Amounts) -> ResourceQuota:
    if not usage:
        return quota
    used = {**quota.status.used, **{name: str(amount) for name, amount in usage.items()}}
    return msgspec.structs.replace(quota, status=msgspec.structs.replace(quota.status, used=used))
