"""The API server as a process: store, keys and an administrator's kubeconfig in a directory.

`python -m dray.apiserver.standalone DIRECTORY [PORT]` prints its address once it answers, and
ends in order on SIGTERM or SIGINT.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import uvloop

from dray import telemetry
from dray.apiserver import server
from dray.apiserver.access.certificates import Authority
from dray.apiserver.access.renewal import RenewedPair
from dray.apiserver.server import Settings
from dray.client import kubeconfig
from dray.client.kubeconfig import ClusterConnection
from dray.store import sqlite

LOOPBACK = "127.0.0.1"
ADMIN_GROUP = "system:masters"


@contextlib.asynccontextmanager
async def listening(
    directory: Path, port: int = 0, *, host: str = LOOPBACK, settings: Settings | None = None
) -> AsyncIterator[str]:
    """Serve the store of `directory` over HTTPS until the block is left; yields the address."""
    authority = Authority.load_or_create(directory)
    names = dict.fromkeys((host, LOOPBACK, "localhost"))
    signer = server.signer_in(directory)
    async with (
        sqlite.open(directory / "store.db") as store,
        server.open_server(
            store, signer=signer, settings=settings, identity=server.identity_in(directory)
        ) as opened,
        opened.server.listening(
            host, port, RenewedPair(lambda: authority.server_pair(names)), authority.certificate
        ) as url,
    ):
        admin = connection(directory, url, "admin", ADMIN_GROUP)
        kubeconfig.write(directory / "kubeconfig", admin)
        yield url


def connection(directory: Path, url: str, user: str, *groups: str) -> ClusterConnection:
    """Return a connection to the server of a directory, with a new client certificate."""
    authority = Authority.load_or_create(directory)
    pair = authority.client_pair(user, groups)
    return ClusterConnection(
        url,
        certificate_authority=authority.certificate,
        client_certificate=pair.certificate,
        client_key=pair.key,
    )


async def run(directory: Path, port: int = 0) -> None:
    """Serve until the process is terminated."""
    terminated = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, terminated.set)
    async with listening(directory, port) as url:
        print(url, flush=True)
        await terminated.wait()


def main() -> None:
    telemetry.configure_logging()
    directory, *port = sys.argv[1:]
    uvloop.run(run(Path(directory), int(port[0]) if port else 0))


if __name__ == "__main__":
    main()
