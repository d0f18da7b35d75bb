"""What probes and lifecycle hooks do: run a program in the container, ask a port, wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiohttp

from dray.api.containers import Container, HTTPGetAction, LifecycleHandler, Probe, TCPSocketAction
from dray.node.sources import ConfigError

Execute = Callable[[tuple[str, ...]], Awaitable[int]]
"""Runs a command inside the container; its exit code."""
_FAILURES = (TimeoutError, OSError, LookupError, ConfigError, aiohttp.ClientError)


@dataclass(frozen=True)
class Actions:
    """The actions that can be taken on one running container."""

    container: Container
    address: str
    execute: Execute

    async def succeeds(self, action: Probe | LifecycleHandler, timeout_seconds: float) -> bool:
        """Whether it was done in time; what cannot be done has failed."""
        with contextlib.suppress(*_FAILURES):
            async with asyncio.timeout(timeout_seconds):
                return await self._perform(action)
        return False

    async def _perform(self, action: Probe | LifecycleHandler) -> bool:
        if action.exec is not None:
            return await self.execute(action.exec.command) == 0
        if action.http_get is not None:
            return await self._get(action.http_get)
        if action.tcp_socket is not None:
            return await self._connect(action.tcp_socket)
        if isinstance(action, LifecycleHandler) and action.sleep is not None:
            await asyncio.sleep(action.sleep.seconds)
            return True
        return False

    async def _get(self, action: HTTPGetAction) -> bool:
        host, port = action.host or self.address, self._port(action.port)
        url = f"{(action.scheme or 'http').lower()}://{host}:{port}{action.path or '/'}"
        headers = {header.name: header.value for header in action.http_headers}
        async with (
            aiohttp.ClientSession() as session,
            session.get(url, headers=headers, ssl=False, allow_redirects=False) as answer,
        ):
            return 200 <= answer.status < 400

    async def _connect(self, action: TCPSocketAction) -> bool:
        host, port = action.host or self.address, self._port(action.port)
        _, writer = await asyncio.open_connection(host, port)
        writer.close()
        return True

    def _port(self, port: int | str) -> int:
        if isinstance(port, int):
            return port
        for each in self.container.ports:
            if each.name == port:
                return each.container_port
        raise ConfigError(f"container {self.container.name} has no port {port!r}")
