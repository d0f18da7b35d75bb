"""State that survives: versioned JSON, written to a temporary file, synced, renamed.

The version before stays beside the file. A file that cannot be read is set aside under another name
with a message that says so, and the one before takes its place.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final, Generic, TypeVar
from zlib import crc32

import msgspec

log = logging.getLogger(__name__)

T = TypeVar("T")
PREVIOUS: Final = ".previous"
BROKEN: Final = ".broken"
_TEMPORARY: Final = ".new"


class CheckpointError(Exception):
    """A checkpoint that this program cannot use; says which file and why."""


class _Envelope(msgspec.Struct, frozen=True):
    version: int
    checksum: int
    data: msgspec.Raw


class Checkpoint(Generic[T]):
    """One file that holds a value of one type."""

    def __init__(self, path: Path, type_: type[T], *, version: int) -> None:
        self._path = path
        self._type = type_
        self._version = version

    def read(self) -> T | None:
        """What was written last; None where nothing ever was.

        Raises CheckpointError for the version of another program, and when neither the file nor the
        one before it can be read.
        """
        previous = _beside(self._path, PREVIOUS)
        if not self._path.exists() and not previous.exists():
            return None
        try:
            return self._decode(self._path)
        except (OSError, msgspec.MsgspecError, _Damaged) as error:
            log.error("checkpoint %s cannot be read (%s): using the one before", self._path, error)
        if self._path.exists():
            os.replace(self._path, _beside(self._path, BROKEN))
        try:
            return self._decode(previous)
        except (OSError, msgspec.MsgspecError, _Damaged) as error:
            raise CheckpointError(
                f"checkpoint {self._path} cannot be read, nor the one before it: {error}"
            ) from error

    def write(self, value: T) -> None:
        """When this returns, the value is on disk; until then, the one before is."""
        data = msgspec.json.encode(value)
        body = {"version": self._version, "checksum": crc32(data), "data": msgspec.Raw(data)}
        replace(self._path, msgspec.json.encode(body), keep=_beside(self._path, PREVIOUS))

    def _decode(self, path: Path) -> T:
        envelope = msgspec.json.decode(path.read_bytes(), type=_Envelope)
        if envelope.version != self._version:
            raise CheckpointError(
                f"checkpoint {path} has version {envelope.version}, this program reads "
                f"{self._version}"
            )
        data = bytes(envelope.data)
        if crc32(data) != envelope.checksum:
            raise _Damaged("its checksum is wrong")
        return msgspec.json.decode(data, type=self._type)


class _Damaged(Exception):
    pass


def replace(path: Path, content: bytes, *, keep: Path | None = None, mode: int = 0o600) -> None:
    """Write a file so that, whatever happens, it has its old or its new content."""
    temporary = _beside(path, _TEMPORARY)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if keep is not None and path.exists():
        keep.unlink(missing_ok=True)
        os.link(path, keep)
    os.replace(temporary, path)
    _sync_directory(path.parent)


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
