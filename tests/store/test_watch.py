"""Watches: order, no gap, resuming, slow readers, progress; on every implementation."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from dray.store import store, watch
from tests.store.conftest import Opener
from tests.store.steps import DEADLINE_SECONDS, commit, delete, put, take

SMALL_WINDOW = watch.WatchLimits(window_events=3)


async def test_event_tells_what_was_and_what_is(open_store: Opener) -> None:
    async with open_store() as target:
        with await target.watch("/pods/", await target.revision()) as watcher:
            first = await put(target, "/pods/a/x", b"one")
            second = await put(target, "/pods/a/x", b"two")
            third = await delete(target, "/pods/a/x")
            created, changed, deleted = await take(watcher, 3)
        one = store.Entry("/pods/a/x", b"one", first, first)
        two = store.Entry("/pods/a/x", b"two", second, first)
        assert created == store.Event("/pods/a/x", first, one, None)
        assert changed == store.Event("/pods/a/x", second, two, one)
        assert deleted == store.Event("/pods/a/x", third, None, two)


async def test_watch_sees_its_prefix_only(open_store: Opener) -> None:
    async with open_store() as target:
        start = await target.revision()
        all_of_it = await target.watch("/", start)
        namespace = await target.watch("/pods/a/", start)
        for key in ("/pods/b/x", "/pods/a/x", "/podsets/a/x", "/pods/ab/x", "/pods/a/y"):
            await put(target, key)
        assert [e.key for e in await take(namespace, 2)] == ["/pods/a/x", "/pods/a/y"]
        assert len(await take(all_of_it, 5)) == 5


async def test_watch_starts_with_what_happened_after_its_revision(open_store: Opener) -> None:
    async with open_store() as target:
        revisions = [await put(target, f"/pods/a/{i}") for i in range(5)]
        for i, revision in enumerate(revisions):
            with await target.watch("/pods/", revision) as watcher:
                events = await take(watcher, 4 - i)
            assert [event.revision for event in events] == revisions[i + 1 :]


async def test_watch_from_now_sees_nothing_old(open_store: Opener) -> None:
    async with open_store() as target:
        now = await put(target, "/pods/a/old")
        with await target.watch("/pods/", now) as watcher:
            await put(target, "/pods/a/new")
            assert [event.key for event in await take(watcher, 1)] == ["/pods/a/new"]


async def test_changes_of_one_commit_come_together(open_store: Opener) -> None:
    async with open_store() as target:
        with await target.watch("/pods/", await target.revision()) as watcher:
            revision = await commit(target, *(store.Put(f"/pods/a/{i}", b"") for i in range(3)))
            async with asyncio.timeout(DEADLINE_SECONDS):
                events = await watcher.read()
            assert [(e.key, e.revision) for e in events] == [
                (f"/pods/a/{i}", revision) for i in range(3)
            ]


async def test_watch_older_than_the_window_reads_history(open_lasting: Opener) -> None:
    async with open_lasting(SMALL_WINDOW) as target:
        start = await put(target, "/pods/a/x", b"start")
        expected = []
        for i in range(10):
            await put(target, "/leases/a/x", b"%d" % i)
            expected.append(await put(target, "/pods/a/x", b"%d" % i))
        with await target.watch("/pods/", start) as watcher:
            first = await anext(watcher)
            assert first.previous is not None
            assert first.previous.value == b"start"
            expected.append(await put(target, "/pods/a/x", b"live"))
            rest = await take(watcher, 10)
        assert [event.revision for event in [first, *rest]] == expected
        for earlier, later in zip([first, *rest], rest, strict=False):
            assert later.previous == earlier.current


async def test_watch_resumes_after_reopening(open_lasting: Opener) -> None:
    async with open_lasting() as target:
        start = await put(target, "/pods/a/x", b"1")
        second = await put(target, "/pods/a/x", b"2")
        third = await delete(target, "/pods/a/x")
    async with open_lasting() as target:
        with await target.watch("/pods/", start) as watcher:
            fourth = await put(target, "/pods/a/x", b"4")
            events = await take(watcher, 3)
        assert [event.revision for event in events] == [second, third, fourth]
        assert [e.previous.value if e.previous else None for e in events] == [b"1", b"2", None]


async def test_long_history_is_read_without_gap(open_lasting: Opener) -> None:
    async with open_lasting(SMALL_WINDOW) as target:
        start = await target.revision()
        revisions = await asyncio.gather(
            *(
                commit(target, *(store.Put(f"/pods/{n}/{i}", b"") for n in "abc"))
                for i in range(400)
            )
        )
        with await target.watch("/pods/", start) as watcher:
            events = await take(watcher, 1200)
        assert [event.revision for event in events] == sorted(revisions * 3)
        assert len({event.key for event in events}) == 1200


async def test_watch_from_before_compaction_is_refused(open_store: Opener) -> None:
    async with open_store() as target:
        old = await put(target, "/pods/a/x")
        kept = await put(target, "/pods/a/x")
        last = await put(target, "/pods/a/x")
        await target.compact(kept)
        with pytest.raises(store.RevisionExpired) as error:
            await target.watch("/pods/", old)
        assert error.value.revision == old
        with await target.watch("/pods/", kept) as watcher:
            assert [event.revision for event in await take(watcher, 1)] == [last]


async def test_watch_from_the_future_is_refused(open_store: Opener) -> None:
    async with open_store() as target:
        revision = await put(target, "/pods/a/x")
        with pytest.raises(store.FutureRevision):
            await target.watch("/pods/", revision + 1)


async def test_watch_right_after_a_commit_or_list_has_no_gap(open_store: Opener) -> None:
    async with open_store() as target:
        for i in range(5):
            await put(target, f"/pods/a/{i}")
            page = await target.list("/pods/")
            with await target.watch("/pods/", page.revision) as watcher:
                revision = await put(target, "/pods/a/next", b"%d" % i)
                assert [event.revision for event in await take(watcher, 1)] == [revision]


async def test_concurrent_writers_are_seen_in_the_order_of_revisions(open_store: Opener) -> None:
    async def write(target: store.Store, writer: int) -> list[int]:
        return [await put(target, f"/pods/a/{writer}", b"%d" % i) for i in range(20)]

    async with open_store() as target:
        with await target.watch("/pods/", await target.revision()) as watcher:
            written = await asyncio.gather(*(write(target, writer) for writer in range(8)))
            events = await take(watcher, 160)
        assert [e.revision for e in events] == sorted(itertools.chain(*written))
        last: dict[str, store.Entry | None] = {}
        for event in events:
            assert event.previous == last.get(event.key)
            last[event.key] = event.current


async def test_slow_watcher_is_ended_and_the_others_go_on(open_store: Opener) -> None:
    async with open_store(watch.WatchLimits(buffered_events=4)) as target:
        start = await target.revision()
        slow, quick = await target.watch("/pods/", start), await target.watch("/pods/", start)
        revisions = []
        for i in range(6):
            revisions.append(await put(target, f"/pods/a/{i}"))
            await take(quick, 1)
        with pytest.raises(store.SlowWatcher):
            await anext(slow)
        with await target.watch("/pods/", slow.revision) as resumed:
            assert [e.revision for e in await take(resumed, 6)] == revisions


async def test_cancelled_read_loses_nothing(open_lasting: Opener) -> None:
    async with open_lasting(SMALL_WINDOW) as target:
        start = await target.revision()
        revisions = [await put(target, "/pods/a/x") for _ in range(8)]
        with await target.watch("/pods/", start) as watcher:
            for _ in range(3):
                reading = asyncio.ensure_future(anext(watcher))
                await asyncio.sleep(0)
                reading.cancel()
                await asyncio.wait([reading])
            assert [e.revision for e in await take(watcher, 8)] == revisions
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await anext(watcher)
            revision = await put(target, "/pods/a/x")
            assert [e.revision for e in await take(watcher, 1)] == [revision]


async def test_closing_a_watch_releases_its_reader(open_store: Opener) -> None:
    async with open_store() as target:
        watcher = await target.watch("/pods/", await target.revision())
        reading = asyncio.ensure_future(_collect(watcher))
        await asyncio.sleep(0)
        watcher.close()
        async with asyncio.timeout(DEADLINE_SECONDS):
            assert await reading == []
        await put(target, "/pods/a/x")
        assert await watcher.read() == []


async def test_closing_the_store_ends_its_watches(open_store: Opener) -> None:
    async with open_store() as target:
        watcher = await target.watch("/pods/", await target.revision())
    with pytest.raises(store.Closed):
        await anext(watcher)
    with pytest.raises(store.Closed):
        await target.watch("/pods/", watcher.revision)


async def test_progress_says_what_has_been_read(open_store: Opener) -> None:
    async with open_store() as target:
        start = await target.revision()
        with await target.watch("/pods/", start) as watcher:
            everything = await target.watch("/", start)
            assert watcher.revision == start
            first = await put(target, "/pods/a/x")
            second = await put(target, "/pods/a/x")
            other = await put(target, "/leases/a/x")
            await take(everything, 3)
            assert start <= watcher.revision < first
            await take(watcher, 1)
            assert first <= watcher.revision < second
            await take(watcher, 1)
            assert watcher.revision == other


async def test_progress_does_not_pass_history_that_is_still_unread(open_lasting: Opener) -> None:
    async with open_lasting(SMALL_WINDOW) as target:
        start = await target.revision()
        revisions = [await put(target, "/pods/a/x") for _ in range(8)]
        with await target.watch("/pods/", start) as watcher:
            for revision in revisions:
                assert watcher.revision < revision
                await take(watcher, 1)
            assert watcher.revision == revisions[-1]


async def test_watchers_share_the_events_they_get(open_store: Opener) -> None:
    async with open_store() as target:
        start = await target.revision()
        watchers = [await target.watch("/pods/", start) for _ in range(3)]
        await put(target, "/pods/a/x")
        events = [(await take(watcher, 1))[0] for watcher in watchers]
        assert events[0] is events[1] is events[2]


async def _collect(watcher: store.Watch) -> list[store.Event]:
    return [event async for event in watcher]
