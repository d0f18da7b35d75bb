"""WebSockets in the protocols of simple clients: exec without an exit status, and logs.

As pkg/kubelet's streaming server and apimachinery's wsstream: `channel.k8s.io` has the channels of
the newer protocols, but says only as text why a command failed; a log is one message after another.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator

from dray.api import remote_command
from dray.api.http_messages import MessageSocket, Response, Upgrade


def without_status(agent: Upgrade, protocol: str) -> Upgrade:
    """Return the upgrade for a client that understands no status on the error channel."""

    async def converse(client: MessageSocket) -> None:
        await agent.converse(_WithoutStatus(client))

    return Upgrade(protocol, converse)


class _WithoutStatus:
    """The client's socket, as the agent uses it."""

    def __init__(self, client: MessageSocket) -> None:
        self.receive = client.receive
        self._send = client.send

    async def send(self, message: bytes) -> None:
        if message[:1] != bytes((remote_command.ERROR,)):
            await self._send(message)
            return
        outcome = remote_command.outcome(message[1:])
        if outcome.code != 0:
            await self._send(remote_command.message(remote_command.ERROR, outcome.message.encode()))


def log(response: Response, protocol: str) -> Upgrade:
    """Return the upgrade that sends a log, until its end or until the client has left."""
    return Upgrade(protocol, functools.partial(_send_log, response))


async def _send_log(response: Response, client: MessageSocket) -> None:
    async def send() -> None:
        async for chunk in _chunks(response):
            await client.send(chunk)

    async def left() -> None:
        while await client.receive() is not None:
            pass

    async with asyncio.TaskGroup() as group:
        tasks = {group.create_task(send()), group.create_task(left())}
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()


async def _chunks(response: Response) -> AsyncIterator[bytes]:
    if response.stream is None:
        yield response.body
        return
    async for chunk in response.stream:
        yield chunk
