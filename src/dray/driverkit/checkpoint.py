"""State that survives: versioned JSON, written to a temporary file, synced, renamed.

The version before stays beside the file. A file that cannot be read is set aside under another name
with a message that says so, and the one before takes its place. Processes that share a checkpoint
take turns under `exclusive`, and read again what another has written.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, Generic, TypeVar
from zlib import crc32

import msgspec

from dray import durable_files

log = logging.getLogger(__name__)

T = TypeVar("T")
PREVIOUS: Final = ".previous"
BROKEN: Final = ".broken"
_LOCK: Final = ".lock"
LOCK_LOOK_SECONDS: Final = 0.02


class CheckpointError(Exception):
    """A checkpoint that this program cannot use; the message has the file and the reason."""


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
        self._seen: _Stamp | None = None

    @contextlib.asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Hold the file's lock: no two processes are in such a block at the same time."""
        descriptor = os.open(_beside(self._path, _LOCK), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while not _try_lock(descriptor):
                await asyncio.sleep(LOCK_LOOK_SECONDS)
            yield
        finally:
            os.close(descriptor)

    @property
    def is_stale(self) -> bool:
        """Whether the file may have changed since this process read or wrote it last."""
        return self._seen != _stamp(self._path)

    def read(self) -> T | None:
        """Return the last value, or None before the first write.

        Raises CheckpointError for the version of another program, and when neither the file nor the
        one before it can be read. Then both stay where they are, for inspection.
        """
        self._seen = _stamp(self._path)
        previous = _beside(self._path, PREVIOUS)
        if self._seen is None:
            return self._decode(previous) if previous.exists() else None
        try:
            return self._decode(self._path)
        except _UNREADABLE as error:
            content = self._instead(previous, error)
        os.replace(self._path, _beside(self._path, BROKEN))
        self._seen = None
        return content

    def _instead(self, previous: Path, why: Exception) -> T:
        try:
            content = self._decode(previous)
        except _UNREADABLE as error:
            raise CheckpointError(
                f"checkpoint {self._path} cannot be read ({why}), nor the one before it ({error}); "
                "remove it if no pod on this node uses devices"
            ) from error
        log.error("checkpoint %s cannot be read (%s): using the one before", self._path, why)
        return content

    def write(self, value: T, *, durable: bool = True) -> None:
        """Replace the value on disk; a failure leaves the one before.

        Without `durable` the value survives the process but not a power cut, and is much faster.
        """
        data = msgspec.json.encode(value)
        body = {"version": self._version, "checksum": crc32(data), "data": msgspec.Raw(data)}
        previous = _beside(self._path, PREVIOUS)
        # Whoever fails to write does not know what is on disk, and reads it again.
        self._seen = _NOTHING_SEEN
        durable_files.replace_file(
            self._path,
            msgspec.json.encode(body),
            previous=previous,
            durable=durable,
            single_writer=True,
        )
        self._seen = _stamp(self._path)

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


_UNREADABLE: Final = (OSError, msgspec.MsgspecError, _Damaged)

_Stamp = tuple[int, int]
_NOTHING_SEEN: Final[_Stamp] = (0, 0)


def _stamp(path: Path) -> _Stamp | None:
    """Return a value that differs between versions of a file, or None where it is missing."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
