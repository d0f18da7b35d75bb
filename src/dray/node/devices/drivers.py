"""The drivers that have registered on this node, and the connections to them.

A driver puts a socket into the registry. The agent reads its name and versions from it, confirms
the registration, and drops the driver when the socket is gone. Of two with the same name the later
one is called, as in a rolling upgrade; when it goes, the earlier one is called again. A connection
to each is kept open: a driver that ended without removing its socket is not usable.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio

from dray.api.ids import DeviceId
from dray.protocol import services
from dray.protocol.services import Caller, Service

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.1
RETRY_ROUNDS: Final = 10
"""The number of polls without a change before unresponsive sockets are tried again."""
REGISTER_SECONDS: Final = 10.0
_SPOKEN = (services.DRA_V1, services.DRA_V1BETA1)
_HEALTH_SPOKEN = (services.HEALTH_V1, services.HEALTH_V1ALPHA1)


class DriverError(Exception):
    """A driver that is missing, unresponsive or returns an error; the message has its name."""


class ClaimReference(NamedTuple):
    namespace: str
    name: str
    uid: str


class DriverDevice(NamedTuple):
    """A device as a driver prepared it."""

    driver: str
    requests: tuple[str, ...]
    pool: str
    device: str
    cdi_ids: tuple[str, ...]
    share_id: str | None = None

    @property
    def device_id(self) -> DeviceId:
        return DeviceId(self.driver, self.pool, self.device)

    def is_for(self, request: str) -> bool:
        """Whether the device was prepared for a request; an empty one stands for all."""
        return not request or not self.requests or request in self.requests


@dataclass(frozen=True)
class DriverConnection:
    """One registered driver."""

    name: str
    endpoint: str
    service: Service
    health_service: Service | None = None

    async def prepare(self, claim: ClaimReference) -> tuple[DriverDevice, ...]:
        response = await self._call("NodePrepareResources", claim)
        return tuple(_device(self.name, device) for device in response.devices)

    async def unprepare(self, claim: ClaimReference) -> None:
        await self._call("NodeUnprepareResources", claim)

    async def follow(self, tell: Callable[[bool], None]) -> None:
        """Keep the connection open, and tell whether it is, at every change; until cancelled."""
        while True:
            state = self._channel.get_state(try_to_connect=True)
            tell(state is grpc.ChannelConnectivity.READY)
            await self._channel.wait_for_state_change(state)

    async def close(self) -> None:
        if "_channel" in self.__dict__:
            await self._channel.close()

    @functools.cached_property
    def _channel(self) -> grpc.aio.Channel:
        """Shared by all calls: to open a channel takes longer than most calls."""
        return grpc.aio.insecure_channel(services.address(self.endpoint))

    async def _call(self, method: str, claim: ClaimReference) -> Any:
        messages = self.service.messages
        claim_message = messages.Claim(namespace=claim.namespace, name=claim.name, uid=claim.uid)
        request = self.service.methods[method].request(claims=[claim_message])
        what = f"driver {self.name}: {method} of claim {claim.namespace}/{claim.name}"
        try:
            response = await Caller(self._channel, self.service).call(method, request)
        except grpc.aio.AioRpcError as error:
            raise DriverError(f"{what}: {error.code().name}: {error.details()}") from error
        except (grpc.aio.UsageError, asyncio.CancelledError) as error:
            if _is_cancelled():
                raise
            raise DriverError(f"{what}: the driver went away meanwhile") from error
        if claim.uid not in response.claims:
            raise DriverError(f"{what}: the claim is missing in the answer")
        claim_response = response.claims[claim.uid]
        if claim_response.error:
            raise DriverError(f"{what}: {claim_response.error}")
        return claim_response


def _is_cancelled() -> bool:
    """Whether this task was cancelled, and not only a call whose channel was closed."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Drivers:
    """Watches the registry of a node. Run it until cancelled."""

    def __init__(self, registry: Path) -> None:
        self._registry = registry
        self._by_socket: dict[Path, _Registered] = {}
        self._connected: set[Path] = set()
        self._declined: dict[Path, _Socket] = {}
        self._silent: dict[Path, _Socket] = {}
        self._seen_at = 0
        self.changed = asyncio.Event()
        """Set, and replaced by a new one, whenever a driver comes, goes, or loses or regains its
        connection."""

    def find(self, name: str) -> DriverConnection | None:
        candidates = [
            entry.driver for entry in self._by_socket.values() if entry.driver.name == name
        ]
        return candidates[-1] if candidates else None

    def __iter__(self) -> Iterator[DriverConnection]:
        """Return the drivers that are called, one per name."""
        return iter([driver for name in self.names if (driver := self.find(name)) is not None])

    @property
    def names(self) -> list[str]:
        return sorted({entry.driver.name for entry in self._by_socket.values()})

    @property
    def usable_names(self) -> set[str]:
        """The drivers that can be called now: at least one connection of each is open."""
        return {
            entry.driver.name for path, entry in self._by_socket.items() if path in self._connected
        }

    async def run(self) -> None:
        self._registry.mkdir(parents=True, exist_ok=True)
        rounds = 0
        try:
            while True:
                if self._has_news() or rounds % RETRY_ROUNDS == 0:
                    await self._look()
                rounds += 1
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            for path in list(self._by_socket):
                await self._drop(path)

    def _has_news(self) -> bool:
        before, self._seen_at = self._seen_at, self._registry.stat().st_mtime_ns
        return before != self._seen_at

    async def _look(self) -> None:
        """Drop drivers whose socket is gone or was replaced, and register new ones."""
        present = dict(_sockets(self._registry))
        for path, entry in list(self._by_socket.items()):
            if present.get(path) != entry.socket:
                await self._drop(path)
                self._tell()
        async with asyncio.TaskGroup() as group:
            for path, socket in present.items():
                if path not in self._by_socket and self._declined.get(path) != socket:
                    group.create_task(self._register(path, socket))

    async def _drop(self, path: Path) -> None:
        entry = self._by_socket.pop(path)
        self._connected.discard(path)
        entry.following.cancel()
        await asyncio.wait({entry.following})
        await entry.driver.close()

    def _connection_changed(self, path: Path, is_open: bool) -> None:
        if is_open != (path in self._connected):
            (self._connected.add if is_open else self._connected.discard)(path)
            self._tell()

    def _tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    async def _register(self, path: Path, socket: _Socket) -> None:
        if socket.is_foreign:
            # Whatever a driver answers is mounted with the rights of the agent.
            log.warning(
                "%s belongs to user %d and is not used: run the driver as root or as the user of "
                "the node agent, and let nobody else write to the directory",
                path,
                socket.owner,
            )
            self._declined[path] = socket
            return
        try:
            async with grpc.aio.insecure_channel(services.address(path)) as channel:
                driver = await _introduce(Caller(channel, services.REGISTRATION))
        except grpc.aio.AioRpcError as error:
            if self._silent.get(path) != socket:
                log.warning("driver at %s did not register: %s", path.name, error.details())
            self._silent[path] = socket
            return
        if driver is None:
            self._declined[path] = socket
            return
        told = functools.partial(self._connection_changed, path)
        following = asyncio.create_task(driver.follow(told), name=f"driver-{driver.name}")
        self._by_socket[path] = _Registered(socket, driver, following)
        self._tell()


class _Socket(NamedTuple):
    """Identifies a socket; the inode alone would not, because it is soon reused."""

    inode: int
    made_at: int
    owner: int

    @property
    def is_foreign(self) -> bool:
        """Whether it was made by a user whom the agent has no reason to trust."""
        return self.owner not in (0, os.geteuid())


class _Registered(NamedTuple):
    socket: _Socket
    driver: DriverConnection
    following: asyncio.Task[None]
    """Keeps its connection open."""


async def _introduce(caller: Caller) -> DriverConnection | None:
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
    service = next(service for service in _SPOKEN if service.version in versions)
    health = next((service for service in _HEALTH_SPOKEN if service.version in versions), None)
    log.debug("driver %s uses %s", info.name, service.version)
    return DriverConnection(info.name, info.endpoint, service, health)


def _refusal(type_: str, versions: Sequence[str]) -> str:
    if type_ != services.PLUGIN_TYPE:
        return f"plugins of type {type_} are not supported"
    if not any(service.version in versions for service in _SPOKEN):
        return f"none of its versions is supported: {', '.join(versions)}"
    return ""


def _sockets(registry: Path) -> Iterable[tuple[Path, _Socket]]:
    for path in sorted(registry.glob("*.sock")):
        with contextlib.suppress(FileNotFoundError):
            if path.is_socket():
                status = path.stat()
                yield path, _Socket(status.st_ino, status.st_mtime_ns, status.st_uid)


def _device(driver: str, message: Any) -> DriverDevice:
    requests, cdi_ids = tuple(message.request_names), tuple(message.cdi_device_ids)
    share = getattr(message, "share_id", "") or None
    return DriverDevice(driver, requests, message.pool_name, message.device_name, cdi_ids, share)
