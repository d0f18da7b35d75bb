"""Claims prepared for the pods of this node: before the first container, until the last pod ends.

On disk before a driver is called, so that a restarted agent unprepares what was prepared for pods
that are gone. A claim that several pods share is prepared once and unprepared after the last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from dray.api.semantics import pod_claims
from dray.api.types.containers import Container
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.client.api_client import Client
from dray.driverkit.checkpoint import Checkpoint
from dray.node.devices import claim_access
from dray.node.devices.drivers import (
    ClaimReference,
    DriverConnection,
    DriverDevice,
    DriverError,
    Drivers,
)

CHECKPOINT_VERSION: Final = 1
EXTENDED: Final = ""
"""The claim of extended resources has no name in the pod's spec."""
_PREPARE, _UNPREPARE, _EVERYTHING = "NodePrepareResources", "NodeUnprepareResources", "*"


class ClaimRecord(msgspec.Struct, frozen=True):
    """A claim that is prepared here, or about to be."""

    namespace: str
    name: str
    uid: str
    drivers: tuple[str, ...]
    pods: tuple[str, ...]
    devices: tuple[DriverDevice, ...] = ()
    is_prepared: bool = False

    @property
    def reference(self) -> ClaimReference:
        return ClaimReference(self.namespace, self.name, self.uid)


ClaimsOfPod = dict[str, ClaimRecord]
"""The claims of a pod by their names in its spec."""


class Preparation:
    def __init__(self, client: Client, drivers: Drivers, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._client = client
        self._drivers = drivers
        self._disk = _Disk(directory / "claims.json")
        self._records = self._disk.read()
        self._locks: dict[str, asyncio.Lock] = {}
        self._waits_for: dict[str, tuple[str, ClaimRecord]] = {}

    @property
    def records(self) -> Collection[ClaimRecord]:
        return list(self._records.values())

    async def prepare(self, pod: Pod) -> ClaimsOfPod:
        """Prepare the claims of a pod. Raises NotUsable and DriverError; try again then."""
        used = list(pod_claims.claims_of_pod(pod))
        claims = await claim_access.usable(self._client, pod)
        return {
            reference.pod_claim: await self._prepare(pod, claim)
            for reference, claim in zip(used, claims, strict=True)
        }

    def waits_for(self, pod_uid: str) -> str:
        """Return the call that a pod waits for, or an empty text."""
        if pod_uid not in self._waits_for:
            return ""
        driver, record = self._waits_for[pod_uid]
        return f"driver {driver}: {_PREPARE} of claim {record.namespace}/{record.name}: no answer"

    async def unprepare(self, pod_uid: str) -> None:
        """Unprepare the claims of a pod, except those that another pod uses."""
        for record in self.records:
            if pod_uid in record.pods:
                async with self._lock(record.uid):
                    await self._release(record.uid, pod_uid)

    async def unprepare_all_but(self, pods: Collection[str]) -> None:
        """Unprepare the claims of all other pods, which are gone."""
        gone = {pod for record in self.records for pod in record.pods if pod not in pods}
        for pod in gone:
            await self.unprepare(pod)

    async def _prepare(self, pod: Pod, claim: ResourceClaim) -> ClaimRecord:
        async with self._lock(claim.metadata.uid):
            record = self._with_pod(pod, claim)
            if record.is_prepared:
                await self._remember(record)
                return record
            drivers = [self._driver(name, record) for name in _drivers_to_call(claim, _PREPARE)]
            # On disk before the first call: whoever finds it later unprepares, even in vain.
            await self._remember(_with_drivers(record, claim))
            devices = [
                device
                for driver in drivers
                for device in await self._call_prepare(driver, pod.metadata.uid, record)
            ]
            record = msgspec.structs.replace(
                self._records[record.uid], devices=tuple(devices), is_prepared=True
            )
            await self._remember(record, durable=False)
            return record

    async def _call_prepare(
        self, driver: DriverConnection, pod_uid: str, record: ClaimRecord
    ) -> Iterable[DriverDevice]:
        self._waits_for[pod_uid] = (driver.name, record)
        try:
            return await driver.prepare(record.reference)
        finally:
            self._waits_for.pop(pod_uid, None)

    def _driver(self, name: str, record: ClaimRecord) -> DriverConnection:
        driver = self._drivers.find(name)
        if driver is None:
            raise DriverError(
                f"driver {name} is not registered on this node, and claim "
                f"{record.namespace}/{record.name} needs it"
            )
        return driver

    def _with_pod(self, pod: Pod, claim: ResourceClaim) -> ClaimRecord:
        """Return the claim's record with this pod.

        Raises NotUsable while an older claim of the same name is prepared: drivers may know claims
        by their names alone.
        """
        metadata, uid = claim.metadata, pod.metadata.uid
        record = self._records.get(metadata.uid)
        if record is None:
            for other in self._records.values():
                if (other.namespace, other.name) == (metadata.namespace, metadata.name):
                    raise claim_access.NotUsable(
                        f"old ResourceClaim with same name {metadata.name} and different UID "
                        f"{other.uid} still exists (previous pod force-deleted?!)"
                    )
            return ClaimRecord(metadata.namespace, metadata.name, metadata.uid, (), (uid,))
        return msgspec.structs.replace(record, pods=tuple(dict.fromkeys((*record.pods, uid))))

    async def _release(self, claim_uid: str, pod_uid: str) -> None:
        record = self._records.get(claim_uid)
        if record is None:
            return
        left = tuple(pod for pod in record.pods if pod != pod_uid)
        if left:
            await self._remember(msgspec.structs.replace(record, pods=left))
            return
        for name in record.drivers:
            await self._driver(name, record).unprepare(record.reference)
        self._records.pop(claim_uid, None)
        self._locks.pop(claim_uid, None)
        await self._disk.write(self._records, durable=False)

    async def _remember(self, record: ClaimRecord, *, durable: bool = True) -> None:
        if self._records.get(record.uid) != record:
            self._records[record.uid] = record
            await self._disk.write(self._records, durable=durable)

    def _lock(self, claim_uid: str) -> asyncio.Lock:
        return self._locks.setdefault(claim_uid, asyncio.Lock())


class _Disk:
    """The checkpoint. Writers that wait while it is written share the next write."""

    def __init__(self, path: Path) -> None:
        self._checkpoint = Checkpoint(path, dict[str, ClaimRecord], version=CHECKPOINT_VERSION)
        self._lock = asyncio.Lock()
        self._requested = self._written = 0

    def read(self) -> dict[str, ClaimRecord]:
        return self._checkpoint.read() or {}

    async def write(self, records: Mapping[str, ClaimRecord], *, durable: bool) -> None:
        self._requested += 1
        mine = self._requested
        async with self._lock:
            if durable and self._written >= mine:
                return
            if not durable:
                self._checkpoint.write(dict(records), durable=False)
                return
            requested = self._requested
            writing = asyncio.ensure_future(
                asyncio.to_thread(self._checkpoint.write, dict(records))
            )
            try:
                await asyncio.shield(writing)
            finally:
                # Nobody else may write while the thread does, even if nobody waits for it now.
                await asyncio.wait({writing})
            self._written = requested


def cdi_ids(pod: Pod, container: Container, prepared: ClaimsOfPod) -> list[str]:
    """Return the CDI ids for one container: of each claim it names, or of one request."""
    unique: dict[str, None] = {}
    for used in container.resources.claims:
        if used.name in prepared:
            unique.update(dict.fromkeys(_ids(prepared[used.name].devices, used.request)))
    extended = pod.status.extended_resource_claim_status
    if extended is not None and EXTENDED in prepared:
        for mapping in extended.request_mappings:
            if mapping.container_name == container.name:
                ids = _ids(prepared[EXTENDED].devices, mapping.request_name)
                unique.update(dict.fromkeys(ids))
    return list(unique)


def _ids(devices: Iterable[DriverDevice], request: str) -> Iterable[str]:
    for device in devices:
        if device.is_for(request):
            yield from device.cdi_ids


def _with_drivers(record: ClaimRecord, claim: ResourceClaim) -> ClaimRecord:
    """Return the claim with the drivers that have to unprepare it."""
    drivers = (*record.drivers, *_drivers_to_call(claim, _UNPREPARE))
    return msgspec.structs.replace(record, drivers=tuple(dict.fromkeys(drivers)))


def _drivers_to_call(claim: ResourceClaim, operation: str) -> list[str]:
    """Return the drivers of the claim's devices, without those that skip the operation."""
    assert claim.status.allocation is not None
    needed = {
        result.driver: None
        for result in claim.status.allocation.devices.results
        if not {operation, _EVERYTHING} & set(result.skip_node_operations)
    }
    return list(needed)
