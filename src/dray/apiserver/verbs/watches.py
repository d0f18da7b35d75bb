"""watch, for every kind: store events become lines in the version and form of the watcher.

An event is encoded once for all watchers that get the same line. To a watcher with a selector, an
object is added when it starts to match and deleted when it no longer does.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from dray.api import errors, http_messages
from dray.api.http_messages import Request, Response
from dray.api.kinds import GroupVersionKind
from dray.api.selectors.field_selectors import FieldSelector, FieldTerm
from dray.api.types.meta import JsonObject
from dray.apiserver.printing import tables
from dray.apiserver.request import negotiation, selection
from dray.apiserver.request.call import Call
from dray.apiserver.request.negotiation import Shape
from dray.apiserver.request.selection import StoredObjectSelector
from dray.apiserver.storage import codec, store_keys
from dray.apiserver.verbs import reads
from dray.store import store
from dray.store.store import Entry, Event, Store

ADDED, MODIFIED, DELETED, BOOKMARK, ERROR = "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"
INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}
BOOKMARK_SECONDS = 60.0
DEFAULT_TIMEOUT_SECONDS = 2700.0
CACHED_LINES = 4096
CACHED_BYTES = 16 * 2**20
CHUNK_EVENTS = 500
CHUNK_SHAPED_EVENTS = 20
"""Fewer: a table row or another version of an object takes longer to make."""
CHUNK_BYTES = 256 * 2**10


class WatchOptions(NamedTuple):
    """The start of a watch, its extra events, and its end."""

    resource_version: int
    send_initial_events: bool
    allow_bookmarks: bool
    timeout_seconds: float

    @property
    def starts_with_objects(self) -> bool:
        """Whether existing objects come first, as ADDED: without a revision, or from 0."""
        return self.send_initial_events or not self.resource_version


class WatchedEvent(NamedTuple):
    """An event with the type that it has for one watcher."""

    type: str
    entry: Entry


class EventLineCache:
    """The lines of recent events, so that a thousand watchers cost one encoding."""

    def __init__(self) -> None:
        self._lines: OrderedDict[tuple[str, int, str, GroupVersionKind], bytes] = OrderedDict()
        self._bytes = 0

    def line(self, change: WatchedEvent, gvk: GroupVersionKind) -> bytes:
        key = (change.type, change.entry.revision, change.entry.key, gvk)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = event_line(change.type, _object_bytes(change.entry, gvk))
            self._bytes += len(line)
            while len(self._lines) > CACHED_LINES or self._bytes > CACHED_BYTES:
                # The oldest and not the least recently used: watchers read events in order, and all
                # at about the same time, so that an old line is hardly needed again.
                _key, oldest = self._lines.popitem(last=False)
                self._bytes -= len(oldest)
        return line


def _object_bytes(entry: Entry, gvk: GroupVersionKind) -> bytes:
    if reads.has_storage_fields(gvk):
        return codec.whole(entry, gvk)
    return codec.encode(reads.document_of(entry, gvk))


def event_line(type_: str, encoded: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), encoded)


async def watch(call: Call, objects: Store, encodings: EventLineCache) -> Response:
    """Return a stream of events. Errors after its headers become ERROR events."""
    options = parse_options(call.request)
    selector = selection.parse(call.request, call.kind, call.info.version)
    if call.info.name:
        terms = (*selector.fields.terms, FieldTerm("metadata.name", call.info.name))
        selector = StoredObjectSelector(selector.labels, FieldSelector(terms))
    watcher = Watcher(call, options, selector, encodings)
    return Response(200, {"content-type": http_messages.JSON}, stream=watcher.stream(objects))


class Watcher:
    """One watch request, from its first event to its end."""

    def __init__(
        self,
        call: Call,
        options: WatchOptions,
        selector: StoredObjectSelector,
        encodings: EventLineCache,
    ) -> None:
        self._call = call
        self._form = call.form
        self._options = options
        self._selector = selector
        self._read_fields = selection.reader(selector)
        self._encodings = encodings
        self._prefix = store_keys.prefix(call.kind, call.namespace)
        self._storage_gvk = store_keys.storage_gvk(call.kind)
        self._columns_sent = False

    async def stream(self, objects: Store) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._options.timeout_seconds
        try:
            with store_keys.translated():
                async for chunk in self._start_and_follow(objects, end):
                    yield chunk
        except store.SlowWatcher:
            # The stream ends without an error, as in Kubernetes (cacher, forceClose): the client
            # goes on from its last event.
            return
        except errors.StatusError as error:
            yield _error_line(error)

    async def _start_and_follow(self, objects: Store, end: float) -> AsyncIterator[bytes]:
        revision = self._options.resource_version
        if self._options.starts_with_objects:
            listing = await reads.gather(
                objects, self._prefix, self._storage_gvk, self._selector, reads.ListOptions()
            )
            # The watch goes on from the revision of the list: nothing is lost in between.
            revision = listing.revision
            for chunk in self._chunks([WatchedEvent(ADDED, entry) for entry in listing.entries]):
                yield chunk
            if self._options.send_initial_events:
                yield self._bookmark(revision, INITIAL_EVENTS_END)
        with await objects.watch(self._prefix, revision) as events:
            async for chunk in self._follow(events, end):
                yield chunk

    async def _follow(self, events: store.Watch, end: float) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        while (left := end - loop.time()) > 0:
            try:
                async with asyncio.timeout(min(left, BOOKMARK_SECONDS)):
                    batch = await events.read()
            except TimeoutError:
                # A cancelled read loses nothing (see `store.Watch`). The bookmark moves the client
                # forward while only others' objects change, so that it can resume after a
                # compaction.
                if self._options.allow_bookmarks and end - loop.time() > 0:
                    yield self._bookmark(events.revision)
                continue
            if not batch:
                return
            for chunk in self._chunks(list(filter(None, map(self._change, batch)))):
                yield chunk

    def _change(self, event: Event) -> WatchedEvent | None:
        """Return the event for this watcher, or None if its selector matches neither state.

        before  after   event
        no      yes     ADDED, also for an update that makes the object match
        yes     yes     MODIFIED
        yes     no      DELETED, also for an update after which the object no longer matches
        """
        if self._selector.is_everything:
            # Without a selector the values need not be decoded.
            was, matches = event.previous is not None, event.current is not None
        else:
            was, matches = self._matches(event.previous), self._matches(event.current)
        if matches:
            assert event.current is not None
            return WatchedEvent(MODIFIED if was else ADDED, event.current)
        if was:
            assert event.previous is not None
            # The last state that matched, because the watcher may not see the new one, but with
            # the revision of the event, from which a client resumes.
            return WatchedEvent(DELETED, replace(event.previous, revision=event.revision))
        return None

    def _matches(self, entry: Entry | None) -> bool:
        if entry is None:
            return False
        return self._selector.matches(self._read_fields(entry.value))

    def _chunks(self, changes: list[WatchedEvent]) -> Iterator[bytes]:
        """Return the lines of events, many in one chunk: one write instead of hundreds.

        A chunk is not large: it stays in memory until a slow client has read it.
        """
        limit = CHUNK_EVENTS if self._form == negotiation.PLAIN else CHUNK_SHAPED_EVENTS
        chunk: list[WatchedEvent] = []
        size = 0
        for change in changes:
            chunk.append(change)
            size += len(change.entry.value)
            if len(chunk) >= limit or size >= CHUNK_BYTES:
                yield self._lines(chunk)
                chunk, size = [], 0
        if chunk:
            yield self._lines(chunk)

    def _lines(self, changes: Iterable[WatchedEvent]) -> bytes:
        if self._form == negotiation.PLAIN:
            gvk = self._call.gvk
            return b"".join(self._encodings.line(change, gvk) for change in changes)
        return b"".join(
            event_line(change.type, codec.encode(self._shaped(change.entry))) for change in changes
        )

    def _shaped(self, entry: Entry) -> JsonObject:
        document = reads.document_of(entry, self._call.gvk)
        if self._form.shape is Shape.TABLE:
            # As in Kubernetes, only the first table of a watch describes its columns.
            with_columns, self._columns_sent = not self._columns_sent, True
            metadata = {"resourceVersion": str(entry.revision)}
            return reads.table(self._call, [document], metadata, with_columns=with_columns)
        return tables.partial_metadata(document) if self._form.is_metadata else document

    def _bookmark(self, revision: int, annotations: dict[str, str] | None = None) -> bytes:
        metadata: JsonObject = {"resourceVersion": str(revision)}
        if annotations:
            metadata["annotations"] = annotations
        gvk = self._call.gvk
        document: JsonObject = {"kind": gvk.kind, "apiVersion": gvk.api_version}
        document["metadata"] = metadata
        if self._form.shape is Shape.TABLE:
            row = {"cells": [], "object": tables.partial_metadata(document)}
            document = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
            document |= {"columnDefinitions": None, "rows": [row]}
        elif self._form.is_metadata:
            document = tables.partial_metadata(document)
        return event_line(BOOKMARK, codec.encode(document))


def _error_line(error: errors.StatusError) -> bytes:
    return event_line(ERROR, codec.encode(errors.to_status(error)))


def parse_options(request: Request) -> WatchOptions:
    timeout = reads.integer(request, "timeoutSeconds")
    options = WatchOptions(
        resource_version=reads.parse_resource_version(request.parameter("resourceVersion")),
        send_initial_events=request.flag("sendInitialEvents"),
        allow_bookmarks=request.flag("allowWatchBookmarks"),
        timeout_seconds=float(timeout) if timeout > 0 else DEFAULT_TIMEOUT_SECONDS,
    )
    match = request.parameter("resourceVersionMatch")
    sends_initial_events = request.parameter("sendInitialEvents")
    if sends_initial_events and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise reads.forbidden_list_option("resourceVersionMatch", why)
    if match and not sends_initial_events:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise reads.forbidden_list_option("resourceVersionMatch", why)
    return options
