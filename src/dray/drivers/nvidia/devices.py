"""GPUs and their partitions as devices of a ResourceSlice, with the vendor driver's names. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from dray import driverkit
from dray.api.types import dra
from dray.api.types.dra import Device, DeviceAttribute, DeviceCapacity
from dray.drivers.nvidia.hardware import Gpu, MigProfile, Placement, Versions

DRIVER: Final = "gpu.nvidia.com"
TYPE, UUID, PARENT, PROFILE = "type", "uuid", "parentUUID", "profile"
GPU_TYPE, MIG_TYPE = "gpu", "mig"
BUS_ID: Final = "resource.kubernetes.io/pciBusID"
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
MEMORY: Final = "memory"
MIB: Final = 2**20
_OF_THE_WHOLE: Final = (
    UUID, "index", "minor", "powerLimitWatts", "thermalSlowdownCelsius", "thermalShutdownCelsius",
    "persistence", "nvlinks",
)  # fmt: skip
_NOT_IN_NAMES = re.compile("[^a-z0-9]+")

Attributes = dict[str, DeviceAttribute]


@dataclass(frozen=True)
class HostTopology:
    """The position of a GPU in its host, and the driver's versions."""

    node: str
    versions: Versions
    pcie_root: str | None = None
    numa_node: int | None = None


def gpu_name(gpu: Gpu) -> str:
    return f"gpu-{gpu.minor}"


def partition_name(gpu: Gpu, profile: MigProfile, placement: Placement) -> str:
    label = _NOT_IN_NAMES.sub("-", profile.name.lower().replace(".", ""))
    return f"{gpu_name(gpu)}-mig-{label}-{profile.id}-{placement.start}"


def whole(gpu: Gpu, topology: HostTopology) -> Device:
    mebibytes, rest = divmod(gpu.memory_bytes, MIB)
    memory = str(gpu.memory_bytes) if rest else f"{mebibytes}Mi"
    return Device(
        name=gpu_name(gpu),
        attributes=_attributes(gpu, topology),
        capacity={MEMORY: DeviceCapacity(memory)},
    )


def shared(device: Device) -> Device:
    """Return a GPU that several claims can share by memory."""
    memory = device.capacity[MEMORY].value
    policy = dra.CapacityRequestPolicy(
        default=memory, valid_range=dra.CapacityRequestPolicyRange(min="1Mi", step="1Mi")
    )
    return Device(
        name=device.name,
        attributes=device.attributes,
        capacity={**device.capacity, MEMORY: DeviceCapacity(memory, policy)},
        allow_multiple_allocations=True,
    )


def partition(parent: Device, name: str, profile: MigProfile, placement: Placement) -> Device:
    """Return the device of a partition, whether it exists or could be made."""
    inherited = {key: value for key, value in parent.attributes.items() if key not in _OF_THE_WHOLE}
    own: dict[str, Any] = {
        TYPE: MIG_TYPE,
        PROFILE: profile.name,
        PARENT: parent.attributes[UUID],
        "placementStart": placement.start,
        "placementSize": placement.size,
    }
    return Device(
        name=name,
        attributes={**inherited, **driverkit.device("", **own).attributes},
        capacity=capacities(profile),
    )


def capacities(profile: MigProfile) -> dict[str, DeviceCapacity]:
    amounts = {
        "multiprocessors": profile.multiprocessors,
        "copyEngines": profile.copy_engines,
        "decoders": profile.decoders,
        "encoders": profile.encoders,
        "jpegEngines": profile.jpeg_engines,
        "ofaEngines": profile.ofa_engines,
        MEMORY: f"{profile.memory_mebibytes}Mi",
    }
    return {name: DeviceCapacity(str(amount)) for name, amount in amounts.items()}


def text(value: str) -> DeviceAttribute:
    return DeviceAttribute(string_value=value)


def _attributes(gpu: Gpu, topology: HostTopology) -> Attributes:
    given: dict[str, Any] = {
        TYPE: GPU_TYPE,
        UUID: gpu.uuid,
        "productName": gpu.name,
        "brand": gpu.brand,
        "architecture": gpu.architecture,
        "cudaComputeCapability": _version(gpu.compute_capability),
        "driverVersion": _version(_numbers(topology.versions.driver)),
        "cudaDriverVersion": _version(topology.versions.cuda),
        "index": gpu.index,
        "minor": gpu.minor,
        BUS_ID: gpu.pci_bus_id,
        PCIE_ROOT: topology.pcie_root,
        NUMA_NODE: topology.numa_node,
        "vendorID": f"0x{gpu.pci_vendor_id:04x}",
        "deviceID": f"0x{gpu.pci_device_id:04x}",
        "powerLimitWatts": gpu.power_limit_watts,
        "thermalSlowdownCelsius": gpu.slowdown_celsius,
        "thermalShutdownCelsius": gpu.shutdown_celsius,
        "ecc": gpu.has_ecc,
        "persistence": gpu.is_persistent,
        "nvlinks": gpu.nvlinks or None,
        **_domain(gpu, topology.node),
    }
    present = {name: value for name, value in given.items() if value is not None}
    return driverkit.device("", **present).attributes


def _domain(gpu: Gpu, node: str) -> dict[str, str]:
    """Return the NVSwitch domain, in which GPUs reach each other: a rack, or a node."""
    if gpu.fabric is not None:
        clique = f"{gpu.fabric.cluster_uuid}.{gpu.fabric.clique}"
        return {"nvswitchDomain": gpu.fabric.cluster_uuid, "cliqueID": clique}
    return {"nvswitchDomain": node} if gpu.has_nvswitch else {}


def _version(numbers: Iterable[int]) -> DeviceAttribute:
    """Return a semantic version: three numbers without leading zeros."""
    first, second, third = [*numbers, 0, 0][:3]
    return DeviceAttribute(version_value=f"{first}.{second}.{third}")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)] or [0]
