"""Ports of pods through the API server, in both ways that Kubernetes' clients have."""

from __future__ import annotations

import asyncio
import ssl

import aiohttp

from dray.apiserver.access.certificates import Authority
from tests.cluster.site import Site, client_tls, container, needs_sandbox, pod, with_node
from tests.unit.node.forwarding import client
from tests.unit.node.forwarding.client import SpdyClient

pytestmark = needs_sandbox

PATH = "/api/v1/namespaces/default/pods/p/portforward"
SERVER = """
import socket
listening = socket.create_server(("127.0.0.1", 8080))
print("up", flush=True)
while True:
    with listening.accept()[0] as connection:
        connection.sendall(connection.recv(100).upper() * 1000)
"""


def test_a_port_is_reached_by_websocket_and_by_spdy() -> None:
    async def story(here: Site) -> None:
        authority = Authority.load_or_create(here.folder)
        pair = authority.server_pair(("127.0.0.1",))
        server = here.world.cluster.opened.server
        await here.world.create(pod("p", container("", command=["python3", "-c", SERVER])))
        await here.output("p")
        async with server.listening("127.0.0.1", 0, pair, authority.certificate) as url:
            tls = client_tls(here.folder, url, "system:masters")
            assert await _by_websocket(url, tls) == b"HELLO" * 1000
            assert await _by_spdy(url, tls) == b"HELLO" * 1000
            nobody = client_tls(here.folder, url)
            assert b" 403 " in await _upgrade(url, nobody, "portforward.k8s.io")
            assert b" 400 " in await _upgrade(url, tls, "other.k8s.io")

    with_node(story)


async def _asked(spoken: SpdyClient) -> bytes:
    await spoken.open("0", 8080, 1)
    await spoken.send(client.data(3, b"hello"))
    await spoken.read_until(lambda: 3 in spoken.ended)
    assert not spoken.received.get(1)
    return spoken.received[3]


async def _by_websocket(url: str, tls: ssl.SSLContext) -> bytes:
    protocol = "SPDY/3.1+portforward.k8s.io"
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url + PATH, protocols=(protocol,), ssl=tls) as socket,
    ):
        assert socket.protocol == protocol
        return await _asked(SpdyClient(socket.send_bytes, socket.receive_bytes))


async def _opened(
    url: str, tls: ssl.SSLContext, protocol: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = url.removeprefix("https://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
    lines = (
        f"POST {PATH} HTTP/1.1",
        f"Host: {host}",
        "Content-Length: 0",
        "Connection: Upgrade",
        "Upgrade: SPDY/3.1",
        f"X-Stream-Protocol-Version: {protocol}",
    )
    writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode())
    return reader, writer


async def _upgrade(url: str, tls: ssl.SSLContext, protocol: str) -> bytes:
    reader, writer = await _opened(url, tls, protocol)
    try:
        return await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.close()


async def _by_spdy(url: str, tls: ssl.SSLContext) -> bytes:
    reader, writer = await _opened(url, tls, "portforward.k8s.io")
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    assert head.startswith("http/1.1 101 ")
    assert "\r\nupgrade: spdy/3.1\r\n" in head
    assert "\r\nx-stream-protocol-version: portforward.k8s.io\r\n" in head

    async def send(message: bytes) -> None:
        writer.write(message)
        await writer.drain()

    try:
        return await _asked(SpdyClient(send, lambda: reader.read(65536)))
    finally:
        writer.close()
