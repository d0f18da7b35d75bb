"""Lists: order, pages, and the state of an earlier revision; on every implementation."""

from __future__ import annotations

import pytest

from dray.store import memory, store, watch
from tests.store.conftest import Opener
from tests.store.steps import delete, keys, put, values

SMALL_WINDOW = watch.WatchLimits(window_events=3)


async def test_list_is_in_key_order_and_ends_with_its_prefix(open_store: Opener) -> None:
    async with open_store() as target:
        for key in ("/pods/b/x", "/pods/a/y", "/pods/a/x", "/podsets/a/x", "/pod/a", "/pods-a/x"):
            await put(target, key)
        assert await keys(target, "/pods/") == ["/pods/a/x", "/pods/a/y", "/pods/b/x"]
        assert await keys(target, "/pods/a/") == ["/pods/a/x", "/pods/a/y"]
        assert await keys(target, "/pods/c/") == []
        assert len(await keys(target, "/")) == 6


async def test_list_of_an_empty_store_has_its_revision(open_store: Opener) -> None:
    async with open_store() as target:
        page = await target.list("/pods/")
        assert page == store.Page([], await target.revision(), 0)


async def test_prefix_must_be_whole_segments(open_store: Opener) -> None:
    async with open_store() as target:
        with pytest.raises(ValueError, match="not a prefix"):
            await target.list("/pods")


async def test_pages_cover_a_list_once_and_count_what_remains(open_store: Opener) -> None:
    async with open_store() as target:
        names = [f"/pods/a/{i:02}" for i in range(7)]
        for name in names:
            await put(target, name)
        seen, after_key, remaining = [], "", []
        while True:
            page = await target.list("/pods/", limit=3, after_key=after_key)
            seen += [entry.key for entry in page.entries]
            remaining.append(page.remaining)
            if not page.remaining:
                break
            after_key = seen[-1]
        assert seen == names
        assert remaining == [4, 1, 0]


async def test_page_after_the_last_key_is_empty(open_store: Opener) -> None:
    async with open_store() as target:
        await put(target, "/pods/a/x")
        for after_key in ("/pods/a/x", "/pods/z", "/zebras/a"):
            page = await target.list("/pods/", limit=2, after_key=after_key)
            assert (page.entries, page.remaining) == ([], 0)


async def test_list_at_an_earlier_revision_is_exact(open_store: Opener) -> None:
    async with open_store() as target:
        await put(target, "/pods/a/changed", b"old")
        await put(target, "/pods/a/deleted", b"there")
        revision = await put(target, "/pods/a/same", b"same")
        await put(target, "/pods/a/changed", b"newer")
        await put(target, "/pods/a/changed", b"new")
        await delete(target, "/pods/a/deleted")
        await put(target, "/pods/a/added", b"late")
        before = await target.list("/pods/", revision=revision)
        assert before.revision == revision
        assert [(entry.key, entry.value) for entry in before.entries] == [
            ("/pods/a/changed", b"old"),
            ("/pods/a/deleted", b"there"),
            ("/pods/a/same", b"same"),
        ]
        assert await values(target) == {
            "/pods/a/added": b"late",
            "/pods/a/changed": b"new",
            "/pods/a/same": b"same",
        }


async def test_pages_at_one_revision_ignore_what_happens_between_them(open_store: Opener) -> None:
    async with open_store() as target:
        names = [f"/pods/a/{i}" for i in range(6)]
        for name in names:
            await put(target, name, b"old")
        first = await target.list("/pods/", limit=2)
        await delete(target, names[3])
        await put(target, names[4], b"new")
        await put(target, "/pods/a/25", b"new")
        second = await target.list("/pods/", limit=3, after_key=names[1], revision=first.revision)
        assert [entry.key for entry in second.entries] == names[2:5]
        assert {entry.value for entry in second.entries} == {b"old"}
        assert (second.revision, second.remaining) == (first.revision, 1)


async def test_every_revision_since_the_beginning_can_be_read_back(open_lasting: Opener) -> None:
    async with open_lasting(SMALL_WINDOW) as target:
        expected: dict[int, dict[str, bytes]] = {}
        state: dict[str, bytes] = {}
        for i in range(12):
            key = f"/pods/a/{i % 4}"
            if i % 5 == 4:
                state.pop(key, None)
                revision = await delete(target, key)
            else:
                state[key] = b"%d" % i
                revision = await put(target, key, state[key])
            expected[revision] = dict(state)
        for revision, entries in expected.items():
            assert await values(target, "/pods/", revision=revision) == entries
            page = await target.list("/pods/", revision=revision, limit=1, after_key="/pods/a/0")
            later = sorted(key for key in entries if key > "/pods/a/0")
            assert [entry.key for entry in page.entries] == later[:1]
            assert page.remaining == max(0, len(later) - 1)


async def test_earlier_revisions_can_be_read_after_reopening(open_lasting: Opener) -> None:
    async with open_lasting() as target:
        revision = await put(target, "/pods/a/x", b"old")
        await put(target, "/pods/a/x", b"new")
        await put(target, "/pods/a/y", b"new")
    async with open_lasting() as target:
        assert await values(target, "/pods/", revision=revision) == {"/pods/a/x": b"old"}


async def test_memory_forgets_what_left_its_window() -> None:
    async with memory.open(SMALL_WINDOW) as target:
        old = await put(target, "/pods/a/x")
        for _ in range(4):
            await put(target, "/pods/a/x")
        with pytest.raises(store.RevisionExpired):
            await target.list("/pods/", revision=old)


async def test_revision_not_reached_is_told_apart(open_store: Opener) -> None:
    async with open_store() as target:
        revision = await put(target, "/pods/a/x")
        with pytest.raises(store.FutureRevision) as error:
            await target.list("/pods/", revision=revision + 5)
        assert (error.value.revision, error.value.current) == (revision + 5, revision)


async def test_compaction_leaves_its_own_revision_readable(open_store: Opener) -> None:
    async with open_store() as target:
        await put(target, "/pods/a/x", b"1")
        older = await put(target, "/pods/a/x", b"2")
        kept = await put(target, "/pods/a/x", b"3")
        await put(target, "/pods/a/x", b"4")
        await target.compact(kept)
        assert await values(target, revision=kept) == {"/pods/a/x": b"3"}
        assert await values(target) == {"/pods/a/x": b"4"}
        with pytest.raises(store.RevisionExpired) as error:
            await target.list("/", revision=older)
        assert error.value.revision == older


async def test_compaction_of_what_is_compacted_does_nothing(open_store: Opener) -> None:
    async with open_store() as target:
        first = await put(target, "/pods/a/x", b"1")
        second = await put(target, "/pods/a/x", b"2")
        await target.compact(second)
        await target.compact(first)
        await target.compact(second)
        assert await values(target, revision=second) == {"/pods/a/x": b"2"}


async def test_compaction_beyond_the_present_is_refused(open_store: Opener) -> None:
    async with open_store() as target:
        revision = await put(target, "/pods/a/x")
        with pytest.raises(store.FutureRevision):
            await target.compact(revision + 1)


async def test_compacted_store_lasts(open_lasting: Opener) -> None:
    async with open_lasting() as target:
        for i in range(5):
            await put(target, "/pods/a/x", b"%d" % i)
        await put(target, "/pods/a/gone")
        await delete(target, "/pods/a/gone")
        last = await target.revision()
        await target.compact(last)
    async with open_lasting() as target:
        assert await values(target) == {"/pods/a/x": b"4"}
        with pytest.raises(store.RevisionExpired):
            await target.list("/", revision=last - 1)
        assert await put(target, "/pods/a/y") > last


async def test_an_area_changes_with_what_is_in_it_and_with_nothing_else(open_store: Opener) -> None:
    async with open_store() as target:
        await put(target, "/core/pods/a/x")
        if (pods := target.changed_at("/core/pods/")) is None:
            return  # etcd would have to be asked.
        await put(target, "/core/podsets/a/x")
        await put(target, "/other/pods/a/x")
        assert target.changed_at("/core/pods/") == pods
        await delete(target, "/core/pods/a/x")
        assert target.changed_at("/core/pods/") == await target.revision() > pods
