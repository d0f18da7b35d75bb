"""The claims that hold GPUs and partitions: on disk before and after every change of a GPU.

A partition is recorded with its placement before it is made, and with its number afterwards. So a
crash leaves nothing to guess: recorded and unfinished ones are removed, recorded and missing ones
are dropped, and partitions without a record were made by hand and are left alone. The MIG mode of a
GPU is recorded before it is first switched, and restored when no claim holds the GPU any more.

All calls block. They are serialized inside a `turn`: during an upgrade two processes of the driver
share the record.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from dray.driverkit.checkpoint import Checkpoint
from dray.drivers.nvidia.hardware import (
    ComputeInstance,
    Hardware,
    HardwareError,
    Instance,
    InUse,
    Placement,
)
from dray.drivers.nvidia.partitions import Cut

log = logging.getLogger(__name__)

LEDGER_VERSION: Final = 1
LEDGER_FILE: Final = "gpus.json"
PATIENCE_SECONDS: Final = 3.0
"""The time for which a partition may count as used after its processes have ended."""
_PAUSE_SECONDS: Final = 0.1


class HeldDevice(msgspec.Struct, frozen=True):
    """The hardware that one device of one claim holds: a whole GPU, or a partition of it."""

    gpu: str
    partition: RecordedPartition | None = None


class RecordedPartition(msgspec.Struct, frozen=True):
    """A partition as it was requested; without a number it may not exist."""

    profile: int
    start: int
    size: int
    instance: int | None = None

    @property
    def placement(self) -> Placement:
        return Placement(self.start, self.size)

    def describes(self, instance: Instance) -> bool:
        """Whether an instance is this partition: same placement and, if recorded, same number."""
        is_there = (instance.profile, instance.placement) == (self.profile, self.placement)
        return is_there and self.instance in (None, instance.id)


class PartitionRecord(msgspec.Struct, frozen=True):
    holdings: dict[str, HeldDevice] = {}
    found_modes: dict[str, bool] = {}
    """Whether MIG was on when a GPU was first switched."""


class Partition(NamedTuple):
    """A partition that is ready for a container."""

    instance: int
    compute: ComputeInstance


class GpuState:
    """`may_switch`: whether MIG mode may be turned on and off."""

    def __init__(
        self,
        hardware: Hardware,
        folder: Path,
        *,
        may_switch: bool = True,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._hardware = hardware
        self._may_switch = may_switch
        self._pause = pause
        self._checkpoint = Checkpoint(folder / LEDGER_FILE, PartitionRecord, version=LEDGER_VERSION)
        self._read()

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Hold the lock: no other process of the driver changes a GPU meanwhile."""
        async with self._checkpoint.exclusive():
            if self._checkpoint.is_stale:
                self._read()
            yield

    def reconcile(self) -> None:
        """Reconcile the record with the hardware, after a start."""
        for key, holding in list(self._holdings.items()):
            if holding.partition is None:
                continue
            try:
                self._reconcile(key, holding.gpu, holding.partition)
            except HardwareError as error:
                log.warning("a partition of %s is ignored: %s", holding.gpu, error)
        self.settle()

    def _reconcile(self, key: str, gpu: str, recorded: RecordedPartition) -> None:
        if recorded.instance is None:
            log.warning("deleting an incomplete partition of %s", gpu)
            self.release(key)
        elif self._find(gpu, recorded) is None:
            log.warning("a partition of %s no longer exists, as after a reboot", gpu)
            self._forget(key)

    def is_ours(self, gpu: str, instance: Instance) -> bool:
        return any(recorded.describes(instance) for recorded in self._recorded(gpu))

    def held_places(self, gpu: str) -> set[tuple[int, Placement]]:
        """Return the profiles and placements of the partitions that claims hold."""
        return {(recorded.profile, recorded.placement) for recorded in self._recorded(gpu)}

    def hold_gpu(self, key: str, gpu: str, *, can_partition: bool) -> None:
        """Hold a whole GPU, and turn MIG mode off: programs would not see the GPU in it."""
        if can_partition:
            if any(True for _ in self._recorded(gpu)):
                raise InUse(f"{gpu} is still divided into partitions")
            self._switch(gpu, False)
        self._note(key, HeldDevice(gpu))

    def hold_partition(self, key: str, gpu: str, cut: Cut) -> Partition:
        """Make a partition at exactly this placement, unless the key holds it already."""
        existing = self._holdings.get(key)
        if existing is not None:
            partition = self._existing(existing)
            if partition is not None:
                return partition
            self.release(key)
        if any(
            holding.gpu == gpu and holding.partition is None for holding in self._holdings.values()
        ):
            raise InUse(f"{gpu} is still held as a whole")
        self._switch(gpu, True)
        self._refuse_occupied(gpu, cut)
        recorded = RecordedPartition(cut.profile.id, cut.placement.start, cut.placement.size)
        self._note(key, HeldDevice(gpu, recorded))
        try:
            with self._users_named(gpu):
                return self._make(key, gpu, recorded)
        except HardwareError:
            # What cannot be removed now stays noted, and is removed by the next attempt.
            with contextlib.suppress(HardwareError):
                self.release(key)
            raise

    def release(self, key: str) -> None:
        """Release what a key holds, also where it was half made. May be called again."""
        holding = self._holdings.get(key)
        if holding is None:
            return
        if holding.partition is not None:
            instance = self._find(holding.gpu, holding.partition)
            if instance is not None:
                self._destroy(holding.gpu, instance.id)
        self._forget(key)
        self._restore_mode(holding.gpu)

    def settle(self) -> None:
        """Restore the modes of GPUs that no claim holds any more and that were in use before."""
        for gpu in list(self._original_modes):
            self._restore_mode(gpu)

    def _make(self, key: str, gpu: str, recorded: RecordedPartition) -> Partition:
        number = self._hardware.create_instance(gpu, recorded.profile, recorded.placement)
        compute = self._hardware.create_compute(gpu, number)
        self._note(key, HeldDevice(gpu, msgspec.structs.replace(recorded, instance=number)))
        return Partition(number, compute)

    def _existing(self, holding: HeldDevice) -> Partition | None:
        if holding.partition is None or holding.partition.instance is None:
            return None
        instance = self._find(holding.gpu, holding.partition)
        compute_instances = (
            self._hardware.compute_instances(holding.gpu, instance.id) if instance else ()
        )
        return (
            Partition(instance.id, compute_instances[0]) if instance and compute_instances else None
        )

    def _refuse_occupied(self, gpu: str, cut: Cut) -> None:
        slices = cut.placement.slices
        for instance in self._hardware.instances(gpu):
            taken = instance.placement.slices
            if slices.start < taken.stop and taken.start < slices.stop:
                raise InUse(
                    f"GPU instance {instance.id} lies on memory slices {taken.start} to "
                    f"{taken.stop - 1} of {gpu}, where {cut.profile.name} should go"
                )

    def _switch(self, gpu: str, enabled: bool) -> None:
        if self._hardware.is_partitioned(gpu) == enabled:
            return
        if not self._may_switch:
            raise HardwareError(
                f"MIG mode of {gpu} must be {'on' if enabled else 'off'}, and this driver may not "
                "switch it"
            )
        if gpu not in self._original_modes:
            self._original_modes[gpu] = not enabled
            self._write()
        try:
            with self._users_named(gpu):
                self._hardware.set_partitioned(gpu, enabled)
        except HardwareError:
            self._restore_mode(gpu)
            raise

    @contextlib.contextmanager
    def _users_named(self, gpu: str) -> Iterator[None]:
        """Add the processes that use the GPU to an error that it is in use."""
        users = ", ".join(map(str, self._hardware.processes(gpu)))
        try:
            yield
        except InUse as error:
            raise InUse(f"{error}; used by process {users}" if users else str(error)) from error

    def _restore_mode(self, gpu: str) -> None:
        mode = self._original_modes.get(gpu)
        if mode is None or any(holding.gpu == gpu for holding in self._holdings.values()):
            return
        try:
            if self._hardware.is_partitioned(gpu) != mode:
                if self._hardware.instances(gpu):
                    return
                self._hardware.set_partitioned(gpu, mode)
        except HardwareError as error:
            log.warning("MIG mode of %s is not restored yet: %s", gpu, error)
            return
        del self._original_modes[gpu]
        self._write()

    def _destroy(self, gpu: str, instance: int) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self._hardware.destroy_instance(gpu, instance)
            except InUse:
                if time.monotonic() >= deadline:
                    raise
            self._pause(_PAUSE_SECONDS)

    def _find(self, gpu: str, recorded: RecordedPartition) -> Instance | None:
        instances = (
            instance for instance in self._hardware.instances(gpu) if recorded.describes(instance)
        )
        return next(instances, None)

    def _recorded(self, gpu: str) -> list[RecordedPartition]:
        holdings = (holding for holding in self._holdings.values() if holding.gpu == gpu)
        return [device.partition for device in holdings if device.partition is not None]

    def _note(self, key: str, holding: HeldDevice) -> None:
        self._holdings[key] = holding
        self._write()

    def _forget(self, key: str) -> None:
        self._holdings.pop(key, None)
        self._write()

    def _read(self) -> None:
        record = self._checkpoint.read() or PartitionRecord()
        self._holdings = dict(record.holdings)
        self._original_modes = dict(record.found_modes)

    def _write(self) -> None:
        self._checkpoint.write(PartitionRecord(self._holdings, self._original_modes))
