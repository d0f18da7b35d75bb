"""A read-only target: nothing that could change something is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dray.api import kinds
from dray.api.http_messages import Request, Response
from dray.cli.command_errors import CommandError
from dray.cli.session import connection
from dray.cli.session.connection import Session, Target
from dray.cli.session.read_only import ReadOnlyTransport
from dray.client.api_client import Client, ObjectSelection
from tests.unit.cli.conftest import Cluster

CLAIM = {"metadata": {"name": "a", "namespace": "default"}}
KIND = kinds.RESOURCE_CLAIM
WRITES: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "create": lambda client: client.create(KIND, CLAIM, "default"),
    "dry run": lambda client: client.create(KIND, CLAIM, "default", dry_run=True),
    "subresource": lambda client: client.create_subresource(kinds.POD, "a", "eviction", {}),
    "replace": lambda client: client.replace(KIND, CLAIM),
    "patch": lambda client: client.patch(KIND, "a", {}),
    "delete": lambda client: client.delete(KIND, "a"),
    "delete all": lambda client: client.delete_collection(KIND, ObjectSelection("default")),
    "exec": lambda client: client.raw(
        Request("GET", "/api/v1/namespaces/default/pods/a/exec", (), {"Upgrade": "websocket"})
    ),
}


class Recording:
    def __init__(self) -> None:
        self.sent: list[Request] = []

    async def send(self, request: Request) -> Response:
        self.sent.append(request)
        return Response(200, body=b"{}")


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writes_are_refused_before_they_are_sent(write: Callable[[Client], Any]) -> None:
    recording = Recording()
    client = Client(ReadOnlyTransport(recording))
    with pytest.raises(CommandError, match="this only reads"):
        asyncio.run(write(client))
    assert recording.sent == []


def test_a_read_only_target_reads_and_does_not_write(cluster: Cluster) -> None:
    target = Target(kubeconfig=str(cluster.kubeconfig), read_only=True)

    async def read(session: Session) -> int:
        return len((await session.client.list(kinds.NODE)).items)

    async def write(session: Session) -> None:
        await session.client.create(KIND, CLAIM, "default")

    assert connection.run(target, read) >= 0
    with pytest.raises(CommandError, match="this only reads"):
        connection.run(target, write)
