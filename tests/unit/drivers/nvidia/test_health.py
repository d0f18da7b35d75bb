"""What is wrong with a GPU: told, tainted, and forgotten when it heals."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.driverkit.driver import Health
from dray.drivers.nvidia.hardware import GpuCondition, GpuFault, HardwareError
from dray.drivers.nvidia.health import HealthWatch, Report
from tests.nvidia import fake


class Bed:
    """One GPU under observation, and a clock."""

    def __init__(self, folder: Path, *skipped: int) -> None:
        self.hardware = fake.hardware(folder)
        self.gpu = self.hardware.known[0].uuid
        self.seconds = 1000.0
        self.watch = HealthWatch(
            self.hardware, skipped_xids=skipped, quiet_seconds=60, clock=lambda: self.seconds
        )

    def look(self) -> list[Report]:
        return self.watch.check([self.gpu])

    def reasons(self) -> list[tuple[str, str | None]]:
        return [(each.reason, each.effect) for each in self.look()]


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


def test_a_healthy_gpu_has_nothing_to_report(bed: Bed) -> None:
    assert bed.look() == []


@pytest.mark.parametrize(
    ("xid", "effect"),
    [
        pytest.param(79, "NoExecute", id="fallen-off-the-bus"),
        pytest.param(119, "NoExecute", id="firmware"),
        pytest.param(94, "NoSchedule", id="contained"),
        pytest.param(95, "NoExecute", id="uncontained"),
    ],
)
def test_a_fault_is_reported_with_its_number(bed: Bed, xid: int, effect: str) -> None:
    bed.hardware.faults.append(GpuFault(bed.gpu, xid))
    assert bed.reasons() == [(f"xid-{xid}", effect)]
    (report,) = bed.look()
    assert report.message == f"the NVIDIA driver reported XID {xid}"


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68, 109])
def test_faults_of_programs_are_skipped(bed: Bed, xid: int) -> None:
    bed.hardware.faults.append(GpuFault(bed.gpu, xid))
    assert bed.look() == []


def test_more_faults_can_be_skipped(tmp_path: Path) -> None:
    bed = Bed(tmp_path, 74)
    bed.hardware.faults.extend([GpuFault(bed.gpu, 74), GpuFault(bed.gpu, 48)])
    assert bed.reasons() == [("xid-48", "NoExecute")]


def test_a_fault_is_forgotten_after_a_quiet_time(bed: Bed) -> None:
    bed.hardware.faults.append(GpuFault(bed.gpu, 79))
    assert len(bed.look()) == 1
    bed.seconds += 59
    bed.hardware.faults.append(GpuFault(bed.gpu, 79))
    assert len(bed.look()) == 1
    bed.seconds += 59
    assert len(bed.look()) == 1
    bed.seconds += 2
    assert bed.look() == []


def test_every_fault_stays_told_not_only_the_last(bed: Bed) -> None:
    bed.hardware.faults.extend([GpuFault(bed.gpu, 79), GpuFault(bed.gpu, 94)])
    assert {reason for reason, _ in bed.reasons()} == {"xid-79", "xid-94"}


def test_a_fault_of_one_instance_names_it(bed: Bed) -> None:
    bed.hardware.faults.append(GpuFault(bed.gpu, 94, instance=3))
    (report,) = bed.look()
    assert report.instance == 3


def test_a_fault_of_no_gpu_may_be_every_gpus(bed: Bed) -> None:
    bed.hardware.faults.append(GpuFault("", 79))
    assert [each.gpu for each in bed.look()] == [bed.gpu]


def test_a_lost_gpu_is_told_and_is_well_again_some_time_after_it_answers(bed: Bed) -> None:
    bed.hardware.lost.add(bed.gpu)
    assert bed.reasons() == [("gpu-lost", "NoExecute")]
    bed.hardware.lost.clear()
    assert bed.reasons() == [("gpu-lost", "NoExecute")]
    bed.seconds += 61
    assert bed.look() == []


def test_a_row_to_be_remapped_keeps_new_pods_away_until_the_reset(bed: Bed) -> None:
    bed.hardware.conditions[bed.gpu] = GpuCondition(remap_pending=True)
    assert bed.reasons() == [("row-remap-pending", "NoSchedule")]
    bed.hardware.conditions.clear()
    assert bed.look() == []


def test_a_row_that_cannot_be_remapped_ends_the_gpus_life(bed: Bed) -> None:
    bed.hardware.conditions[bed.gpu] = GpuCondition(remap_failed=True, remap_pending=True)
    assert bed.reasons() == [("row-remap-failed", "NoSchedule")]


def test_only_new_memory_errors_are_told(bed: Bed) -> None:
    bed.hardware.conditions[bed.gpu] = GpuCondition(uncorrected_errors=2)
    assert bed.look() == []
    bed.hardware.conditions[bed.gpu] = GpuCondition(uncorrected_errors=3)
    (report,) = bed.look()
    assert (report.reason, report.message) == ("ecc-uncorrected", "1 uncorrected memory error")


def test_a_gpu_that_cannot_be_asked_is_of_unknown_health(bed: Bed) -> None:
    bed.hardware.failing["condition"] = HardwareError("cannot: Unknown Error")
    (report,) = bed.look()
    assert (report.health, report.effect) == (Health.UNKNOWN, None)


def test_events_that_cannot_be_read_do_not_hide_the_rest(bed: Bed) -> None:
    bed.hardware.failing["next_fault"] = HardwareError("cannot wait for events: Unknown Error")
    bed.hardware.conditions[bed.gpu] = GpuCondition(remap_failed=True)
    assert bed.reasons() == [("row-remap-failed", "NoSchedule")]
