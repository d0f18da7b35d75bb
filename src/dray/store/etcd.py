"""The distributed store: an etcd v3 cluster behind any number of API servers.

Revisions are etcd's own, so all servers see one order. Reads and commits go to the cluster; one
watch of all entries feeds this server's watchers, and resumes where it ended when the
connection is lost. A watcher that starts before the window of recent events reads etcd's history.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from typing import Any

import msgspec
from aetcd import rpc

from dray.store import etcd_connection, etcd_transaction, store, watch
from dray.store.watch import Stretch

FORMAT = 2
"""Since 2, allocations also write usage keys of devices; an older dray would not."""
RECONNECT_SECONDS = 0.2
CATCH_UP_SECONDS = 10.0
ENTRIES_AT_ONCE = 2_000

_ALL = store.Span.under("/")


class _Mark(msgspec.Struct):
    """Written among the entries when a server starts to watch and before it compacts.

    The watch starts after its revision, which therefore is that of an event: a reader of history
    up to a revision that the watch has reached is sure to meet an event that proves it.
    """

    format: int


class EtcdStore(store.Store):
    """One server's view of the store in a cluster. Only `open` makes one."""

    def __init__(
        self,
        connection: etcd_connection.EtcdConnection,
        layout: etcd_transaction.Layout,
        limits: watch.WatchLimits,
    ) -> None:
        self._connection, self._layout = connection, layout
        self._fanout = watch.Fanout(0, limits)
        self._moved = asyncio.Event()
        self._refusing = ""
        self._closed = False

    async def start(self) -> None:
        """Check the format of the stored data, and mark the revision to watch from."""
        response = await self._read(rpc.RangeRequest(key=self._layout.entry("/")))
        if response.kvs:
            version = msgspec.json.decode(response.kvs[0].value, type=_Mark).format
            if version > FORMAT:
                raise store.StoreUnusable(
                    f"etcd has format {version}; this version knows up to {FORMAT}"
                )
        self._fanout.start_at(await self._write_mark())

    async def _write_mark(self) -> int:
        mark = msgspec.json.encode(_Mark(FORMAT))
        step = etcd_transaction.put(self._layout.entry("/"), mark)
        return int((await self._write(rpc.TxnRequest(success=[step]))).header.revision)

    async def revision(self) -> int:
        request = rpc.RangeRequest(key=self._layout.entry("/"), count_only=True)
        return int((await self._read(request)).header.revision)

    async def get(self, key: str) -> store.Entry | None:
        response = await self._read(rpc.RangeRequest(key=self._layout.entry(key)))
        return self._entry(response.kvs[0]) if response.kvs else None

    async def list(
        self, prefix: str, *, limit: int = 0, after_key: str = "", revision: int | None = None
    ) -> store.Page:
        if revision == 0:
            # etcd reads 0 as the newest revision; it has none before the first.
            raise store.RevisionExpired(revision, await self.revision())
        page = await self._list_some(store.Span.under(prefix, after_key), limit, revision)
        entries, remaining = page.entries, page.remaining
        while remaining and (not limit or len(entries) < limit):
            span = store.Span.under(prefix, entries[-1].key)
            missing = limit - len(entries) if limit else 0
            more = await self._list_some(span, missing, page.revision)
            entries, remaining = entries + more.entries, more.remaining
        return store.Page(entries, page.revision, remaining)

    async def _list_some(self, span: store.Span, limit: int, revision: int | None) -> store.Page:
        request = rpc.RangeRequest(
            key=self._layout.entry(span.low) + b"\0",
            range_end=self._layout.entry(span.high),
            limit=min(limit or ENTRIES_AT_ONCE, ENTRIES_AT_ONCE),
            revision=revision,
        )
        try:
            response = await self._read(request)
        except etcd_connection.OutOfRange as error:
            raise await self._unreachable(revision or 0) from error
        entries = [self._entry(pair) for pair in response.kvs]
        at = int(response.header.revision) if revision is None else revision
        return store.Page(entries, at, response.count - len(entries))

    async def _unreachable(self, revision: int) -> store.StoreError:
        current = await self.revision()
        if revision > current:
            return store.FutureRevision(revision, current)
        return store.RevisionExpired(revision, current)

    async def commit(self, transaction: store.Transaction) -> int:
        held: dict[str, etcd_transaction.Held] = {}
        while True:
            attempt = etcd_transaction.Attempt(self._layout, transaction, held)
            response = await self._write(attempt.request())
            if response.succeeded:
                return int(response.header.revision)
            held = attempt.resolve_failure(response)

    async def watch(self, prefix: str, after_revision: int) -> store.Watch:
        if after_revision > self._fanout.revision:
            current = await self.revision()
            if after_revision > current:
                raise store.FutureRevision(after_revision, current)
        past = functools.partial(self._past_events, store.Span.under(prefix))
        if after_revision < self._fanout.window.start:
            # Read and dropped, so that an expired revision fails now and not in the first read.
            await past(after_revision, self._fanout.revision)
        self._check_open()
        return self._fanout.subscribe(prefix, after_revision, past)

    async def _past_events(self, span: store.Span, after: int, until: int) -> Stretch:
        try:
            async with contextlib.aclosing(self._events(after + 1)) as batches:
                async for batch in batches:
                    events = self._translate(batch)
                    matching = [e for e in events if e.revision <= until and span.covers(e.key)]
                    return Stretch(matching, events[-1].revision)
        except etcd_connection.Compacted as error:
            raise store.RevisionExpired(after, error.revision) from error
        raise store.Unavailable("etcd ended the watch")

    async def follow(self) -> None:
        """Feed the watchers, until cancelled."""
        while True:
            with contextlib.suppress(store.StoreError):
                await self._follow_once()
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _follow_once(self) -> None:
        reached = self._fanout.revision
        try:
            async with contextlib.aclosing(self._events(reached + 1)) as batches:
                async for batch in batches:
                    events = self._translate(batch)
                    reached = events[-1].revision
                    self._fanout.publish(reached, [e for e in events if _ALL.covers(e.key)])
                    self._moved.set()
        except etcd_connection.Compacted as error:
            restart = await self._write_mark()
            self._fanout.end(store.RevisionExpired(reached, error.revision))
            self._fanout.start_at(restart)

    def _events(self, first_revision: int) -> AsyncGenerator[Sequence[Any], None]:
        self._check_open()
        first_key, end_key = self._layout.entry("/"), self._layout.entry(_ALL.high)
        return self._connection.events(first_key, end_key, first_revision)

    def _translate(self, batch: Iterable[Any]) -> Sequence[store.Event]:
        return [self._event(event) for event in batch]

    def _event(self, event: Any) -> store.Event:
        deleted = event.type == rpc.Event.DELETE
        previous = self._entry(event.prev_kv) if event.prev_kv.mod_revision else None
        if not previous and (deleted or event.kv.version > 1):
            raise etcd_connection.Compacted(event.kv.mod_revision)
        return store.Event(
            key=self._layout.key_of(event.kv.key),
            revision=int(event.kv.mod_revision),
            current=None if deleted else self._entry(event.kv),
            previous=previous,
        )

    def _entry(self, pair: Any) -> store.Entry:
        key = self._layout.key_of(pair.key)
        return store.Entry(key, pair.value, pair.mod_revision, pair.create_revision)

    async def compact(self, revision: int) -> None:
        current = await self.revision()
        if revision > current:
            raise store.FutureRevision(revision, current)
        await self._catch_up()
        with contextlib.suppress(etcd_connection.OutOfRange):
            await self._connection.compact(revision)
        self._fanout.window.forget(revision)

    async def _catch_up(self) -> None:
        """Wait until the watch has reached the present, so that nothing unread is compacted."""
        present = await self._write_mark()
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                while self._fanout.revision < present:
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError as error:
            raise store.Unavailable("the watch of etcd lags behind") from error

    def health(self) -> store.StoreHealth:
        if self._closed:
            return store.StoreHealth(writable=False, reason="the store is closed")
        reason = self._refusing or self._connection.trouble
        return store.StoreHealth(writable=not reason, reason=reason)

    def close(self) -> None:
        self._closed = True
        self._fanout.end(store.Closed())

    async def _read(self, request: Any) -> Any:
        self._check_open()
        return await self._connection.read(request)

    async def _write(self, request: Any) -> Any:
        self._check_open()
        try:
            response = await self._connection.write(request)
        except store.ReadOnly as error:
            self._refusing = str(error)
            raise
        self._refusing = ""
        return response

    def _check_open(self) -> None:
        if self._closed:
            raise store.Closed


@contextlib.asynccontextmanager
async def open(
    access: etcd_connection.Access,
    *,
    root: str = "/dray",
    limits: watch.WatchLimits = watch.DEFAULT_LIMITS,
) -> AsyncIterator[EtcdStore]:
    """Open the store under `root` in a cluster; it is closed at the end of the block."""
    async with etcd_connection.EtcdConnection(access) as connection:
        opened = EtcdStore(connection, etcd_transaction.Layout(root), limits)
        await opened.start()
        # No TaskGroup: it would wrap whatever the block raises.
        following = asyncio.create_task(opened.follow())
        following.add_done_callback(lambda _: opened.close())
        try:
            yield opened
        finally:
            following.cancel()
            await asyncio.wait([following])
