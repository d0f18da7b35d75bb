"""The claims that are prepared on this node, on disk before and after every step.

Preparing a claim twice gives the same result; unpreparing an unknown one does nothing. Work that
was half done when the process died is undone before it is tried again. An exclusive device that is
prepared for one claim is refused to every other. During an upgrade two processes of one driver
share this state, under a lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from dray.api.formats import gotime
from dray.api.types.dra import Device, DeviceRequestAllocationResult, ResourceClaim
from dray.clock import utc_now
from dray.driverkit import cdi
from dray.driverkit.cdi import Edits
from dray.driverkit.checkpoint import Checkpoint
from dray.driverkit.driver import Allocated, DeviceStatus, Driver, Prepared, PrepareError, Released
from dray.driverkit.metadata import DescribedDevice, MetadataFiles

log = logging.getLogger(__name__)

CHECKPOINT_VERSION: Final = 1
CDI_CLASS: Final = "claim"

T = TypeVar("T")


class PreparedDevice(msgspec.Struct, frozen=True):
    """The part of a prepared device that a node agent needs to start a container with it."""

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi_ids: tuple[str, ...] = ()
    share_id: str | None = None
    is_shared: bool = False
    status: DeviceStatus | None = None


class PreparedClaim(msgspec.Struct, frozen=True):
    uid: str
    namespace: str
    name: str
    devices: tuple[PreparedDevice, ...]
    is_complete: bool


class PreparedClaims:
    """The prepared claims of one driver. Calls are serialized, also those of other processes."""

    def __init__(
        self,
        driver: Driver,
        data_directory: Path,
        cdi_directory: Path,
        now: Callable[[], datetime.datetime] = utc_now,
    ) -> None:
        data_directory.mkdir(parents=True, exist_ok=True)
        self._driver = driver
        self._now = now
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

    def get(self, uid: str) -> PreparedClaim | None:
        return self._claims.get(uid)

    async def prepare(self, claim: ResourceClaim) -> tuple[PreparedDevice, ...]:
        async with self._turn():
            record = self._claims.get(claim.metadata.uid)
            if record is not None and record.is_complete and self._has_files(record):
                return record.devices
            if record is not None:
                await self._undo(record)
            return await self._prepare(claim)

    async def unprepare(self, uid: str) -> None:
        async with self._turn():
            record = self._claims.get(uid)
            if record is not None:
                await self._undo(record)

    async def report(self, uid: str, device: str, status: DeviceStatus) -> None:
        """Keep a status that a driver reports after `prepare`.

        Raises TypeError where it cannot be encoded as JSON.
        """
        async with self._turn():
            record = self._claims.get(uid)
            if record is None:
                return
            msgspec.json.encode(status)
            devices = tuple(
                msgspec.structs.replace(prepared, status=self._dated(status, prepared.status))
                if prepared.device == device
                else prepared
                for prepared in record.devices
            )
            if devices == record.devices:
                return
            self._remember(msgspec.structs.replace(record, devices=devices))
            if status.network is not None:
                self._metadata.set_network(record.namespace, record.name, device, status.network)

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        async with self._lock, self._checkpoint.exclusive():
            if self._checkpoint.is_stale:
                self._claims = self._checkpoint.read() or {}
            yield

    async def _prepare(self, claim: ResourceClaim) -> tuple[PreparedDevice, ...]:
        allocated = self._allocated(claim)
        begun = _begun(claim, allocated)
        self._refuse_taken(begun)
        self._remember(begun)
        try:
            outcomes = [await self._prepare_device(device) for device in allocated]
            devices = self._write_files(claim, allocated, outcomes, begun.devices)
        except (PrepareError, OSError) as error:
            await self._give_up(begun, error)
            raise PrepareError(str(error)) from error
        done = msgspec.structs.replace(begun, devices=devices, is_complete=True)
        # What is lost of this is taken for half done, and so done again.
        self._remember(done, durable=False)
        return devices

    async def _prepare_device(self, allocated: Allocated) -> Prepared:
        with _as_prepare_error(f"{self._driver.name} cannot prepare {allocated.name}"):
            outcome: Edits | Prepared = await _result(self._driver.prepare(allocated))
            return _checked(outcome if isinstance(outcome, Prepared) else Prepared(outcome))

    async def _give_up(self, begun: PreparedClaim, error: Exception) -> None:
        """Undo a failed preparation; what cannot be undone now is undone before the next try."""
        try:
            await self._undo(begun)
        except (PrepareError, OSError) as second:
            raise PrepareError(f"{error}; and it could not be undone: {second}") from error

    def _allocated(self, claim: ResourceClaim) -> list[Allocated]:
        """Return this driver's devices of an allocation."""
        allocation = claim.status.allocation
        if allocation is None:
            metadata = claim.metadata
            raise PrepareError(f"claim {metadata.namespace}/{metadata.name} is not allocated")
        with _as_prepare_error(f"{self._driver.name}: devices() raised an exception"):
            published = list(self._driver.devices())
            elsewhere = self._driver.devices_elsewhere()
        allocated = []
        for result in allocation.devices.results:
            if result.driver == self._driver.name:
                device = _found(result, elsewhere.get(result.pool, published))
                allocated.append(Allocated(claim, result, device, self._config(claim, result)))
        return allocated

    def _config(
        self, claim: ResourceClaim, result: DeviceRequestAllocationResult
    ) -> tuple[object, ...]:
        assert claim.status.allocation is not None
        request = result.request.partition("/")[0]
        return tuple(
            config.opaque.parameters
            for config in claim.status.allocation.devices.config
            if config.opaque is not None
            and config.opaque.driver == self._driver.name
            and (not config.requests or {request, result.request} & set(config.requests))
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
        outcomes: list[Prepared],
        begun: tuple[PreparedDevice, ...],
    ) -> tuple[PreparedDevice, ...]:
        """Write CDI and metadata files, and return the devices with their CDI ids."""
        uid, kind = claim.metadata.uid, f"{self._driver.name}/{CDI_CLASS}"
        has_pools = len({device.pool for device in begun}) > 1
        names = [_cdi_name(uid, device, with_pool=has_pools) for device in begun]
        if begun:
            specs = {name: outcome.edits for name, outcome in zip(names, outcomes, strict=True)}
            cdi.write(self._cdi_directory, self._cdi_file(uid), kind, specs)
        mounts = self._metadata.write(claim, list(map(_described, allocated, outcomes)))
        files = []
        for device, name, outcome in zip(begun, names, outcomes, strict=True):
            # One device of each request carries the mount of that request's metadata.
            extra = [mounts.pop(request) for request in device.requests if request in mounts]
            ids = (cdi.qualified_name(kind, name), *extra)
            status = self._dated(outcome.status) if outcome.status else None
            files.append(msgspec.structs.replace(device, cdi_ids=ids, status=status))
        return tuple(files)

    async def _undo(self, claim: PreparedClaim) -> None:
        """Unprepare a claim; recorded as half done first, so that a crash repeats the work."""
        if claim.is_complete:
            self._remember(msgspec.structs.replace(claim, is_complete=False), durable=False)
        for device in claim.devices:
            released = Released(
                claim.namespace, claim.name, claim.uid, device.pool, device.device, device.share_id
            )
            with _as_prepare_error(f"{self._driver.name} cannot unprepare {device.device}"):
                await _result(self._driver.unprepare(released))
        self._metadata.remove(claim.namespace, claim.name, claim.uid)
        (self._cdi_directory / self._cdi_file(claim.uid)).unlink(missing_ok=True)
        self._claims.pop(claim.uid, None)
        self._checkpoint.write(self._claims)

    def _dated(self, status: DeviceStatus, before: DeviceStatus | None = None) -> DeviceStatus:
        """Return the status with the time at which each condition changed last."""
        old = before.conditions if before else ()
        previous = {(condition.type, condition.status): condition for condition in old}
        now = gotime.write(self._now())
        conditions = []
        for condition in status.conditions:
            same = previous.get((condition.type, condition.status))
            since = condition.last_transition_time or (same.last_transition_time if same else now)
            conditions.append(msgspec.structs.replace(condition, last_transition_time=since))
        return msgspec.structs.replace(status, conditions=tuple(conditions))

    def _remember(self, claim: PreparedClaim, *, durable: bool = True) -> None:
        self._claims[claim.uid] = claim
        self._checkpoint.write(self._claims, durable=durable)

    def _has_files(self, claim: PreparedClaim) -> bool:
        """Whether the CDI files exist; they are in memory, so a reboot removes them."""
        return not claim.devices or (self._cdi_directory / self._cdi_file(claim.uid)).exists()

    def _cdi_file(self, uid: str) -> str:
        return f"{self._driver.name}_{CDI_CLASS}_{uid}.json"


@contextlib.contextmanager
def _as_prepare_error(what: str) -> Iterator[None]:
    """Turn what a driver raises into PrepareError; log unexpected errors with their traceback."""
    try:
        yield
    except (PrepareError, OSError):
        raise
    except Exception as error:
        log.exception(what)
        raise PrepareError(f"{what}: {type(error).__name__}: {error}") from error


def _checked(outcome: Prepared) -> Prepared:
    """Return the outcome. Raises TypeError where it cannot be encoded as JSON."""
    if not isinstance(outcome.edits, Edits):
        raise TypeError(f"prepare returned {outcome.edits!r}, not Edits or Prepared")
    msgspec.json.encode((outcome.edits, outcome.status))
    return outcome


async def _result(given: T | Awaitable[T]) -> T:
    """Return a value, or await it: drivers may be written with plain or with async functions."""
    if inspect.isawaitable(given):
        return await given
    return given


def _begun(claim: ResourceClaim, allocated: list[Allocated]) -> PreparedClaim:
    devices = tuple(
        PreparedDevice(
            requests=(device.result.request.partition("/")[0],),
            pool=device.result.pool,
            device=device.result.device,
            share_id=device.result.share_id,
            is_shared=device.is_shared,
        )
        for device in allocated
    )
    metadata = claim.metadata
    return PreparedClaim(metadata.uid, metadata.namespace, metadata.name, devices, False)


def _found(result: DeviceRequestAllocationResult, devices: Iterable[Device]) -> Device:
    for device in devices:
        if device.name == result.device:
            return device
    raise PrepareError(f"there is no device {result.device} any more")


def _described(allocated: Allocated, outcome: Prepared) -> DescribedDevice:
    result = allocated.result
    attributes = {**allocated.device.attributes, **outcome.attributes}
    network = outcome.status.network if outcome.status else None
    return DescribedDevice(result.request, result.pool, result.device, attributes, network)


def _cdi_name(uid: str, device: PreparedDevice, *, with_pool: bool) -> str:
    """Return the CDI name of a device, with its pool where names are not unique."""
    pool = f"{device.pool.replace('/', '-')}-" if with_pool else ""
    share = f"-{device.share_id}" if device.share_id else ""
    return f"{uid}-{pool}{device.device}{share}"
