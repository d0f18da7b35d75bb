"""The `dray up` of a data directory: its lock, and the file that describes it.

The kernel releases the lock when the process ends, however it ends. So the files of a killed
process are never mistaken for a running one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from dray.cli.command_errors import CommandError
from dray.durable_files import replace_file

DEFAULT_DATA = "~/.local/share/dray"
LOCK, DESCRIPTION = "up.lock", "up.json"
HISTORY = "history.db"
"""The file of the history, in the data directory."""
LOCK_TRIES, LOCK_PAUSE_SECONDS = 10, 0.02


class UpInstance(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The description of a `dray up`; without a url it is still starting."""

    pid: int
    since: str = ""
    url: str = ""
    fleet: str = ""
    store: str = ""
    runtime: str = ""
    history: str = ""
    """The file of its history."""
    components: tuple[str, ...] = ()

    def end(self, *, keep_pods: bool = False) -> None:
        # It may be ending already.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1 if keep_pods else signal.SIGTERM)

    def has_ended(self, timeout_seconds: float) -> bool:
        """Wait for the process to end. Returns whether it did within the timeout."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            return bool(select.select([descriptor], [], [], timeout_seconds)[0])
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a data directory. Raises CommandError if another process holds it."""
    with _lock_file(directory) as lock:
        if not _try_lock(lock):
            raise _already_up(directory)
        write(directory, UpInstance(os.getpid()))
        try:
            yield
        finally:
            (directory / DESCRIPTION).unlink(missing_ok=True)


def write(directory: Path, instance: UpInstance) -> None:
    replace_file(directory / DESCRIPTION, msgspec.json.encode(instance))


def find(directory: Path) -> UpInstance | None:
    """Return the `dray up` that runs on a directory, or None."""
    if not (directory / LOCK).exists():
        return None
    with _lock_file(directory) as lock, contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((directory / DESCRIPTION).read_bytes(), type=UpInstance)
    return None


def _try_lock(lock: int) -> bool:
    """Try to take the lock. Retries, because `find` holds the lock for a moment."""
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(LOCK_PAUSE_SECONDS)
    return False


def _already_up(directory: Path) -> CommandError:
    other = find(directory)
    details = [f"process {other.pid}", other.url] if other else []
    who = f" ({', '.join(filter(None, details))})" if details else ""
    advice = f"Stop it with: dray down --data {directory}. Or choose another --data."
    return CommandError(f"dray is already up on {directory}{who}.", advice)


@contextlib.contextmanager
def _lock_file(directory: Path) -> Iterator[int]:
    descriptor = os.open(directory / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
