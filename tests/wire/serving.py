"""An API server for tests: in this process over the memory store, or behind a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from dray.api import features
from dray.api.features import Features
from dray.api.http_messages import JSON, Request, Response, User
from dray.apiserver import server
from dray.apiserver.access.certificates import Authority
from dray.apiserver.server import RunningServer, Settings
from dray.client import kubeconfig
from dray.client.kubeconfig import ClusterConnection
from dray.store import memory

ADMIN = User("admin", frozenset({"system:masters", "system:authenticated"}))
T = TypeVar("T")


def all_alpha() -> Features:
    """The recorded server had every alpha gate of DRA on."""
    gates = [name for name in features.GATES if name.startswith("DRA")]
    off = {name: True for name in gates if not features.is_enabled(features.DEFAULT, name)}
    return features.with_gates(features.DEFAULT, {**off, "GenericWorkload": True})


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Api:
    """Sends requests as a user and collects whole answers; streams until they end."""

    opened: RunningServer
    user: User = ADMIN

    async def __call__(
        self,
        method: str,
        url: str,
        body: Any = None,
        *,
        user: User | None = None,
        **headers: str,
    ) -> Answer:
        parts = urlsplit(url)
        sent = {"content-type": JSON, "user-agent": "test"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        query = tuple(parse_qsl(parts.query, keep_blank_values=True))
        request = Request(method, parts.path, query, sent, data)
        return await collected(await self.opened.app.handle(request, user or self.user))


async def collected(response: Response) -> Answer:
    body = response.body
    if response.stream is not None:
        body = b"".join([chunk async for chunk in response.stream])
    return Answer(response.status, dict(response.headers), body)


def with_api(
    test: Callable[[Api], Awaitable[T]], directory: Path, settings: Settings | None = None
) -> T:
    """Run a test against a fresh server; `directory` keeps its keys."""

    async def run() -> T:
        async with (
            memory.open() as store,
            server.open_server(
                store, signer=server.signer_in(directory), settings=settings
            ) as opened,
        ):
            return await test(Api(opened))

    return asyncio.run(run())


@contextlib.asynccontextmanager
async def listening(
    directory: Path, settings: Settings | None = None
) -> AsyncIterator[tuple[ClusterConnection, RunningServer]]:
    """A server on a free port of the loopback, and how an admin reaches it."""
    authority = Authority.load_or_create(directory)
    pair = authority.client_pair("admin", ["system:masters"])
    names = authority.server_pair(["127.0.0.1", "localhost"])
    async with (
        memory.open() as store,
        server.open_server(store, signer=server.signer_in(directory), settings=settings) as opened,
        opened.server.listening("127.0.0.1", 0, names, authority.certificate) as url,
    ):
        connection = ClusterConnection(
            url,
            certificate_authority=authority.certificate,
            client_certificate=pair.certificate,
            client_key=pair.key,
        )
        kubeconfig.write(directory / "kubeconfig", connection)
        yield connection, opened
