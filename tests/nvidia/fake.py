"""GPUs from a recording of a real one, behind the same seam as NVML: they can be cut, and can fail.

They are like the NVIDIA H200 of `tests/corpus/nvml`.
"""

from __future__ import annotations

import uuid
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dray.drivers.nvidia import nvml
from dray.drivers.nvidia.hardware import (
    ComputeInstance,
    Fabric,
    Gpu,
    GpuCondition,
    GpuFault,
    GpuUnsupported,
    HardwareError,
    Instance,
    InUse,
    Lost,
    MigProfile,
    Placement,
    Versions,
)
from tests.recorded import NVML

RECORDING = "h200.json"
_NAMESPACE = uuid.UUID("6d1f4c50-58a5-4c43-9d0c-1f6c7a7b9a11")
SMI = """#!/bin/sh
for cap in /dev/nvidia-caps/*; do [ -e "$cap" ] && echo "MIG $(cat "$cap")"; done
for gpu in /dev/nvidia[0-9]*; do [ -e "$gpu" ] && echo "GPU $(cat "$gpu")"; done
"""


@dataclass
class FakeHardware:
    """`gpus` of one machine; `root` is a file system that shows them."""

    root: Path
    known: list[Gpu]
    offered: dict[str, tuple[MigProfile, ...]]
    modes: dict[str, bool] = field(default_factory=dict)
    made: dict[str, list[Instance]] = field(default_factory=dict)
    computing: dict[tuple[str, int], list[ComputeInstance]] = field(default_factory=dict)
    users: dict[str, list[int]] = field(default_factory=dict)
    exclusive: set[str] = field(default_factory=set)
    conditions: dict[str, GpuCondition] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    faults: deque[GpuFault] = field(default_factory=deque)
    calls: list[str] = field(default_factory=list)
    failing: dict[str, HardwareError] = field(default_factory=dict)
    """What the next call of a name raises."""
    interrupt: Callable[[str], None] = lambda _call: None
    """Called after each call has done its work; may raise, as a process may die."""

    def versions(self) -> Versions:
        self._called("versions")
        return Versions("580.159.04", (13, 0))

    def gpus(self) -> Sequence[Gpu]:
        self._called("gpus")
        return [gpu for gpu in self.known if gpu.uuid not in self.lost]

    def profiles(self, gpu: str) -> Sequence[MigProfile]:
        self._called("profiles", gpu)
        return self.offered.get(gpu, ())

    def is_partitioned(self, gpu: str) -> bool:
        self._called("is_partitioned", gpu)
        self._only_partitionable(gpu)
        return self.modes.get(gpu, False)

    def set_partitioned(self, gpu: str, wanted: bool) -> None:
        self._called("set_partitioned", gpu)
        self._only_partitionable(gpu)
        if self.users.get(gpu) or self.made.get(gpu):
            raise InUse(f"cannot turn MIG mode of {gpu} {'on' if wanted else 'off'}: In use")
        self.modes[gpu] = wanted
        self.interrupt("set_partitioned")

    def instances(self, gpu: str) -> Sequence[Instance]:
        self._called("instances", gpu)
        return list(self.made.get(gpu, ()))

    def compute_instances(self, gpu: str, instance: int) -> Sequence[ComputeInstance]:
        self._called("compute_instances", gpu)
        return list(self.computing.get((gpu, instance), ()))

    def create_instance(self, gpu: str, profile: int, placement: Placement) -> int:
        self._called("create_instance", gpu)
        chosen = self._profile(gpu, profile)
        if not self.modes.get(gpu) or placement not in chosen.placements:
            raise HardwareError("cannot create a GPU instance: Invalid Argument")
        existing = self.made.setdefault(gpu, [])
        taken = {slot for each in existing for slot in each.placement.slices}
        if taken & set(placement.slices) or not self._has_engines(gpu, chosen):
            raise HardwareError("cannot create a GPU instance: Insufficient Resources")
        number = min(set(range(1, 15)) - {each.id for each in existing})
        existing.append(Instance(number, profile, placement))
        self.interrupt("create_instance")
        return number

    def create_compute(self, gpu: str, instance: int) -> ComputeInstance:
        self._called("create_compute", gpu)
        found = self._instance(gpu, instance)
        name = str(uuid.uuid5(_NAMESPACE, f"{gpu}/{found.placement}/{len(self.calls)}"))
        slices = self._profile(gpu, found.profile).compute_slices
        compute = ComputeInstance(0, f"MIG-{name}", slices)
        self.computing[gpu, instance] = [compute]
        self._show(gpu, instance, compute)
        self.interrupt("create_compute")
        return compute

    def destroy_instance(self, gpu: str, instance: int) -> None:
        self._called("destroy_instance", gpu)
        self.made[gpu].remove(self._instance(gpu, instance))
        self.computing.pop((gpu, instance), None)
        self.interrupt("destroy_instance")

    def processes(self, gpu: str) -> Sequence[int]:
        self._called("processes", gpu)
        return self.users.get(gpu, [])

    def is_exclusive(self, gpu: str) -> bool:
        self._called("is_exclusive", gpu)
        return gpu in self.exclusive

    def set_exclusive(self, gpu: str, wanted: bool) -> None:
        self._called("set_exclusive", gpu)
        (self.exclusive.add if wanted else self.exclusive.discard)(gpu)

    def condition(self, gpu: str) -> GpuCondition:
        self._called("condition", gpu)
        return self.conditions.get(gpu, GpuCondition())

    def next_fault(self, timeout_seconds: float) -> GpuFault | None:
        self._called("next_fault")
        return self.faults.popleft() if self.faults else None

    def _called(self, name: str, gpu: str = "") -> None:
        self.calls.append(name)
        failure = self.failing.pop(name, None)
        if failure is not None:
            raise failure
        if gpu in self.lost:
            raise Lost(f"{gpu} has fallen off the bus")

    def _only_partitionable(self, gpu: str) -> None:
        if not next(each for each in self.known if each.uuid == gpu).can_partition:
            raise GpuUnsupported(f"cannot read the MIG mode of {gpu}: Not Supported")

    def _profile(self, gpu: str, number: int) -> MigProfile:
        return next(each for each in self.offered[gpu] if each.id == number)

    def _instance(self, gpu: str, number: int) -> Instance:
        for each in self.made.get(gpu, ()):
            if each.id == number:
                return each
        raise HardwareError(f"cannot find GPU instance {number}: Not Found")

    def _has_engines(self, gpu: str, wanted: MigProfile) -> bool:
        """A GPU has as much as its largest profile."""
        every = self.offered[gpu]
        taken = [wanted, *(self._profile(gpu, each.profile) for each in self.made[gpu])]
        names = ("compute_slices", "multiprocessors", "copy_engines", "decoders", "ofa_engines")
        return all(
            sum(getattr(each, name) for each in taken) <= max(getattr(each, name) for each in every)
            for name in names
        )

    def _show(self, gpu: str, instance: int, compute: ComputeInstance) -> None:
        """Capability files as the NVIDIA driver shows them, and device nodes for them."""
        minor = next(each.minor for each in self.known if each.uuid == gpu)
        folder = f"proc/driver/nvidia/capabilities/gpu{minor}/mig/gi{instance}"
        for offset, grant in enumerate((f"{folder}/access", f"{folder}/ci{compute.id}/access")):
            number = 100 * minor + 10 * instance + offset
            write(self.root / grant, f"DeviceFileMinor: {number}\nDeviceFileMode: 292\n")
            text = compute.uuid if offset else f"instance {instance}"
            write(self.root / f"dev/nvidia-caps/nvidia-cap{number}", text)


def hardware(
    root: Path, *, count: int = 1, can_partition: bool = True, has_nvswitch: bool = False
) -> FakeHardware:
    """Machines like the recorded one, with more GPUs, without MIG, or with NVSwitches."""
    recorded = NVML.json(RECORDING)
    (raw,) = recorded["gpus"]
    gpus = [
        replace(_gpu(raw, index), can_partition=can_partition, has_nvswitch=has_nvswitch)
        for index in range(count)
    ]
    if has_nvswitch:
        gpus = [replace(gpu, nvlinks=18) for gpu in gpus]
    profiles = tuple(_profiles(raw)) if can_partition else ()
    _build_machine(root, gpus)
    return FakeHardware(root, gpus, {gpu.uuid: profiles for gpu in gpus})


def everything(gpu: Gpu) -> Gpu:
    """A GPU that reports whatever a GPU can report."""
    return replace(
        gpu,
        power_limit_watts=700,
        slowdown_celsius=89,
        shutdown_celsius=92,
        has_ecc=True,
        is_persistent=True,
        nvlinks=18,
        has_nvswitch=True,
        fabric=Fabric("3ed5e4ee-2e5e-4c5c-8e5e-0c2f5c6f7a8b", 32766),
    )


def _gpu(raw: dict[str, Any], index: int) -> Gpu:
    recorded = str(raw["uuid"])
    name = uuid.uuid5(_NAMESPACE, f"{recorded}/{index}")
    pci = raw["pci"]
    return Gpu(
        uuid=recorded if index == 0 else f"GPU-{name}",
        index=index,
        minor=raw["minor"] + index,
        name=raw["name"],
        brand=nvml.BRANDS[raw["brand"]],
        architecture=nvml.ARCHITECTURES[raw["arch"]],
        compute_capability=(raw["cc"][0], raw["cc"][1]),
        memory_bytes=raw["memory"]["total"],
        pci_bus_id=f"0000:00:{pci['device'] + index:02x}.0",
        pci_vendor_id=pci["pciDeviceId"] & 0xFFFF,
        pci_device_id=pci["pciDeviceId"] >> 16,
        has_ecc=bool(raw["ecc"][0]),
        is_persistent=bool(raw["persistence"]),
        can_partition=True,
    )


def _profiles(raw: dict[str, Any]) -> list[MigProfile]:
    found = []
    for profile in raw["gi_profiles"].values():
        info = profile["info"]
        if "error" in info:
            continue
        found.append(
            MigProfile(
                id=info["id"],
                name=info["name"].removeprefix("MIG "),
                compute_slices=info["sliceCount"],
                memory_mebibytes=info["memorySizeMB"],
                multiprocessors=info["multiprocessorCount"],
                copy_engines=info["copyEngineCount"],
                decoders=info["decoderCount"],
                encoders=info["encoderCount"],
                jpeg_engines=info["jpegCount"],
                ofa_engines=info["ofaCount"],
                placements=tuple(Placement(*place) for place in profile["placements"]),
            )
        )
    return found


def _build_machine(root: Path, gpus: list[Gpu]) -> None:
    """Device nodes, buses, libraries and programs, as files that say what they stand for."""
    for node in ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"):
        write(root / "dev" / node, node)
    for gpu in gpus:
        write(root / f"dev/nvidia{gpu.minor}", gpu.uuid)
        device = root / "sys/devices/pci0000:00" / gpu.pci_bus_id
        write(device / "numa_node", f"{gpu.index // 4}\n")
        link = root / "sys/bus/pci/devices" / gpu.pci_bus_id
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(device)
    for library in ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler"):
        path = root / f"opt/nvidia/lib64/{library}.so.580.159.04"
        write(path, library)
        path.with_name(f"{library}.so.1").symlink_to(path.name)
    write(root / "opt/nvidia/lib64/libunrelated.so.1", "not the vendor's")
    write(root / "opt/nvidia/bin/nvidia-smi", SMI)
    (root / "opt/nvidia/bin/nvidia-smi").chmod(0o755)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def uuids(hardware: FakeHardware, gpu: str) -> list[str]:
    """Those of the partitions that exist, in the order in which they were made."""
    made = hardware.made.get(gpu, ())
    return [each.uuid for instance in made for each in hardware.computing[gpu, instance.id]]


def profile_counts(hardware: FakeHardware, gpu: str) -> Counter[int]:
    return Counter(instance.profile for instance in hardware.made.get(gpu, ()))
