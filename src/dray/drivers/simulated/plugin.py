"""The driver of a simulated node with real containers, which get what a real driver would give.

No device is behind it. A container gets a small `nvidia-smi` that lists just the devices it
claimed, variables that name them, and, from the kit, the device metadata files. Annotations of the
Node break devices, slow the driver down or let it crash; see `faults`.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from dray.api.formats import quantity
from dray.api.types.dra import CounterSet, Device
from dray.api.types.meta import ObjectMeta
from dray.api.well_known import NO_EXECUTE
from dray.driverkit.cdi import Edits, Mount
from dray.driverkit.driver import Allocated, DeviceHealth, Driver, Health, Released
from dray.driverkit.pool_layout import PublishedPool
from dray.drivers.simulated import faults
from dray.drivers.simulated.fleet import FleetNode

NVIDIA: Final = "gpu.nvidia.com"
TOOL: Final = "nvidia-smi"
TOOL_TARGET: Final = "/opt/bin/nvidia-smi"
GPU_FOLDER: Final = "/run/dray/gpus"
TOLD: Final = (
    "uuid", "parentUUID", "productName", "profile", "driverVersion", "cudaComputeCapability",
    "powerLimitWatts",
)  # fmt: skip
FAULT: Final = "simulated fault"
NO_FAULTS: Final = faults.read({})


class SimulatedCrash(Exception):
    """The driver crashes because an annotation of its Node requests it."""


class SimulatedPlugin(Driver):
    """The devices of one driver that a node has or can reach; `folder` is for its files."""

    def __init__(self, machine: FleetNode, name: str, folder: Path) -> None:
        super().__init__()
        self.name = name
        own = (pool for pool in machine.pools() if pool.driver == name)
        self._pool = next(own, PublishedPool(name, machine.name, ()))
        self._elsewhere = {
            pool.name: pool.devices for pool in machine.reachable_pools() if pool.driver == name
        }
        self._folder = folder
        self._broken: dict[str, DeviceHealth] = {}
        self._faults = NO_FAULTS
        self._install_tool()

    def devices(self) -> Iterable[Device]:
        return self._pool.devices

    def devices_elsewhere(self) -> Mapping[str, Iterable[Device]]:
        return self._elsewhere

    def shared_counters(self) -> Iterable[CounterSet]:
        return self._pool.shared_counters

    def health(self) -> Iterable[DeviceHealth]:
        return list({**self._annotated(), **self._broken}.values())

    def fail(self, device: str, message: str = FAULT, effect: str = NO_EXECUTE) -> None:
        self._broken[device] = DeviceHealth(device, Health.UNHEALTHY, message, effect)
        self.changed()

    def recover(self, device: str) -> None:
        if self._broken.pop(device, None) is not None:
            self.changed()

    def node_changed(self, node: ObjectMeta) -> None:
        self._faults = faults.read(node.annotations)

    def _annotated(self) -> dict[str, DeviceHealth]:
        names = {device.name for device in self._pool.devices}
        return {
            device: DeviceHealth(device, Health.UNHEALTHY, FAULT, effect)
            for device, effect in self._faults.failed.items()
            if device in names
        }

    async def prepare(self, allocated: Allocated) -> Edits:
        await asyncio.sleep(self._faults.prepare_seconds)
        edits = self._edits(allocated)
        if self._faults.crashes:
            self.abort(SimulatedCrash(f"{self.name} crashes while it prepares {allocated.name}"))
            await asyncio.Event().wait()
        return edits

    def _edits(self, allocated: Allocated) -> Edits:
        kind = str(allocated.attribute("type") or "device").upper().replace("-", "_")
        named = allocated.attribute("uuid") or allocated.name
        label = self._label(allocated.result.pool, allocated.name)
        env = {f"{kind}_DEVICE_{label.replace('-', '_').replace('.', '_').upper()}": named}
        if self.name != NVIDIA:
            return Edits(env=env)
        card = self._card(allocated.claim.metadata.uid, label)
        card.write_text(_description(allocated), "utf-8")
        mounts = (
            Mount(str(self._folder / TOOL), TOOL_TARGET, ("ro", "bind")),
            Mount(str(card), f"{GPU_FOLDER}/{label}", ("ro", "bind")),
        )
        return Edits(env={"NVIDIA_VISIBLE_DEVICES": "void", **env}, mounts=mounts)

    def unprepare(self, released: Released) -> None:
        label = self._label(released.pool, released.name)
        self._card(released.claim_uid, label).unlink(missing_ok=True)

    def _label(self, pool: str, device: str) -> str:
        """Return the name of a device's file, with its pool where names are not unique."""
        return f"{pool.replace('/', '-')}-{device}" if pool in self._elsewhere else device

    def _card(self, claim_uid: str, label: str) -> Path:
        return self._folder / f"{claim_uid}-{label}.card"

    def _install_tool(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        shipped = resources.files(__package__).joinpath(TOOL)
        with resources.as_file(shipped) as source:
            shutil.copyfile(source, self._folder / TOOL)
        (self._folder / TOOL).chmod(0o755)


def _description(allocated: Allocated) -> str:
    """Return the file of a device: one line for each query of `nvidia-smi`."""
    lines = {name: allocated.attribute(name) for name in TOLD}
    lines["pciBusID"] = allocated.attribute("resource.kubernetes.io/pciBusID")
    memory = allocated.device.capacity.get("memory")
    if memory is not None:
        lines["memoryMiB"] = quantity.parse(memory.value).value() // 2**20
    return "".join(f"{name} {value}\n" for name, value in lines.items() if value is not None)
