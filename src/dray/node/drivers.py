"""The drivers that have registered on this node, and the connections to them.

A driver puts a socket into the registry; the agent asks it for its name and what it speaks, tells
it that it is taken on, and forgets it when the socket is gone. Of two with the same name the later
one is called, as in a rolling upgrade; when it goes, the earlier one is called again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio

from dray.protocol import services
from dray.protocol.services import Caller, Service

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.25
REGISTER_SECONDS: Final = 10.0
_SPOKEN = (services.DRA_V1, services.DRA_V1BETA1)
_HEALTH_SPOKEN = (services.HEALTH_V1, services.HEALTH_V1ALPHA1)


class DriverError(Exception):
    """A driver that is missing, silent or refuses; the text says which and what it answered."""


class ClaimReference(NamedTuple):
    namespace: str
    name: str
    uid: str


class Device(NamedTuple):
    """A device as a driver prepared it."""

    driver: str
    requests: tuple[str, ...]
    pool: str
    device: str
    cdi_ids: tuple[str, ...]
    share_id: str | None = None


@dataclass(frozen=True)
class Driver:
    """One registered driver."""

    name: str
    endpoint: str
    service: Service
    health_service: Service | None = None

    async def prepare(self, claim: ClaimReference) -> tuple[Device, ...]:
        answer = await self._call("NodePrepareResources", claim)
        return tuple(_device(self.name, each) for each in answer.devices)

    async def unprepare(self, claim: ClaimReference) -> None:
        await self._call("NodeUnprepareResources", claim)

    async def _call(self, method: str, claim: ClaimReference) -> Any:
        messages = self.service.messages
        asked = messages.Claim(namespace=claim.namespace, name=claim.name, uid=claim.uid)
        request = self.service.methods[method].request(claims=[asked])
        what = f"driver {self.name}: {method} of claim {claim.namespace}/{claim.name}"
        try:
            async with grpc.aio.insecure_channel(services.address(self.endpoint)) as channel:
                response = await Caller(channel, self.service).call(method, request)
        except grpc.aio.AioRpcError as error:
            raise DriverError(f"{what}: {error.code().name}: {error.details()}") from error
        if claim.uid not in response.claims:
            raise DriverError(f"{what}: the claim is missing in the answer")
        answer = response.claims[claim.uid]
        if answer.error:
            raise DriverError(f"{what}: {answer.error}")
        return answer


class Drivers:
    """Watches the registry of a node. Run it until cancelled."""

    def __init__(self, registry: Path) -> None:
        self._registry = registry
        self._by_socket: dict[Path, tuple[int, Driver | None]] = {}
        self.changed = asyncio.Event()
        """Set, and replaced by a new one, whenever a driver comes or goes."""

    def get(self, name: str) -> Driver:
        found = [each for _, each in self._by_socket.values() if each and each.name == name]
        if not found:
            raise DriverError(f"driver {name} is not registered on this node")
        return found[-1]

    def __iter__(self) -> Iterator[Driver]:
        """Each driver once: the one that is called."""
        return iter([self.get(name) for name in self.names])

    @property
    def names(self) -> list[str]:
        return sorted({each.name for _, each in self._by_socket.values() if each})

    async def run(self) -> None:
        self._registry.mkdir(parents=True, exist_ok=True)
        while True:
            await self._look()
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        """A socket that was replaced has another inode and is registered anew."""
        present = dict(_sockets(self._registry))
        for path in self._by_socket.keys() - present.keys():
            self._by_socket.pop(path)
            self._tell()
        for path, inode in present.items():
            if self._by_socket.get(path, (0, None))[0] != inode:
                self._by_socket.pop(path, None)
                driver = await self._register(path)
                if driver is not None:
                    self._by_socket[path] = (inode, driver)
                    self._tell()

    def _tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    async def _register(self, path: Path) -> Driver | None:
        try:
            async with grpc.aio.insecure_channel(services.address(path)) as channel:
                return await _introduce(Caller(channel, services.REGISTRATION))
        except grpc.aio.AioRpcError as error:
            log.warning("driver at %s did not register: %s", path.name, error.details())
            return None


async def _introduce(caller: Caller) -> Driver | None:
    messages = caller.messages
    info = await caller.call("GetInfo", messages.InfoRequest(), REGISTER_SECONDS)
    refusal = _refusal(info.type, info.supported_versions)
    status = messages.RegistrationStatus(plugin_registered=not refusal, error=refusal)
    with contextlib.suppress(grpc.aio.AioRpcError):
        await caller.call("NotifyRegistrationStatus", status, REGISTER_SECONDS)
    if refusal:
        log.warning("driver %s is refused: %s", info.name, refusal)
        return None
    versions = info.supported_versions
    service = next(each for each in _SPOKEN if each.version in versions)
    health = next((each for each in _HEALTH_SPOKEN if each.version in versions), None)
    log.info("driver %s registered with %s", info.name, service.version)
    return Driver(info.name, info.endpoint, service, health)


def _refusal(type_: str, versions: Sequence[str]) -> str:
    if type_ != services.PLUGIN_TYPE:
        return f"plugins of type {type_} are not supported"
    if not any(each.version in versions for each in _SPOKEN):
        return f"none of its versions is supported: {', '.join(versions)}"
    return ""


def _sockets(registry: Path) -> Iterable[tuple[Path, int]]:
    for path in sorted(registry.glob("*.sock")):
        with contextlib.suppress(FileNotFoundError):
            if path.is_socket():
                yield path, path.stat().st_ino


def _device(driver: str, message: Any) -> Device:
    share = getattr(message, "share_id", "") or None
    return Device(
        driver,
        tuple(message.request_names),
        message.pool_name,
        message.device_name,
        tuple(message.cdi_device_ids),
        share,
    )
