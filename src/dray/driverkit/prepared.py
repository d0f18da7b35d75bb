"""The claims that are prepared on this node, on disk before and after every step.

Preparing the same claim twice gives the same answer; unpreparing an unknown one does nothing. What
was half done when the process died is undone before it is tried again. An exclusive device that is
prepared for one claim is refused to every other.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from dray.api.claims import DeviceRequestAllocationResult, ResourceClaim
from dray.api.slices import Device
from dray.driverkit import cdi
from dray.driverkit.cdi import Edits
from dray.driverkit.checkpoint import Checkpoint
from dray.driverkit.driver import Allocated, Driver, PrepareError, Released
from dray.driverkit.metadata import DescribedDevice, MetadataFiles

CHECKPOINT_VERSION: Final = 1
CDI_CLASS: Final = "claim"

T = TypeVar("T")


class PreparedDevice(msgspec.Struct, frozen=True):
    """What a node agent needs to give a device to a container."""

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi_ids: tuple[str, ...] = ()
    share_id: str | None = None
    is_shared: bool = False


class PreparedClaim(msgspec.Struct, frozen=True):
    uid: str
    namespace: str
    name: str
    devices: tuple[PreparedDevice, ...]
    is_complete: bool


class PreparedClaims:
    """One driver's claims. All calls are made one after the other."""

    def __init__(self, driver: Driver, data_directory: Path, cdi_directory: Path) -> None:
        data_directory.mkdir(parents=True, exist_ok=True)
        self._driver = driver
        self._cdi_directory = cdi_directory
        self._metadata = MetadataFiles(driver.name, data_directory, cdi_directory)
        self._checkpoint = Checkpoint(
            data_directory / "prepared-claims.json",
            dict[str, PreparedClaim],
            version=CHECKPOINT_VERSION,
        )
        self._claims = self._checkpoint.read() or {}
        self._lock = asyncio.Lock()

    def __iter__(self) -> Iterator[PreparedClaim]:
        return iter(list(self._claims.values()))

    async def prepare(self, claim: ResourceClaim) -> tuple[PreparedDevice, ...]:
        async with self._lock:
            known = self._claims.get(claim.metadata.uid)
            if known is not None and known.is_complete:
                return known.devices
            if known is not None:
                await self._undo(known)
            return await self._prepare(claim)

    async def unprepare(self, uid: str) -> None:
        async with self._lock:
            known = self._claims.get(uid)
            if known is not None:
                await self._undo(known)

    async def _prepare(self, claim: ResourceClaim) -> tuple[PreparedDevice, ...]:
        allocated = self._allocated(claim)
        begun = _begun(claim, allocated)
        self._refuse_taken(begun)
        self._remember(begun)
        try:
            edits = [await _result(self._driver.prepare(each)) for each in allocated]
            devices = self._write_files(claim, allocated, edits, begun.devices)
        except (PrepareError, OSError) as error:
            await self._undo(begun)
            raise PrepareError(str(error)) from error
        self._remember(msgspec.structs.replace(begun, devices=devices, is_complete=True))
        return devices

    def _allocated(self, claim: ResourceClaim) -> list[Allocated]:
        """This driver's part of an allocation."""
        allocation = claim.status.allocation
        if allocation is None:
            raise PrepareError(f"claim {_name(claim)} is not allocated")
        published = {device.name: device for device in self._driver.devices()}
        ours = [each for each in allocation.devices.results if each.driver == self._driver.name]
        return [
            Allocated(claim, result, _published(result, published), self._config(claim, result))
            for result in ours
        ]

    def _config(
        self, claim: ResourceClaim, result: DeviceRequestAllocationResult
    ) -> tuple[object, ...]:
        assert claim.status.allocation is not None
        request = result.request.partition("/")[0]
        return tuple(
            each.opaque.parameters
            for each in claim.status.allocation.devices.config
            if each.opaque is not None
            and each.opaque.driver == self._driver.name
            and (not each.requests or {request, result.request} & set(each.requests))
        )

    def _refuse_taken(self, begun: PreparedClaim) -> None:
        taken = {
            (device.pool, device.device): claim
            for claim in self._claims.values()
            for device in claim.devices
            if claim.uid != begun.uid and not device.is_shared
        }
        for device in begun.devices:
            holder = taken.get((device.pool, device.device))
            if holder is not None and not device.is_shared:
                raise PrepareError(
                    f"device {device.device} is still prepared for claim "
                    f"{holder.namespace}/{holder.name} ({holder.uid})"
                )

    def _write_files(
        self,
        claim: ResourceClaim,
        allocated: list[Allocated],
        edits: list[Edits],
        begun: tuple[PreparedDevice, ...],
    ) -> tuple[PreparedDevice, ...]:
        """CDI and metadata files; the devices with the ids by which a runtime finds them."""
        uid, kind = claim.metadata.uid, f"{self._driver.name}/{CDI_CLASS}"
        names = [_cdi_name(uid, device) for device in begun]
        if begun:
            specs = dict(zip(names, edits, strict=True))
            cdi.write(self._cdi_directory, self._cdi_file(uid), kind, specs)
        mounts = self._metadata.write(claim, [_described(each) for each in allocated])
        made = []
        for device, name in zip(begun, names, strict=True):
            # One device of each request carries the mount of that request's metadata.
            extra = [mounts.pop(each) for each in device.requests if each in mounts]
            ids = (cdi.qualified_name(kind, name), *extra)
            made.append(msgspec.structs.replace(device, cdi_ids=ids))
        return tuple(made)

    async def _undo(self, claim: PreparedClaim) -> None:
        for device in claim.devices:
            released = Released(
                claim.namespace, claim.name, claim.uid, device.pool, device.device, device.share_id
            )
            await _result(self._driver.unprepare(released))
        self._metadata.remove(claim.namespace, claim.name, claim.uid)
        (self._cdi_directory / self._cdi_file(claim.uid)).unlink(missing_ok=True)
        self._claims.pop(claim.uid, None)
        self._checkpoint.write(self._claims)

    def _remember(self, claim: PreparedClaim) -> None:
        self._claims[claim.uid] = claim
        self._checkpoint.write(self._claims)

    def _cdi_file(self, uid: str) -> str:
        return f"{self._driver.name}_{CDI_CLASS}_{uid}.json"


async def _result(given: T | Awaitable[T]) -> T:
    """Drivers may be written with plain or with async functions."""
    if inspect.isawaitable(given):
        return await given
    return given


def _begun(claim: ResourceClaim, allocated: list[Allocated]) -> PreparedClaim:
    devices = tuple(
        PreparedDevice(
            requests=(each.result.request.partition("/")[0],),
            pool=each.result.pool,
            device=each.result.device,
            share_id=each.result.share_id,
            is_shared=each.is_shared,
        )
        for each in allocated
    )
    metadata = claim.metadata
    return PreparedClaim(metadata.uid, metadata.namespace, metadata.name, devices, False)


def _published(result: DeviceRequestAllocationResult, published: Mapping[str, Device]) -> Device:
    found = published.get(result.device)
    if found is None:
        raise PrepareError(f"there is no device {result.device} any more")
    return found


def _described(allocated: Allocated) -> DescribedDevice:
    result = allocated.result
    return DescribedDevice(result.request, result.pool, result.device, allocated.device.attributes)


def _cdi_name(uid: str, device: PreparedDevice) -> str:
    share = f"-{device.share_id}" if device.share_id else ""
    return f"{uid}-{device.device}{share}"


def _name(claim: ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"
