"""Reads container logs for `kubectl logs`: the last lines, since a time, followed.

Files hold lines of "time stream tag text"; the tag P marks a line that the next one continues. When
a file has grown too large, the shim rotates it; one rotated file is kept.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, NamedTuple

from dray.node.containers import shim

LOOK_SECONDS: Final = 0.1
MAX_READ_BYTES: Final = 2**17
"""What is read of a followed log at once: longer than the longest line."""
_THREAD: Final = ThreadPoolExecutor(1, "logs")
"""A log may have half a million lines. So many are read aside, and of one log at a time: a reader
needs neither the turns of others nor much memory."""


@dataclass(frozen=True)
class LogOptions:
    tail_lines: int | None = None
    since: str = ""
    """A time in the format of the file; earlier lines are left out."""
    timestamps: bool = False
    limit_bytes: int | None = None


class Record(NamedTuple):
    """One line of the file."""

    time: bytes
    stream: bytes
    is_whole: bool
    text: bytes


class _Writer:
    """Formats records: without their prefix, parts of one line joined."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._left = options.limit_bytes
        self._is_new_line = True

    @property
    def is_full(self) -> bool:
        return self._left is not None and self._left <= 0

    def shown(self, records: Iterable[Record]) -> bytes:
        found = b"".join(self._shown(record) for record in records)
        if self._left is not None:
            found = found[: self._left]
            self._left -= len(found)
        return found

    def _shown(self, record: Record) -> bytes:
        if self._options.since and record.time.decode() < self._options.since:
            return b""
        prefix = record.time + b" " if self._options.timestamps and self._is_new_line else b""
        self._is_new_line = record.is_whole
        return prefix + record.text + (b"\n" if record.is_whole else b"")


def read(path: Path, options: LogOptions | None = None) -> bytes:
    """Return the log so far."""
    chosen = options or LogOptions()
    with path.open("rb") as file:
        return _Writer(chosen).shown(_written(path, file, chosen))


async def read_aside(path: Path, options: LogOptions | None = None) -> bytes:
    """Return the log so far; other work goes on meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, read, path, options)


async def follow(
    path: Path, has_ended: Callable[[], bool], options: LogOptions | None = None
) -> AsyncIterator[bytes]:
    """Yield the log so far and what is written until the container ends."""
    chosen = options or LogOptions()
    writer = _Writer(chosen)
    with path.open("rb") as file:
        yield await asyncio.get_running_loop().run_in_executor(
            _THREAD, lambda: writer.shown(_written(path, file, chosen))
        )
        async for records in _coming(path, file, has_ended):
            if writer.is_full:
                return
            if shown := writer.shown(records):
                yield shown


async def records_from_now(
    path: Path, has_ended: Callable[[], bool]
) -> AsyncIterator[list[Record]]:
    """Yield the records that are written from now until the container ends."""
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        async for records in _coming(path, file, has_ended):
            yield records


def _written(path: Path, file: IO[bytes], options: LogOptions) -> Iterable[Record]:
    """Return the records so far, of the rotated file too; leaves the file at its end."""
    rotated = path.with_name(shim.ROTATED)
    # The file itself may have been put aside since it was opened.
    before = rotated.read_bytes() if _is_another(rotated, file) else b""
    parsed = _parsed(before + _whole_lines(file))
    if options.tail_lines is None:
        return parsed
    records = list(parsed)
    return records[_tail_start(records, options.tail_lines) :]


def _tail_start(records: list[Record], lines: int) -> int:
    """Return the index of the first of the last lines; parts of a line count as one."""
    if lines <= 0:
        return len(records)
    for index in range(len(records) - 1, 0, -1):
        if records[index - 1].is_whole:
            lines -= 1
            if lines == 0:
                return index
    return 0


async def _coming(
    path: Path, file: IO[bytes], has_ended: Callable[[], bool]
) -> AsyncIterator[list[Record]]:
    current = file
    try:
        while True:
            # Asked before reading: what is written last is read once more after the end.
            ended = has_ended()
            if records := list(_parsed(_whole_lines(current, MAX_READ_BYTES))):
                yield records
                await asyncio.sleep(0)
            elif _is_another(path, current):
                current = _next(path, file, current)
            elif ended:
                return
            else:
                await asyncio.sleep(LOOK_SECONDS)
    finally:
        if current is not file:
            current.close()


def _next(path: Path, first: IO[bytes], current: IO[bytes]) -> IO[bytes]:
    if current is not first:
        current.close()
    return path.open("rb")


def _is_another(path: Path, file: IO[bytes]) -> bool:
    """Whether a file of this name exists and is not the open one."""
    try:
        return path.stat().st_ino != os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False


def _whole_lines(file: IO[bytes], max_bytes: int = -1) -> bytes:
    """Read up to the last end of a line; leave the rest for the next time."""
    chunk = file.read(max_bytes)
    end = chunk.rfind(b"\n") + 1
    file.seek(end - len(chunk), os.SEEK_CUR)
    return chunk[:end]


def _parsed(text: bytes) -> Iterator[Record]:
    for line in text.split(b"\n")[:-1]:
        time, _, rest = line.partition(b" ")
        stream, tag, said = (*rest.split(b" ", 2), b"", b"")[:3]
        yield Record(time, stream, tag == b"F", said)
