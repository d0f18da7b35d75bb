"""Files that are replaced as a whole, created private, or locked, also across a power cut."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["create_private", "locked", "replace_file", "sync", "sync_directory"]


def replace_file(
    path: Path,
    content: bytes,
    *,
    mode: int = 0o600,
    durable: bool = True,
    previous: Path | None = None,
    single_writer: bool = False,
) -> None:
    """Write a temporary file beside `path` and rename it.

    With `durable`, the content and the name are synced before the call returns. Without, they
    survive a crash of the process but perhaps not of the machine. `previous` is a name for the old
    content, which is kept. With `single_writer`, no two processes write the file at the same time;
    what a killed one left behind is then overwritten by the next.
    """
    writer = "" if single_writer else f".{os.getpid()}"
    temporary = path.with_name(f"{path.name}{writer}.new")
    # The mode is set when the file is created: a key is never readable by others, not even briefly.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        if previous is not None and path.exists():
            # Not before the new content is on disk: what fails until here changes nothing.
            previous.unlink(missing_ok=True)
            os.link(path, previous)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if durable:
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make renames and removals in a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def create_private(path: Path) -> None:
    """Create a file with mode 0600 if it is absent, or give it that mode."""
    with _descriptor(path, os.O_CREAT | os.O_RDWR) as file:
        os.fchmod(file, 0o600)
    sync(path.parent)


def sync(path: Path) -> None:
    """Make the content of a file, or the names in a directory, durable."""
    with _descriptor(path, os.O_RDONLY) as file:
        os.fsync(file)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is created; the kernel releases it if the process ends.

    Raises BlockingIOError if another process holds it.
    """
    with _descriptor(path, os.O_CREAT | os.O_RDWR) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


@contextlib.contextmanager
def _descriptor(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
