"""A container's output, as `kubectl logs` asks for it: the last lines, since a time, followed.

Files hold lines of "time stream tag text"; the tag P marks a line that the next one continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LOOK_SECONDS: Final = 0.2


@dataclass(frozen=True)
class LogOptions:
    tail_lines: int | None = None
    since: str = ""
    """A time as it stands in the file; earlier lines are left out."""
    timestamps: bool = False
    limit_bytes: int | None = None


def read(path: Path, options: LogOptions | None = None) -> bytes:
    """What has been written so far."""
    chosen = options or LogOptions()
    lines = list(_parsed(path.read_bytes().splitlines(keepends=True), chosen))
    if chosen.tail_lines is not None:
        lines = lines[max(len(lines) - chosen.tail_lines, 0) :]
    found = b"".join(lines)
    return found if chosen.limit_bytes is None else found[: chosen.limit_bytes]


async def follow(
    path: Path, has_ended: Callable[[], bool], options: LogOptions | None = None
) -> AsyncIterator[bytes]:
    """What has been written and will be, until the container has ended."""
    chosen = options or LogOptions()
    ended = has_ended()
    position = path.stat().st_size
    yield read(path, chosen)
    rest = b""
    while not ended:
        # Asked before reading: what is written last is read once more after the end.
        ended = has_ended()
        with path.open("rb") as file:
            file.seek(position)
            chunk = file.read()
        position += len(chunk)
        *lines, rest = (rest + chunk).splitlines(keepends=True) or [b""]
        if rest.endswith(b"\n"):
            lines, rest = [*lines, rest], b""
        if made := b"".join(_parsed(lines, chosen)):
            yield made
        if not ended:
            await asyncio.sleep(LOOK_SECONDS)


def _parsed(lines: list[bytes], options: LogOptions) -> Iterator[bytes]:
    """Whole lines without their prefix; pieces of one line are joined."""
    pieces: list[bytes] = []
    for line in lines:
        time, _, rest = line.partition(b" ")
        _stream, tag, text = (*rest.split(b" ", 2), b"", b"")[:3]
        if options.since and time.decode() < options.since:
            continue
        if options.timestamps and not pieces:
            pieces.append(time + b" ")
        pieces.append(text if tag == b"F" else text.removesuffix(b"\n"))
        if tag == b"F":
            yield b"".join(pieces)
            pieces = []
    if pieces:
        yield b"".join(pieces)
