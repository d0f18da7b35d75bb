"""Invariants of a cluster: illegal states that no sequence of events may lead to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

import msgspec

from dray.allocator import verifier
from dray.api import features, kinds
from dray.api.conversion import canonical
from dray.api.features import Features
from dray.api.kinds import Kind
from dray.api.semantics import pod_status
from dray.api.types.dra import ResourceClaim, ResourceSlice
from dray.api.types.pods import Pod
from dray.client.api_client import Client

if TYPE_CHECKING:
    from dray.node.devices.preparation import ClaimRecord

T = TypeVar("T")


async def violations(
    client: Client, gates: Features = features.DEFAULT, prepared: Iterable[ClaimRecord] = ()
) -> list[str]:
    """Return every violation in the state that the API shows now.

    `prepared` are the claims that are prepared on the cluster's nodes. They are compared with
    pods that are read later, so a pod that is just ending may show up once; try again then.
    """
    on_nodes = list(prepared)
    claims = await _listed(client, kinds.RESOURCE_CLAIM, ResourceClaim)
    slices = await _listed(client, kinds.RESOURCE_SLICE, ResourceSlice)
    pods = await _listed(client, kinds.POD, Pod)
    alive = {pod.metadata.uid for pod in pods if not pod_status.has_ended(pod)}
    found = [
        str(violation)
        for violation in verifier.find_violations(slices, claims, gates)
        # A taint may come after the allocation, and a slice may go.
        if not isinstance(violation, verifier.TaintIgnored | verifier.UnknownDevice)
    ]
    return [
        *found,
        *_reserved_without_allocation(claims),
        *_reserved_for_nobody(claims, alive),
        *_prepared_for_nobody(on_nodes, alive),
    ]


async def _listed(client: Client, kind: Kind, type_: type[T]) -> list[T]:
    documents = (msgspec.json.decode(raw) for raw in (await client.list(kind)).items)
    return [msgspec.convert(canonical.prune_nulls(document), type_) for document in documents]


def _reserved_without_allocation(claims: Iterable[ResourceClaim]) -> list[str]:
    return [
        f"{claim.metadata.name} is reserved and not allocated"
        for claim in claims
        if claim.status.reserved_for and claim.status.allocation is None
    ]


def _reserved_for_nobody(claims: Iterable[ResourceClaim], alive: set[str]) -> list[str]:
    """Find reservations for pods that are gone or have ended."""
    return [
        f"{claim.metadata.name} is reserved for {consumer.name}, which is gone"
        for claim in claims
        for consumer in claim.status.reserved_for
        if consumer.resource == "pods" and consumer.uid not in alive
    ]


def _prepared_for_nobody(prepared: Iterable[ClaimRecord], alive: set[str]) -> list[str]:
    """Find claims that are prepared on a node for pods that are gone or have ended."""
    return [
        f"{claim.namespace}/{claim.name} is prepared for pod {uid}, which is gone"
        for claim in prepared
        for uid in claim.pods
        if uid not in alive
    ]
