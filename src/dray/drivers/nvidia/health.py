"""The health of GPUs: faults that the driver reports, worn memory, lost GPUs.

An XID is NVIDIA's number for a fault. Some are caused by a program's own mistakes and say nothing
about the GPU: those are skipped. A fault is dropped when the GPU has worked for some time without
another; a report about its memory holds for as long as the GPU makes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dray.api.well_known import NO_EXECUTE, NO_SCHEDULE
from dray.driverkit.driver import DeviceHealth, Health
from dray.drivers.nvidia.hardware import GpuFault, Hardware, HardwareError, Lost

HARMLESS_XIDS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""Faults of programs: bad kernels, bad addresses, contexts that were torn down."""
CONTAINED_XIDS: Final = frozenset({63, 64, 92, 94})
"""Faults of memory that reached one program at most; the others may go on."""
QUIET_SECONDS: Final = 600.0
MAX_FAULTS_AT_ONCE: Final = 64
EFFECTS: Final = (None, NO_SCHEDULE, NO_EXECUTE)
"""The worse, the later."""


@dataclass(frozen=True)
class Report:
    """Something that is wrong with a GPU, or with one of its instances."""

    gpu: str
    message: str
    reason: str
    effect: str | None = NO_EXECUTE
    instance: int | None = None
    health: Health = Health.UNHEALTHY


@dataclass(frozen=True)
class _Remembered:
    report: Report
    at: float


class HealthWatch:
    """Collects faults between calls."""

    def __init__(
        self,
        hardware: Hardware,
        *,
        skipped_xids: Collection[int] = (),
        quiet_seconds: float = QUIET_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hardware = hardware
        self._skipped = HARMLESS_XIDS | set(skipped_xids)
        self._quiet_seconds = quiet_seconds
        self._clock = clock
        self._remembered: dict[tuple[str, int | None, str], _Remembered] = {}
        self._uncorrected: dict[str, int] = {}

    def check(self, gpus: Collection[str]) -> list[Report]:
        """Return the current reports of these GPUs. Blocks on the hardware."""
        self._note_faults(gpus)
        now = [report for gpu in gpus for report in self._conditions(gpu)]
        return [*now, *self._recent()]

    def _note_faults(self, gpus: Collection[str]) -> None:
        for _ in range(MAX_FAULTS_AT_ONCE):
            try:
                fault = self._hardware.next_fault(0)
            except HardwareError:
                return
            if fault is None:
                return
            if fault.xid in self._skipped:
                continue
            # A fault of which nobody can say whose it is may be anybody's.
            for gpu in (fault.gpu,) if fault.gpu else gpus:
                self._remember(_of_fault(gpu, fault))

    def _conditions(self, gpu: str) -> Iterator[Report]:
        try:
            condition = self._hardware.condition(gpu)
        except Lost:
            self._remember(Report(gpu, "the GPU has fallen off the bus", "gpu-lost"))
            return
        except HardwareError as error:
            yield Report(gpu, str(error), "unknown", None, health=Health.UNKNOWN)
            return
        if condition.remap_failed:
            message = "a memory row could not be remapped: the GPU must be replaced"
            yield Report(gpu, message, "row-remap-failed", NO_SCHEDULE)
        elif condition.remap_pending:
            message = "a memory row is remapped at the next reset of the GPU"
            yield Report(gpu, message, "row-remap-pending", NO_SCHEDULE)
        previous = self._uncorrected.get(gpu, condition.uncorrected_errors)
        self._uncorrected[gpu] = condition.uncorrected_errors
        if condition.uncorrected_errors > previous:
            count = condition.uncorrected_errors - previous
            message = f"{count} uncorrected memory error{'s' if count > 1 else ''}"
            self._remember(Report(gpu, message, "ecc-uncorrected", NO_SCHEDULE))

    def _recent(self) -> list[Report]:
        oldest = self._clock() - self._quiet_seconds
        recent = (entry for entry in self._remembered.items() if entry[1].at > oldest)
        self._remembered = dict(recent)
        return [remembered.report for remembered in self._remembered.values()]

    def _remember(self, report: Report) -> None:
        key = (report.gpu, report.instance, report.reason)
        self._remembered[key] = _Remembered(report, self._clock())


def combined(device: str, reports: Sequence[Report]) -> DeviceHealth:
    """Return the worst report of a device, with the messages of all."""
    worst = max(reports, key=lambda report: EFFECTS.index(report.effect))
    message = "; ".join(dict.fromkeys(report.message for report in reports))
    return DeviceHealth(device, worst.health, message, worst.effect, worst.reason)


def _of_fault(gpu: str, fault: GpuFault) -> Report:
    if fault.xid is None:
        return Report(gpu, "the GPU has fallen off the bus", "gpu-lost")
    effect = NO_SCHEDULE if fault.xid in CONTAINED_XIDS else NO_EXECUTE
    message = f"the NVIDIA driver reported XID {fault.xid}"
    return Report(gpu, message, f"xid-{fault.xid}", effect, fault.instance)
