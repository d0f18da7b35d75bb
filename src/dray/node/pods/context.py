"""What the pods of a node share: where they are, who runs them, and who is told about them."""

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


@dataclass(frozen=True)
class NodeContext:
    client: Client
    node: str
    address: str
    folder: Path
    cdi_directories: tuple[Path, ...]
    drivers: Drivers
    preparation: Preparation
    recorder: Recorder
    health_of: Callable[[DriverDevice], HealthStatus]
    now: Callable[[], datetime.datetime]
    runtime: Runtime
    starter: Starter
    allows_host: bool = False

    def pod_folder(self, uid: str) -> Path:
        return self.folder / uid
