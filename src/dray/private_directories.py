"""Directories that only their owner can open, whatever the umask and whatever was there before.

A data directory holds the keys of a cluster. It has mode 0700 from its first moment. One that
others can open, as earlier versions left it, is closed to them. A directory that belongs to
somebody else is refused, and so is one that is open to others and holds other things than dray's.
None is created where everybody could put another in its place.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable
from pathlib import Path

__all__ = ["DirectoryRefused", "prepare"]

PRIVATE_MODE = 0o700
_SHARED_BITS = 0o077
_OWN = frozenset({"ca.crt", "store.db", "kubeconfig", "pods"})
"""What shows that a directory is dray's, and may be closed to others."""
_KEYS = ("*.key", "*kubeconfig", "store.db*", "history.db*")
"""The files of a data directory that nobody else may read."""


class DirectoryRefused(Exception):
    """The directory cannot be trusted; `advice` is what the user can do."""

    def __init__(self, message: str, advice: str) -> None:
        super().__init__(message)
        self.advice = advice


def prepare(path: Path, warn: Callable[[str], None]) -> None:
    """Create a private directory, or make sure that the one at `path` is private.

    Raises DirectoryRefused. `warn` is called with each thing that was put right.
    """
    path = Path(os.path.abspath(path))
    _check_link(path)
    if (trouble := _replaceable(path)) is not None:
        if not path.exists():
            raise trouble
        warn(f"{trouble} {trouble.advice}")
    _create(path)
    descriptor = _opened(path)
    try:
        _close_to_others(path, descriptor, warn)
    finally:
        os.close(descriptor)


def _create(path: Path) -> None:
    """Create the directory if it is absent, with its mode also where the umask takes bits away."""
    for folder in reversed((path, *path.parents)):
        try:
            os.mkdir(folder, PRIVATE_MODE)
        except (FileExistsError, PermissionError, IsADirectoryError):
            # What is there is looked at when it is opened.
            if not folder.exists():
                raise
        else:
            os.chmod(folder, PRIVATE_MODE)


def _opened(path: Path) -> int:
    """Return a descriptor: what is checked with it is what is changed with it."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except NotADirectoryError:
        raise DirectoryRefused(
            f"{path} is not a directory.", "Choose another one with --data."
        ) from None
    except PermissionError:
        raise _foreign(path, os.stat(path).st_uid) from None


def _close_to_others(path: Path, descriptor: int, warn: Callable[[str], None]) -> None:
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid():
        raise _foreign(path, found.st_uid)
    mode = stat.S_IMODE(found.st_mode)
    if mode & _SHARED_BITS:
        _check_use(path, descriptor)
        os.fchmod(descriptor, PRIVATE_MODE)
        warn(
            f"{path} had mode {mode:04o}: other users of this computer could open it. It has mode "
            "0700 now; if you do not trust them, replace the keys in it."
        )
    for pattern in _KEYS:
        for file in path.glob(pattern):
            _close_file(file, warn)


def _check_use(path: Path, descriptor: int) -> None:
    """Refuse to take rights away from a directory that has another use, such as a home or /tmp."""
    names = set(os.listdir(descriptor))
    if names and not names & _OWN:
        raise DirectoryRefused(
            f"{path} can be opened by others and holds other files than dray's.",
            f"Choose a directory for dray alone with --data, such as {path / 'dray'}. "
            f"Or take the rights of others away: chmod 700 {shlex.quote(str(path))}",
        )


def _close_file(path: Path, warn: Callable[[str], None]) -> None:
    """Take the rights of others away from a file with keys; links are left alone."""
    found = os.lstat(path)
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISREG(found.st_mode) and mode & _SHARED_BITS and found.st_uid == os.geteuid():
        os.chmod(path, mode & ~_SHARED_BITS)
        warn(f"{path} had mode {mode:04o}. It has mode {mode & ~_SHARED_BITS:04o} now.")


def _check_link(path: Path) -> None:
    """Refuse a symbolic link of another user, who could let it point anywhere."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if stat.S_ISLNK(found.st_mode) and found.st_uid not in (0, os.geteuid()):
        raise DirectoryRefused(
            f"{path} is a symbolic link of another user ({found.st_uid}).",
            f"Remove it, or choose another directory with --data: rm {shlex.quote(str(path))}",
        )


def _replaceable(path: Path) -> DirectoryRefused | None:
    """Return the trouble with a path in which everybody could replace a directory."""
    places = {*path.parents, *Path(os.path.realpath(path)).parents}
    for parent in sorted(places, key=lambda folder: len(folder.parts)):
        mode = os.stat(parent).st_mode if parent.exists() else 0
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return DirectoryRefused(
                f"{parent} can be written by everybody, who could replace {path}.",
                f"Take that right away: chmod o-w {shlex.quote(str(parent))}",
            )
    return None


def _foreign(path: Path, owner: int) -> DirectoryRefused:
    name = shlex.quote(str(path))
    if owner == os.geteuid():
        return DirectoryRefused(f"{path} cannot be opened.", f"Open it: chmod 700 {name}")
    return DirectoryRefused(
        f"{path} belongs to another user ({owner}; this is {os.geteuid()}).",
        f"Make it yours: sudo chown -R {os.geteuid()} {name}. Or choose another with --data.",
    )
