"""List, then watch: a typed, indexed, current copy of one kind.

An object that cannot be decoded does not stop the watch: it is kept as an `Undecodable`, so that
the owner can decide what such an object may still hold.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, cast

import msgspec

from dray.api import errors
from dray.api.conversion import canonical
from dray.api.ids import ObjectKey
from dray.api.kinds import Kind
from dray.api.types.meta import ObjectMeta
from dray.client.api_client import EVERYTHING, Client, ListPage, ObjectSelection

log = logging.getLogger(__name__)

SHARED_OBJECTS = 512
SHARED_BYTES = 16 * 2**10
"""The size up to which the caches of a process share an object; many larger ones would be much."""
RETRY_SECONDS = 0.2
MAX_RETRY_SECONDS = 30.0
SETTLED_SECONDS = 1.0
"""A watch that has not failed for so long is accepted: a server need not send anything."""


class HasMetadata(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class _Named(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The metadata of an object that is not decoded otherwise."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _HasIdentity(msgspec.Struct, frozen=True, gc=False):
    metadata: _Named = _Named()


Identity = _Named | ObjectMeta
"""The name and revision of an object."""

_identities = msgspec.json.Decoder(_HasIdentity)


T = TypeVar("T")
IndexFunction = Callable[[T], Iterable[Hashable]]
Decode = Callable[[bytes | msgspec.Raw, type[T]], T]


@dataclass(frozen=True, slots=True)
class Undecodable:
    """An object whose fields do not have the types of its struct, and the reason."""

    key: ObjectKey
    raw: dict[str, Any]
    reason: str


class ObjectChange(NamedTuple, Generic[T]):
    """`old` is None when the object appears, `new` when it is gone."""

    key: ObjectKey
    old: T | None
    new: T | None


def decode(raw: bytes | msgspec.Raw, type_: type[T]) -> T:
    """Decode into the struct; nulls, which some servers write for absent fields, cost a retry."""
    try:
        value: T = _decoder(cast(Hashable, type_)).decode(raw)
    except msgspec.ValidationError:
        return msgspec.convert(canonical.prune_nulls(msgspec.json.decode(raw)), type_)
    return value


@functools.cache
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_)


def _decoded_once(raw: bytes | msgspec.Raw, type_: type[T]) -> T:
    """Decode the object of an event, or return what another cache of the process made of it.

    All caches of a kind receive an event at about the same time. What they share is frozen.
    """
    encoded = bytes(raw)
    if len(encoded) > SHARED_BYTES:
        return decode(encoded, type_)
    value: T = _shared(encoded, cast(Hashable, type_))
    return value


@functools.lru_cache(SHARED_OBJECTS)
def _shared(raw: bytes, type_: Any) -> Any:
    return decode(raw, type_)


class Cache(Generic[T]):
    """A copy of the objects of one kind, current up to the last event of its watch.

    Handlers are called in order, on the loop, after the copy has changed.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind,
        type_: type[T],
        selection: ObjectSelection = EVERYTHING,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        *,
        trim: Callable[[T], T] | None = None,
        page_size: int = 0,
    ) -> None:
        """`trim` returns what is kept of an object. With `page_size` lists are read in pages."""
        self._client = client
        self._kind = kind
        self._type = type_
        self._selection = selection
        self._trim, self._page_size = trim, page_size
        self._objects: dict[ObjectKey, T] = {}
        self._undecodable: dict[ObjectKey, Undecodable] = {}
        self._index_functions = dict(indexes or {})
        self._indexes: dict[str, dict[Hashable, dict[ObjectKey, T]]] = {
            name: {} for name in self._index_functions
        }
        self._handlers: list[Callable[[ObjectChange[T]], None]] = []
        self._pause = RETRY_SECONDS
        """How long to wait after the next failure."""
        self.resource_version = ""
        """The revision up to which the copy is current."""
        self.synced = asyncio.Event()
        self.contacted: Callable[[], None] = _nothing
        """Called whenever the server sends a list, an event or a bookmark."""
        self.problem = ""
        """Why the server cannot be followed, after it has failed twice; "" while it can."""
        self.problem_changed: Callable[[], None] = _nothing

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def get(self, name: str, namespace: str = "") -> T | None:
        return self._objects.get(ObjectKey(namespace, name))

    def find(self, index: str, value: Hashable) -> list[T]:
        """Return the objects that `index` has under `value`."""
        return list(self._indexes[index].get(value, {}).values())

    @property
    def kind(self) -> Kind:
        return self._kind

    @property
    def undecodable(self) -> Mapping[ObjectKey, Undecodable]:
        return self._undecodable

    def subscribe(self, handler: Callable[[ObjectChange[T]], None]) -> None:
        """Call `handler` for every change, and now for every object that is there already."""
        self._handlers.append(handler)
        for key, value in self._objects.items():
            handler(ObjectChange(key, None, value))

    async def run(self) -> None:
        """Keep the copy current until cancelled; errors of the server are retried with back-off."""
        has_expired = False
        while True:
            try:
                if not self.resource_version:
                    await self._relist()
                await self._follow()
                self._pause, has_expired = RETRY_SECONDS, False
            except (errors.Expired, errors.Gone):
                self.resource_version = ""
                if has_expired:
                    # A server that expires each revision at once would be listed without pause.
                    await self._wait()
                has_expired = True
            except errors.StatusError as error:
                log.warning("cannot follow %s: %s", self._kind.plural, error)
                if self._pause > RETRY_SECONDS:
                    self._note(str(error))
                await self._wait()

    async def _wait(self) -> None:
        pause, self._pause = self._pause, min(self._pause * 2, MAX_RETRY_SECONDS)
        await asyncio.sleep(pause)

    def _settle(self) -> None:
        """Note that the server is followed: failures of earlier watches no longer count."""
        self._pause = RETRY_SECONDS
        self._note("")

    def _note(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            self.problem_changed()

    async def _relist(self) -> None:
        gone = set(self._objects) | set(self._undecodable)
        resource_version = ""
        async for page in self._pages():
            for raw in page.items:
                # A copy: a slice of the response would keep all of its bytes alive.
                gone.discard(_key(self._store(bytes(raw))))
            resource_version = page.resource_version
        for key in gone:
            self._remove(key)
        self.resource_version = resource_version
        self.synced.set()
        self.contacted()

    async def _pages(self) -> AsyncIterator[ListPage]:
        if self._page_size:
            async for page in self._client.pages(
                self._kind, self._selection, limit=self._page_size
            ):
                yield page
        else:
            yield await self._client.list(self._kind, self._selection)

    async def _follow(self) -> None:
        settling = asyncio.get_running_loop().call_later(SETTLED_SECONDS, self._settle)
        try:
            await self._take_events()
        finally:
            settling.cancel()

    async def _take_events(self) -> None:
        events = self._client.watch(
            self._kind, self._selection, resource_version=self.resource_version
        )
        async for event in events:
            if event.type in ("DELETED", "BOOKMARK"):
                identity: Identity = _identities.decode(event.object).metadata
            else:
                identity = self._store(event.object, _decoded_once)
            if event.type == "DELETED":
                self._remove(_key(identity))
            self.resource_version = identity.resource_version
            self.contacted()

    def _store(self, raw: bytes | msgspec.Raw, decode: Decode[T] = decode) -> Identity:
        """Store an object that is new or has changed, and return its identity."""
        try:
            value: T = decode(raw, self._type)
        except msgspec.ValidationError as error:
            return self._keep_undecodable(raw, str(error))
        if self._trim is not None:
            value = self._trim(value)
        metadata: ObjectMeta = value.metadata  # type: ignore[attr-defined]
        key = _key(metadata)
        if self._undecodable:
            self._undecodable.pop(key, None)
        self._replace(key, value)
        return metadata

    def _keep_undecodable(self, raw: bytes | msgspec.Raw, reason: str) -> Identity:
        identity = _identities.decode(raw).metadata
        key = _key(identity)
        log.error("%s %s cannot be read: %s", self._kind.plural, key, reason)
        self._undecodable[key] = Undecodable(key, msgspec.json.decode(raw), reason)
        self._replace(key, None)
        return identity

    def _remove(self, key: ObjectKey) -> None:
        self._undecodable.pop(key, None)
        self._replace(key, None)

    def _replace(self, key: ObjectKey, new: T | None) -> None:
        old = self._objects.pop(key, None)
        if new is not None:
            self._objects[key] = new
        elif old is None:
            return
        self._reindex(key, old, new)
        change = ObjectChange(key, old, new)
        for handler in self._handlers:
            handler(change)

    def _reindex(self, key: ObjectKey, old: T | None, new: T | None) -> None:
        for name, function in self._index_functions.items():
            index = self._indexes[name]
            for value in function(old) if old is not None else ():
                bucket = index.get(value, {})
                bucket.pop(key, None)
                if not bucket:
                    index.pop(value, None)
            if new is not None:
                for value in function(new):
                    index.setdefault(value, {})[key] = new


def _nothing() -> None:
    pass


def _key(identity: Identity) -> ObjectKey:
    return ObjectKey(identity.namespace, identity.name)
