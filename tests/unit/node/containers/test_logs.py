"""Reading and following a container's output."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dray.node.containers import logs
from dray.node.containers.logs import LogOptions

LINES = (
    "2026-01-01T00:00:01.000000000Z stdout F one\n"
    "2026-01-01T00:00:02.000000000Z stderr F two words\n"
    "2026-01-01T00:00:03.000000000Z stdout P thr\n"
    "2026-01-01T00:00:04.000000000Z stdout F ee\n"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "output.log"
    file.write_text(LINES, "utf-8")
    return file


@pytest.mark.parametrize(
    ("options", "text"),
    [
        pytest.param(LogOptions(), "one\ntwo words\nthree\n", id="all"),
        pytest.param(LogOptions(tail_lines=1), "three\n", id="tail"),
        pytest.param(LogOptions(tail_lines=0), "", id="no-tail"),
        pytest.param(LogOptions(since="2026-01-01T00:00:02"), "two words\nthree\n", id="since"),
        pytest.param(LogOptions(limit_bytes=5), "one\nt", id="limit"),
        pytest.param(
            LogOptions(timestamps=True, tail_lines=1),
            "2026-01-01T00:00:03.000000000Z three\n",
            id="timestamps",
        ),
    ],
)
def test_what_is_asked_for_is_read(path: Path, options: LogOptions, text: str) -> None:
    assert logs.read(path, options) == text.encode()


def test_an_unfinished_last_line_is_shown(path: Path) -> None:
    path.write_text("2026-01-01T00:00:05.000000000Z stdout P no end\n", "utf-8")
    assert logs.read(path) == b"no end"


def test_following_ends_with_the_last_words(path: Path) -> None:
    async def run() -> list[bytes]:
        ended = asyncio.Event()
        seen = []
        async for chunk in logs.follow(path, ended.is_set, LogOptions(tail_lines=1)):
            seen.append(chunk)
            if not ended.is_set():
                with path.open("a", encoding="utf-8") as file:
                    file.write("2026-01-01T00:00:05.000000000Z stdout F last\n")
                ended.set()
        return seen

    assert asyncio.run(run()) == [b"three\n", b"last\n"]
