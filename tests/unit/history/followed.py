"""A world whose history is recorded, in virtual time and with the rights of `dray up`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from dray.api import errors, features, kinds
from dray.api.http_messages import Request, Response, User
from dray.api.kinds import Kind
from dray.apiserver.access import bootstrap_policy
from dray.client.api_client import Client, InProcessTransport
from dray.history.history_file import HistoryFile
from dray.history.queries import DeviceHistory
from dray.history.recorder import HistoryRecorder
from tests.unit.scheduler.world import World

USER = User(bootstrap_policy.RECORDER, frozenset({"system:authenticated"}))
SETTLED_SECONDS = 30.0
"""Of virtual time: until then, what happened is written, and a heartbeat after it."""


class Server:
    """The API server as the recorder sees it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.forgets = False
        """Whether it has no old revisions."""
        self.breaks = False
        """Whether its connections break."""
        self.methods: set[str] = set()
        self.client = Client(InProcessTransport(self._send, USER))

    async def _send(self, request: Request, user: User) -> Response:
        self.methods.add(request.method)
        if self.breaks:
            return _refused(503, errors.ServiceUnavailable("away"))
        if self.forgets and request.parameter("watch") and request.parameter("resourceVersion"):
            newest = (await self._world.client.list(kind_of(request))).resource_version
            if request.parameter("resourceVersion") != newest:
                return _refused(410, errors.Expired("too old resource version"))
        return await self._world.handle(request, user)


def _refused(status: int, error: errors.StatusError) -> Response:
    return Response(status, {}, msgspec.json.encode(errors.to_status(error)))


def kind_of(request: Request) -> Kind:
    found = kinds.by_name(request.path.rpartition("/")[2])
    assert found is not None
    return found


@contextlib.asynccontextmanager
async def recorded(
    world: World, path: Path, server: Server | None = None, **options: bool
) -> AsyncIterator[HistoryRecorder]:
    """Record while the block runs."""
    client = (server or Server(world)).client
    with HistoryFile.open(path) as file:
        gates = features.DEFAULT
        recorder = HistoryRecorder(client, file, features=gates, now=world.clock, **options)
        running = asyncio.create_task(recorder.run())
        try:
            await asyncio.wait_for(recorder.is_recording.wait(), SETTLED_SECONDS)
            await settle(world)
            yield recorder
            await settle(world)
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


async def settle(world: World, advance: float = 0.0) -> None:
    """Wait until what happened is on disk, and move the clock of the world."""
    await asyncio.sleep(SETTLED_SECONDS)
    world.clock.advance(advance)


def history_of(world: World, path: Path) -> DeviceHistory:
    return DeviceHistory(path, now=world.clock)
