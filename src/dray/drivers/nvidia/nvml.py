"""GPUs as NVIDIA's management library (NVML) reports them. The only module that knows pynvml."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from dray.drivers.nvidia import hardware

BRANDS: Final = {
    0: "Unknown", 1: "Quadro", 2: "Tesla", 3: "NVS", 4: "Grid", 5: "GeForce", 6: "Titan",
    7: "NvidiaVApps", 8: "NvidiaVPC", 9: "NvidiaVCS", 10: "NvidiaVWS", 11: "NvidiaCloudGaming",
    12: "QuadroRTX", 13: "NvidiaRTX", 14: "Nvidia", 15: "GeForceRTX", 16: "TitanRTX",
}  # fmt: skip
ARCHITECTURES: Final = {
    2: "Kepler", 3: "Maxwell", 4: "Pascal", 5: "Volta", 6: "Turing", 7: "Ampere",
    8: "Ada Lovelace", 9: "Hopper", 10: "Blackwell", 13: "Rubin",
}  # fmt: skip
UNKNOWN: Final = "Unknown"
KERNEL_DRIVER: Final = Path("/proc/driver/nvidia")
COMPUTE_PROFILES: Final = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4, 8: 5, 6: 6}
"""NVML's numbers of the profiles for compute instances, by their slices."""
MAX_PLACEMENTS: Final = 32
MIB: Final = 2**20
_WHOLE_GPU: Final = 0xFFFFFFFF


def is_here() -> bool:
    """Whether this host has GPUs that can be used."""
    if not KERNEL_DRIVER.exists():
        return False
    with contextlib.suppress(hardware.HardwareError):
        return bool(open_library().gpus())
    return False


def open_library(path: Path | None = None) -> Nvml:
    """Load NVML, from a path if the linker would not find it. Raises GpuUnavailable without it."""
    try:
        import pynvml
    except ImportError:
        raise hardware.GpuUnavailable(
            "nvidia-ml-py is not installed: pip install 'dray[nvidia]'"
        ) from None
    try:
        if path is not None:
            # A library that is loaded already is found by its name.
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        pynvml.nvmlInit()
    except OSError as error:
        raise hardware.GpuUnavailable(f"the NVIDIA library cannot be loaded: {error}") from None
    except pynvml.NVMLError as error:
        raise hardware.GpuUnavailable(f"the NVIDIA driver does not answer: {error}") from None
    return Nvml(pynvml)


class Nvml:
    """See `hardware.Hardware` for what each call means."""

    def __init__(self, library: ModuleType) -> None:
        self.library: Any = library
        self._known_profiles: dict[str, dict[int, Any]] = {}
        self._events: Any = None
        self._events_lock = threading.Lock()

    def versions(self) -> hardware.Versions:
        with self._translated("read versions"):
            cuda = self.library.nvmlSystemGetCudaDriverVersion_v2()
            driver = str(self.library.nvmlSystemGetDriverVersion())
        return hardware.Versions(driver, (cuda // 1000, cuda % 1000 // 10))

    def gpus(self) -> Sequence[hardware.Gpu]:
        with self._translated("count GPUs"):
            count = self.library.nvmlDeviceGetCount()
        gpus = []
        for index in range(count):
            with contextlib.suppress(hardware.Lost):
                gpus.append(self._gpu(index))
        return gpus

    def _gpu(self, index: int) -> hardware.Gpu:
        library = self.library
        with self._translated(f"read GPU {index}"):
            handle = library.nvmlDeviceGetHandleByIndex(index)
            pci = library.nvmlDeviceGetPciInfo(handle)
            major, minor = library.nvmlDeviceGetCudaComputeCapability(handle)
            memory = library.nvmlDeviceGetMemoryInfo(handle)
            uuid = str(library.nvmlDeviceGetUUID(handle))
            name = str(library.nvmlDeviceGetName(handle))
            node = library.nvmlDeviceGetMinorNumber(handle)
        optional = self._optional
        brand = optional(library.nvmlDeviceGetBrand, handle)
        architecture = optional(library.nvmlDeviceGetArchitecture, handle)
        power = optional(library.nvmlDeviceGetPowerManagementLimit, handle)
        ecc = optional(library.nvmlDeviceGetCurrentEccMode, handle)
        persistence = optional(library.nvmlDeviceGetPersistenceMode, handle)
        links, has_switch = self._links(handle)
        return hardware.Gpu(
            uuid=uuid,
            index=index,
            minor=node,
            name=name,
            brand=BRANDS.get(brand or 0, UNKNOWN),
            architecture=ARCHITECTURES.get(architecture or 0, UNKNOWN),
            compute_capability=(major, minor),
            memory_bytes=int(memory.total),
            pci_bus_id=f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0",
            pci_vendor_id=pci.pciDeviceId & 0xFFFF,
            pci_device_id=pci.pciDeviceId >> 16,
            power_limit_watts=None if power is None else power // 1000,
            slowdown_celsius=self._threshold(handle, "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN"),
            shutdown_celsius=self._threshold(handle, "NVML_TEMPERATURE_THRESHOLD_SHUTDOWN"),
            has_ecc=None if ecc is None else bool(ecc),
            is_persistent=None if persistence is None else bool(persistence),
            nvlinks=links,
            has_nvswitch=has_switch,
            fabric=self._fabric(handle),
            can_partition=optional(library.nvmlDeviceGetMigMode, handle) is not None,
        )

    def _threshold(self, handle: Any, name: str) -> int | None:
        which = getattr(self.library, name)
        threshold = self._optional(self.library.nvmlDeviceGetTemperatureThreshold, handle, which)
        return None if threshold is None else int(threshold)

    def _links(self, handle: Any) -> tuple[int, bool]:
        """Return the number of active NVLinks, and whether they lead to a switch."""
        library, active, has_switch = self.library, 0, False
        for link in range(library.NVML_NVLINK_MAX_LINKS):
            if not self._optional(library.nvmlDeviceGetNvLinkState, handle, link):
                continue
            active += 1
            remote = self._optional(library.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
            has_switch |= remote == library.NVML_NVLINK_DEVICE_TYPE_SWITCH
        return active, has_switch

    def _fabric(self, handle: Any) -> hardware.Fabric | None:
        library = self.library
        info = library.c_nvmlGpuFabricInfoV_t()
        result = self._optional(library.nvmlDeviceGetGpuFabricInfoV, handle, ctypes.byref(info))
        if result is None or info.state != library.NVML_GPU_FABRIC_STATE_COMPLETED:
            return None
        digits = bytes(info.clusterUuid).hex()
        if not digits.strip("0"):
            return None
        parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        return hardware.Fabric("-".join(parts), int(info.cliqueId))

    def profiles(self, gpu: str) -> Sequence[hardware.MigProfile]:
        handle = self._handle(gpu)
        profiles = (self._profile(handle, info) for info in self._profile_infos(gpu).values())
        return [profile for profile in profiles if profile.placements]

    def _profile(self, handle: Any, info: Any) -> hardware.MigProfile:
        size = round(info.memorySizeMB / 1024)
        given = getattr(info, "name", "")
        name = (given.decode() if isinstance(given, bytes) else given).removeprefix("MIG ")
        return hardware.MigProfile(
            id=info.id,
            name=name or f"{info.sliceCount}g.{size}gb",
            compute_slices=info.sliceCount,
            memory_mebibytes=int(info.memorySizeMB),
            multiprocessors=info.multiprocessorCount,
            copy_engines=info.copyEngineCount,
            decoders=info.decoderCount,
            encoders=info.encoderCount,
            jpeg_engines=info.jpegCount,
            ofa_engines=info.ofaCount,
            placements=self._placements(handle, info.id),
        )

    def _profile_infos(self, gpu: str) -> dict[int, Any]:
        """Return NVML's profiles by their ids. Cached: reading them is slow, and they do not
        change."""
        if not self._known_profiles.get(gpu):
            handle = self._handle(gpu)
            numbers = range(self.library.NVML_GPU_INSTANCE_PROFILE_COUNT)
            infos = (self._profile_info(handle, number) for number in numbers)
            self._known_profiles[gpu] = {info.id: info for info in infos if info is not None}
        return self._known_profiles[gpu]

    def _profile_info(self, handle: Any, number: int) -> Any:
        """Return a profile by its number, in the newer version with a name where NVML has it."""
        read = self.library.nvmlDeviceGetGpuInstanceProfileInfo
        return self._newest(read, handle, number)

    def _placements(self, handle: Any, profile: int) -> tuple[hardware.Placement, ...]:
        library = self.library
        room = (library.c_nvmlGpuInstancePlacement_t * MAX_PLACEMENTS)()
        count = ctypes.c_uint(MAX_PLACEMENTS)
        result = self._optional(
            library.nvmlDeviceGetGpuInstancePossiblePlacements,
            handle,
            profile,
            room,
            ctypes.byref(count),
        )
        if result is None:
            return ()
        return tuple(
            sorted(
                hardware.Placement(placement.start, placement.size)
                for placement in room[: count.value]
            )
        )

    def is_partitioned(self, gpu: str) -> bool:
        with self._translated(f"read the MIG mode of {gpu}"):
            current, _ = self.library.nvmlDeviceGetMigMode(self._handle(gpu))
        return bool(current)

    def set_partitioned(self, gpu: str, enabled: bool) -> None:
        library, doing = self.library, f"turn MIG mode of {gpu} {'on' if enabled else 'off'}"
        with self._translated(doing):
            activation = library.nvmlDeviceSetMigMode(self._handle(gpu), int(enabled))
        if activation == library.NVML_SUCCESS and self.is_partitioned(gpu) == enabled:
            return
        with contextlib.suppress(hardware.HardwareError), self._translated(f"take back to {doing}"):
            library.nvmlDeviceSetMigMode(self._handle(gpu), int(not enabled))
        if activation == library.NVML_SUCCESS:
            raise hardware.ResetRequired(f"cannot {doing}: the GPU must be reset for it")
        raise self._error(doing, library.NVMLError(activation))

    def instances(self, gpu: str) -> Sequence[hardware.Instance]:
        if not self.is_partitioned(gpu):
            return []
        instances = (
            hardware.Instance(
                info.id,
                info.profileId,
                hardware.Placement(info.placement.start, info.placement.size),
            )
            for info in self._instance_infos(gpu)
        )
        return sorted(instances, key=lambda instance: instance.placement)

    def _instance_infos(self, gpu: str) -> Iterator[Any]:
        library, handle = self.library, self._handle(gpu)
        for profile in self._profile_infos(gpu).values():
            room = (library.c_nvmlGpuInstance_t * profile.instanceCount)()
            count = ctypes.c_uint(0)
            with self._translated("list GPU instances"):
                library.nvmlDeviceGetGpuInstances(handle, profile.id, room, ctypes.byref(count))
                for instance in room[: count.value]:
                    yield library.nvmlGpuInstanceGetInfo(instance)

    def compute_instances(self, gpu: str, instance: int) -> Sequence[hardware.ComputeInstance]:
        instances = self._compute_instances(self._handle(gpu))
        return [compute for parent, compute in instances if parent == instance]

    def _compute_instances(self, handle: Any) -> Iterator[tuple[int, hardware.ComputeInstance]]:
        """Yield every compute instance of a GPU, with the id of its GPU instance."""
        library = self.library
        with self._translated("count MIG devices"):
            count = library.nvmlDeviceGetMaxMigDeviceCount(handle)
        for index in range(count):
            mig = self._optional(library.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
            if mig is None:
                continue
            with self._translated("read a MIG device"):
                parent = library.nvmlDeviceGetGpuInstanceId(mig)
                number = library.nvmlDeviceGetComputeInstanceId(mig)
                uuid = str(library.nvmlDeviceGetUUID(mig))
                slices = library.nvmlDeviceGetAttributes_v2(mig).computeInstanceSliceCount
            yield parent, hardware.ComputeInstance(number, uuid, slices)

    def create_instance(self, gpu: str, profile: int, placement: hardware.Placement) -> int:
        library = self.library
        place = library.c_nvmlGpuInstancePlacement_t(placement.start, placement.size)
        with self._translated(f"create a GPU instance on {gpu}"):
            instance = library.nvmlDeviceCreateGpuInstanceWithPlacement(
                self._handle(gpu), profile, ctypes.byref(place)
            )
            return int(library.nvmlGpuInstanceGetInfo(instance).id)

    def create_compute(self, gpu: str, instance: int) -> hardware.ComputeInstance:
        library, handle = self.library, self._handle(gpu)
        with self._translated(f"create a compute instance on {gpu}"):
            parent = library.nvmlDeviceGetGpuInstanceById(handle, instance)
            compute = library.nvmlGpuInstanceCreateComputeInstance(
                parent, self._whole_profile(gpu, parent).id
            )
            number = int(library.nvmlComputeInstanceGetInfo(compute).id)
        for owner, compute in self._compute_instances(handle):
            if (owner, compute.id) == (instance, number):
                return compute
        raise hardware.HardwareError(f"the new compute instance {number} of {gpu} is not listed")

    def _whole_profile(self, gpu: str, parent: Any) -> Any:
        """Return the profile of a compute instance that takes its whole GPU instance."""
        number = self.library.nvmlGpuInstanceGetInfo(parent).profileId
        slices = self._profile_infos(gpu)[number].sliceCount
        usual = self._compute_profile(parent, COMPUTE_PROFILES.get(slices, 0))
        if usual is not None and usual.sliceCount == slices:
            return usual
        return max(self._compute_profiles(parent), key=lambda profile: profile.multiprocessorCount)

    def _compute_profiles(self, parent: Any) -> list[Any]:
        """Return the profiles of compute instances. Raises GpuUnsupported where there are none."""
        numbers = range(self.library.NVML_COMPUTE_INSTANCE_PROFILE_COUNT)
        infos = (self._compute_profile(parent, number) for number in numbers)
        supported = [info for info in infos if info is not None]
        if not supported:
            raise hardware.GpuUnsupported("the GPU instance has no profile for compute instances")
        return supported

    def _compute_profile(self, parent: Any, number: int) -> Any:
        read = self.library.nvmlGpuInstanceGetComputeInstanceProfileInfo
        shared = self.library.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
        return self._newest(read, parent, number, shared)

    def destroy_instance(self, gpu: str, instance: int) -> None:
        library = self.library
        with self._translated(f"destroy GPU instance {instance} of {gpu}"):
            parent = library.nvmlDeviceGetGpuInstanceById(self._handle(gpu), instance)
            self._destroy_compute(parent, self._whole_profile(gpu, parent))
            try:
                library.nvmlGpuInstanceDestroy(parent)
            except library.NVMLError_InUse:
                # Somebody may have cut it further.
                for profile in self._compute_profiles(parent):
                    self._destroy_compute(parent, profile)
                library.nvmlGpuInstanceDestroy(parent)

    def _destroy_compute(self, parent: Any, profile: Any) -> None:
        library = self.library
        room = (library.c_nvmlComputeInstance_t * profile.instanceCount)()
        count = ctypes.c_uint(0)
        library.nvmlGpuInstanceGetComputeInstances(parent, profile.id, room, ctypes.byref(count))
        for instance in room[: count.value]:
            library.nvmlComputeInstanceDestroy(instance)

    def processes(self, gpu: str) -> Sequence[int]:
        handle, library = self._handle(gpu), self.library
        pids: set[int] = set()
        for read in (
            library.nvmlDeviceGetComputeRunningProcesses,
            library.nvmlDeviceGetGraphicsRunningProcesses,
        ):
            pids |= {process.pid for process in self._optional(read, handle) or ()}
        return sorted(pids)

    def is_exclusive(self, gpu: str) -> bool:
        with self._translated(f"read the compute mode of {gpu}"):
            mode = self.library.nvmlDeviceGetComputeMode(self._handle(gpu))
        return bool(mode == self.library.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)

    def set_exclusive(self, gpu: str, enabled: bool) -> None:
        library = self.library
        default, exclusive = (
            library.NVML_COMPUTEMODE_DEFAULT,
            library.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS,
        )
        with self._translated(f"set the compute mode of {gpu}"):
            library.nvmlDeviceSetComputeMode(self._handle(gpu), exclusive if enabled else default)

    def condition(self, gpu: str) -> hardware.GpuCondition:
        library, handle = self.library, self._handle(gpu)
        remapped = self._optional(library.nvmlDeviceGetRemappedRows, handle)
        _, _, pending, failed = remapped or (0, 0, 0, 0)
        errors = self._optional(
            library.nvmlDeviceGetTotalEccErrors,
            handle,
            library.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            library.NVML_VOLATILE_ECC,
        )
        return hardware.GpuCondition(int(errors or 0), bool(pending), bool(failed))

    def next_fault(self, timeout_seconds: float) -> hardware.GpuFault | None:
        library = self.library
        try:
            event = library.nvmlEventSetWait_v2(self._event_set(), int(timeout_seconds * 1000))
        except library.NVMLError_Timeout:
            return None
        except library.NVMLError as error:
            raise self._error("wait for events", error) from error
        gpu = self._optional(library.nvmlDeviceGetUUID, event.device)
        if event.eventType != library.nvmlEventTypeXidCriticalError:
            return None
        instance = None if event.gpuInstanceId == _WHOLE_GPU else int(event.gpuInstanceId)
        return hardware.GpuFault(str(gpu or ""), int(event.eventData), instance)

    def _event_set(self) -> Any:
        """Return the set of events of every GPU, registered on first use."""
        library = self.library
        with self._events_lock:
            if self._events is None:
                with self._translated("create an event set"):
                    self._events = library.nvmlEventSetCreate()
                    for index in range(library.nvmlDeviceGetCount()):
                        self._register(index)
            return self._events

    def _register(self, index: int) -> None:
        library = self.library
        handle = self._optional(library.nvmlDeviceGetHandleByIndex, index)
        supported = self._optional(library.nvmlDeviceGetSupportedEventTypes, handle)
        if handle is not None and supported:
            events = library.nvmlEventTypeXidCriticalError & supported
            self._optional(library.nvmlDeviceRegisterEvents, handle, events, self._events)

    def _handle(self, gpu: str) -> Any:
        """Return the handle of a GPU. Not cached: switching MIG mode invalidates handles."""
        with self._translated(f"find {gpu}"):
            return self.library.nvmlDeviceGetHandleByUUID(gpu)

    def _optional(self, read: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Return an optional value, or None where the GPU does not report it. Raises Lost."""
        library = self.library
        try:
            return read(*given, **named)
        except library.NVMLError_GpuIsLost as error:
            raise hardware.Lost("the GPU has fallen off the bus") from error
        except library.NVMLError:
            return None

    def _newest(self, read: Callable[..., Any], *given: Any) -> Any:
        """Return an optional value in the newer version where NVML has it."""
        return self._optional(read, *given, version=2) or self._optional(read, *given, version=1)

    @contextlib.contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except self.library.NVMLError as error:
            raise self._error(doing, error) from error

    def _error(self, doing: str, error: Any) -> hardware.HardwareError:
        library = self.library
        kinds = {
            library.NVML_ERROR_NOT_SUPPORTED: hardware.GpuUnsupported,
            library.NVML_ERROR_IN_USE: hardware.InUse,
            library.NVML_ERROR_RESET_REQUIRED: hardware.ResetRequired,
            library.NVML_ERROR_GPU_IS_LOST: hardware.Lost,
        }
        return kinds.get(error.value, hardware.HardwareError)(f"cannot {doing}: {error}")
