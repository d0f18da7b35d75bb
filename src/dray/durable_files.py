"""Replace files so that readers see the old content or the new, also after a power cut."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["replace_file", "sync_directory"]


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
