"""Connections to the ports of a pod through an API server, as `kubectl port-forward` makes them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools

from dray.api import kinds, remote_command
from dray.api.http_messages import Request, Upgrade
from dray.client import api_client, spdy, websockets
from dray.client.api_client import Client
from dray.client.spdy import SpdyConnection, SpdyStream


async def opened(client: Client, pod: str, namespace: str) -> PodPorts:
    """Return the ports of a running pod. Raises StatusError if the server refuses."""
    path = api_client.object_path(kinds.POD, pod, namespace, "portforward")
    headers = {"upgrade": "websocket", "sec-websocket-protocol": remote_command.TUNNEL}
    response = await client.raw(Request("GET", path, headers=headers))
    if response.upgrade is None:
        raise api_client.error_of(response)
    return PodPorts(response.upgrade)


class PodPorts:
    """The ports of one pod. `run` must be running for `exchange` to get answers."""

    def __init__(self, upgrade: Upgrade) -> None:
        self._upgrade = upgrade
        near, self._far = websockets.pipe()
        self._connection = SpdyConnection(near)
        self._requests = itertools.count()

    async def run(self) -> None:
        """Pass on what both sides send, until the server has left or sends what is no SPDY."""
        conversing = asyncio.create_task(self._converse())
        try:
            with contextlib.suppress(spdy.ProtocolError):
                await self._connection.run()
        finally:
            conversing.cancel()
            await asyncio.wait({conversing})

    async def _converse(self) -> None:
        try:
            await self._upgrade.converse(self._far)
        finally:
            await self._far.close()

    async def exchange(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> str:
        """Connect to a port, and copy both ways until the pod has sent its last byte.

        Returns why that failed; empty if it did not.
        """
        headers = {"port": str(port), "requestid": str(next(self._requests))}
        error = await self._connection.open(streamtype="error", **headers)
        await error.close()
        data = await self._connection.open(streamtype="data", **headers)
        sending, failure = asyncio.create_task(_send(reader, data)), b""
        try:
            with contextlib.suppress(ConnectionError):
                while chunk := await data.receive():
                    writer.write(chunk)
                    await writer.drain()
                failure = await error.receive()
        finally:
            sending.cancel()
            await asyncio.wait({sending})
            self._connection.forget(data, error)
        await data.close()
        return failure.decode(errors="replace")


async def _send(reader: asyncio.StreamReader, data: SpdyStream) -> None:
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(spdy.CHUNK_BYTES):
            await data.send(chunk)
    await data.close()
