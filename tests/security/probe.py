"""Runs inside a container and prints, as JSON, everything that it could touch.

It is started by the system's Python without any of dray's modules. Its argument is a JSON object:
`port` and `abstract`, a TCP port on the host's loopback and the name of an abstract socket, both of
which somebody outside listens on, and `process`, the id of a process outside. With `--connect` it
tries these three alone.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import json
import os
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
NAMESPACE_KINDS = {
    "cgroup": 0x02000000,
    "ipc": 0x08000000,
    "mnt": 0x00020000,
    "net": 0x40000000,
    "pid": 0x20000000,
    "time": 0x00000080,
    "user": 0x10000000,
    "uts": 0x04000000,
}
SYSTEM = ("/usr/", "/etc/alternatives", "/etc/ssl")
CALLS = {"add_key": 248, "request_key": 249, "keyctl": 250, "bpf": 321, "perf_event_open": 298}
PTRACE_ATTACH = 16


def walk(top: str) -> Iterator[str]:
    """Yield every path below a folder, but nothing of other file systems' insides twice."""
    for folder, folders, files in os.walk(top, followlinks=False):
        if folder == "/proc" or folder.startswith("/proc/"):
            folders[:] = [name for name in folders if name not in ("task", "map_files")]
        folders[:] = [n for n in folders if not os.path.join(folder, n).startswith(SYSTEM)]
        yield folder
        for name in files:
            yield os.path.join(folder, name)


def is_writable(path: str) -> bool:
    try:
        kind = os.lstat(path).st_mode
    except OSError:
        return False
    if stat.S_ISLNK(kind):
        return False
    if stat.S_ISDIR(kind):
        return can_create_in(path)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY))
    except OSError:
        return False
    return True


def can_create_in(folder: str) -> bool:
    path = os.path.join(folder, ".probe")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except OSError:
        return False
    os.unlink(path)
    return True


def general(path: str) -> str:
    """Leave out process ids, so that two runs can be compared."""
    parts = path.split("/")
    if len(parts) > 2 and parts[1] == "proc" and parts[2].isdigit():
        own = {str(os.getpid()): "OWN", "1": "FIRST"}
        parts[2] = own.get(parts[2], "OTHER")
    if len(parts) > 4 and parts[1] == "proc" and parts[3] in ("fd", "fdinfo"):
        parts[4] = "N"
    return "/".join(parts)


def attempt(call: Callable[[], object]) -> str:
    try:
        call()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error.errno))
    return "allowed"


def checked(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), "")


def in_child(call: Callable[[], object]) -> str:
    """Return the result of a call that changes the process, made by a child."""
    read_end, write_end = os.pipe()
    process = os.fork()
    if process == 0:
        os.write(write_end, attempt(call).encode())
        os._exit(0)
    os.close(write_end)
    os.waitpid(process, 0)
    with os.fdopen(read_end) as pipe:
        return pipe.read() or "killed"


def connect(family: int, address: str | tuple[str, int]) -> Callable[[], None]:
    def call() -> None:
        with socket.socket(family, socket.SOCK_STREAM) as made:
            made.settimeout(2)
            made.connect(address)

    return call


def readable_outside() -> dict[str, int | str]:
    """Paths of the host that show something of it when they can be opened."""
    suspects = [
        "/proc/kcore",
        "/proc/keys",
        "/proc/sched_debug",
        "/proc/timer_list",
        "/proc/1/environ",
    ]
    suspects += ["/proc/1/mem", "/proc/1/root", "/proc/1/cwd", "/proc/1/fd", "/proc/1/maps"]
    suspects += ["/etc/shadow", "/etc/ssh", "/root/.ssh", "/var/lib", "/run/docker.sock", "/boot"]
    found: dict[str, int | str] = {}
    for path in suspects:
        try:
            if os.path.isdir(path):
                found[path] = len(os.listdir(path))
            else:
                with open(path, "rb") as file:
                    found[path] = len(file.read(16))
        except OSError as error:
            found[path] = errno.errorcode[error.errno or 0]
    return {path: seen for path, seen in found.items() if seen not in (0, "ENOENT", "EACCES")}


def mounts() -> dict[str, str]:
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        lines = [line.split() for line in file]
    found = {}
    for fields in lines:
        kind = fields[fields.index("-") + 1]
        flags = fields[5].split(",")
        shown = ",".join(
            flag for flag in flags if flag in ("ro", "rw", "nosuid", "nodev", "noexec")
        )
        if not fields[4].startswith("/sys"):
            known = kind if kind in ("tmpfs", "proc", "devpts", "devtmpfs") else "disk"
            found[fields[4]] = f"{known} {shown}"
    return found


def status() -> dict[str, str]:
    with open("/proc/self/status", encoding="utf-8") as file:
        fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    names = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
    return {name: fields[name].strip() for name in names}


def unshare(kind: int) -> None:
    checked(LIBC.unshare(kind))


def join(name: str) -> None:
    checked(LIBC.setns(os.open(f"/proc/1/ns/{name}", os.O_RDONLY), 0))


def call_system(number: int) -> None:
    checked(LIBC.syscall(number, 0, 0, 0, 0, 0))


def reached(known: dict[str, Any]) -> dict[str, str]:
    return {
        "abstract": attempt(connect(socket.AF_UNIX, "\0" + known["abstract"])),
        "loopback": attempt(connect(socket.AF_INET, ("127.0.0.1", known["port"]))),
        "outside": attempt(lambda: os.kill(known["process"], 0)),
    }


def main() -> None:
    known = json.loads(sys.argv[1])
    if sys.argv[2:] == ["--connect"]:
        print(json.dumps(reached(known)))
        return
    namespaces = {
        name: in_child(functools.partial(unshare, kind)) for name, kind in NAMESPACE_KINDS.items()
    }
    joins = {
        name: in_child(functools.partial(join, name)) for name in ("mnt", "user", "net", "pid")
    }
    paths = [path for path in walk("/") if is_writable(path)]
    sockets = [p for p in walk("/") if os.path.exists(p) and stat.S_ISSOCK(os.lstat(p).st_mode)]
    seen = {
        "calls": {
            name: in_child(functools.partial(call_system, number)) for name, number in CALLS.items()
        },
        "devices": sorted(
            path
            for path in walk("/dev")
            if os.path.exists(path)
            and (stat.S_ISCHR(os.lstat(path).st_mode) or stat.S_ISBLK(os.lstat(path).st_mode))
        ),
        "interfaces": sorted(name for _, name in socket.if_nameindex()),
        "joins": joins,
        "mount": in_child(lambda: checked(LIBC.mount(b"x", b"/tmp", b"tmpfs", 0, None))),
        "mounts": mounts(),
        "namespaces": namespaces,
        "network": reached(known),
        "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
        "readable": readable_outside(),
        "setuid": in_child(lambda: os.setuid(1)),
        "signal_to_first": attempt(lambda: os.kill(1, 0)),
        "sockets": sockets,
        "status": status(),
        "trace_first": in_child(lambda: checked(LIBC.ptrace(PTRACE_ATTACH, 1, 0, 0))),
        "user": [os.getuid(), os.getgid(), sorted({*os.getgroups()} - {65534})],
        "writable": sorted({general(path) for path in paths}),
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    signal.alarm(120)
    main()
