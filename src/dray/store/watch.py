"""Ordered fan-out of events to watchers, the window of recent events, and resuming from history.

Everything here runs on the event loop and waits only to read a watcher's history. A store
publishes events after their commit is durable; all watchers share the events.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from dray.store import store


class WatchLimits(NamedTuple):
    """Bounds of memory: for recent events, and for the buffer of a watcher that does not read."""

    window_events: int = 20_000
    window_bytes: int = 16 * 2**20
    buffered_events: int = 10_000
    buffered_bytes: int = 64 * 2**20
    """More than one commit that together exceed this end the watch."""


DEFAULT_LIMITS = WatchLimits()


class Stretch(NamedTuple):
    """A part of history: the events of a prefix, complete up to the revision `reached`."""

    events: Sequence[store.Event]
    reached: int


History = Callable[[int, int], Coroutine[Any, Any, Stretch]]
"""Reads the next part of history after one revision and not beyond another."""


class Window:
    """The newest events, in memory: all those after the revision `start`.

    Bounded by number and by the size of the replaced values, which nothing else keeps alive.
    """

    def __init__(self, start: int, limits: WatchLimits) -> None:
        self.start = start
        self._limits = limits
        self._events: deque[store.Event] = deque()
        self._bytes = 0

    def append(self, events: Iterable[store.Event]) -> None:
        for event in events:
            self._events.append(event)
            self._bytes += _replaced_bytes(event)
        while self._is_over():
            # A whole revision at a time: a watcher that resumes must not get half of a commit.
            self.forget(self._events[0].revision)

    def _is_over(self) -> bool:
        limits = self._limits
        return len(self._events) > limits.window_events or self._bytes > limits.window_bytes

    def forget(self, revision: int) -> None:
        """Drop the events up to a revision."""
        self.start = max(self.start, revision)
        while self._events and self._events[0].revision <= revision:
            self._bytes -= _replaced_bytes(self._events.popleft())

    def after(self, revision: int) -> list[store.Event]:
        # Backwards: watchers resume near the end, and the window may be long.
        newest_first = []
        for event in reversed(self._events):
            if event.revision <= revision:
                break
            newest_first.append(event)
        return newest_first[::-1]


def _replaced_bytes(event: store.Event) -> int:
    return len(event.previous.value) if event.previous else 0


def _current_bytes(event: store.Event) -> int:
    return len(event.current.value) if event.current else 0


class Fanout:
    """Passes each published event to the watchers of its prefixes."""

    def __init__(self, revision: int, limits: WatchLimits) -> None:
        self.revision = revision
        self.window = Window(revision, limits)
        self._limits = limits
        self._subscriptions: dict[str, set[Subscription]] = {}

    def publish(self, revision: int, events: Sequence[store.Event]) -> None:
        """Pass on the events up to `revision`, in order."""
        self.revision = revision
        self.window.append(events)
        for prefix, matching in self._route(events).items():
            size = sum(map(_current_bytes, matching))
            # A copy: a watcher whose buffer is full ends, and leaves the set.
            for subscription in tuple(self._subscriptions[prefix]):
                subscription.offer(matching, size)

    def _route(self, events: Iterable[store.Event]) -> dict[str, list[store.Event]]:
        routed: dict[str, list[store.Event]] = {}
        # By the few prefixes of a key and not by watcher: a thousand watchers of other kinds cost
        # nothing.
        for event in events:
            for prefix in _prefixes(event.key):
                if prefix in self._subscriptions:
                    routed.setdefault(prefix, []).append(event)
        return routed

    def subscribe(self, prefix: str, after: int, history: History) -> Subscription:
        """Watch a prefix; `history` reads what the window no longer has."""
        span = store.Span.under(prefix)
        if after >= self.window.start:
            # Everything up to the current revision is in the window, and whatever is published from
            # here on goes to the buffer: no gap, nothing twice, and no wait in between.
            past = [event for event in self.window.after(after) if span.covers(event.key)]
            unread = _Unread(past, self.revision, self.revision, history)
        else:
            unread = _Unread([], after, self.revision, history)
        subscription = Subscription(self, prefix, after, unread, self._limits)
        self._subscriptions.setdefault(prefix, set()).add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        remaining = self._subscriptions.get(subscription.prefix, set())
        remaining.discard(subscription)
        if not remaining:
            self._subscriptions.pop(subscription.prefix, None)

    def start_at(self, revision: int) -> None:
        """Start again after a revision, with an empty window."""
        self.revision = revision
        self.window.forget(revision)

    def end(self, error: store.StoreError) -> None:
        """End every watch with an error."""
        for subscriptions in tuple(self._subscriptions.values()):
            for subscription in tuple(subscriptions):
                subscription.end(error)


def _prefixes(key: str) -> Iterator[str]:
    slash = key.find("/")
    while slash >= 0:
        yield key[: slash + 1]
        slash = key.find("/", slash + 1)


class _Unread:
    """Events before the subscription: those in memory, then history up to `until`."""

    def __init__(
        self, events: Iterable[store.Event], reached: int, until: int, history: History
    ) -> None:
        self.events = deque(events)
        self.reached, self.until = reached, until
        self._history = history

    async def read(self) -> None:
        stretch = await self._history(self.reached, self.until)
        self.events.extend(stretch.events)
        self.reached = stretch.reached


class Subscription(store.Watch):
    """One watcher: first the events that it missed, then published ones in a bounded buffer."""

    def __init__(
        self, fanout: Fanout, prefix: str, after: int, unread: _Unread, limits: WatchLimits
    ) -> None:
        self.prefix = prefix
        self._fanout = fanout
        self._after = after
        self._unread = unread
        self._limits = limits
        self._live: deque[store.Event] = deque()
        self._live_bytes = 0
        self._reader: asyncio.Future[None] | None = None
        self._closed_at: int | None = None
        self._error: store.StoreError | None = None

    @property
    def revision(self) -> int:
        if self._closed_at is not None:
            return self._closed_at
        # Safe to resume after: the event that is read next may have siblings of its revision that
        # were read before, so the revision itself is not complete.
        if self._unread.events:
            return self._unread.events[0].revision - 1
        if self._unread.reached < self._unread.until:
            return self._unread.reached
        if self._live:
            return self._live[0].revision - 1
        # Nothing waits: also commits of other prefixes are covered. Bookmarks rely on that.
        return max(self._after, self._fanout.revision)

    def offer(self, events: Sequence[store.Event], size: int) -> None:
        """Buffer published events of `size` bytes, or end the watch if the buffer is full."""
        # A watch may start after a revision that this server has not reached (etcd).
        if events[0].revision <= self._after:
            events = [event for event in events if event.revision > self._after]
            size = sum(map(_current_bytes, events))
        self._live_bytes = self._live_bytes if self._live else 0
        waiting = len(self._live) + len(events)
        is_over = self._live and self._live_bytes + size > self._limits.buffered_bytes
        if waiting > self._limits.buffered_events or is_over:
            self.end(store.SlowWatcher(waiting))
            return
        self._live.extend(events)
        self._live_bytes += size
        self._wake()

    def end(self, error: store.StoreError) -> None:
        self._error = error
        self.close()

    def close(self) -> None:
        self._closed_at = self.revision
        self._fanout.unsubscribe(self)
        self._unread.events.clear()
        self._live.clear()
        self._wake()

    async def __anext__(self) -> store.Event:
        buffer = await self._filled()
        if not buffer:
            raise StopAsyncIteration
        event = buffer.popleft()
        if buffer is self._live:
            self._live_bytes -= _current_bytes(event)
        return event

    async def read(self) -> list[store.Event]:
        buffer = await self._filled()
        events = list(buffer)
        buffer.clear()
        return events

    async def _filled(self) -> deque[store.Event]:
        """Return the buffer to read from next; it is empty only when the watch is closed."""
        while self._closed_at is None:
            if self._unread.events:
                return self._unread.events
            if self._unread.reached < self._unread.until:
                await self._unread.read()
            elif self._live:
                return self._live
            else:
                await self._published()
        if self._error:
            raise self._error
        return self._live

    async def _published(self) -> None:
        self._reader = asyncio.get_running_loop().create_future()
        try:
            await self._reader
        finally:
            self._reader = None

    def _wake(self) -> None:
        if self._reader and not self._reader.done():
            self._reader.set_result(None)
