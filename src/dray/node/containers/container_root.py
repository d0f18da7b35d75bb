"""Builds the root file system of a container, in a mount namespace that the caller has made.

Every source is opened before anything is mounted, and every target is resolved below the new root:
no link that a container has planted leads out of its volume or of the new root. Imports nothing but
Python's own library, as the shim does.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Any, Final

from dray.node.containers import system_calls as calls

DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS: Final = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
READ_ONLY_IN_PROC: Final = ("bus", "fs", "irq", "pressure", "sys", "sysrq-trigger")
MASKED_IN_PROC: Final = (
    *("acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi"),
    *("timer_list", "timer_stats"),
)
"""What other runtimes hide of /proc."""
_SAFE: Final = calls.MS_NOSUID | calls.MS_NODEV
_IN_ROOT: Final = calls.RESOLVE_IN_ROOT | calls.RESOLVE_NO_MAGICLINKS
_BENEATH: Final = calls.RESOLVE_BENEATH | calls.RESOLVE_NO_SYMLINKS | calls.RESOLVE_NO_MAGICLINKS


class ContainerRoot:
    """The root of one container, on a folder that nothing else uses."""

    def __init__(self, folder: str, plan: dict[str, Any]) -> None:
        self._folder = folder
        self._plan = plan
        self._uid, self._gid = plan["owner"]

    def enter(self) -> None:
        """Mount everything, and make it the root of this process."""
        calls.mount("none", "/", flags=calls.MS_REC | calls.MS_PRIVATE)
        opened = [self._open(mount) for mount in self._plan["mounts"]]
        devices = {name: _cloned(f"/dev/{name}", 0) for name in DEVICES}
        self._mount_tmpfs("", "755")
        self._root = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for text, path in self._plan["links"]:
            os.symlink(text, self._folder + path)
        for path, mode in self._plan["folders"]:
            self._make_folder(path, mode)
        for path, content in self._plan["files"].items():
            self._write(path, content.encode())
        self._mount_proc(devices["null"])
        self._mount_dev(devices)
        for mount, (tree, is_folder) in zip(self._plan["mounts"], opened, strict=True):
            self._attach(mount["target"], tree, is_folder)
        if self._plan["hasReadOnlyRoot"]:
            again = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            calls.restrict_mount(again, calls.ATTR_RDONLY, is_recursive=False)
        os.chdir(self._folder)
        calls.pivot_root(".", ".")
        calls.unmount(".")
        os.chdir("/")

    def _open(self, mount: dict[str, Any]) -> tuple[int, bool]:
        """Return a mount of what the container sees, not attached yet, and whether it is a folder.

        Raises OSError with the path.
        """
        attributes = calls.ATTR_NOSUID
        if mount["readOnly"]:
            attributes |= calls.ATTR_RDONLY
        if not mount["isDevice"]:
            attributes |= calls.ATTR_NODEV
        descriptor = _opened(mount["source"])
        if mount["beneath"]:
            below = calls.open_beneath(descriptor, mount["beneath"], os.O_PATH, _BENEATH)
            os.close(descriptor)
            descriptor = below
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        tree = calls.clone_mount(descriptor)
        os.close(descriptor)
        calls.restrict_mount(tree, attributes)
        return tree, is_folder

    def _mount_tmpfs(self, path: str, mode: str, flags: int = _SAFE) -> None:
        options = f"mode={mode},uid={self._uid},gid={self._gid}"
        calls.mount("tmpfs", self._folder + path, "tmpfs", flags, options)

    def _make_folder(self, path: str, mode: str) -> None:
        """Make an empty folder of the container, which is writable as the root is."""
        os.makedirs(self._folder + path, exist_ok=True)
        os.chmod(self._folder + path, int(mode, 8))
        os.chown(self._folder + path, self._uid, self._gid)

    def _write(self, path: str, content: bytes) -> None:
        """Make a file that belongs to the container."""
        *folders, name = path.strip("/").split("/")
        parent = self._target("/".join(folders), is_folder=True)
        self._make(name, parent, is_folder=False, content=content)
        os.close(parent)

    def _mount_proc(self, null: int) -> None:
        path = self._folder + "/proc"
        os.mkdir(path)
        calls.mount("proc", path, "proc", _SAFE | calls.MS_NOEXEC)
        for name in READ_ONLY_IN_PROC:
            with contextlib.suppress(FileNotFoundError):
                descriptor = _opened(f"{path}/{name}")
                tree = calls.clone_mount(descriptor)
                calls.restrict_mount(tree, calls.ATTR_RDONLY)
                calls.attach_mount(tree, descriptor)
        for name in MASKED_IN_PROC:
            with contextlib.suppress(FileNotFoundError):
                self._mask(f"{path}/{name}", null)

    def _mask(self, path: str, null: int) -> None:
        descriptor = _opened(path)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            calls.mount("tmpfs", path, "tmpfs", _SAFE | calls.MS_RDONLY, "mode=755,size=0")
            return
        tree = calls.clone_mount(null)
        calls.restrict_mount(tree, calls.ATTR_RDONLY)
        calls.attach_mount(tree, descriptor)

    def _mount_dev(self, devices: dict[str, int]) -> None:
        path = self._folder + "/dev"
        os.mkdir(path)
        self._mount_tmpfs("/dev", "755", calls.MS_NOSUID | calls.MS_NOEXEC)
        for name, tree in devices.items():
            os.close(os.open(f"{path}/{name}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
            calls.attach_mount(tree, _opened(f"{path}/{name}"))
        for name, text in _DEVICE_LINKS.items():
            os.symlink(text, f"{path}/{name}")
        os.mkdir(f"{path}/pts")
        options = "newinstance,ptmxmode=0666,mode=620"
        flags = calls.MS_NOSUID | calls.MS_NOEXEC
        calls.mount("devpts", f"{path}/pts", "devpts", flags, options)
        os.mkdir(f"{path}/shm")
        self._mount_tmpfs("/dev/shm", "1777", _SAFE | calls.MS_NOEXEC)

    def _attach(self, target: str, tree: int, is_folder: bool) -> None:
        try:
            descriptor = self._target(target, is_folder)
            calls.attach_mount(tree, descriptor)
        except OSError as error:
            text = os.strerror(error.errno or 0)
            raise OSError(error.errno, f"mount at {target}: {text}") from error
        os.close(descriptor)
        os.close(tree)

    def _target(self, path: str, is_folder: bool) -> int:
        """Open a path below the root, and make what is missing of it."""
        parts = path.strip("/").split("/")
        last = self._root
        for count, part in enumerate(parts, 1):
            here = "/".join(parts[:count])
            try:
                found = calls.open_beneath(self._root, here, os.O_PATH, _IN_ROOT)
            except FileNotFoundError:
                self._make(part, last, is_folder or count < len(parts))
                found = calls.open_beneath(self._root, here, os.O_PATH, _IN_ROOT)
            if last != self._root:
                os.close(last)
            last = found
        return last

    def _make(self, name: str, parent: int, is_folder: bool, content: bytes = b"") -> None:
        """Make a folder or a file that belongs to the container."""
        if is_folder:
            os.mkdir(name, 0o755, dir_fd=parent)
        else:
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(name, flags, 0o644, dir_fd=parent)
            os.write(descriptor, content)
            os.close(descriptor)
        if os.geteuid() == 0:
            os.chown(name, self._uid, self._gid, dir_fd=parent, follow_symlinks=False)


def _cloned(path: str, attributes: int) -> int:
    descriptor = _opened(path)
    tree = calls.clone_mount(descriptor)
    os.close(descriptor)
    calls.restrict_mount(tree, attributes | calls.ATTR_NOSUID | calls.ATTR_NOEXEC)
    return tree


def _opened(path: str) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC)
