"""Hooks and probes of one start of a container."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from dray.api.types.containers import Container
from dray.node.containers.container_attempts import Command, ContainerAttempt
from dray.node.containers.processes import Process
from dray.node.pods.context import PodWorkerContext
from dray.node.pods.probes import Actions, Prober

HOOK_SECONDS: Final = 300.0
LOOPBACK: Final = "127.0.0.1"


class ContainerLifecycle:
    """Runs the hooks and probes of one start of a container."""

    def __init__(
        self, context: PodWorkerContext, container: Container, attempt: ContainerAttempt
    ) -> None:
        self._context = context
        self._container = container
        self._attempt = attempt
        self._actions = Actions(
            container,
            LOOPBACK if context.has_own_network else context.node.address,
            self._execute,
            self._open_socket if context.has_own_network else None,
        )

    async def watch(self) -> None:
        """Run the postStart hook, then the probes until cancelled.

        The container is stopped when the hook, the startup probe or the liveness probe fails.
        """
        lifecycle = self._container.lifecycle
        hook = lifecycle.post_start if lifecycle else None
        if hook is not None and not await self._actions.succeeds(hook, HOOK_SECONDS):
            self._give_up("PostStart hook failed")
            return
        state = self._context.state
        observed = state.containers[self._container.name]
        await Prober(self._actions, observed, state.notify_changed, self._give_up).run()

    async def pre_stop(self, grace_seconds: float) -> None:
        """Run the preStop hook, if there is one; it may take the whole grace period."""
        lifecycle = self._container.lifecycle
        hook = lifecycle.pre_stop if lifecycle else None
        if hook is None:
            return
        if not await self._actions.succeeds(hook, grace_seconds):
            note = f"PreStop hook of container {self._container.name} failed"
            self._context.record_warning("FailedPreStopHook", note)

    def _give_up(self, reason: str) -> None:
        note = f"{reason}: container {self._container.name} will be restarted"
        self._context.record_warning("Unhealthy", note)
        self._attempt.terminate()
        grace_seconds = self._context.grace_seconds
        asyncio.get_running_loop().call_later(grace_seconds, self._attempt.kill)

    async def _open_socket(self) -> socket.socket:
        node = self._context.node
        shared = node.runtime.shares_network
        folder = self._context.folder if shared else self._attempt.folder
        return await node.starter.socket_of_pod(folder)

    async def _execute(self, argv: tuple[str, ...]) -> int:
        return await _run_to_end(self._context.node.runtime.exec_command(self._attempt, argv))


async def _run_to_end(command: Command) -> int:
    """Run a program inside a container and return its exit code; kill it when cancelled."""
    process = Process(
        command.argv,
        env=command.env,
        cwd=command.cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        return await process.wait()
    except asyncio.CancelledError:
        process.kill()
        raise
