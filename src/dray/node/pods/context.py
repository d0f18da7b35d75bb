"""What the pods of a node share: its directories, drivers, runtime and clients."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dray.client.api_client import Client
from dray.client.events import Recorder
from dray.node.containers.container_attempts import Starter
from dray.node.devices.drivers import DriverDevice, Drivers
from dray.node.devices.health import HealthStatus
from dray.node.devices.preparation import Preparation
from dray.node.runtimes.interface import Runtime


@dataclass(frozen=True, kw_only=True)
class RuntimeConfig:
    """The runtime of an agent's containers; agents of one process may share it."""

    runtime: Runtime
    starter: Starter
    allows_host: bool = False
    """Whether pods may mount directories of the host."""


@dataclass(frozen=True, kw_only=True)
class NodeContext:
    """Dependencies of the pod workers of one node."""

    client: Client
    node: str
    address: str
    folder: Path
    """Has one folder for each pod, by uid."""
    cdi_directories: tuple[Path, ...]
    drivers: Drivers
    preparation: Preparation
    recorder: Recorder
    health_of: Callable[[DriverDevice], HealthStatus]
    now: Callable[[], datetime.datetime]
    runtime_config: RuntimeConfig

    @property
    def runtime(self) -> Runtime:
        return self.runtime_config.runtime

    @property
    def starter(self) -> Starter:
        return self.runtime_config.starter

    def pod_folder(self, uid: str) -> Path:
        return self.folder / uid
