"""Probes and lifecycle hooks of containers: run a command, connect to a port, or wait."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import aiohttp

from dray.api.types import containers
from dray.api.types.containers import LifecycleHandler, Probe
from dray.node.pods.pod_status import ObservedContainer
from dray.node.runtimes.interface import ContainerConfigError

Execute = Callable[[tuple[str, ...]], Awaitable[int]]
"""Runs a command inside the container and returns its exit code."""
OpenSocket = Callable[[], Awaitable[socket.socket]]
_FAILURES = (
    *(TimeoutError, OSError, LookupError, ContainerConfigError, aiohttp.ClientError),
    # A NUL in an argument, a line end in a header, a host that no name can be.
    ValueError,
)


@dataclass(frozen=True)
class Actions:
    """Takes the actions of probes and hooks on one running container."""

    container: containers.Container
    address: str
    """Where the container listens, for an action that names no host."""
    execute: Execute
    open_socket: OpenSocket | None = None
    """Makes sockets in the network of the pod; None where that is the host's."""

    async def succeeds(self, action: Probe | LifecycleHandler, timeout_seconds: float) -> bool:
        """Return whether an action succeeds in time; one that cannot be taken has failed."""
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

    async def _get(self, action: containers.HTTPGetAction) -> bool:
        host, port = action.host or self.address, self._port(action.port)
        url = f"{(action.scheme or 'http').lower()}://{host}:{port}{action.path or '/'}"
        headers = {header.name: header.value for header in action.http_headers}
        async with (
            self._connector() as connector,
            aiohttp.ClientSession(connector=connector) as session,
            session.get(url, headers=headers, ssl=False, allow_redirects=False) as answer,
        ):
            return 200 <= answer.status < 400

    async def _connect(self, action: containers.TCPSocketAction) -> bool:
        host, port = action.host or self.address, self._port(action.port)
        if self.open_socket is None:
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
            return True
        with await self.open_socket() as connection:
            await asyncio.get_running_loop().sock_connect(connection, (host, port))
        return True

    @contextlib.asynccontextmanager
    async def _connector(self) -> AsyncIterator[aiohttp.TCPConnector | None]:
        """Yield what connects from inside the pod, also to a host that the action names.

        A pod must not learn by its probes what listens on the node.
        """
        if self.open_socket is None:
            yield None
            return
        with await self.open_socket() as made:
            yield aiohttp.TCPConnector(
                family=socket.AF_INET, socket_factory=lambda _: made.dup(), force_close=True
            )

    def _port(self, port: int | str) -> int:
        if isinstance(port, int):
            return port
        for container_port in self.container.ports:
            if container_port.name == port:
                return container_port.container_port
        raise ContainerConfigError(f"container {self.container.name} has no port {port!r}")


@dataclass(frozen=True)
class Prober:
    """Probes one start of a container and updates its observed state.

    `changed` is called when readiness changes, `dead` with a reason when the container must stop.
    """

    actions: Actions
    seen: ObservedContainer
    changed: Callable[[], None]
    dead: Callable[[str], None]

    async def run(self) -> None:
        """Probe until cancelled, which happens when the container ends."""
        container = self.actions.container
        if container.startup_probe is not None and not await self._starts(container.startup_probe):
            return
        self.seen.is_started = True
        self._set_ready(container.readiness_probe is None)
        async with asyncio.TaskGroup() as group:
            if container.readiness_probe is not None:
                group.create_task(self._watch_readiness(container.readiness_probe))
            if container.liveness_probe is not None:
                group.create_task(self._watch_liveness(container.liveness_probe))

    async def _starts(self, probe: Probe) -> bool:
        async for verdict in self._verdicts(probe):
            if verdict:
                return True
            self.dead("Startup probe failed")
            return False
        return False

    async def _watch_readiness(self, probe: Probe) -> None:
        async for verdict in self._verdicts(probe):
            self._set_ready(verdict)

    async def _watch_liveness(self, probe: Probe) -> None:
        async for verdict in self._verdicts(probe):
            if not verdict:
                self.dead("Liveness probe failed")
                return

    async def _verdicts(self, probe: Probe) -> AsyncIterator[bool]:
        """Yield the result of the probe whenever a threshold is reached."""
        await asyncio.sleep(probe.initial_delay_seconds)
        in_a_row, last = 0, None
        while True:
            result = await self.actions.succeeds(probe, probe.timeout_seconds or 1)
            in_a_row = in_a_row + 1 if result == last else 1
            last = result
            threshold = probe.success_threshold or 1 if result else probe.failure_threshold or 3
            if in_a_row >= threshold:
                yield result
            await asyncio.sleep(probe.period_seconds or 10)

    def _set_ready(self, ready: bool) -> None:
        if self.seen.is_ready != ready:
            self.seen.is_ready = ready
            self.changed()
