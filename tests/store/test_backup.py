"""Backups of the SQLite store: taken while it runs, put back while it is stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dray.store import backup, sqlite, store
from tests.store.steps import delete, keys, put, values


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "backup.db"


async def test_backup_holds_one_moment_of_a_running_store(path: Path, copy: Path) -> None:
    async def write(target: store.Store) -> None:
        for i in range(200):
            await put(target, f"/pods/a/{i:03}", b"%d" % i)

    async with sqlite.open(path) as target:
        writing = asyncio.ensure_future(write(target))
        await put(target, "/pods/b/first")
        await target.backup(copy)
        await writing
    async with sqlite.open(copy) as target:
        found = await keys(target)
        assert "/pods/b/first" in found
        count = len(found) - 1
        assert found[:-1] == [f"/pods/a/{i:03}" for i in range(count)]


async def test_backup_replaces_an_older_one(path: Path, copy: Path) -> None:
    async with sqlite.open(path) as target:
        await put(target, "/pods/a/x", b"1")
        await target.backup(copy)
        await put(target, "/pods/a/x", b"2")
        await target.backup(copy)
    backup.restore(copy, path)
    async with sqlite.open(path) as target:
        assert await values(target) == {"/pods/a/x": b"2"}


async def test_restore_brings_back_entries_and_holds(path: Path, copy: Path) -> None:
    async with sqlite.open(path) as target:
        first = await put(target, "/claims/a/one", b"1", holds=("gpu-0",))
        second = await put(target, "/claims/a/one", b"2")
        await put(target, "/claims/a/gone")
        await delete(target, "/claims/a/gone")
        await target.backup(copy)
        await put(target, "/claims/a/two", holds=("gpu-1",))
        await delete(target, "/claims/a/one")
    backup.restore(copy, path)
    async with sqlite.open(path) as target:
        page = await target.list("/")
        assert page.entries == [store.Entry("/claims/a/one", b"2", second, first)]
        with pytest.raises(store.TokenAlreadyHeld):
            await put(target, "/claims/a/three", holds=("gpu-0",))
        await put(target, "/claims/a/three", holds=("gpu-1",))


async def test_restore_expires_every_revision_ever_given_out(path: Path, copy: Path) -> None:
    async with sqlite.open(path) as target:
        old = await put(target, "/pods/a/x")
        await target.backup(copy)
        lost = [await put(target, "/pods/a/x") for _ in range(10)]
    revision = backup.restore(copy, path)
    assert revision > lost[-1] + 10**9
    async with sqlite.open(path) as target:
        assert await target.revision() == revision
        for remembered in (old, *lost):
            with pytest.raises(store.RevisionExpired):
                await target.watch("/pods/", remembered)
            with pytest.raises(store.RevisionExpired):
                await target.list("/pods/", revision=remembered)
        assert await put(target, "/pods/a/x", expect=old) == revision + 1


async def test_running_store_is_not_replaced(path: Path, copy: Path) -> None:
    async with sqlite.open(path) as target:
        await put(target, "/pods/a/x")
        await target.backup(copy)
        with pytest.raises(store.StoreUnusable, match="in use"):
            backup.restore(copy, path)


async def test_damaged_backup_leaves_the_store_as_it_was(path: Path, copy: Path) -> None:
    async with sqlite.open(path) as target:
        await put(target, "/pods/a/x")
    for content in (b"", b"no database" * 1000, path.read_bytes()[:5000]):
        copy.write_bytes(content)
        with pytest.raises(store.StoreUnusable):
            backup.restore(copy, path)
    async with sqlite.open(path) as target:
        assert await keys(target) == ["/pods/a/x"]
    assert not list(path.parent.glob("*.unfinished*"))
