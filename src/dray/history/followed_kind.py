"""One kind of a server: its objects now, what happened since a revision, and what happens.

In contrast to a cache it keeps no objects, tells each change with its revision, and can go on from
the revision of an earlier process.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from dray.api import errors
from dray.api.kinds import Kind
from dray.client import api_client, cache
from dray.client.api_client import Client, WatchEvent
from dray.client.cache import MAX_RETRY_SECONDS, RETRY_SECONDS
from dray.history.objects import RecordedObject

__all__ = [
    "EventBatch",
    "FollowedKind",
    "KindListing",
    "NamedObject",
    "ObjectEvent",
    "revision",
]

log = logging.getLogger(__name__)

PAGE_SIZE: Final = 500
SILENCE_SECONDS: Final = 1.0
"""A watch from an old revision has no end mark on every server: it ends after this silence."""
MAX_CAUGHT_UP: Final = 200_000
"""Events since an earlier revision, which are kept in memory until they are complete."""
SETTLED_SECONDS: Final = 1.0
"""A watch that has not failed for so long is accepted."""


class _HasName(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


class NamedObject(Protocol):
    @property
    def metadata(self) -> _HasName: ...


T = TypeVar("T", bound=NamedObject)


class KindListing(NamedTuple, Generic[T]):
    """The objects at one revision."""

    objects: list[T]
    version: str


class ObjectEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A change of an object, or only of the revision; a line of a watch is decoded as one."""

    type: str
    object: T
    """If it is deleted, as it was last."""
    written: str = ""
    """When the object was last written, as far as it says so; only for past events."""

    @property
    def version(self) -> str:
        return self.object.metadata.resource_version


def _event_decoder(type_: type[T]) -> msgspec.json.Decoder[ObjectEvent[T]]:
    return msgspec.json.Decoder(ObjectEvent[type_])  # type: ignore[valid-type]


class EventBatch(NamedTuple, Generic[T]):
    """The events that came together, and the revision after them.

    They are decoded one by one: what is skipped may depend on the events before.
    """

    events: Iterable[ObjectEvent[T]]
    size: int
    version: str


MODIFIED: Final = b'{"type":"MODIFIED"'
NOTHING: Final = "BOOKMARK"
_identities = msgspec.json.Decoder(RecordedObject)


class FollowedKind(Generic[T]):
    """Reads one kind of a server."""

    def __init__(
        self,
        client: Client,
        kind: Kind,
        type_: type[T],
        *,
        update: type[T] | None = None,
        keeps: Callable[[T], bool] = lambda _: True,
        skips: Callable[[bytes], bool] | None = None,
    ) -> None:
        """`keeps` says which objects a list returns.

        `update` is a smaller struct for objects that have changed. `skips` says which events are of
        no interest, from their lines: to decode an event takes longer than all that follows.
        """
        self._client, self._keeps = client, keeps
        self.kind = kind
        self._type = type_
        self._decoder = msgspec.json.Decoder(type_)
        self._events = _event_decoder(type_)
        self._updates = _event_decoder(update or type_)
        self._skips = skips
        self.is_connected = False

    async def read(self) -> KindListing[T]:
        """Return the objects; errors of the server are retried with back-off."""
        delay = RETRY_SECONDS
        while True:
            try:
                return await self._read()
            except errors.StatusError as error:
                log.warning("cannot list %s: %s", self.kind.plural, error)
                await asyncio.sleep(delay)
                delay = min(delay * 2, MAX_RETRY_SECONDS)

    async def _read(self) -> KindListing[T]:
        found: list[T] = []
        version = ""
        async for page in self._client.pages(self.kind, limit=PAGE_SIZE):
            read = filter(None, map(self._decoded, page.items))
            found += filter(self._keeps, read)
            version = page.resource_version
            await asyncio.sleep(0)
        return KindListing(found, version)

    async def since(self, version: str, until: str) -> list[ObjectEvent[T]] | None:
        """Return what happened between two revisions, and perhaps more.

        None if the server no longer knows it, or never did.
        """
        found: list[ObjectEvent[T]] = []
        if not version or revision(version) > revision(until):
            # The state of the server may have been restored from a backup.
            return None
        if version == until:
            return found
        events = self._past_events(version)
        try:
            while not found or revision(found[-1].version) < revision(until):
                found.append(await asyncio.wait_for(anext(events), SILENCE_SECONDS))
                if len(found) > MAX_CAUGHT_UP:
                    return None
        except (TimeoutError, StopAsyncIteration):
            return found
        except errors.StatusError as error:
            log.info("%s cannot be read from %s on: %s", self.kind.plural, version, error)
            return None
        finally:
            await events.aclose()
        return found

    async def follow(self, version: str) -> AsyncIterator[EventBatch[T]]:
        """Yield what happens after a revision. Raises Expired if the server no longer has it."""
        delay = RETRY_SECONDS
        while True:
            settling = asyncio.get_running_loop().call_later(SETTLED_SECONDS, self._settle)
            try:
                received = self._client.watch_lines(self.kind, resource_version=version)
                async for together in received:
                    self.is_connected, delay = True, RETRY_SECONDS
                    batch = self._batch(together)
                    version = batch.version
                    yield batch
            except (errors.Expired, errors.Gone):
                raise
            except errors.StatusError as error:
                settling.cancel()
                self.is_connected = False
                log.warning("cannot follow %s: %s", self.kind.plural, error)
                await asyncio.sleep(delay)
                delay = min(delay * 2, MAX_RETRY_SECONDS)
            finally:
                settling.cancel()

    def _settle(self) -> None:
        self.is_connected = True

    async def _past_events(self, version: str) -> AsyncGenerator[ObjectEvent[T], None]:
        events = self._client.watch(self.kind, resource_version=version)
        async for event in events:
            yield self._past_event(event)

    def _past_event(self, event: WatchEvent) -> ObjectEvent[T]:
        metadata = _identities.decode(event.object).metadata
        found = self._decoded(event.object)
        if found is None:
            identity = self._decoder.decode(msgspec.json.encode({"metadata": metadata}))
            return ObjectEvent("DELETED" if event.type == "DELETED" else NOTHING, identity)
        return ObjectEvent(event.type, found, metadata.last_written())

    def _batch(self, together: Sequence[bytes]) -> EventBatch[T]:
        last = self._event(together[-1])
        wanted: Iterable[bytes] = together[:-1]
        if self._skips is not None:
            wanted = itertools.filterfalse(self._skips, wanted)
        events = itertools.chain(map(self._event, wanted), (last,))
        return EventBatch(events, len(together), last.version)

    def _event(self, line: bytes) -> ObjectEvent[T]:
        try:
            decoder = self._updates if line.startswith(MODIFIED) else self._events
            return decoder.decode(line)
        except msgspec.ValidationError:
            # Not an object but an error, or an object with nulls.
            return self._past_event(api_client.watch_event(line))

    def _decoded(self, raw: bytes | msgspec.Raw) -> T | None:
        """Return an object, or None if it cannot be read: what was known of it stays."""
        try:
            return cache.decode(raw, self._type)
        except msgspec.ValidationError as error:
            log.error("an object of %s cannot be read: %s", self.kind.plural, error)
            return None


def revision(version: str) -> int:
    """Return a resourceVersion as a number, as clients may compare them, or -1."""
    return int(version) if version.isdecimal() else -1
