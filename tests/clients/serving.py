"""A server behind a real socket in a thread of its own, for clients that block."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

from dray.api.http_messages import User
from dray.apiserver import server
from dray.apiserver.access.certificates import Authority
from dray.apiserver.server import RunningServer, Settings
from dray.client import kubeconfig
from dray.client.api_client import Client, InProcessTransport
from dray.client.kubeconfig import ClusterConnection
from dray.store import memory

Answer = TypeVar("Answer")

ADMIN = User("admin", frozenset({"system:masters", "system:authenticated"}))
SECONDS = 30.0


class Served:
    """One API server. Its connections can be cut; what it stores stays."""

    def __init__(self, directory: Path, settings: Settings | None = None) -> None:
        self.kubeconfig = directory / "kubeconfig"
        self._directory = directory
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._opened: RunningServer | None = None
        self._authority = Authority.load_or_create(directory)
        self._end = asyncio.Event()
        self._cut = asyncio.Event()
        self._listens = threading.Event()

    @contextlib.contextmanager
    def running(self) -> Iterator[Served]:
        thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        thread.start()
        try:
            assert self._listens.wait(SECONDS), "the server did not start"
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._end.set)
            self._loop.call_soon_threadsafe(self._cut.set)
            thread.join(SECONDS)
            self._loop.close()

    def connection(self, user: str = "admin", *groups: str) -> ClusterConnection:
        """How a user reaches the server, with a certificate of its own."""
        pair = self._authority.client_pair(user, groups)
        return ClusterConnection(
            kubeconfig.load(self.kubeconfig).server,
            certificate_authority=self._authority.certificate,
            client_certificate=pair.certificate,
            client_key=pair.key,
        )

    def cut(self) -> None:
        """End every connection; the server listens again at the same address at once."""
        self._listens.clear()
        self._loop.call_soon_threadsafe(self._cut.set)
        assert self._listens.wait(SECONDS), "the server did not come back"

    def do(self, work: Callable[[Client], Awaitable[Answer]]) -> Answer:
        """Change something behind the tested client's back."""

        async def behind() -> Answer:
            assert self._opened is not None
            return await work(Client(InProcessTransport(self._opened.app.handle, ADMIN)))

        return self._run(behind())

    def _run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    async def _serve(self) -> None:
        signer = server.signer_in(self._directory)
        async with (
            memory.open() as store,
            server.open_server(store, signer=signer, settings=self._settings) as self._opened,
        ):
            port = 0
            while not self._end.is_set():
                port = await self._listen(port)

    async def _listen(self, port: int) -> int:
        assert self._opened is not None
        pair = self._authority.server_pair(["127.0.0.1", "localhost"])
        listening = self._opened.server.listening(
            "127.0.0.1", port, pair, self._authority.certificate
        )
        async with listening as url:
            admin = self._authority.client_pair("admin", ["system:masters"])
            authority = self._authority.certificate
            connection = ClusterConnection(
                url,
                certificate_authority=authority,
                client_certificate=admin.certificate,
                client_key=admin.key,
            )
            kubeconfig.write(self.kubeconfig, connection)
            self._cut.clear()
            self._listens.set()
            await self._cut.wait()
        return int(url.rpartition(":")[2])
