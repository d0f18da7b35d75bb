"""Replace files so that readers see the old content or the new, also after a power cut."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["replace_file", "sync_directory"]


def replace_file(path: Path, content: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Write a temporary file beside `path` and rename it.

    With `durable`, the content and the name are synced before the call returns. Without, they
    survive a crash of the process but perhaps not of the machine.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    # The mode is set when the file is created: a key is never readable by others, not even briefly.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
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
