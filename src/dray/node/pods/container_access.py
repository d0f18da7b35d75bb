"""Containers of one pod for `kubectl logs`, `exec`, `attach` and `port-forward`."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from dray.node.containers.container_attempts import Command, ContainerAttempt
from dray.node.pods.context import PodWorkerContext

CONNECT_SECONDS: Final = 10.0


class ContainerUnavailable(Exception):
    """A container that has no log, or does not run, now; the text is for the user."""


class ContainerAccess:
    """Finds the logs and the running starts of a pod's containers."""

    def __init__(self, context: PodWorkerContext) -> None:
        self._context = context

    @property
    def pod_name(self) -> str:
        return self._context.pod.metadata.name

    def has_container(self, name: str) -> bool:
        return name in self._context.state.containers

    def logged(self, container: str, *, previous: bool = False) -> ContainerAttempt:
        """Return the start whose log is requested. Raises ContainerUnavailable without a log."""
        last = self._context.last_attempt(container)
        attempt = last.previous if last is not None and previous else last
        if attempt is not None and attempt.log.exists():
            return attempt
        where = f'container "{container}" in pod "{self._context.pod.metadata.name}"'
        if previous:
            raise ContainerUnavailable(f"previous terminated {where} not found")
        reason = self._context.state.containers[container].waiting
        raise ContainerUnavailable(f"{where} is waiting to start: {reason}")

    def running(self, container: str) -> ContainerAttempt:
        """Return the running start. Raises ContainerUnavailable where the container is not up."""
        last = self._context.last_attempt(container)
        if last is None or last.exit() is not None:
            raise ContainerUnavailable(
                f"container {container} of pod {self._context.pod.metadata.name} does not run"
            )
        return last

    async def connect(self, port: int) -> socket.socket:
        """Connect to a port of the pod, on its loopback. Raises OSError."""
        context = self._context
        if context.has_own_network:
            made = await context.node.starter.socket_of_pod(context.folder)
        else:
            made = socket.socket(socket.AF_INET)
            made.setblocking(False)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
        except BaseException:
            made.close()
            raise
        return made

    def exec_command(
        self, container: str, argv: tuple[str, ...], *, stdin: bool = False, tty: bool = False
    ) -> Command:
        """Return the command line that runs a program in a running container.

        Raises ContainerUnavailable where the container does not run.
        """
        attempt = self.running(container)
        try:
            runtime = self._context.node.runtime
            return runtime.exec_command(attempt, argv, stdin=stdin, tty=tty)
        except LookupError as error:
            raise ContainerUnavailable(str(error)) from error
