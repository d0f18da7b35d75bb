"""The port of the agent: strangers must not take the descriptors of its process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from dray.api import remote_command
from dray.apiserver.access.certificates import Authority, KeyPair
from dray.apiserver.access.renewal import RenewedPair
from dray.client import rest
from dray.node.endpoint import Endpoint, Identity
from tests import waiting

ATTEMPTS = 400
PLACES = 200
"""More than strangers may have."""


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def context(pair: RenewedPair, client: KeyPair) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    made.load_verify_locations(cadata=pair.certificate.decode())
    rest.load_pair(made, client.certificate, client.key)
    return made


async def asked(port: int, tls: ssl.SSLContext) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    writer.write(b"GET /containerLogs/a/b/c HTTP/1.1\r\nhost: a\r\n\r\n")
    line = await reader.readline()
    writer.transport.abort()
    return line


@pytest.mark.parametrize("run_loop", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("greets", [False, True], ids=["silent", "with another's certificate"])
def test_strangers_have_few_connections_and_clients_are_served(
    tmp_path: Path, greets: bool, run_loop: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    async def run() -> None:
        authority = Authority.load_or_create(tmp_path)
        pair = RenewedPair(lambda: authority.server_pair(("127.0.0.1",)))
        of_server = context(pair, authority.client_pair(remote_command.API_SERVER_NAME))
        of_stranger = context(pair, authority.client_pair("mallory"))
        endpoint = Endpoint(lambda _namespace, _pod: None, Identity(pair, authority.certificate))
        async with endpoint.listening("127.0.0.1") as port:
            before = open_descriptors()
            with contextlib.ExitStack() as held:
                for _ in range(ATTEMPTS):
                    if greets:
                        transport, _ = await asyncio.get_running_loop().create_connection(
                            asyncio.Protocol, "127.0.0.1", port, ssl=of_stranger
                        )
                        held.callback(transport.abort)
                    else:
                        made = socket.create_connection(("127.0.0.1", port))
                        held.callback(made.close)
                        await asyncio.sleep(0)
                # The attempts themselves are descriptors of this process, too.
                await waiting.until(
                    lambda: open_descriptors() - before - ATTEMPTS < PLACES, "fewer descriptors"
                )
                assert b"404" in await asked(port, of_server)
                assert b"404" in await asked(port, of_server)

    run_loop(run())
