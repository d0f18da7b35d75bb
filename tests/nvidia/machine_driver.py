"""The NVIDIA driver on a fake machine."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dray.driverkit.cdi import DeviceNode, Edits, Mount
from dray.driverkit.driver import Allocated, Prepared
from dray.drivers.nvidia.driver import NvidiaDriver, Options
from dray.drivers.nvidia.host import Host
from tests.nvidia.fake import FakeHardware


class FakeMachineDriver(NvidiaDriver):
    """Shows containers the files of the fake machine at the paths of a real one."""

    def __init__(self, hardware: FakeHardware, folder: Path, options: Options) -> None:
        super().__init__(hardware, folder, options, host=Host(hardware.root))
        self._root = hardware.root

    async def prepare(self, allocated: Allocated) -> Prepared:
        made = await super().prepare(allocated)
        replace = msgspec.structs.replace
        nodes = [DeviceNode(node.path, self._on(node.path)) for node in made.edits.device_nodes]
        mounts = [
            Mount(self._on(mount.host_path), mount.container_path) for mount in made.edits.mounts
        ]
        edits: Edits = replace(made.edits, device_nodes=tuple(nodes), mounts=tuple(mounts))
        return Prepared(edits, made.status, made.attributes)

    def _on(self, path: str) -> str:
        return str(self._root / path.lstrip("/"))
