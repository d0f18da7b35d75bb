"""What may never be in a cluster, whatever happens in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from dray.allocator import verifier
from dray.api import features, kinds
from dray.api.conversion import canonical
from dray.api.features import Features
from dray.api.kinds import Kind
from dray.api.types.dra import ResourceClaim, ResourceSlice
from dray.api.types.pods import Pod
from dray.client.api_client import Client

T = TypeVar("T")


async def violations(client: Client, gates: Features = features.DEFAULT) -> list[str]:
    """Everything that may not be, in the state that the API shows now."""
    claims = await _listed(client, kinds.RESOURCE_CLAIM, ResourceClaim)
    slices = await _listed(client, kinds.RESOURCE_SLICE, ResourceSlice)
    pods = await _listed(client, kinds.POD, Pod)
    found = [
        str(violation)
        for violation in verifier.find_violations(slices, claims, gates)
        # A taint may come after the allocation, and a slice may go.
        if not isinstance(violation, verifier.TaintIgnored | verifier.UnknownDevice)
    ]
    return [*found, *_reserved_without_allocation(claims), *_reserved_for_nobody(claims, pods)]


async def _listed(client: Client, kind: Kind, type_: type[T]) -> list[T]:
    page = await client.list(kind)
    return [
        msgspec.convert(canonical.prune_nulls(msgspec.json.decode(raw)), type_)
        for raw in page.items
    ]


def _reserved_without_allocation(claims: Iterable[ResourceClaim]) -> list[str]:
    return [
        f"{claim.metadata.name} is reserved and not allocated"
        for claim in claims
        if claim.status.reserved_for and claim.status.allocation is None
    ]


def _reserved_for_nobody(claims: Iterable[ResourceClaim], pods: Iterable[Pod]) -> list[str]:
    """Reservations for pods that are gone or have ended."""
    alive = {pod.metadata.uid for pod in pods if pod.status.phase not in ("Succeeded", "Failed")}
    return [
        f"{claim.metadata.name} is reserved for {user.name}, which is gone"
        for claim in claims
        for user in claim.status.reserved_for
        if user.resource == "pods" and user.uid not in alive
    ]
