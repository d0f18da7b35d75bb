"""A cache lists, then watches: what it holds, what it reports, and how it survives its server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable
from typing import Any

import msgspec
import pytest

from dray.api import errors, kinds
from dray.api.http_messages import Request, Response
from dray.api.ids import ObjectKey
from dray.api.types.core import Namespace
from dray.api.types.meta import JsonObject
from dray.client.api_client import Client, ObjectSelection
from dray.client.cache import (
    MAX_RETRY_SECONDS,
    RETRY_SECONDS,
    SHARED_BYTES,
    Cache,
    HasMetadata,
    ObjectChange,
)
from tests import virtualtime

A, B, C = (ObjectKey("", name) for name in "abc")


class FakeApi:
    """A server of namespaces: lists what it has, and streams what changes while it is watched."""

    def __init__(self) -> None:
        self.objects: dict[str, JsonObject] = {}
        self.revision = 10
        self.lists = 0
        self.watched_from: list[str] = []
        self.failures: list[errors.StatusError] = []
        """Answers to the next requests, in order."""
        self.times: list[float] = []
        self.queries: list[dict[str, str]] = []
        self._stream: asyncio.Queue[bytes] | None = None

    async def send(self, request: Request) -> Response:
        query = dict(request.query)
        self.queries.append(query)
        self.times.append(asyncio.get_running_loop().time())
        if self.failures:
            error = self.failures.pop(0)
            return Response(error.code, {}, json.dumps(errors.to_status(error)).encode())
        if query.get("watch") == "true":
            self.watched_from.append(query["resourceVersion"])
            self._stream = asyncio.Queue()
            return Response(200, {}, stream=self._events(self._stream))
        self.lists += 1
        metadata = {"resourceVersion": str(self.revision)}
        items = list(self.objects.values())
        if "limit" in query:
            start, size = int(query.get("continue", "0")), int(query["limit"])
            if start + size < len(items):
                metadata["continue"] = str(start + size)
            items = items[start : start + size]
        body = {"metadata": metadata, "items": items}
        return Response(200, {}, json.dumps(body).encode())

    async def _events(self, stream: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
        while line := await stream.get():
            yield line

    def put(self, name: str, *, labels: Any = None) -> None:
        """Create or change an object; a watch hears of it."""
        type_ = "MODIFIED" if name in self.objects else "ADDED"
        self.revision += 1
        metadata = {"name": name, "resourceVersion": str(self.revision), "labels": labels or {}}
        self.objects[name] = {"metadata": metadata}
        self._send(type_, self.objects[name])

    def delete(self, name: str) -> None:
        document = self.objects.pop(name)
        self.revision += 1
        document["metadata"]["resourceVersion"] = str(self.revision)
        self._send("DELETED", document)

    def bookmark(self) -> None:
        self.revision += 5
        self._send("BOOKMARK", {"metadata": {"resourceVersion": str(self.revision)}})

    def expire(self) -> None:
        """End the watch because its revision is too old."""
        self._send("ERROR", errors.to_status(expired()))
        self.disconnect()

    def fail(self) -> None:
        """End the watch with an error, as a connection that is reset."""
        self._send("ERROR", errors.to_status(unavailable()))
        self.disconnect()

    def disconnect(self) -> None:
        """End the watch in order."""
        if self._stream is not None:
            self._stream.put_nowait(b"")
            self._stream = None

    def _send(self, type_: str, document: JsonObject) -> None:
        if self._stream is not None:
            self._stream.put_nowait(
                json.dumps({"type": type_, "object": document}).encode() + b"\n"
            )


def expired() -> errors.StatusError:
    return errors.too_old(3, 9)


def unavailable() -> errors.StatusError:
    return errors.service_unavailable("not now")


def teams(namespace: Namespace) -> Iterable[Hashable]:
    """Index by every team of the label `teams`."""
    return filter(None, namespace.metadata.labels.get("teams", "").split("."))


class Fixture:
    """A server, a cache of it, and every change that the cache reports."""

    def __init__(self, selection: ObjectSelection | None = None, **options: Any) -> None:
        self.api = FakeApi()
        self.cache: Cache[Any] = Cache(
            Client(self.api),
            kinds.NAMESPACE,
            Namespace,
            selection or ObjectSelection(),
            {"team": teams},
            **options,
        )
        self.changes: list[ObjectChange[Namespace]] = []

    @property
    def names(self) -> set[str]:
        return {namespace.metadata.name for namespace in self.cache}

    def team(self, name: str) -> set[str]:
        return {namespace.metadata.name for namespace in self.cache.find("team", name)}

    def reported(self) -> list[tuple[str, str, str]]:
        """The changes since the last call: name, revision before, revision after."""
        changes = [
            (change.key.name, revision(change.old), revision(change.new)) for change in self.changes
        ]
        self.changes.clear()
        return changes


def revision(namespace: Namespace | None) -> str:
    return namespace.metadata.resource_version if namespace else ""


def with_cache(
    *names: str, selection: ObjectSelection | None = None, **options: Any
) -> Callable[[Callable[[Fixture], Awaitable[None]]], Callable[[], None]]:
    """Run a test while a cache of a server with objects `names` runs, in virtual time."""

    def decorate(test: Callable[[Fixture], Awaitable[None]]) -> Callable[[], None]:
        async def run() -> None:
            here = Fixture(selection, **options)
            for name in names:
                here.api.put(name)
            here.cache.subscribe(here.changes.append)
            task = asyncio.create_task(here.cache.run())
            await here.cache.synced.wait()
            await settled()
            try:
                await test(here)
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

        def decorated() -> None:
            virtualtime.run(run())

        decorated.__name__, decorated.__doc__ = test.__name__, test.__doc__
        return decorated

    return decorate


async def settled() -> None:
    """Let the cache take in everything that was sent: virtual time passes when it has."""
    await asyncio.sleep(0.001)


@with_cache("a", "b", selection=ObjectSelection(label_selector="x=y"))
async def test_it_lists_and_then_watches_from_there(here: Fixture) -> None:
    assert here.names == {"a", "b"}
    assert here.cache.get("a") is not None
    assert here.cache.get("c") is None
    assert (here.api.lists, here.api.watched_from) == (1, ["12"])
    assert {query.get("labelSelector") for query in here.api.queries} == {"x=y"}
    assert here.reported() == [("a", "", "11"), ("b", "", "12")]


@with_cache("a")
async def test_it_follows_changes(here: Fixture) -> None:
    here.reported()
    here.api.put("b")
    here.api.put("a")
    here.api.delete("b")
    await settled()
    assert here.names == {"a"}
    assert here.reported() == [("b", "", "12"), ("a", "11", "13"), ("b", "12", "")]
    assert here.cache.resource_version == "14"
    assert here.api.lists == 1


@with_cache("a")
async def test_handlers_see_the_changed_copy(here: Fixture) -> None:
    seen: list[tuple[set[str], set[str]]] = []
    here.cache.subscribe(lambda _change: seen.append((here.names, here.team("red"))))
    here.api.put("b", labels={"teams": "red"})
    here.api.delete("b")
    await settled()
    assert seen == [({"a"}, set()), ({"a", "b"}, {"b"}), ({"a"}, set())]


@with_cache("a", "b")
async def test_a_late_subscriber_gets_what_is_there(here: Fixture) -> None:
    late: list[ObjectChange[Namespace]] = []
    here.cache.subscribe(late.append)
    assert [(change.key, change.old) for change in late] == [(A, None), (B, None)]
    assert all(change.new is not None for change in late)


@with_cache("a")
async def test_after_the_end_of_a_watch_it_goes_on_from_the_last_event(here: Fixture) -> None:
    here.api.put("b")
    await settled()
    here.api.disconnect()
    await settled()
    assert here.api.watched_from == ["11", "12"]
    assert here.api.lists == 1
    assert here.names == {"a", "b"}


@with_cache("a")
async def test_a_bookmark_is_where_it_goes_on(here: Fixture) -> None:
    here.reported()
    here.api.bookmark()
    await settled()
    assert here.reported() == []
    assert here.cache.resource_version == "16"
    here.api.disconnect()
    await settled()
    assert here.api.watched_from == ["11", "16"]


@pytest.mark.parametrize("as_event", [True, False], ids=["event", "response"])
def test_it_lists_again_when_its_revision_is_too_old(as_event: bool) -> None:
    @with_cache("a", "b", "c")
    async def test(here: Fixture) -> None:
        here.reported()
        if as_event:
            here.api.expire()
        else:
            here.api.failures.append(expired())
            here.api.disconnect()
        # Nobody watches while these happen.
        here.api.put("a", labels={"teams": "red"})
        here.api.delete("b")
        here.api.put("d")
        await settled()
        assert here.names == {"a", "c", "d"}
        assert here.team("red") == {"a"}
        assert here.cache.resource_version == str(here.api.revision)
        assert (here.api.lists, here.api.watched_from[-1]) == (2, str(here.api.revision))
        changes = here.reported()
        assert set(changes) == {
            ("a", "11", "14"),
            ("c", "13", "13"),
            ("d", "", "16"),
            ("b", "12", ""),
        }
        assert changes[-1] == ("b", "12", ""), "what is gone is reported last"

    test()


@with_cache("a")
async def test_an_object_that_was_replaced_while_nobody_watched_is_a_change(here: Fixture) -> None:
    here.reported()
    here.api.expire()
    here.api.delete("a")
    here.api.put("a")
    await settled()
    assert here.reported() == [("a", "11", "13")]


@with_cache("a")
async def test_an_object_that_cannot_be_decoded_is_kept_apart(here: Fixture) -> None:
    here.reported()
    here.api.put("a", labels=["no", "map"])
    here.api.put("b")
    await settled()
    assert here.names == {"b"}
    assert set(here.cache.undecodable) == {A}
    assert "Expected `object`" in here.cache.undecodable[A].reason
    assert here.cache.undecodable[A].raw["metadata"]["name"] == "a"
    assert here.reported() == [("a", "11", ""), ("b", "", "13")]
    here.api.put("a")
    await settled()
    assert (here.names, here.cache.undecodable) == ({"a", "b"}, {})
    assert here.reported() == [("a", "", "14")]


@with_cache("a")
async def test_an_undecodable_object_can_be_deleted(here: Fixture) -> None:
    here.api.put("b", labels=7)
    here.api.put("c", labels=7)
    await settled()
    assert set(here.cache.undecodable) == {B, C}
    here.reported()
    here.api.delete("b")
    await settled()
    here.api.expire()
    here.api.delete("c")
    await settled()
    assert here.cache.undecodable == {}
    assert here.names == {"a"}
    assert here.reported() == [("a", "11", "11")], "what was never shown is not taken away"


@with_cache()
async def test_an_undecodable_object_in_a_list_does_not_hide_the_others(here: Fixture) -> None:
    here.api.expire()
    here.api.put("a", labels=7)
    here.api.put("b")
    await settled()
    assert here.names == {"b"}
    assert set(here.cache.undecodable) == {A}


@with_cache()
async def test_null_is_as_good_as_absent(here: Fixture) -> None:
    here.api.objects["a"] = {"metadata": {"name": "a", "resourceVersion": "11", "labels": None}}
    here.api.expire()
    await settled()
    assert here.names == {"a"}
    assert here.cache.undecodable == {}


@with_cache()
async def test_indexes_follow_the_objects(here: Fixture) -> None:
    here.api.put("a", labels={"teams": "red.blue"})
    here.api.put("b", labels={"teams": "red"})
    await settled()
    assert (here.team("red"), here.team("blue"), here.team("green")) == ({"a", "b"}, {"a"}, set())
    here.api.put("a", labels={"teams": "green.blue"})
    here.api.delete("b")
    await settled()
    assert (here.team("red"), here.team("blue"), here.team("green")) == (set(), {"a"}, {"a"})
    found = here.cache.find("team", "blue")
    assert found == [here.cache.get("a")], "an index has the newest object"


@with_cache("a")
async def test_it_backs_off_from_a_server_that_fails(here: Fixture) -> None:
    here.api.times.clear()
    here.api.failures = [unavailable() for _ in range(10)]
    here.api.disconnect()
    await asyncio.sleep(120)
    waits = [b - a for a, b in zip(here.api.times, here.api.times[1:], strict=False)]
    expected = [min(RETRY_SECONDS * 2**count, MAX_RETRY_SECONDS) for count in range(10)]
    assert waits == pytest.approx(expected)
    assert here.names == {"a"}, "the copy stays while the server is away"
    assert here.api.lists == 1
    # A watch that worked ends the back-off.
    here.api.times.clear()
    here.api.failures = [unavailable()]
    here.api.disconnect()
    await asyncio.sleep(10)
    assert here.api.times[1] - here.api.times[0] == pytest.approx(RETRY_SECONDS)


@with_cache("a")
async def test_it_backs_off_from_a_server_that_expires_every_revision(here: Fixture) -> None:
    here.api.times.clear()
    here.api.failures = [expired() for _ in range(10)]
    here.api.disconnect()
    await asyncio.sleep(120)
    waits = [b - a for a, b in zip(here.api.times, here.api.times[1:], strict=False)]
    backoffs = [min(RETRY_SECONDS * 2**count, MAX_RETRY_SECONDS) for count in range(9)]
    assert waits == pytest.approx([0, *backoffs, 0]), "the first expiry is answered at once"
    assert here.api.lists == 2
    assert here.names == {"a"}


def test_it_waits_for_a_server_that_is_not_there_yet(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        here = Fixture()
        here.api.put("a")
        here.api.failures = [unavailable(), unavailable()]
        task = asyncio.create_task(here.cache.run())
        await asyncio.sleep(0.1)
        assert not here.cache.synced.is_set()
        await here.cache.synced.wait()
        assert here.names == {"a"}
        task.cancel()

    with caplog.at_level(logging.WARNING):
        virtualtime.run(run())
    assert len(caplog.records) == 2
    assert "cannot follow namespaces" in caplog.text


def test_the_server_wins_over_what_it_sent_before() -> None:
    """An older event cannot come after a newer one, but a list may be older than the cache."""

    async def run() -> None:
        here = Fixture()
        here.api.put("a")
        task = asyncio.create_task(here.cache.run())
        await here.cache.synced.wait()
        await settled()
        # A backup was restored: revisions start lower, and objects are gone.
        here.api.objects.clear()
        here.api.revision = 3
        here.api.expire()
        await settled()
        assert len(here.cache) == 0
        assert here.cache.resource_version == "3"
        task.cancel()

    virtualtime.run(run())


def without_labels(namespace: Namespace) -> Namespace:
    metadata = msgspec.structs.replace(namespace.metadata, labels={})
    return msgspec.structs.replace(namespace, metadata=metadata)


@with_cache("a", "b", "c", page_size=2)
async def test_a_long_list_is_read_in_pages(here: Fixture) -> None:
    assert here.names == {"a", "b", "c"}
    assert here.api.lists == 2
    assert here.api.watched_from == [str(here.api.revision)]


@with_cache(trim=without_labels)
async def test_what_is_trimmed_is_not_kept(here: Fixture) -> None:
    here.api.put("a", labels={"teams": "x"})
    await settled()
    assert here.names == {"a"}
    assert here.team("x") == set()


@with_cache("a")
async def test_every_sign_of_the_server_is_a_contact(here: Fixture) -> None:
    contacts: list[str] = []
    here.cache.contacted = lambda: contacts.append(here.cache.resource_version)
    here.api.put("b")
    here.api.bookmark()
    await settled()
    assert contacts == ["12", "17"]


@contextlib.asynccontextmanager
async def running(here: Fixture) -> AsyncIterator[None]:
    task = asyncio.create_task(here.cache.run())
    await here.cache.synced.wait()
    await settled()
    yield
    task.cancel()


@with_cache()
async def test_caches_of_a_process_share_the_objects_of_events(here: Fixture) -> None:
    other = Fixture()
    async with running(other):
        for one in (here, other):
            one.api.put("a", labels={"teams": "red"})
        await settled()
    assert here.cache.get("a") is other.cache.get("a") is not None
    assert here.team("red") == other.team("red") == {"a"}


@with_cache()
async def test_large_objects_are_not_kept_for_other_caches(here: Fixture) -> None:
    other = Fixture()
    async with running(other):
        for one in (here, other):
            one.api.put("a", labels={"large": "x" * SHARED_BYTES})
        await settled()
    assert here.cache.get("a") == other.cache.get("a")
    assert here.cache.get("a") is not other.cache.get("a")


@with_cache()
async def test_another_type_is_decoded_for_itself(here: Fixture) -> None:
    other = Fixture()
    other.cache = Cache(Client(other.api), kinds.NAMESPACE, HasMetadata)
    async with running(other):
        for one in (here, other):
            one.api.put("a")
        await settled()
    assert type(here.cache.get("a")) is Namespace
    assert type(other.cache.get("a")) is HasMetadata


@with_cache("a")
async def test_it_says_why_the_server_cannot_be_followed(here: Fixture) -> None:
    said: list[str] = []
    here.cache.problem_changed = lambda: said.append(here.cache.problem)
    here.api.failures = [unavailable()]
    here.api.disconnect()
    await asyncio.sleep(10)
    assert said == []
    here.api.failures = [unavailable()] * 3
    here.api.disconnect()
    await asyncio.sleep(10)
    assert said == ["not now", ""]


@with_cache("a")
async def test_a_watch_that_held_for_a_while_is_opened_again_at_once(here: Fixture) -> None:
    """Balancers end a watch now and then: many of these over the days are no outage."""
    for _ in range(20):
        here.api.fail()
        await asyncio.sleep(60)
    before = len(here.api.watched_from)
    here.api.fail()
    await asyncio.sleep(2 * RETRY_SECONDS)
    assert len(here.api.watched_from) == before + 1
