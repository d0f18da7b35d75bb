"""The interface between the driver and NVML, in plain values.

`nvml` implements it with the real library, tests with recordings. Every call may take long and is
made from a thread. It has no handles: a GPU is named by its UUID, an instance by its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class HardwareError(Exception):
    """A call that the GPU or its driver refused."""


class GpuUnavailable(HardwareError):
    """The NVIDIA driver, its library or a GPU is missing; the message says which."""


class GpuUnsupported(HardwareError):
    """This GPU cannot do it."""


class InUse(HardwareError):
    """The GPU is in use; a retry may work."""


class ResetRequired(HardwareError):
    """It works after a reset of the GPU only."""


class Lost(HardwareError):
    """The GPU has fallen off the bus."""


@dataclass(frozen=True)
class Fabric:
    """The NVLink domain a GPU belongs to; GPUs of one clique reach each other's memory."""

    cluster_uuid: str
    clique: int


@dataclass(frozen=True)
class Gpu:
    """The properties of a GPU; None for those that it does not report."""

    uuid: str
    index: int
    minor: int
    name: str
    brand: str
    architecture: str
    compute_capability: tuple[int, int]
    memory_bytes: int
    pci_bus_id: str
    pci_vendor_id: int
    pci_device_id: int
    power_limit_watts: int | None = None
    slowdown_celsius: int | None = None
    shutdown_celsius: int | None = None
    has_ecc: bool | None = None
    is_persistent: bool | None = None
    nvlinks: int = 0
    """Active links."""
    has_nvswitch: bool = False
    fabric: Fabric | None = None
    can_partition: bool = False


@dataclass(frozen=True, order=True)
class Placement:
    """The memory slices that a partition lies on."""

    start: int
    size: int

    @property
    def slices(self) -> range:
        return range(self.start, self.start + self.size)


Place = tuple[int, Placement]
"""A profile's number and the memory slices it lies on."""


@dataclass(frozen=True)
class MigProfile:
    """A MIG profile: one size of partition."""

    id: int
    name: str
    compute_slices: int
    memory_mebibytes: int
    multiprocessors: int
    copy_engines: int
    decoders: int
    encoders: int
    jpeg_engines: int
    ofa_engines: int
    placements: tuple[Placement, ...]


@dataclass(frozen=True)
class ComputeInstance:
    """A compute instance: a partition's multiprocessors, or some of them."""

    id: int
    uuid: str
    compute_slices: int


@dataclass(frozen=True)
class Instance:
    """A partition that exists."""

    id: int
    profile: int
    placement: Placement


@dataclass(frozen=True)
class GpuCondition:
    """The memory errors that a GPU reports."""

    uncorrected_errors: int = 0
    """Since the driver was loaded."""
    remap_pending: bool = False
    remap_failed: bool = False


@dataclass(frozen=True)
class GpuFault:
    """An error that the driver has reported, with NVIDIA's number for it; None for a lost GPU."""

    gpu: str
    xid: int | None
    instance: int | None = None


@dataclass(frozen=True)
class Versions:
    driver: str
    cuda: tuple[int, int]


class Hardware(Protocol):
    """The GPUs of one host. Every call may raise HardwareError."""

    def versions(self) -> Versions: ...

    def gpus(self) -> Sequence[Gpu]: ...

    def profiles(self, gpu: str) -> Sequence[MigProfile]: ...

    def is_partitioned(self, gpu: str) -> bool:
        """Whether MIG mode is on."""
        ...

    def set_partitioned(self, gpu: str, enabled: bool) -> None:
        """Turn MIG mode on or off; a failure leaves no change pending for the next reset."""
        ...

    def instances(self, gpu: str) -> Sequence[Instance]: ...

    def compute_instances(self, gpu: str, instance: int) -> Sequence[ComputeInstance]: ...

    def create_instance(self, gpu: str, profile: int, placement: Placement) -> int:
        """Create a partition without a compute instance at this placement; return its number."""
        ...

    def create_compute(self, gpu: str, instance: int) -> ComputeInstance:
        """Give a partition one compute instance with everything it has."""
        ...

    def destroy_instance(self, gpu: str, instance: int) -> None:
        """Remove a partition and its compute instances."""
        ...

    def processes(self, gpu: str) -> Sequence[int]: ...

    def is_exclusive(self, gpu: str) -> bool:
        """Whether only one process may use the GPU, which with MPS is its server."""
        ...

    def set_exclusive(self, gpu: str, enabled: bool) -> None: ...

    def condition(self, gpu: str) -> GpuCondition: ...

    def next_fault(self, timeout_seconds: float) -> GpuFault | None:
        """Wait for the next fault of any GPU, and return it, or None after the timeout."""
        ...
