"""kill -9 of the whole API server amid concurrent writers: nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from dray.api import errors, kinds
from dray.api.types.meta import JsonObject
from dray.client.api_client import Client, ObjectSelection
from dray.client.rest import RestTransport
from tests import rounds
from tests.robustness.server_process import ServerProcess

ROUNDS = rounds.count(4, long=100)
WRITERS = 8
KEYS_OF_A_WRITER = 5
NAMESPACE = "default"
SECONDS = 60.0

SECONDS = 120.0


class Write(NamedTuple):
    """What the server said it has done; the revision of a removal is not told."""

    name: str
    revision: int
    number: str
    """What the object holds since; empty where it was removed."""


class Seen(NamedTuple):
    type: str
    name: str
    revision: int
    number: str


class Witness:
    """Watches across every death of the server, always from where it was."""

    def __init__(self, client: Client, revision: str) -> None:
        self._client = client
        self.revision = revision
        self.seen: list[Seen] = []
        self._news = asyncio.Condition()

    async def run(self) -> None:
        while True:
            with contextlib.suppress(errors.ServiceUnavailable):
                await self._follow()
            await asyncio.sleep(0.05)

    async def _follow(self) -> None:
        selection = ObjectSelection(NAMESPACE)
        async for event in self._client.watch(
            kinds.CONFIG_MAP, selection, resource_version=self.revision
        ):
            found: JsonObject = msgspec.json.decode(event.object)
            metadata = found["metadata"]
            self.revision = metadata["resourceVersion"]
            if event.type == "BOOKMARK":
                continue
            number = (found.get("data") or {}).get("number", "")
            seen = Seen(event.type, metadata["name"], int(self.revision), number)
            async with self._news:
                self.seen.append(seen)
                self._news.notify_all()

    async def until(self, revision: int) -> None:
        """Wait until everything up to a revision has been told."""
        async with self._news:
            await self._news.wait_for(
                lambda: bool(self.seen) and self.seen[-1].revision >= revision
            )


class Life:
    """The writers of one life of the server; they stop when it does not answer any more."""

    def __init__(self, client: Client, seed: int) -> None:
        self._client = client
        self._random = random.Random(seed)
        self._numbers = (f"{seed}-{each}" for each in itertools.count())
        self.acknowledged: list[Write] = []
        self.in_doubt: set[str] = set()

    async def write(self, writer: int) -> None:
        with contextlib.suppress(errors.ServiceUnavailable):
            while True:
                name = f"w{writer}-{self._random.randrange(KEYS_OF_A_WRITER)}"
                self.in_doubt.add(name)
                self.acknowledged.append(await self._change(name, next(self._numbers)))
                self.in_doubt.discard(name)

    async def _change(self, name: str, number: str) -> Write:
        try:
            if self._random.random() < 0.2:
                await self._client.delete(kinds.CONFIG_MAP, name, NAMESPACE)
                return Write(name, 0, "")
            patch = {"data": {"number": number}}
            changed = await self._client.patch(kinds.CONFIG_MAP, name, patch, NAMESPACE)
        except errors.NotFound:
            body = {"metadata": {"name": name}, "data": {"number": number}}
            changed = await self._client.create(kinds.CONFIG_MAP, body, NAMESPACE)
        return Write(name, int(changed["metadata"]["resourceVersion"]), number)


async def live(server: ServerProcess, seed: int, acknowledged_before_death: int) -> Life:
    """Write from many sides until the server is killed, amid whatever it is doing."""
    async with RestTransport(server.connection()) as transport:
        life = Life(Client(transport), seed)
        async with asyncio.TaskGroup() as group:
            for writer in range(WRITERS):
                group.create_task(life.write(writer))
            while len(life.acknowledged) < acknowledged_before_death:
                await asyncio.sleep(0)
            server.kill()
    return life


async def present(client: Client) -> tuple[int, dict[str, JsonObject]]:
    page = await client.list(kinds.CONFIG_MAP, ObjectSelection(NAMESPACE))
    items: Iterator[JsonObject] = map(msgspec.json.decode, page.items)
    return int(page.resource_version), {each["metadata"]["name"]: each for each in items}


def check_nothing_is_lost(life: Life, found: dict[str, JsonObject]) -> None:
    last = {write.name: write for write in life.acknowledged}
    for name, write in last.items():
        if name in life.in_doubt:
            continue
        assert (name in found) == bool(write.number), write
        if write.number:
            assert found[name]["data"]["number"] == write.number
            assert int(found[name]["metadata"]["resourceVersion"]) == write.revision


def check_told_without_a_gap(lives: list[Life], witness: Witness) -> None:
    revisions = [each.revision for each in witness.seen]
    assert all(later > earlier for earlier, later in itertools.pairwise(revisions))
    told = {(each.name, each.revision, each.number) for each in witness.seen}
    for write in itertools.chain.from_iterable(life.acknowledged for life in lives):
        if write.number:
            assert write in told, write


def replayed(witness: Witness) -> dict[str, str]:
    """The objects as whoever only watched must believe them to be."""
    state: dict[str, str] = {}
    for each in witness.seen:
        if each.type == "DELETED":
            del state[each.name]
        else:
            assert (each.name in state) == (each.type == "MODIFIED"), each
            state[each.name] = each.number
    return state


@pytest.mark.slow
@pytest.mark.random
@pytest.mark.timeout(SECONDS * ROUNDS)
def test_a_killed_server_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    asyncio.run(asyncio.wait_for(lives_and_deaths(ServerProcess(tmp_path)), SECONDS * ROUNDS))


async def lives_and_deaths(server: ServerProcess) -> None:
    server.start()
    async with RestTransport(server.connection()) as transport, asyncio.TaskGroup() as group:
        client = Client(transport)
        page = await client.list(kinds.CONFIG_MAP, ObjectSelection(NAMESPACE))
        witness = Witness(client, page.resource_version)
        watching = group.create_task(witness.run())
        lives: list[Life] = []
        newest = int(page.resource_version)
        for seed in map(rounds.seed_of, range(ROUNDS)):
            lives.append(await live(server, seed, random.Random(seed).randrange(1, 250)))
            server.start()
            revision, found = await present(client)
            check_nothing_is_lost(lives[-1], found)
            written = [write.revision for write in lives[-1].acknowledged if write.number]
            assert all(newest < each <= revision for each in written)
            assert len(set(written)) == len(written)
            newest = revision
            await witness.until(max(written, default=0))
        mark = await client.create(kinds.CONFIG_MAP, {"metadata": {"name": "end"}}, NAMESPACE)
        await witness.until(int(mark["metadata"]["resourceVersion"]))
        _, found = await present(client)
        check_told_without_a_gap(lives, witness)
        assert replayed(witness) == {
            name: (each.get("data") or {}).get("number", "") for name, each in found.items()
        }
        watching.cancel()
    assert server.stop() == 0
