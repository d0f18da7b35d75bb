"""A machine of a fleet as a driver on a real node: containers get what the real driver would give.

There is no device behind it. A container gets a small `nvidia-smi` that lists just the devices it
claimed, variables that name them, and, from the kit, the device metadata files.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Final

from dray.api import quantity
from dray.api.slices import CounterSet, Device
from dray.driverkit.cdi import Edits, Mount
from dray.driverkit.driver import Allocated, DeviceHealth, Driver, Health, Released
from dray.driverkit.pools import Pool
from dray.drivers.simulated.fleet import FleetNode

NVIDIA: Final = "gpu.nvidia.com"
TOOL: Final = "nvidia-smi"
TOOL_TARGET: Final = "/opt/bin/nvidia-smi"
GPU_FOLDER: Final = "/run/dray/gpus"


class SimulatedPlugin(Driver):
    """The devices of one driver on one machine; `folder` is for its files."""

    def __init__(self, machine: FleetNode, name: str, folder: Path) -> None:
        super().__init__()
        self.name = name
        self._pool = _pool(machine, name)
        self._folder = folder
        self._broken: dict[str, str] = {}
        self._install_tool()

    def devices(self) -> Iterable[Device]:
        return self._pool.devices

    def shared_counters(self) -> Iterable[CounterSet]:
        return self._pool.shared_counters

    def health(self) -> Iterable[DeviceHealth]:
        return [
            DeviceHealth(device, Health.UNHEALTHY, message)
            for device, message in self._broken.items()
        ]

    def fail(self, device: str, message: str = "simulated fault") -> None:
        self._broken[device] = message
        self.changed()

    def recover(self, device: str) -> None:
        if self._broken.pop(device, None) is not None:
            self.changed()

    def prepare(self, allocated: Allocated) -> Edits:
        kind = str(allocated.attribute("type") or "device").upper().replace("-", "_")
        named = allocated.attribute("uuid") or allocated.name
        env = {f"{kind}_DEVICE_{allocated.name.replace('-', '_').upper()}": named}
        if self.name != NVIDIA:
            return Edits(env=env)
        card = self._card(allocated.claim.metadata.uid, allocated.name)
        card.write_text(_description(allocated), "utf-8")
        mounts = (
            Mount(str(self._folder / TOOL), TOOL_TARGET, ("ro", "bind")),
            Mount(str(card), f"{GPU_FOLDER}/{allocated.name}", ("ro", "bind")),
        )
        return Edits(env={"NVIDIA_VISIBLE_DEVICES": "void", **env}, mounts=mounts)

    def unprepare(self, released: Released) -> None:
        self._card(released.claim_uid, released.name).unlink(missing_ok=True)

    def _card(self, claim_uid: str, device: str) -> Path:
        return self._folder / f"{claim_uid}-{device}.card"

    def _install_tool(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        shipped = resources.files(__package__).joinpath(TOOL)
        with resources.as_file(shipped) as source:
            shutil.copyfile(source, self._folder / TOOL)
        (self._folder / TOOL).chmod(0o755)


def _pool(machine: FleetNode, driver: str) -> Pool:
    for pool in machine.pools():
        if pool.driver == driver:
            return pool
    raise LookupError(f"{machine.name} has no devices of {driver}")


def _description(allocated: Allocated) -> str:
    """One line for each thing that `nvidia-smi` may be asked."""
    names = ("uuid", "parentUUID", "productName", "profile", "driverVersion")
    lines = {name: allocated.attribute(name) for name in (*names, "cudaComputeCapability")}
    memory = allocated.device.capacity.get("memory")
    if memory is not None:
        lines["memoryMiB"] = quantity.parse(memory.value).value() // 2**20
    return "".join(f"{name} {value}\n" for name, value in lines.items() if value is not None)
