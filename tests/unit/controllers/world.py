"""A control plane in memory: the real API server, the loops under test, and hands to play the rest.

Tests play users, the scheduler and the node agent by writing what those would write.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec

from dray.api import errors, kinds
from dray.api import features as gates
from dray.api.features import Features
from dray.api.http_messages import User
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.apiserver import server
from dray.apiserver.access.service_account_tokens import TokenSigner
from dray.apiserver.server import Settings
from dray.apiserver.storage import codec, store_keys
from dray.client.api_client import Client, InProcessTransport, ObjectSelection
from dray.clock import utc_now
from dray.controllers import served_kinds
from dray.controllers.caches import Caches
from dray.controllers.loops import Context, Loop
from dray.store import memory
from dray.store.store import Put, Store, Transaction
from tests import virtualtime, waiting

ADMIN = User("admin", frozenset({"system:masters"}))
CONTROLLERS = User("system:kube-controller-manager", frozenset({"system:authenticated"}))
DEADLINE_SECONDS = 10.0

Build = Callable[[Context], Loop[Any]]


class Clock:
    """A wall clock that tests move."""

    def __init__(self) -> None:
        self.time = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    def __call__(self) -> datetime.datetime:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += datetime.timedelta(seconds=seconds)


class World:
    def __init__(self, store: Store, client: Client, context: Context) -> None:
        self.store, self.client, self.context = store, client, context

    async def create(self, body: JsonObject, namespace: str = "default") -> JsonObject:
        kind = kind_of(body)
        return await self.client.create(kind, body, namespace if kind.namespaced else "")

    async def get(self, kind: str, name: str, namespace: str = "default") -> JsonObject:
        row = named(kind)
        return await self.client.get(row, name, namespace if row.namespaced else "")

    async def find(self, kind: str, name: str, namespace: str = "default") -> JsonObject | None:
        try:
            return await self.get(kind, name, namespace)
        except errors.NotFound:
            return None

    async def list(self, kind: str, namespace: str = "") -> list[JsonObject]:
        page = await self.client.list(named(kind), ObjectSelection(namespace=namespace))
        return [decode(bytes(item)) for item in page.items]

    async def patch(
        self, kind: str, name: str, patch: Any, namespace: str = "default", **options: Any
    ) -> JsonObject:
        row = named(kind)
        return await self.client.patch(
            row, name, patch, namespace if row.namespaced else "", **options
        )

    async def set_status(
        self, kind: str, name: str, status: Any, namespace: str = "default"
    ) -> JsonObject:
        return await self.patch(kind, name, {"status": status}, namespace, subresource="status")

    async def delete(
        self, kind: str, name: str, namespace: str = "default", **options: Any
    ) -> None:
        row = named(kind)
        await self.client.delete(row, name, namespace if row.namespaced else "", options or None)

    async def remove_pod(self, name: str, namespace: str = "default") -> None:
        """What the node agent does when the containers of a deleted pod have stopped."""
        await self.delete("pods", name, namespace, gracePeriodSeconds=0)

    async def bind(self, name: str, node: str = "node-1", namespace: str = "default") -> None:
        """What the scheduler does."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self.client.create_subresource(named("pods"), name, "binding", binding, namespace)

    async def overwrite(
        self, kind: str, name: str, change: Callable[[JsonObject], Any], namespace: str = "default"
    ) -> None:
        """Change what is stored, past everything the API server would say to it."""
        key = store_keys.key(named(kind), name, namespace)
        entry = await self.store.get(key)
        assert entry is not None, name
        document = decode(entry.value)
        change(document)
        put = Put(key, codec.to_stored(document), entry.revision)
        await self.store.commit(Transaction((put,)))

    async def until(self, check: Callable[[], Awaitable[Any]], what: str = "") -> Any:
        """Wait for a condition; its value."""
        return await waiting.until_answered(check, what, seconds=DEADLINE_SECONDS)

    async def until_true(self, check: Callable[[], bool]) -> None:
        async def ask() -> bool:
            return check()

        await self.until(ask)

    async def settle(self) -> None:
        """Wait until nothing is written any more."""
        quiet = 0
        before = await self.store.revision()
        async with asyncio.timeout(DEADLINE_SECONDS):
            while quiet < 8:
                await asyncio.sleep(0.005)
                now = await self.store.revision()
                quiet = quiet + 1 if now == before else 0
                before = now

    async def writes(self, during: Awaitable[Any]) -> int:
        """How many writes happen while something is done and after it, events apart."""
        before = await self.store.revision()
        await during
        await self.settle()
        after = await self.store.revision()
        written = [int(each["metadata"]["resourceVersion"]) for each in await self.list("events")]
        return after - before - sum(before < revision <= after for revision in written)


def named(name: str) -> Kind:
    kind = kinds.by_name(name)
    assert kind is not None, name
    return kind


def kind_of(body: JsonObject) -> Kind:
    group, _ = kinds.parse_api_version(body["apiVersion"])
    kind = kinds.by_kind(group, body["kind"])
    assert kind is not None, body["kind"]
    return kind


def decode(raw: bytes) -> JsonObject:
    decoded: JsonObject = msgspec.json.decode(raw)
    return decoded


@contextlib.asynccontextmanager
async def world(
    builds: Sequence[Build], features: Features, clock: Clock | None
) -> AsyncIterator[World]:
    async with (
        memory.open() as store,
        server.open_server(store, signer=signer(), settings=Settings(features=features)) as api,
    ):
        admin = Client(InProcessTransport(api.app.handle, ADMIN))
        client = Client(InProcessTransport(api.app.handle, CONTROLLERS))
        served = await served_kinds.served_kinds(client)
        now = clock or utc_now
        context = Context(client, Caches(client), features, now, {}, served)
        made = [build(context) for build in builds]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(context.caches.run())]
            await context.caches.synced()
            tasks += [group.create_task(loop.run()) for loop in made]
            tasks += [group.create_task(recorder.run()) for recorder in context.recorders.values()]
            yield World(store, admin, context)
            for task in tasks:
                task.cancel()


@functools.cache
def signer() -> TokenSigner:
    return TokenSigner(ec.generate_private_key(ec.SECP256R1()))


def with_loops(
    *builds: Build, features: Features = gates.DEFAULT, clock: Callable[[], Clock] | None = None
) -> Callable[[Callable[..., Awaitable[None]]], Callable[[], None]]:
    """Run an async test in a world with these loops; with `clock`, the test gets it too."""

    def decorate(test: Callable[..., Awaitable[None]]) -> Callable[[], None]:
        @functools.wraps(test)
        def run() -> None:
            virtualtime.run(_run())

        async def _run() -> None:
            made = clock() if clock else None
            async with world(builds, features, made) as here:
                await (test(here, made) if made else test(here))

        # pytest must not take the world for a fixture.
        del run.__dict__["__wrapped__"]
        return run

    return decorate
