"""The health of this node's devices, as drivers report it, for the status of pods.

As pkg/kubelet/cm/dra, healthinfo and UpdateAllocatedResourcesStatus: a device without a recent
report is Unknown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio

from dray.api.ids import DeviceId
from dray.api.types.containers import Container
from dray.node.devices.drivers import DriverConnection, DriverDevice, Drivers
from dray.node.devices.preparation import ClaimsOfPod
from dray.protocol import services
from dray.protocol.services import Caller

log = logging.getLogger(__name__)

SILENCE_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 1.0
MAX_MESSAGE_CHARACTERS: Final = 1024
_WORDS: Final = {0: "Unknown", 1: "Healthy", 2: "Unhealthy"}


class HealthStatus(NamedTuple):
    word: str = "Unknown"
    message: str = ""


UNKNOWN: Final = HealthStatus()


class DeviceHealthMonitor:
    """Watches every driver that reports health; calls `changed` when a device's health changes."""

    def __init__(self, drivers: Drivers, changed: Callable[[], None]) -> None:
        self._drivers = drivers
        self._changed = changed
        self._statuses: dict[DeviceId, HealthStatus] = {}

    def of(self, device: DriverDevice) -> HealthStatus:
        return self._statuses.get(device.device_id, UNKNOWN)

    async def run(self) -> None:
        """Watch every driver; start again when a driver comes or goes."""
        while True:
            changed = self._drivers.changed
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._follow(driver)) for driver in self._drivers]
                await changed.wait()
                for task in tasks:
                    task.cancel()

    async def _follow(self, driver: DriverConnection) -> None:
        if driver.health_service is None:
            return
        while True:
            try:
                async with grpc.aio.insecure_channel(services.address(driver.endpoint)) as channel:
                    await self._listen(driver.name, Caller(channel, driver.health_service))
            except grpc.aio.AioRpcError as error:
                log.debug("health of %s: %s", driver.name, error.details())
            except TimeoutError:
                log.debug("driver %s does not report health", driver.name)
            self._forget(driver.name)
            await asyncio.sleep(RETRY_SECONDS)

    async def _listen(self, driver: str, caller: Caller) -> None:
        request = caller.messages.NodeWatchResourcesRequest()
        stream = caller.stream("NodeWatchResources", request)
        while True:
            async with asyncio.timeout(SILENCE_SECONDS):
                response = await stream.read()
            if response is grpc.aio.EOF:
                return
            self._learn(dict(_health(driver, message) for message in response.devices))

    def _learn(self, statuses: dict[DeviceId, HealthStatus]) -> None:
        news = {
            device for device, health in statuses.items() if self._statuses.get(device) != health
        }
        self._statuses.update(statuses)
        if news:
            self._changed()

    def _forget(self, driver: str) -> None:
        gone = [device for device in self._statuses if device.driver == driver]
        for device in gone:
            del self._statuses[device]
        if gone:
            self._changed()


def resource_statuses(
    container: Container, claims: ClaimsOfPod, health_of: Callable[[DriverDevice], HealthStatus]
) -> list[dict[str, Any]]:
    """Return `allocatedResourcesStatus` of a container: an entry per claim or request it names."""
    statuses = []
    for used in container.resources.claims:
        if used.name not in claims:
            continue
        entries = {
            _resource_id(device): _entry(device, health_of(device))
            for device in claims[used.name].devices
            if device.is_for(used.request)
        }
        if entries:
            suffix = f"/{used.request}" if used.request else ""
            name = f"claim:{used.name}{suffix}"
            statuses.append({"name": name, "resources": list(entries.values())})
    return statuses


def _entry(device: DriverDevice, health: HealthStatus) -> dict[str, str]:
    entry = {"resourceID": _resource_id(device), "health": health.word}
    if health.message:
        entry["message"] = health.message
    return entry


def _resource_id(device: DriverDevice) -> str:
    """Return the first CDI id of a device, or its full name without one."""
    if device.cdi_ids:
        return device.cdi_ids[0]
    return f"{device.driver}/{device.pool}/{device.device}"


def _health(driver: str, message: Any) -> tuple[DeviceId, HealthStatus]:
    device = DeviceId(driver, message.device.pool_name, message.device.device_name)
    text = message.message
    if len(text) > MAX_MESSAGE_CHARACTERS:
        text = text[: MAX_MESSAGE_CHARACTERS - 3] + "..."
    return device, HealthStatus(_WORDS.get(message.health, "Unknown"), text)
