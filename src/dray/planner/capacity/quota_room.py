"""How many copies of a pod with its claims the quotas of its namespace admit."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dray.api.formats import quantity
from dray.api.formats.quantity import Quantity
from dray.api.semantics import pod_resources, quota
from dray.api.types.core import ResourceQuota
from dray.api.types.dra import DeviceClass
from dray.planner.cluster_model import ClusterModel
from dray.scheduling.pod_copies import PodCopies


class QuotaRoom(NamedTuple):
    """The number of copies that a quota admits, and what it has too little of for more."""

    quota: str
    pods: int
    resources: Sequence[str]
    message: str = ""
    """Why it admits none, if that is not due to an amount."""

    def __str__(self) -> str:
        return self.message or f"quota {self.quota} ({', '.join(self.resources)})"


def smallest(cluster: ClusterModel, copies: PodCopies, now: datetime.datetime) -> QuotaRoom | None:
    """Return the quota that admits the fewest copies; None if no quota counts them."""
    rooms = _rooms(cluster, copies, now)
    return min(rooms, key=lambda room: room.pods, default=None)


def _rooms(cluster: ClusterModel, copies: PodCopies, now: datetime.datetime) -> Iterator[QuotaRoom]:
    extended = {
        device_class.metadata.name: device_class.spec.extended_resource_name
        for device_class in cluster.of(DeviceClass)
        if device_class.spec.extended_resource_name
    }
    for limited in cluster.of(ResourceQuota):
        if limited.metadata.namespace != copies.pod.metadata.namespace:
            continue
        counted = _counted(limited)
        if quota.concerns_pod(counted, copies.pod):
            missing = quota.missing_statements(
                copies.pod, filter(quota.concerns_pods, counted.status.hard)
            )
            if missing:
                yield QuotaRoom(limited.metadata.name, 0, (), f"failed quota: {missing}")
                continue
        charges = _charges(counted, copies, extended, now)
        room = _room(counted, charges)
        if room is not None:
            yield room


def _counted(limited: ResourceQuota) -> ResourceQuota:
    """Return the quota with a status; one that nobody has counted yet is taken as unused."""
    if limited.status.hard:
        return limited
    status = msgspec.structs.replace(limited.status, hard=limited.spec.hard)
    return msgspec.structs.replace(limited, status=status)


def _charges(
    limited: ResourceQuota,
    copies: PodCopies,
    extended: Mapping[str, str],
    now: datetime.datetime,
) -> dict[str, Quantity]:
    """Return what one copy takes of a quota."""
    charges: dict[str, Quantity] = {}
    if quota.concerns_pod(limited, copies.pod):
        charges |= quota.pod_charges(copies.pod, now)
    if not (limited.spec.scopes or limited.spec.scope_selector):
        # Quotas with scopes count only pods.
        for claim in copies.claims:
            for name, amount in quota.claim_charges(claim, extended).items():
                charges[name] = charges.get(name, quantity.ZERO) + amount
    return charges


def _room(limited: ResourceQuota, charges: Mapping[str, Quantity]) -> QuotaRoom | None:
    hard = pod_resources.parse_amounts(limited.status.hard)
    used = pod_resources.parse_amounts(limited.status.used)
    rooms = {
        name: max((hard[name] - used.get(name, quantity.ZERO)).nano, 0) // amount.nano
        for name, amount in charges.items()
        if name in hard and amount.sign() > 0
    }
    if not rooms:
        return None
    fewest = min(rooms.values())
    names = sorted(name for name, room in rooms.items() if room == fewest)
    return QuotaRoom(limited.metadata.name, fewest, names)
