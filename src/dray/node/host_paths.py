"""Files below folders that containers can change, reached by descriptor and never through a link.

A container plants links, pipes and names where the agent writes next, and swaps them meanwhile. So
a path is walked one name at a time from an open directory, and what was opened is what is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import itertools
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, ParamSpec, Self, TypeVar

__all__ = ["Owner", "SafeFolder", "UnsafePath", "parts", "remove_tree", "walk_aside"]

P = ParamSpec("P")
T = TypeVar("T")

MAX_NAME_BYTES: Final = 255
MAX_PATH_BYTES: Final = 4096
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TEMPORARY: Final = "..new"
"""No key of a ConfigMap or Secret and no path of an item begins with two dots."""
_NAMES_AT_ONCE: Final = 10_000
"""A container may leave millions of files; their names are not all kept in memory."""
_WALKERS: Final = ThreadPoolExecutor(2, "files")
"""Not the threads of asyncio: those prepare devices, and search them for other pods."""

Owner = tuple[int, int]
"""A user id and a group id of the host."""


class UnsafePath(ValueError):
    """A path that leaves its folder, passes a link, or is not what it has to be."""


def parts(path: str) -> tuple[str, ...]:
    """Return the names of a relative path, without empty ones and dots. Raises UnsafePath."""
    if "\0" in path:
        raise UnsafePath(f"{path!r} has a NUL byte")
    if path.startswith("/"):
        raise UnsafePath(f"{path} leaves its volume: it must be relative")
    names = tuple(name for name in path.split("/") if name not in ("", "."))
    if ".." in names:
        raise UnsafePath(f"{path} leaves its volume: it must not contain '..'")
    try:
        sizes = [len(os.fsencode(name)) for name in names]
    except UnicodeEncodeError as error:
        raise UnsafePath(f"{path!r} is not valid Unicode") from error
    if max(sizes, default=0) > MAX_NAME_BYTES or sum(sizes) + len(sizes) > MAX_PATH_BYTES:
        raise UnsafePath(f"{path[:64]}… is too long")
    return names


class SafeFolder:
    """An open directory. Use it as a context manager."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a directory whose path no container can change: links in it are followed."""
        return cls(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def enter(self, path: str, *, mode: int | None = None, owner: Owner | None = None) -> Self:
        """Open a directory below this one; with `mode`, make those that are missing.

        Raises UnsafePath where a name is a link or no directory, and FileNotFoundError.
        """
        current = os.dup(self._descriptor)
        try:
            for name in parts(path):
                below = _entered(current, name, path, mode, owner)
                os.close(current)
                current = below
        except BaseException:
            os.close(current)
            raise
        return type(self)(current)

    def set_rights(self, mode: int, owner: Owner | None = None) -> None:
        """Set the mode of this directory, and its owner. What only root may set is left."""
        _set_rights(self._descriptor, mode, owner)

    def status(self, path: str) -> os.stat_result | None:
        """Return the status of what is below this directory, or None. A link is not followed."""
        *folders, name = parts(path) or (".",)
        try:
            with self.enter("/".join(folders)) as folder:
                return os.stat(name, dir_fd=folder._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def write(
        self,
        path: str,
        content: bytes,
        *,
        mode: int,
        folder_mode: int = 0o755,
        owner: Owner | None = None,
    ) -> None:
        """Write a file, whole or not at all, in the place of what has its name.

        Directories on the way are made. Raises UnsafePath.
        """
        *folders, name = parts(path) or (".",)
        if name == ".":
            raise UnsafePath(f"{path!r} names no file")
        with self.enter("/".join(folders), mode=folder_mode, owner=owner) as folder:
            _write(folder._descriptor, name, content, mode, owner)

    def read(self, path: str, max_bytes: int, *, from_end: bool = False) -> bytes:
        """Return the beginning of a regular file, or its end.

        A pipe or device is not even waited for.

        Raises UnsafePath for anything else than a file, and FileNotFoundError.
        """
        *folders, name = parts(path) or (".",)
        with self.enter("/".join(folders)) as folder:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            with _refused_links(path, name):
                descriptor = os.open(name, flags, dir_fd=folder._descriptor)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise UnsafePath(f"{path} is not a regular file")
            if from_end:
                file.seek(max(found.st_size - max_bytes, 0))
            return file.read(max_bytes)

    def clear(self) -> None:
        """Remove everything in this directory, however deep and whatever its modes are.

        Directories that are not empty are moved up before they are emptied: the depth needs neither
        descriptors nor recursion. Raises OSError for what cannot be removed.
        """
        while names := self._some_names():
            for name in names:
                if not _removed(self._descriptor, name):
                    with self._writable(name) as folder:
                        folder._empty_into(self)
                    os.rmdir(name, dir_fd=self._descriptor)

    def _empty_into(self, other: SafeFolder) -> None:
        """Remove everything here, but move directories that are not empty to another one."""
        while names := self._some_names():
            for name in names:
                if not _removed(self._descriptor, name):
                    # A directory that changes its parent must be writable itself.
                    self._writable(name).__exit__()
                    target = f"..{secrets.token_hex(16)}"
                    os.rename(
                        name, target, src_dir_fd=self._descriptor, dst_dir_fd=other._descriptor
                    )

    def _some_names(self) -> list[str]:
        with os.scandir(self._descriptor) as entries:
            return [entry.name for entry in itertools.islice(entries, _NAMES_AT_ONCE)]

    def _writable(self, name: str) -> SafeFolder:
        """Open a directory here, and give its owner every right to it."""
        path_only = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._descriptor)
        try:
            found = os.fstat(path_only)
            if not stat.S_ISDIR(found.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
            if found.st_mode & 0o700 != 0o700:
                # By this name the very directory that was opened, whatever has its name by now.
                os.chmod(f"/proc/self/fd/{path_only}", 0o700)
            return SafeFolder(os.open(".", _FOLDER_FLAGS, dir_fd=path_only))
        finally:
            os.close(path_only)


async def walk_aside(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that walks over the files of a pod, in a thread that is for that alone."""
    called = functools.partial(function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_WALKERS, called)


def remove_tree(path: Path) -> None:
    """Remove a directory of the agent with everything that containers left in it.

    Nothing happens where it is missing. Raises OSError for what cannot be removed.
    """
    try:
        parent = SafeFolder.open(path.parent)
    except FileNotFoundError:
        return
    with parent:
        if parent.status(path.name) is None:
            return
        with parent._writable(path.name) as folder:
            folder.clear()
        os.rmdir(path)


def _entered(current: int, name: str, path: str, mode: int | None, owner: Owner | None) -> int:
    """Open one directory in another, and make it if it may be made."""
    if mode is not None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=current)
            with _refused_links(path, name):
                descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=current)
            _set_rights(descriptor, mode, owner)
            return descriptor
    with _refused_links(path, name):
        return os.open(name, _FOLDER_FLAGS, dir_fd=current)


@contextlib.contextmanager
def _refused_links(path: str, name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
            raise
        raise UnsafePath(
            f"{path}: {name} is a link or of another kind than expected; links are not followed"
        ) from error


def _write(folder: int, name: str, content: bytes, mode: int, owner: Owner | None) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_TEMPORARY, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(_TEMPORARY, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            _set_rights(descriptor, mode, owner)
        os.rename(_TEMPORARY, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(_TEMPORARY, dir_fd=folder)
        raise


def _set_rights(descriptor: int, mode: int, owner: Owner | None) -> None:
    # The owner first: a change of it clears the bits that set the user or group.
    if owner is not None:
        os.fchown(descriptor, *owner)
    os.fchmod(descriptor, mode)


def _removed(folder: int, name: str) -> bool:
    """Remove a file or an empty directory; whether it is gone."""
    with contextlib.suppress(IsADirectoryError, PermissionError):
        os.unlink(name, dir_fd=folder)
        return True
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True
