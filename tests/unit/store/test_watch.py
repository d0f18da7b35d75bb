"""The window of recent events and the fan-out, without a store."""

from __future__ import annotations

import asyncio

import pytest

from dray.store import store, watch


def event(key: str, revision: int, previous_bytes: int = 0) -> store.Event:
    previous = store.Entry(key, bytes(previous_bytes), revision - 1, 1) if previous_bytes else None
    return store.Event(key, revision, store.Entry(key, b"", revision, revision), previous)


async def no_history(after: int, until: int) -> watch.Stretch:
    raise store.RevisionExpired(after, until)


def revisions(events: list[store.Event]) -> list[int]:
    return [event.revision for event in events]


def test_window_gives_the_events_after_a_revision() -> None:
    window = watch.Window(10, watch.DEFAULT_LIMITS)
    window.append([event("/a/x", 11), event("/a/y", 12), event("/a/z", 12), event("/a/x", 15)])
    assert revisions(window.after(10)) == [11, 12, 12, 15]
    assert revisions(window.after(11)) == [12, 12, 15]
    assert revisions(window.after(13)) == [15]
    assert revisions(window.after(15)) == []


def test_window_is_bounded_by_the_number_of_events() -> None:
    window = watch.Window(0, watch.WatchLimits(window_events=3))
    for revision in range(1, 10):
        window.append([event("/a/x", revision)])
    assert window.start == 6
    assert revisions(window.after(window.start)) == [7, 8, 9]


def test_window_is_bounded_by_the_size_of_replaced_values() -> None:
    window = watch.Window(0, watch.WatchLimits(window_bytes=1000))
    for revision in range(1, 10):
        window.append([event("/a/x", revision, previous_bytes=300)])
    assert window.start == 6
    window.append([event("/a/x", 10, previous_bytes=5000)])
    assert window.start == 10


def test_window_never_keeps_half_a_transaction() -> None:
    window = watch.Window(0, watch.WatchLimits(window_events=3))
    window.append([event("/a/x", 1), event("/a/y", 1), event("/a/x", 2), event("/a/y", 2)])
    assert window.start == 1
    assert revisions(window.after(window.start)) == [2, 2]


def test_events_reach_the_watchers_of_every_prefix_of_their_key() -> None:
    async def scenario() -> dict[str, list[int]]:
        fanout = watch.Fanout(0, watch.DEFAULT_LIMITS)
        prefixes = ["/", "/a/", "/a/b/", "/a/c/", "/b/"]
        watchers = {prefix: fanout.subscribe(prefix, 0, no_history) for prefix in prefixes}
        fanout.publish(1, [event("/a/b/x", 1)])
        fanout.publish(2, [event("/a/y", 2), event("/b/x", 2)])
        fanout.publish(3, [event("/a/b/x", 3)])
        read = {p: revisions(await w.read()) for p, w in watchers.items() if p != "/a/c/"}
        return read | {"/a/c/": [watchers["/a/c/"].revision]}

    assert asyncio.run(scenario()) == {
        "/": [1, 2, 2, 3],
        "/a/": [1, 2, 3],
        "/a/b/": [1, 3],
        "/b/": [2],
        "/a/c/": [3],
    }


def test_watch_ahead_of_the_fanout_skips_what_it_knows() -> None:
    async def scenario() -> list[int]:
        fanout = watch.Fanout(5, watch.DEFAULT_LIMITS)
        with fanout.subscribe("/a/", 7, no_history) as watcher:
            assert watcher.revision == 7
            for revision in range(6, 10):
                fanout.publish(revision, [event("/a/x", revision)])
            return revisions(await watcher.read())

    assert asyncio.run(scenario()) == [8, 9]


def test_slow_watcher_says_where_it_was() -> None:
    async def scenario() -> store.Watch:
        fanout = watch.Fanout(0, watch.WatchLimits(buffered_events=3))
        watcher = fanout.subscribe("/a/", 0, no_history)
        fanout.publish(1, [event("/a/x", 1)])
        await watcher.read()
        for revision in range(2, 6):
            fanout.publish(revision, [event("/a/x", revision)])
        with pytest.raises(store.SlowWatcher) as error:
            await watcher.read()
        assert error.value.waiting == 4
        return watcher

    assert asyncio.run(scenario()).revision == 1


def test_a_watcher_that_lets_many_bytes_pile_up_is_ended() -> None:
    async def scenario() -> None:
        fanout = watch.Fanout(0, watch.WatchLimits(buffered_bytes=10))
        watcher = fanout.subscribe("/a/", 0, no_history)
        large = store.Entry("/a/x", b"x" * 8, 1, 1)
        for revision in range(1, 4):
            # One at a time is no matter, whether they are read singly or together.
            fanout.publish(revision, [store.Event(large.key, revision, large, None)])
            await (watcher.read() if revision % 2 else anext(watcher))
        for revision in range(4, 6):
            fanout.publish(revision, [store.Event(large.key, revision, large, None)])
        with pytest.raises(store.SlowWatcher):
            await watcher.read()

    asyncio.run(scenario())


def test_closed_watches_leave_nothing_behind() -> None:
    async def scenario() -> watch.Fanout:
        fanout = watch.Fanout(0, watch.DEFAULT_LIMITS)
        for _ in range(3):
            fanout.subscribe("/a/", 0, no_history).close()
        return fanout

    assert not asyncio.run(scenario())._subscriptions
