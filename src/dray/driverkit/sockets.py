"""The two sockets of a driver: where they are, and gRPC servers that stay on them.

A kubelet that restarts may empty its registry, and a former process of the driver may remove the
sockets of its successor when it ends late. A server whose socket is gone creates it again.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import hashlib
import logging
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc.aio

from dray.protocol import services

log = logging.getLogger(__name__)

PATH_MAX: Final = 107
LOOK_SECONDS: Final = 0.5
STOP_SECONDS: Final = 2.0


@dataclass(frozen=True)
class Sockets:
    """`instance` tells two processes of one driver apart while one replaces the other."""

    registration: Path
    plugin: Path

    @classmethod
    def of(cls, driver: str, registry: Path, plugins: Path, instance: str = "") -> Sockets:
        suffix = f"-{instance}" if instance else ""
        plugin = plugins / driver / f"dra{suffix}.sock"
        if len(str(plugin)) > PATH_MAX:
            plugin = plugin.with_name(f"dra-{_digest(instance, 6)}.sock")
        return cls(_registration(driver, registry, instance), plugin)

    def has_successor(self) -> bool:
        """Whether a younger process of the same driver serves beside this one."""
        try:
            born = self.plugin.stat().st_mtime_ns
        except FileNotFoundError:
            return False
        siblings = (path for path in self.plugin.parent.glob("dra*.sock") if path != self.plugin)
        return any(_is_younger(sibling, born) and _is_served(sibling) for sibling in siblings)


def _registration(driver: str, registry: Path, instance: str) -> Path:
    """Return the first short enough name, as kubeletplugin's RollingUpdateRegistrarSocketFile."""
    if not instance:
        return registry / f"{driver}-reg.sock"
    names = (
        f"{driver}-{instance}-reg.sock",
        f"{driver}-{_digest(instance, 8)}-reg.sock",
        f"dra-{_digest(chr(0).join((driver, instance)), 16)}-reg.sock",
    )
    paths = [registry / name for name in names]
    return next((path for path in paths if len(str(path)) <= PATH_MAX), paths[-1])


def _is_younger(path: Path, than: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_mtime_ns > than
    return False


def _is_served(path: Path) -> bool:
    """Whether a process serves on the socket; a killed one leaves the file behind."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.setblocking(False)
        return asking.connect_ex(str(path)) in (0, errno.EAGAIN)


def _digest(text: str, size: int) -> str:
    digest = hashlib.sha256(text.encode()).digest()[:size]
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


class Listener:
    """A gRPC server on a unix socket, which is created again when the file is removed."""

    def __init__(self, path: Path, add_services: Callable[[grpc.aio.Server], None]) -> None:
        if len(str(path)) > PATH_MAX:
            raise ValueError(f"{path} is too long for a socket: {PATH_MAX} bytes at most")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._add_services = add_services
        self._server: grpc.aio.Server | None = None

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        await self._open()
        async with asyncio.TaskGroup() as group:
            keeper = group.create_task(self._keep(), name=f"socket-{self._path.name}")
            try:
                yield
            finally:
                keeper.cancel()
                await self._close()

    async def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)
        self._server = grpc.aio.server()
        self._add_services(self._server)
        self._server.add_insecure_port(services.address(self._path))
        await self._server.start()

    async def _close(self) -> None:
        """Stop the server; gRPC removes its socket."""
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(STOP_SECONDS)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not self._path.exists():
                log.warning("%s was removed: creating it again", self._path)
                await self._close()
                await self._open()
