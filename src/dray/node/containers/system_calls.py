"""System calls of Linux that Python has no function for: namespaces, mounts, capabilities, seccomp.

Each raises OSError. Imports nothing but Python's own library, as the shim does. Needs Linux 5.12.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
import sys
from collections.abc import Callable
from typing import Any, Final

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWCGROUP: Final = 0x02000000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000

MS_RDONLY: Final = 0x1
MS_NOSUID: Final = 0x2
MS_NODEV: Final = 0x4
MS_NOEXEC: Final = 0x8
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 0x40000
MNT_DETACH: Final = 2

ATTR_RDONLY: Final = 0x1
ATTR_NOSUID: Final = 0x2
ATTR_NODEV: Final = 0x4
ATTR_NOEXEC: Final = 0x8

RESOLVE_NO_MAGICLINKS: Final = 0x02
RESOLVE_NO_SYMLINKS: Final = 0x04
RESOLVE_BENEATH: Final = 0x08
RESOLVE_IN_ROOT: Final = 0x10

CAPABILITIES: Final = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"),
    *("SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW"),
    *("IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT"),
    *("SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD"),
    *("LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG"),
    *("WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE"),
)
"""The names of capabilities, without `CAP_`, by their numbers."""

_AT_FDCWD: Final = -100
_AT_EMPTY_PATH: Final = 0x1000
_AT_RECURSIVE: Final = 0x8000
_OPEN_TREE_CLONE: Final = 1
_MOVE_MOUNT_EMPTY_PATHS: Final = 0x4 | 0x40
# The same on every processor, as all system calls since Linux 5.1.
_OPEN_TREE, _MOVE_MOUNT, _CLOSE_RANGE, _OPENAT2, _MOUNT_SETATTR = 428, 429, 436, 437, 442
_MAX_DESCRIPTOR: Final = 2**32 - 1
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP = 1, 4, 22
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 24, 38, 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
_SECCOMP_MODE_FILTER: Final = 2
_MFD_EXEC: Final = 0x10
_INTERPRETER: Final = "/proc/self/exe"
_CAPABILITY_VERSION: Final = 0x20080522
_CAPABILITY_BITS: Final = 64
_KEYCTL_JOIN_SESSION_KEYRING: Final = 1
_KEYCTL: Final = {"x86_64": 250, "aarch64": 219}
_FILTER_INSTRUCTION_BYTES: Final = 8

_libc = ctypes.CDLL(None, use_errno=True)
_INT, _LONG, _UINT, _ULONG = ctypes.c_int, ctypes.c_long, ctypes.c_uint, ctypes.c_ulong
_TEXT, _SIZE = ctypes.c_char_p, ctypes.c_size_t


def _function(name: str, *types: type[Any]) -> Callable[..., int]:
    """Return a function of the C library for arguments of these types.

    Arguments of declared types are converted three times as fast as others.
    """
    return ctypes.CFUNCTYPE(ctypes.c_int, *types, use_errno=True)((name, _libc))


_unshare = _function("unshare", _INT)
_setns = _function("setns", _INT, _INT)
_mount = _function("mount", _TEXT, _TEXT, _TEXT, _ULONG, _TEXT)
_umount2 = _function("umount2", _TEXT, _INT)
_pivot_root = _function("pivot_root", _TEXT, _TEXT)
_prctl = _function("prctl", _INT, _ULONG, _ULONG, _ULONG, _ULONG)
_openat2 = _function("syscall", _LONG, _INT, _TEXT, _TEXT, _SIZE)
_close_range = _function("syscall", _LONG, _UINT, _UINT, _UINT)
_open_tree = _function("syscall", _LONG, _INT, _TEXT, _UINT)
_move_mount = _function("syscall", _LONG, _INT, _TEXT, _INT, _TEXT, _UINT)
_mount_setattr = _function("syscall", _LONG, _INT, _TEXT, _UINT, _TEXT, _SIZE)
_keyctl = _function("syscall", _LONG, _INT, _TEXT)


def unshare(flags: int) -> None:
    _checked(_unshare(flags), "unshare")


def join_namespace(descriptor: int, kind: int = 0) -> None:
    """Join the namespace behind a descriptor (setns)."""
    _checked(_setns(descriptor, kind), "setns")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    code = _mount(
        os.fsencode(source),
        os.fsencode(target),
        os.fsencode(kind) or None,
        flags,
        os.fsencode(options) or None,
    )
    _checked(code, f"mount on {target}")


def unmount(target: str, flags: int = MNT_DETACH) -> None:
    _checked(_umount2(os.fsencode(target), flags), f"unmount {target}")


def pivot_root(new: str, old: str) -> None:
    _checked(_pivot_root(os.fsencode(new), os.fsencode(old)), "pivot_root")


def open_beneath(folder: int, path: str, flags: int, resolve: int) -> int:
    """Open a path below a folder as `resolve` says (openat2)."""
    how = struct.pack("QQQ", flags | os.O_CLOEXEC, 0, resolve)
    return _checked(_openat2(_OPENAT2, folder, os.fsencode(path), how, len(how)), path)


def close_range(first: int, last: int = _MAX_DESCRIPTOR) -> None:
    """Close the descriptors from `first` to `last`."""
    _checked(_close_range(_CLOSE_RANGE, first, last, 0), "close_range")


def clone_mount(descriptor: int) -> int:
    """Return a mount that is not attached yet, of the file or folder behind a descriptor."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH | _AT_RECURSIVE
    return _checked(_open_tree(_OPEN_TREE, descriptor, b"", flags), "open_tree")


def attach_mount(mounted: int, target: int) -> None:
    """Attach a mount of `clone_mount` to the file or folder behind a descriptor."""
    code = _move_mount(_MOVE_MOUNT, mounted, b"", target, b"", _MOVE_MOUNT_EMPTY_PATHS)
    _checked(code, "move_mount")


def restrict_mount(mounted: int, attributes: int, *, is_recursive: bool = True) -> None:
    """Add attributes to a mount and, unless told otherwise, to what is mounted below it."""
    change = struct.pack("QQQQ", attributes, 0, 0, 0)
    flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if is_recursive else 0)
    code = _mount_setattr(_MOUNT_SETATTR, mounted, b"", flags, change, len(change))
    _checked(code, "mount_setattr")


def die_with_parent(number: int) -> None:
    """Have the kernel send a signal to this process when its parent ends."""
    _control(_PR_SET_PDEATHSIG, number)


def forbid_tracing() -> None:
    """Hide this process's memory, descriptors and files from others of the same user."""
    _control(_PR_SET_DUMPABLE, 0)


def forbid_new_privileges() -> None:
    _control(_PR_SET_NO_NEW_PRIVS, 1)


def bound_capabilities(kept: tuple[str, ...]) -> None:
    """Let no program that is executed have other capabilities than those."""
    names = dict(enumerate(CAPABILITIES))
    for number in range(_CAPABILITY_BITS):
        if names.get(number) in kept:
            continue
        try:
            _control(_PR_CAPBSET_DROP, number)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # The kernel knows no capability with this number, nor with a higher one.
            break
    _control(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)


def set_capabilities(kept: tuple[str, ...]) -> None:
    """Give up all capabilities but those."""
    mask = sum(1 << number for number, name in enumerate(CAPABILITIES) if name in kept)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    _checked(_libc.capset(header, struct.pack("6I", low, low, 0, high, high, 0)), "capset")


def filter_system_calls(program: bytes) -> None:
    """Apply a compiled seccomp filter to this process and all that it starts."""

    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    described = Filter(len(program) // _FILTER_INSTRUCTION_BYTES, program)
    mode = ctypes.c_ulong(_SECCOMP_MODE_FILTER)
    code = _libc.prctl(_PR_SET_SECCOMP, mode, ctypes.byref(described))
    _checked(code, "seccomp")


def leave_keyring() -> None:
    """Replace the session keyring, which may have keys of the user, by an empty one."""
    if (number := _KEYCTL.get(os.uname().machine)) is not None:
        _checked(_keyctl(number, _KEYCTL_JOIN_SESSION_KEYRING, None), "keyctl")


def _control(option: int, argument: int) -> None:
    _checked(_prctl(option, argument, 0, 0, 0), f"prctl {option}")


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def leave_interpreter() -> None:
    """Execute this program again from a sealed copy in memory, if a user owns the interpreter.

    A container reaches the file that its first process was started from (`/proc/self/exe`), and it
    may be the user who owns that file. Does nothing in the copy.
    """
    found = os.stat(_INTERPRETER)
    is_copy = found.st_nlink == 0
    if is_copy or (found.st_uid == 0 and not found.st_mode & 0o022):
        return
    copy = _memory_file()
    with open(_INTERPRETER, "rb") as source:
        while os.sendfile(copy, source.fileno(), None, found.st_size):
            pass
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(copy, fcntl.F_ADD_SEALS, seals)
    os.execve(copy, sys.orig_argv, {**os.environ, **_library_path()})


def _memory_file() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create("python", flags | _MFD_EXEC)
    except OSError as error:
        # Before Linux 6.3 all of them can be executed, and there is no such flag.
        if error.errno != errno.EINVAL:
            raise
        return os.memfd_create("python", flags)


def _library_path() -> dict[str, str]:
    """Return where the library of the interpreter is, which may be known relative to its file."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            folder, slash, name = line.rstrip("\n").rpartition("/")
            if slash and name.startswith("libpython"):
                return {"LD_LIBRARY_PATH": folder[folder.index("/") :]}
    return {}
