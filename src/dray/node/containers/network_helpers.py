"""Connects the network of a pod with that of the node, by pasta or slirp4netns.

The program translates connections of the pod into its own, as an ordinary program of the node: so
the pod reaches what any other machine could reach, and nobody reaches the pod. It runs as the user
that is root of the pod, which has no rights on the node, sees the system's programs and no other
file, and ends with the pod. What the programs offer by default is switched off: ports of the
node's loopback, ports of the pod on the node, answers to names. Imports nothing but Python's own
library, as the shim does.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import stat
import time
from typing import Any, Final, NoReturn

from dray.node.containers import system_calls as calls
from dray.node.containers.container_root import ContainerRoot

PASTA: Final = "pasta"
SLIRP4NETNS: Final = "slirp4netns"
NAMES: Final = (PASTA, SLIRP4NETNS)
READY: Final = b"ready"
READY_SECONDS: Final = 20.0
MTU: Final = 65520
_TUN: Final = "/dev/net/tun"
_STAGE: Final = "/tmp"
"""A folder that every system has; it is replaced in the mount namespace of the program alone."""
_NETWORK: Final = "/run/network"
_READY_FILE: Final = "/run/ready"
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_LINKER_CACHE: Final = "/etc/ld.so.cache"
_FOLDERS: Final = (("/tmp", "1777"), ("/run", "755"), ("/etc", "755"))
_CAPABILITIES: Final = (
    *("NET_ADMIN", "NET_BIND_SERVICE", "SETGID", "SETPCAP", "SETUID", "SYS_ADMIN", "SYS_PTRACE"),
)
"""Of the user namespace of the pod: to make the interface, and to isolate itself."""
_TEXT_BYTES: Final = 4096


def arguments(kind: str, program: str, ready: int) -> list[str]:
    """Return the command line; `ready` is a descriptor that the program writes to at the end."""
    if kind == PASTA:
        return [
            *(program, "--foreground", "--quiet", "--config-net", "--pid", _READY_FILE),
            # Nothing of the pod on the node, and nothing of the node's loopback in the pod.
            *("-t", "none", "-u", "none", "-T", "none", "-U", "none", "--no-map-gw"),
            *("--no-dhcp", "--no-dhcpv6", "--no-ra", "--dns", "none", "--search", "none"),
            *("--netns-only", "--netns", _NETWORK),
        ]
    return [
        *(program, "--configure", f"--mtu={MTU}", "--disable-host-loopback", "--disable-dns"),
        *("--enable-sandbox", "--enable-seccomp", f"--ready-fd={ready}"),
        *("--netns-type=path", _NETWORK, "tap0"),
    ]


def run(
    plan: dict[str, Any], namespaces: dict[str, int], pod: int, told: socket.socket
) -> NoReturn:
    """Run the program until the process behind a pidfd ends; say when the network is there.

    `namespaces` are those of the pod. An error is said in words.
    """
    is_root = os.geteuid() == 0
    try:
        process, ready, output = _start(plan, namespaces, is_root)
        if is_root:
            user, group = plan["owner"]
            os.setgroups([])
            os.setresgid(group, group, group)
            os.setresuid(user, user, user)
        calls.set_capabilities(())
        calls.forbid_new_privileges()
    except OSError as error:
        told.sendall(str(error.strerror).encode()[:_TEXT_BYTES])
        os._exit(1)
    ended = os.pidfd_open(process)
    failure = _until_ready(ready, output, ended, pod)
    told.sendall(failure or READY)
    told.close()
    if not failure:
        _until_one_ends(output, ended, pod)
    # The first process of its process namespace: everything in it ends with it.
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    os._exit(0)


def _start(plan: dict[str, Any], namespaces: dict[str, int], is_root: bool) -> tuple[int, int, int]:
    """Return the process, and what its sign and its output are read from. Raises OSError."""
    if not is_root:
        calls.join_namespace(namespaces["user"], calls.CLONE_NEWUSER)
    calls.unshare(calls.CLONE_NEWPID)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    output, inner = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            _be_program(plan, namespaces, is_root, theirs, inner)
        except OSError as error:
            theirs.sendall(str(error.strerror).encode()[:_TEXT_BYTES])
        finally:
            os._exit(1)
    theirs.close()
    os.close(inner)
    with ours:
        said, descriptors, _, _ = socket.recv_fds(ours, _TEXT_BYTES, 1)
    if not descriptors:
        raise OSError(0, said.decode("utf-8", "replace") or "the process ended")
    return process, descriptors[0], output


def _be_program(
    plan: dict[str, Any],
    namespaces: dict[str, int],
    is_root: bool,
    peer: socket.socket,
    output: int,
) -> None:
    """Become the program. Raises OSError."""
    calls.forbid_tracing()
    calls.unshare(calls.CLONE_NEWNS | calls.CLONE_NEWIPC | calls.CLONE_NEWUTS)
    calls.mount("none", "/", flags=calls.MS_REC | calls.MS_PRIVATE)
    device = _own_device(plan["owner"]) if is_root else _TUN
    _enter_root(plan["owner"], device, namespaces["net"])
    if is_root:
        calls.join_namespace(namespaces["user"], calls.CLONE_NEWUSER)
    if plan["setsGroups"]:
        os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    os.mkfifo(_READY_FILE, 0o600)
    reader = os.open(_READY_FILE, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    writer = os.open(_READY_FILE, os.O_WRONLY | os.O_CLOEXEC)
    socket.send_fds(peer, [READY], [reader])
    os.set_inheritable(writer, True)
    os.dup2(output, 1)
    os.dup2(output, 2)
    calls.bound_capabilities(_CAPABILITIES)
    calls.forbid_new_privileges()
    calls.die_with_parent(signal.SIGKILL)
    helper = plan["networkHelper"]
    os.execve(helper["program"], arguments(helper["kind"], helper["program"], writer), {})


def _own_device(owner: tuple[int, int]) -> str:
    """Make a device node like that of the node which the program's user may open; others cannot
    see it."""
    found = os.stat(_TUN)
    calls.mount("tmpfs", _STAGE, "tmpfs", calls.MS_NOSUID | calls.MS_NOEXEC, "mode=700")
    path = f"{_STAGE}/tun"
    os.mknod(path, stat.S_IFCHR | 0o600, found.st_rdev)
    os.chown(path, *owner)
    return path


def _enter_root(owner: tuple[int, int], device: str, network: int) -> None:
    """Leave nothing of the node's files but its programs, their libraries and the device."""
    links = [(os.readlink(path), path) for path in _SYSTEM if os.path.islink(path)]
    shown = [path for path in _SYSTEM if os.path.isdir(path) and not os.path.islink(path)]
    if os.path.exists(_LINKER_CACHE):
        shown.append(_LINKER_CACHE)
    sources = {
        **{path: path for path in shown},
        _TUN: device,
        _NETWORK: f"/proc/self/fd/{network}",
    }
    mounts = [
        {
            **{"source": source, "target": target, "beneath": ""},
            **{"readOnly": target in shown, "isDevice": target == _TUN},
        }
        for target, source in sources.items()
    ]
    plan = {"owner": owner, "mounts": mounts, "links": links, "folders": _FOLDERS, "files": {}}
    ContainerRoot(_STAGE, {**plan, "hasReadOnlyRoot": False}).enter()


def _until_ready(ready: int, output: int, ended: int, pod: int) -> bytes:
    """Return the last words of a program that never got ready; empty where it did."""
    said = b""
    until = time.monotonic() + READY_SECONDS
    while (left := until - time.monotonic()) > 0:
        found = _readable((ready, output, ended, pod), left)
        if ready in found and os.read(ready, 64):
            return b""
        chunk = os.read(output, _TEXT_BYTES) if output in found else b""
        said = (said + chunk)[-_TEXT_BYTES:]
        if not chunk and (ended in found or pod in found):
            return said.strip() or b"it ended at once"
    return said.strip() or b"it does not get ready"


def _until_one_ends(output: int, ended: int, pod: int) -> None:
    watched = [output, ended, pod]
    while True:
        found = _readable(watched)
        if ended in found or pod in found:
            return
        if not os.read(output, _TEXT_BYTES):
            watched.remove(output)


def _readable(descriptors: list[int] | tuple[int, ...], seconds: float | None = None) -> set[int]:
    waiting = select.poll()
    for descriptor in descriptors:
        waiting.register(descriptor, select.POLLIN)
    found = waiting.poll(None if seconds is None else seconds * 1000)
    return {descriptor for descriptor, _ in found}
