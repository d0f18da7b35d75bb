"""One kind of a server: its objects now, what happened since a revision, and what happens.

In contrast to a cache it keeps no objects, tells each change with its revision, and can go on from
the revision of an earlier process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from dray.api import errors
from dray.api.ids import ObjectKey
from dray.api.kinds import Kind
from dray.client import cache
from dray.client.api_client import EVERYTHING, Client, ObjectSelection, WatchEvent
from dray.client.cache import MAX_RETRY_SECONDS, RETRY_SECONDS
from dray.history.objects import RecordedObject

__all__ = ["FollowedKind", "Listing", "ObjectEvent", "revision"]

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


class _HasMetadata(Protocol):
    @property
    def metadata(self) -> _HasName: ...


T = TypeVar("T", bound=_HasMetadata)

_identities = msgspec.json.Decoder(RecordedObject)


class Listing(NamedTuple, Generic[T]):
    """The objects at one revision."""

    objects: list[T]
    version: str


class ObjectEvent(NamedTuple, Generic[T]):
    """A change of an object; None if it is deleted or no longer selected.

    Without a key nothing has changed but the revision.
    """

    version: str
    key: ObjectKey | None = None
    uid: str = ""
    object: T | None = None
    written: str = ""
    """When the object was last written, as far as it says so; only for past events."""


class FollowedKind(Generic[T]):
    """Reads one kind of a server."""

    def __init__(
        self,
        client: Client,
        kind: Kind,
        type_: type[T],
        selection: ObjectSelection = EVERYTHING,
    ) -> None:
        self._client, self._selection = client, selection
        self.kind = kind
        self._type = type_
        self._decoder = msgspec.json.Decoder(type_)
        self.is_connected = False

    async def read(self) -> Listing[T]:
        """Return the objects; errors of the server are retried with back-off."""
        delay = RETRY_SECONDS
        while True:
            try:
                return await self._read()
            except errors.StatusError as error:
                log.warning("cannot list %s: %s", self.kind.plural, error)
                await asyncio.sleep(delay)
                delay = min(delay * 2, MAX_RETRY_SECONDS)

    async def _read(self) -> Listing[T]:
        found: list[T] = []
        version = ""
        async for page in self._client.pages(self.kind, self._selection, limit=PAGE_SIZE):
            found += filter(None, map(self._decoded, page.items))
            version = page.resource_version
            await asyncio.sleep(0)
        return Listing(found, version)

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
        events = self._events(version, is_past=True)
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

    async def follow(self, version: str) -> AsyncIterator[ObjectEvent[T]]:
        """Yield what happens after a revision. Raises Expired if the server no longer has it."""
        delay = RETRY_SECONDS
        while True:
            settling = asyncio.get_running_loop().call_later(SETTLED_SECONDS, self._settle)
            try:
                async for event in self._events(version):
                    self.is_connected, delay = True, RETRY_SECONDS
                    version = event.version
                    yield event
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

    async def _events(
        self, version: str, *, is_past: bool = False
    ) -> AsyncGenerator[ObjectEvent[T], None]:
        events = self._client.watch(self.kind, self._selection, resource_version=version)
        async for event in events:
            yield self._event(event, is_past)

    def _event(self, event: WatchEvent, is_past: bool) -> ObjectEvent[T]:
        found = self._decoded(event.object) if event.type in ("ADDED", "MODIFIED") else None
        if found is not None and not is_past:
            metadata: _HasName = found.metadata
            written = ""
        else:
            metadata = identity = _identities.decode(event.object).metadata
            written = identity.last_written() if is_past else ""
        version = metadata.resource_version
        if found is None and event.type != "DELETED":
            return ObjectEvent(version)
        key = ObjectKey(metadata.namespace, metadata.name)
        return ObjectEvent(version, key, metadata.uid, found, written)

    def _decoded(self, raw: bytes | msgspec.Raw) -> T | None:
        """Return an object, or None if it cannot be read: what was known of it stays."""
        try:
            return cache.decode(raw, self._decoder, self._type)
        except msgspec.ValidationError as error:
            log.error("an object of %s cannot be read: %s", self.kind.plural, error)
            return None


def revision(version: str) -> int:
    """Return a resourceVersion as a number, as clients may compare them, or -1."""
    return int(version) if version.isdecimal() else -1
