"""NVML's answers as plain values: what is optional, what is an error, and which one."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pynvml
import pytest

from dray.drivers.nvidia.hardware import (
    GpuCondition,
    GpuFault,
    GpuUnsupported,
    HardwareError,
    InUse,
    Lost,
    Placement,
    ResetRequired,
)
from dray.drivers.nvidia.nvml import Nvml
from tests.nvidia import fake
from tests.recorded import NVML

GPU = "GPU-f7a4a22d-afd7-60bf-7ab2-b9312bf6a3f5"


class RecordedLibrary:
    """Answers from the recording where it can, refuses the rest; constants are pynvml's own."""

    def __init__(self) -> None:
        self.recorded = NVML.json(fake.RECORDING)
        (self.gpu,) = self.recorded["gpus"]
        self.mode, self.pending = 0, 0
        self.activation = pynvml.NVML_SUCCESS
        self.activates = True
        self.refused: dict[str, int] = {}
        self.events: list[Any] = []
        gpu = self.gpu
        self.answers: dict[str, Callable[..., Any]] = {
            "nvmlSystemGetCudaDriverVersion_v2": lambda: self.recorded["cuda"],
            "nvmlSystemGetDriverVersion": lambda: self.recorded["driver"],
            "nvmlDeviceGetCount": lambda: 1,
            "nvmlDeviceGetHandleByIndex": lambda _index: "handle",
            "nvmlDeviceGetHandleByUUID": lambda _uuid: "handle",
            "nvmlDeviceGetUUID": lambda _handle: gpu["uuid"],
            "nvmlDeviceGetName": lambda _handle: gpu["name"],
            "nvmlDeviceGetBrand": lambda _handle: gpu["brand"],
            "nvmlDeviceGetArchitecture": lambda _handle: gpu["arch"],
            "nvmlDeviceGetMinorNumber": lambda _handle: gpu["minor"],
            "nvmlDeviceGetCudaComputeCapability": lambda _handle: gpu["cc"],
            "nvmlDeviceGetMemoryInfo": lambda _handle: SimpleNamespace(**gpu["memory"]),
            "nvmlDeviceGetPciInfo": lambda _handle: SimpleNamespace(**gpu["pci"]),
            "nvmlDeviceGetPersistenceMode": lambda _handle: gpu["persistence"],
            "nvmlDeviceGetCurrentEccMode": lambda _handle: gpu["ecc"][0],
            "nvmlDeviceGetMigMode": lambda _handle: [self.mode, self.pending],
            "nvmlDeviceSetMigMode": self.set_mode,
            "nvmlDeviceGetGpuInstanceProfileInfo": self.profile,
            "nvmlDeviceGetGpuInstancePossiblePlacements": self.placements,
            "nvmlDeviceGetRemappedRows": lambda _handle: gpu["remapped"],
            "nvmlDeviceGetTotalEccErrors": lambda *_: 0,
            "nvmlEventSetCreate": lambda: "events",
            "nvmlDeviceGetSupportedEventTypes": lambda _handle: gpu["events"],
            "nvmlDeviceRegisterEvents": lambda *_: None,
            "nvmlEventSetWait_v2": self.wait,
        }

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml") or name.startswith("nvmlEventType"):
            return getattr(pynvml, name)

        def call(*given: Any, **named: Any) -> Any:
            if name in self.refused or name not in self.answers:
                raise pynvml.NVMLError(self.refused.get(name, pynvml.NVML_ERROR_NOT_SUPPORTED))
            return self.answers[name](*given, **named)

        return call

    def set_mode(self, _handle: Any, mode: int) -> int:
        self.pending = mode
        if self.activation == pynvml.NVML_SUCCESS and self.activates:
            self.mode = mode
        return int(self.activation)

    def profile(self, _handle: Any, number: int, version: int) -> Any:
        found = self.gpu["gi_profiles"].get(str(number), {"info": {"error": ""}})["info"]
        if "error" in found:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        if version == 2:
            return SimpleNamespace(**{**found, "name": found["name"].encode()})
        return SimpleNamespace(**{key: value for key, value in found.items() if key != "name"})

    def placements(self, _handle: Any, profile: int, room: Any, count: Any) -> int:
        (found,) = [
            each["placements"]
            for each in self.gpu["gi_profiles"].values()
            if each["info"].get("id") == profile
        ]
        for slot, (start, size) in zip(room, found, strict=False):
            slot.start, slot.size = start, size
        count._obj.value = len(found)
        return int(pynvml.NVML_SUCCESS)

    def wait(self, _events: Any, _milliseconds: int) -> Any:
        if not self.events:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        return self.events.pop(0)


@pytest.fixture
def recorded() -> RecordedLibrary:
    return RecordedLibrary()


@pytest.fixture
def library(recorded: RecordedLibrary) -> Nvml:
    return Nvml(cast(Any, recorded))


def test_the_recorded_gpu_is_read(library: Nvml) -> None:
    (gpu,) = library.gpus()
    assert (gpu.uuid, gpu.name, gpu.brand, gpu.architecture) == (
        GPU,
        "NVIDIA H200",
        "Nvidia",
        "Hopper",
    )
    assert (gpu.pci_bus_id, gpu.pci_vendor_id, gpu.pci_device_id) == (
        "0000:00:06.0",
        0x10DE,
        0x2335,
    )
    assert (gpu.has_ecc, gpu.is_persistent, gpu.can_partition) == (True, True, True)


def test_what_a_gpu_does_not_support_is_left_out(library: Nvml) -> None:
    (gpu,) = library.gpus()
    assert (gpu.power_limit_watts, gpu.slowdown_celsius, gpu.fabric) == (None, None, None)
    assert (gpu.nvlinks, gpu.has_nvswitch) == (0, False)


def test_versions_are_numbers(library: Nvml) -> None:
    assert (library.versions().driver, library.versions().cuda) == ("580.159.04", (13, 0))


def test_a_lost_gpu_is_not_listed(library: Nvml, recorded: RecordedLibrary) -> None:
    recorded.refused["nvmlDeviceGetHandleByIndex"] = pynvml.NVML_ERROR_GPU_IS_LOST
    assert library.gpus() == []


def test_profiles_have_their_names_and_places(library: Nvml) -> None:
    found = {profile.name: profile for profile in library.profiles(GPU)}
    assert list(found) == [
        "1g.18gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb", "1g.18gb+me", "1g.35gb"
    ]  # fmt: skip
    assert found["3g.71gb"].placements == (Placement(0, 4), Placement(4, 4))


def test_older_drivers_name_no_profiles(library: Nvml, recorded: RecordedLibrary) -> None:
    def older(handle: Any, number: int, version: int) -> Any:
        if version == 2:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return recorded.profile(handle, number, version)

    recorded.answers["nvmlDeviceGetGpuInstanceProfileInfo"] = older
    assert library.profiles(GPU)[0].name == "1g.16gb"


def test_mig_mode_is_switched(library: Nvml) -> None:
    library.set_partitioned(GPU, True)
    assert library.is_partitioned(GPU)


@pytest.mark.parametrize(
    ("activation", "activates", "error"),
    [
        pytest.param(pynvml.NVML_ERROR_IN_USE, True, InUse, id="in-use"),
        pytest.param(pynvml.NVML_ERROR_RESET_REQUIRED, True, ResetRequired, id="reset"),
        pytest.param(pynvml.NVML_SUCCESS, False, ResetRequired, id="pending-only"),
    ],
)
def test_a_mode_that_cannot_be_had_now_is_not_left_pending(
    library: Nvml,
    recorded: RecordedLibrary,
    activation: int,
    activates: bool,
    error: type[HardwareError],
) -> None:
    recorded.activation, recorded.activates = activation, activates
    with pytest.raises(error, match="cannot turn MIG mode"):
        library.set_partitioned(GPU, True)
    assert (recorded.mode, recorded.pending) == (0, 0)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        pytest.param(pynvml.NVML_ERROR_NOT_SUPPORTED, GpuUnsupported, id="unsupported"),
        pytest.param(pynvml.NVML_ERROR_GPU_IS_LOST, Lost, id="lost"),
        pytest.param(pynvml.NVML_ERROR_IN_USE, InUse, id="in-use"),
        pytest.param(pynvml.NVML_ERROR_NO_PERMISSION, HardwareError, id="not-permitted"),
    ],
)
def test_errors_keep_their_meaning(
    library: Nvml, recorded: RecordedLibrary, code: int, error: type[HardwareError]
) -> None:
    recorded.refused["nvmlDeviceGetMigMode"] = code
    with pytest.raises(error, match=f"cannot read the MIG mode of {GPU}"):
        library.is_partitioned(GPU)


def test_worn_memory_is_read(library: Nvml, recorded: RecordedLibrary) -> None:
    assert library.condition(GPU) == GpuCondition()
    recorded.answers["nvmlDeviceGetRemappedRows"] = lambda _handle: (0, 1, 1, 0)
    recorded.answers["nvmlDeviceGetTotalEccErrors"] = lambda *_: 7
    assert library.condition(GPU) == GpuCondition(7, remap_pending=True)


def test_faults_come_with_their_gpu_and_instance(library: Nvml, recorded: RecordedLibrary) -> None:
    for instance in (0xFFFFFFFF, 3):
        recorded.events.append(
            SimpleNamespace(
                device="handle",
                eventType=pynvml.nvmlEventTypeXidCriticalError,
                eventData=79,
                gpuInstanceId=instance,
            )
        )
    found = [library.next_fault(0) for _ in range(3)]
    assert found == [GpuFault(GPU, 79), GpuFault(GPU, 79, 3), None]


def test_without_mig_there_are_no_instances(library: Nvml) -> None:
    assert library.instances(GPU) == []
