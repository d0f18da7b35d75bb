"""A file system that really is full: writes stop, reads go on, room brings the writes back."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.store import sqlite, sqlite_file, store
from tests import loop

SIZE_BYTES = 2 * sqlite_file.RESERVED_BYTES


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    directory = tmp_path / "small"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", str(directory)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


async def put(target: store.Store, key: str) -> int:
    return await target.commit(store.Transaction((store.Put(key, bytes(20_000)),)))


async def fill(target: store.Store) -> int:
    written = 0
    with contextlib.suppress(store.ReadOnly):
        while True:
            await put(target, f"/pods/a/{written}")
            written += 1
    return written


def test_store_survives_a_full_disk(small_disk: Path) -> None:
    path, ballast = small_disk / "store.db", small_disk / "ballast"

    async def scenario() -> None:
        ballast.write_bytes(bytes(SIZE_BYTES * 3 // 4))
        async with sqlite.open(path) as target:
            written = await fill(target)
            assert written > 10
            health = target.health()
            assert not health.writable
            assert "full" in health.reason or "I/O" in health.reason
            with pytest.raises(store.ReadOnly, match="no room"):
                await put(target, "/pods/b/refused")
            assert len((await target.list("/pods/")).entries) == written
            ballast.unlink()
            assert target.health().writable
            assert await put(target, "/pods/b/again") == written + 1
        async with sqlite.open(path) as target:
            assert len((await target.list("/pods/")).entries) == written + 1

    loop.run(scenario())


def test_store_that_was_killed_on_a_full_disk_opens_again(small_disk: Path) -> None:
    path, ballast = small_disk / "store.db", small_disk / "ballast"

    async def scenario() -> None:
        ballast.write_bytes(bytes(SIZE_BYTES * 3 // 4))
        async with sqlite.open(path) as target:
            written = await fill(target)
            copies = {file.name: file.read_bytes() for file in small_disk.glob("store.db*")}
        ballast.unlink()
        for name, content in copies.items():
            (small_disk / name).write_bytes(content)
        async with sqlite.open(path) as target:
            assert len((await target.list("/pods/")).entries) == written
            await put(target, "/pods/b/again")

    loop.run(scenario())
