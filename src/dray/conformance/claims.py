"""Claims for the driver under test: created, allocated by dray's allocator, and deleted again."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.placement import Allocator, NoFit
from dray.api import errors, features, kinds
from dray.api.conversion import canonical
from dray.api.types.dra import (
    DeviceClass,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceSlice,
)
from dray.api.types.meta import JsonObject
from dray.api.types.nodes import Node
from dray.api.well_known import ADMIN_ACCESS_LABEL
from dray.client.api_client import Client
from dray.conformance.check import NotApplicable
from dray.node.devices.drivers import ClaimReference

NAMESPACE: Final = "dray-conformance"
REQUEST: Final = "device"
ALL_GATES: Final = features.parse("AllAlpha=true,AllBeta=true,DrayPreemption=false")
_EVERYTHING_TOLERATED: Final = [{"operator": "Exists"}]


@dataclass(frozen=True)
class ClaimPlan:
    """The claim to make."""

    requests: Sequence[str] = (REQUEST,)
    count: int = 1
    name: str = ""
    namespace: str = NAMESPACE
    is_admin: bool = False
    is_allocated: bool = True
    annotations: Mapping[str, str] = field(default_factory=dict)
    config: Sequence[JsonObject] = ()
    """Entries of `spec.devices.config`, which the allocation repeats."""
    selector: str = ""
    more_results: Sequence[JsonObject] = ()
    """Devices that are added to the allocation, such as those of another driver."""
    renamed_device: str = ""
    """A device name that replaces the allocated one."""


PLAIN: Final = ClaimPlan()


@dataclass(frozen=True)
class ClaimUnderTest:
    reference: ClaimReference
    results: tuple[DeviceRequestAllocationResult, ...] = ()

    @property
    def uid(self) -> str:
        return self.reference.uid

    def __str__(self) -> str:
        return f"claim {self.reference.namespace}/{self.reference.name}"


class ClaimMaker:
    """Makes claims on one node from the slices that were seen last."""

    def __init__(self, client: Client, *, is_reserved: bool) -> None:
        self._client = client
        self._is_reserved = is_reserved
        self._made: dict[str, ResourceClaim] = {}
        self._count = 0
        self._namespaces: set[str] = set()
        self.driver = ""
        self.node = ""
        self.slices: tuple[ResourceSlice, ...] = ()

    @contextlib.asynccontextmanager
    async def made(self, plans: Sequence[ClaimPlan]) -> AsyncIterator[list[ClaimUnderTest]]:
        """Make claims and delete them at the end. Raises NotApplicable if no devices are free."""
        created: list[ResourceClaim] = []
        try:
            for plan in plans:
                created.append(await self._create(plan))
            if allocated := [
                one for one, plan in zip(created, plans, strict=True) if plan.is_allocated
            ]:
                await self._allocate(allocated, [plan for plan in plans if plan.is_allocated])
            yield [_found(self._made[claim.metadata.uid]) for claim in created]
        finally:
            for claim in created:
                await self.delete(claim.metadata.uid)

    async def delete(self, uid: str) -> None:
        """Delete a claim from the API; one that is gone already is not an error."""
        claim = self._made.pop(uid, None)
        if claim is not None:
            metadata = claim.metadata
            with contextlib.suppress(errors.NotFound):
                await self._client.delete(kinds.RESOURCE_CLAIM, metadata.name, metadata.namespace)

    async def status_of(self, claim: ClaimUnderTest) -> JsonObject:
        reference = claim.reference
        found = await self._client.get(kinds.RESOURCE_CLAIM, reference.name, reference.namespace)
        status: JsonObject = found.get("status", {})
        return status

    async def _create(self, plan: ClaimPlan) -> ResourceClaim:
        await self._ensure_namespace(plan.namespace)
        self._count += 1
        name = plan.name or f"claim-{self._count}"
        requests = [{"name": name, "exactly": self._exactly(plan)} for name in plan.requests]
        body = {
            **kinds.RESOURCE_CLAIM.type_meta,
            "metadata": {
                "name": name,
                "namespace": plan.namespace,
                "annotations": dict(plan.annotations),
            },
            "spec": {"devices": {"requests": requests, "config": list(plan.config)}},
        }
        made = _decoded(await self._client.create(kinds.RESOURCE_CLAIM, body, plan.namespace))
        self._made[made.metadata.uid] = made
        return made

    def _exactly(self, plan: ClaimPlan) -> JsonObject:
        exactly: JsonObject = {
            "deviceClassName": NAMESPACE,
            "count": plan.count,
            "tolerations": _EVERYTHING_TOLERATED,
        }
        if plan.is_admin:
            exactly["adminAccess"] = True
        if plan.selector:
            exactly["selectors"] = [{"cel": {"expression": plan.selector}}]
        return exactly

    async def _allocate(self, claims: Sequence[ResourceClaim], plans: Sequence[ClaimPlan]) -> None:
        inventory = await self._inventory()
        allocator = Allocator(inventory, new_share_id=lambda: str(uuid.uuid4()))
        found = allocator.allocate_on(claims, self.node)
        if isinstance(found, NoFit):
            raise NotApplicable("the driver has not enough free devices for this")
        for claim, plan, allocation in zip(claims, plans, found.allocations, strict=True):
            written: JsonObject = msgspec.to_builtins(allocation)
            results = [*written["devices"]["results"], *plan.more_results]
            if plan.renamed_device:
                results[0] = {**results[0], "device": plan.renamed_device}
            written["devices"]["results"] = results
            await self._write(claim, written)

    async def _write(self, claim: ResourceClaim, allocation: JsonObject) -> None:
        metadata = claim.metadata
        status: JsonObject = {"allocation": allocation}
        if self._is_reserved:
            pod = {"resource": "pods", "name": "conformance", "uid": str(uuid.uuid4())}
            status["reservedFor"] = [pod]
        body = await self._client.get(kinds.RESOURCE_CLAIM, metadata.name, metadata.namespace)
        body["status"] = status
        written = await self._client.replace(kinds.RESOURCE_CLAIM, body, "status")
        self._made[metadata.uid] = _decoded(written)

    async def _inventory(self) -> ClusterInventory:
        """Return the devices of the driver, with those in use that any claim of the cluster has."""
        inventory = ClusterInventory(ALL_GATES)
        inventory.put_node(msgspec.convert({"metadata": {"name": self.node}}, Node))
        inventory.put_class(_device_class(self.driver))
        for one in _completed(self.slices):
            inventory.put_slice(one)
        for raw in (await self._client.list(kinds.RESOURCE_CLAIM)).items:
            claim = _decoded(msgspec.json.decode(raw))
            if claim.status.allocation is not None:
                inventory.put_claim(claim)
        return inventory

    async def _ensure_namespace(self, name: str) -> None:
        if name in self._namespaces:
            return
        metadata = {"name": name, "labels": {ADMIN_ACCESS_LABEL: "true"}}
        with contextlib.suppress(errors.AlreadyExists):
            await self._client.create(
                kinds.NAMESPACE, {**kinds.NAMESPACE.type_meta, "metadata": metadata}
            )
        self._namespaces.add(name)

    async def remove_all(self) -> None:
        """Remove every object that was made."""
        for uid in list(self._made):
            await self.delete(uid)
        for name in self._namespaces:
            with contextlib.suppress(errors.NotFound):
                await self._client.delete(kinds.NAMESPACE, name)


def _device_class(driver: str) -> DeviceClass:
    spec = {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]}
    return msgspec.convert({"metadata": {"name": NAMESPACE}, "spec": spec}, DeviceClass)


def _completed(slices: Iterable[ResourceSlice]) -> Iterable[ResourceSlice]:
    """Return the slices with consistent pools: an incomplete one has a check of its own."""
    listed = list(slices)
    for one in listed:
        count = sum(other.spec.pool.name == one.spec.pool.name for other in listed)
        pool = msgspec.structs.replace(one.spec.pool, generation=1, resource_slice_count=count)
        yield msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, pool=pool))


def _decoded(document: Any) -> ResourceClaim:
    return msgspec.convert(canonical.prune_nulls(document), ResourceClaim)


def _found(claim: ResourceClaim) -> ClaimUnderTest:
    metadata, allocation = claim.metadata, claim.status.allocation
    reference = ClaimReference(metadata.namespace, metadata.name, metadata.uid)
    return ClaimUnderTest(reference, allocation.devices.results if allocation else ())
