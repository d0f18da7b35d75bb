"""The driver of NVIDIA GPUs: publishes and prepares devices and reports their health.

Calls of the hardware run in threads, one at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from dray import driverkit
from dray.api.formats import quantity
from dray.api.types.dra import CounterSet, Device, ResourceClaim
from dray.driverkit import cdi
from dray.driverkit.cdi import Edits
from dray.driverkit.driver import Allocated, DeviceHealth, Driver, Prepared, PrepareError, Released
from dray.drivers.nvidia import cdi_edits, config, devices, health, inventory, nvml
from dray.drivers.nvidia.cdi_edits import Shown
from dray.drivers.nvidia.config import ConfigError, Mps, Sharing
from dray.drivers.nvidia.hardware import GpuUnavailable, Hardware, HardwareError, Place
from dray.drivers.nvidia.health import QUIET_SECONDS, HealthWatch, Report
from dray.drivers.nvidia.host import Host
from dray.drivers.nvidia.inventory import ExistingPartition, Part, PossiblePartition, WholeGpu
from dray.drivers.nvidia.partition_state import GpuState
from dray.drivers.nvidia.sharing import Commands, SharingRequest, SharingState

NVML_LIBRARY: Final = "libnvidia-ml.so.1"
ADVICE: Final = "ask for MPS in the claim's configuration if they need a limit"
T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """The settings of the driver."""

    settings: inventory.Settings = field(default_factory=inventory.Settings)
    skipped_xids: frozenset[int] = frozenset()
    quiet_seconds: float = QUIET_SECONDS


class NvidiaDriver(Driver):
    """The driver of one host's GPUs; `folder` keeps what must survive the process."""

    name = devices.DRIVER

    def __init__(
        self,
        hardware: Hardware,
        folder: Path,
        options: Options | None = None,
        *,
        host: Host | None = None,
        commands: Commands | None = None,
    ) -> None:
        super().__init__()
        chosen = options or Options()
        self._hardware = hardware
        self._host = host or Host()
        self._machine = inventory.Machine(hardware, self._host, chosen.settings)
        self._watch = HealthWatch(
            hardware, skipped_xids=chosen.skipped_xids, quiet_seconds=chosen.quiet_seconds
        )
        self._state = GpuState(hardware, folder, may_switch=chosen.settings.makes_partitions)
        self._sharing = SharingState(hardware, self._host, folder, commands)
        self.warn: Callable[[ResourceClaim, str], object] = lambda _claim, _note: None
        """Called from any thread with a warning for the users of a claim."""
        self._lock = asyncio.Lock()
        self._is_reconciled = False
        self._inventory = self._machine.take_inventory(self._state)

    def devices(self) -> Iterable[Device]:
        return self._inventory.devices

    def shared_counters(self) -> Iterable[CounterSet]:
        return self._inventory.counter_sets

    async def prepare(self, allocated: Allocated) -> Prepared:
        return await self._alone(lambda: self._prepare(allocated))

    async def unprepare(self, released: Released) -> None:
        key = f"{released.claim_uid}/{released.name}/{released.share_id or ''}"
        await self._alone(lambda: self._release(key))

    async def health(self) -> Iterable[DeviceHealth]:
        return await self._alone(self._look)

    async def _alone(self, work: Callable[[], T]) -> T:
        async with self._lock, self._state.turn():
            with _told():
                return await _to_its_end(lambda: self._in_turn(work))

    def _in_turn(self, work: Callable[[], T]) -> T:
        self._sharing.reload()
        if not self._is_reconciled:
            # Not before it is our turn: what looks unfinished may be another process's work.
            self._state.reconcile()
            self._is_reconciled = True
        return work()

    def _prepare(self, allocated: Allocated) -> Prepared:
        part = self._inventory.parts[allocated.name]
        kind = config.GPU_CONFIG if isinstance(part, WholeGpu) else config.MIG_CONFIG
        strategy = config.sharing(allocated.config, kind)
        if allocated.result.admin_access and not isinstance(part, ExistingPartition):
            # Whoever watches over GPUs must not change them.
            return _prepared(cdi_edits.of_gpu(self._host, part.gpu, allocated.name), part.gpu.uuid)
        uuid, edits = self._take(allocated, part)
        shared = self._share(allocated, part, uuid, strategy)
        return _prepared(cdi.merge([edits, shared]), uuid, part.gpu.uuid)

    def _take(self, allocated: Allocated, part: Part) -> tuple[str, Edits]:
        """Return the UUID of the device, made for a partition, and the edits that expose it."""
        gpu, name, key = part.gpu, allocated.name, _key(allocated)
        match part:
            case WholeGpu():
                self._state.hold_gpu(key, gpu.uuid, can_partition=gpu.can_partition)
                return gpu.uuid, cdi_edits.of_gpu(self._host, gpu, name)
            case PossiblePartition(cut=cut):
                number, compute = self._state.hold_partition(key, gpu.uuid, cut)
            case ExistingPartition(instance=instance, compute=compute):
                number = instance.id
        shown = Shown(number, compute.id, compute.uuid)
        return compute.uuid, cdi_edits.of_partition(self._host, gpu, shown, name)

    def _share(self, allocated: Allocated, part: Part, uuid: str, strategy: Sharing) -> Edits:
        share = allocated.result.consumed_capacity.get(devices.MEMORY)
        limit = quantity.parse(share).value() // devices.MIB if share else None
        if isinstance(strategy, Mps):
            own = strategy.limit(uuid, _number(allocated))
            limit = own if limit is None else min(limit, own or limit)
        elif limit is not None:
            note = f"nothing limits programs to their {share} of {uuid}: {ADVICE}"
            self.warn(allocated.claim, note)
        request = SharingRequest(
            _key(allocated), part.gpu.uuid, uuid, strategy, limit, allocated.is_shared
        )
        return self._sharing.arrange(request)

    def _release(self, key: str) -> None:
        self._sharing.release(key)
        self._state.release(key)

    def _look(self) -> list[DeviceHealth]:
        """Return the health of devices; also notices partitions made by hand, restores modes."""
        self._state.settle()
        with contextlib.suppress(HardwareError):
            self._inventory = self._machine.take_inventory(self._state)
        by_device: dict[str, list[Report]] = {}
        for report in self._watch.check(self._machine.gpus):
            for name in self._devices_of(report):
                by_device.setdefault(name, []).append(report)
        return [health.combined(name, reports) for name, reports in by_device.items()]

    def _devices_of(self, report: Report) -> Iterator[str]:
        """Return the devices of a report: that of its instance, or all of the GPU."""
        place = self._place_of(report)
        for name, part in self._inventory.parts.items():
            if part.gpu.uuid == report.gpu and place in (None, _place(part)):
                yield name

    def _place_of(self, report: Report) -> Place | None:
        """Return the placement of a report's instance, or None where it is about the whole GPU."""
        if report.instance is None:
            return None
        with contextlib.suppress(HardwareError):
            for instance in self._hardware.instances(report.gpu):
                if instance.id == report.instance:
                    return instance.profile, instance.placement
        return None


def find(folder: Path, options: Options | None = None, root: Path = Path("/")) -> NvidiaDriver:
    """Return the driver for the host whose files are at `root`. Raises GpuUnavailable."""
    is_elsewhere = root != Path("/")
    host = Host(root, is_elsewhere=is_elsewhere)
    library = host.library(NVML_LIBRARY) if is_elsewhere else None
    hardware = nvml.open_library(library)
    if not hardware.gpus():
        raise GpuUnavailable("the NVIDIA driver finds no GPU")
    return NvidiaDriver(hardware, folder, options, host=host)


async def _to_its_end(work: Callable[[], T]) -> T:
    """Run work in a thread. It cannot be cancelled, so a cancelled caller waits for its end."""
    thread = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        await asyncio.wait({thread})
        raise


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Turn errors of the hardware into PrepareError, which is retried."""
    try:
        yield
    except (HardwareError, ConfigError) as error:
        raise PrepareError(str(error)) from error


def _prepared(edits: Edits, uuid: str, parent: str = "") -> Prepared:
    data = {devices.UUID: uuid}
    if parent and parent != uuid:
        data[devices.PARENT] = parent
    attributes = {devices.UUID: devices.text(uuid)}
    return Prepared(edits, driverkit.DeviceStatus(data=data), attributes)


def _place(part: Part) -> Place | None:
    match part:
        case PossiblePartition(cut=cut):
            return cut.profile.id, cut.placement
        case ExistingPartition(instance=instance):
            return instance.profile, instance.placement
        case WholeGpu():
            return None


def _number(allocated: Allocated) -> int:
    """Return the index of the device among this driver's devices of the claim."""
    assert allocated.claim.status.allocation is not None
    results = allocated.claim.status.allocation.devices.results
    ours = [result for result in results if result.driver == devices.DRIVER]
    return ours.index(allocated.result)


def _key(allocated: Allocated) -> str:
    result = allocated.result
    return f"{allocated.claim.metadata.uid}/{result.device}/{result.share_id or ''}"
