"""The sandbox of a pod: the user, network, IPC and UTS namespaces that its containers share.

A process that does nothing holds them, as the pause container of other runtimes. It is a child of
the shim of the first container, which may make it before there is a pod, outlives the agent and
ends with the pod. `sandbox.json` in the folder of the pod says which it is. Imports nothing but
Python's own library, as the shim does.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import struct
from typing import Any, Final

from dray.node.containers import network_helpers, relays
from dray.node.containers import system_calls as calls

FILE: Final = "sandbox.json"
API_SERVER_PORT: Final = 6443
"""The port on the loopback of a pod that leads to the API server."""
SHARED: Final = ("net", "ipc", "uts")
"""The namespaces besides that of users, by their names in /proc."""
_GONE: Final = -2.0
_GONE_TEXT: Final = "the sandbox of the pod does not run"
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_IFREQ: Final = "16sh22x"
_NAME_BYTES: Final = 63
_STAT_BYTES: Final = 4096
_NEW: Final = calls.CLONE_NEWUSER | calls.CLONE_NEWNET | calls.CLONE_NEWIPC | calls.CLONE_NEWUTS
_MAX_BYTES: Final = 4096
_DONE: Final = b"done"
_TOLD: Final = ("hostname", "apiServer", "setsGroups", "pod")
"""What the process hears of the plan."""
_CHANGED_SIGNALS: Final = (
    *(signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGHUP),
    *(signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2),
)


class PodSandbox:
    """The process that holds the namespaces of a pod."""

    def __init__(self, pid: int, started: float) -> None:
        self.pid = pid
        self._started = started

    @property
    def is_alive(self) -> bool:
        return born(self.pid) == self._started

    def namespaces(self, *names: str) -> dict[str, int]:
        """Return descriptors of its namespaces. Raises ProcessLookupError where it is gone."""
        found: dict[str, int] = {}
        try:
            for name in names:
                path = f"/proc/{self.pid}/ns/{name}"
                found[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError):
            close(found)
            raise ProcessLookupError(errno.ESRCH, _GONE_TEXT) from None
        # After the opening: the id may have been given to another process before.
        if not self.is_alive:
            close(found)
            raise ProcessLookupError(errno.ESRCH, _GONE_TEXT)
        return found

    def complete(self) -> None:
        """Wait until a new one can be joined, and write down what it is. Raises OSError."""

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(self.pid)
            try:
                if self.is_alive:
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)


class NewPodSandbox(PodSandbox):
    """A sandbox that this process makes; the lock of its pod is held until it is complete."""

    def __init__(self, pid: int, peer: socket.socket) -> None:
        super().__init__(pid, born(pid))
        self._peer = peer
        self._plan: dict[str, Any] = {}
        self._lock = -1
        self._is_complete = False

    def assign(self, plan: dict[str, Any], lock: int = -1) -> None:
        """Give it to the pod of a container with this plan."""
        self._plan = plan
        self._lock = lock

    def discard(self) -> None:
        """End it, and wait until it has ended."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._peer.close()

    def complete(self) -> None:
        if self._is_complete:
            return
        try:
            _answer(self._peer)
            _map_users(self.pid, self._plan)
            self._write_down()
            # The process ends unless it hears this: none is left that nobody wrote down.
            self._peer.sendall(json.dumps({key: self._plan.get(key) for key in _TOLD}).encode())
            listeners = _answer(self._peer)
        except OSError:
            self.discard()
            raise
        finally:
            self._peer.close()
            if self._lock >= 0:
                # Not by closing it alone: the children may have it still.
                fcntl.flock(self._lock, fcntl.LOCK_UN)
                os.close(self._lock)
        self._is_complete = True
        for listener in listeners:
            _start_relay(listener, self._plan, self)
            os.close(listener)
        if self._plan.get("networkHelper") and not self._plan["hasHostNetwork"]:
            _connect(self._plan, self)

    def _write_down(self) -> None:
        """Write who holds the namespaces, for the next containers of the pod and for the agent."""
        if folder := self._plan["pod"]:
            path = os.path.join(folder, FILE)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            descriptor = os.open(path + ".new", flags, 0o600)
            os.write(descriptor, json.dumps({"pid": self.pid, "born": self._started}).encode())
            os.close(descriptor)
            os.replace(path + ".new", path)


def close(descriptors: dict[str, int]) -> None:
    for descriptor in descriptors.values():
        os.close(descriptor)


def find(folder: str) -> PodSandbox | None:
    """Return the running sandbox of the pod with this folder, or None."""
    try:
        with open(os.path.join(folder, FILE), encoding="utf-8") as file:
            written = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    found = PodSandbox(int(written["pid"]), float(written["born"]))
    return found if found.is_alive else None


def end(folder: str) -> None:
    """End the sandbox of a pod, if there is one."""
    if (found := find(folder)) is not None:
        found.kill()


def ensure(plan: dict[str, Any], spare: NewPodSandbox | None = None) -> PodSandbox:
    """Return the sandbox of a pod, a new one to be completed where there is none.

    `plan` is that of a container. One without a pod has a sandbox of its own. `spare` is used for a
    new one, or ended. Raises OSError.
    """
    lock, found = -1, None
    if plan["pod"]:
        # The containers of a pod start together, each under its own shim.
        lock = os.open(plan["pod"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = find(plan["pod"])
    if spare is not None and (found is not None or not spare.is_alive):
        spare.discard()
        spare = None
    if found is not None:
        os.close(lock)
        return found
    made = spare or create()
    made.assign(plan, lock)
    return made


def send_socket(folder: str, descriptor: int) -> None:
    """Send a new TCP socket of a pod's network over a Unix socket; nothing where that fails.

    The process joins the namespaces of the pod for good.
    """
    with socket.socket(fileno=descriptor) as peer, contextlib.suppress(OSError):
        if (pod := find(folder)) is None:
            return
        found = pod.namespaces("user", "net")
        for name in ("user", "net"):
            calls.join_namespace(found[name])
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
            socket.send_fds(peer, [b"socket"], [made.fileno()])


def create() -> NewPodSandbox:
    """Start a process that makes namespaces, for a pod that is not known yet."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = os.fork()
    if process == 0:
        try:
            ours.close()
            _hold(theirs)
        finally:
            os._exit(1)
    theirs.close()
    return NewPodSandbox(process, ours)


def _answer(peer: socket.socket) -> list[int]:
    """Wait for the word of the new process, and return the descriptors that it sends.

    Raises OSError with the text of its error.
    """
    message, descriptors, _, _ = socket.recv_fds(peer, _MAX_BYTES, 1)
    if message != _DONE:
        said = message.decode("utf-8", "replace")
        raise OSError(0, f"namespaces of the pod: {said or 'the process ended'}")
    return descriptors


def _start_relay(listener: int, plan: dict[str, Any], pod: PodSandbox) -> None:
    """Start the process that passes connections on to the API server, as a user without rights."""
    if os.fork() != 0:
        return
    try:
        ending = os.pidfd_open(pod.pid)
        keep_only(listener, ending)
        _silence()
        os.setsid()
        if os.geteuid() == 0:
            user, group = plan["owner"]
            os.setgroups([])
            os.setresgid(group, group, group)
            os.setresuid(user, user, user)
        calls.forbid_new_privileges()
        host, port = plan["apiServer"]
        relays.run(socket.socket(fileno=listener), (host, port), ending)
    finally:
        os._exit(1)


def _connect(plan: dict[str, Any], pod: NewPodSandbox) -> None:
    """Connect the pod with the network of the node. Ends the pod and raises OSError otherwise."""
    found = pod.namespaces("user", "net")
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        try:
            ending = os.pidfd_open(pod.pid)
            keep_only(theirs.fileno(), ending, *found.values())
            _silence()
            reset_signals()
            os.setsid()
            network_helpers.run(plan, found, ending, theirs)
        finally:
            os._exit(1)
    theirs.close()
    close(found)
    with ours:
        said = ours.recv(4096)
    if said != network_helpers.READY:
        # Not by `kill` alone: a process that is about to end could still be found and joined.
        pod.discard()
        text = said.decode("utf-8", "replace") or "the process ended"
        raise OSError(0, f"network of the pod: {plan['networkHelper']['kind']}: {text}")


def _silence() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)


def _hold(peer: socket.socket) -> None:
    """Make the namespaces, and hold them until killed. Runs in the new process."""
    try:
        reset_signals()
        os.setsid()
        # With all capabilities in the new user namespace, also before users are mapped.
        calls.unshare(_NEW)
        _raise_loopback()
        _open_low_ports()
        _forbid_user_namespaces()
        keep_only(peer.fileno())
        _silence()
        os.chdir("/")
        peer.sendall(_DONE)
        told = peer.recv(_MAX_BYTES)
        if not told:
            return
        _settle(peer, json.loads(told))
    except OSError as error:
        peer.sendall(str(error.strerror).encode())
        return
    peer.close()
    while True:
        signal.pause()


def _settle(peer: socket.socket, plan: dict[str, Any]) -> None:
    """Take the name of the pod, open its port to the API server, and give up all rights.

    A process without a pod ends with its parent.
    """
    socket.sethostname(plan["hostname"].encode()[:_NAME_BYTES].decode("utf-8", "ignore"))
    listener = relays.listen(API_SERVER_PORT) if plan["apiServer"] else None
    if plan["setsGroups"]:
        os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    if not plan["pod"]:
        calls.die_with_parent(signal.SIGKILL)
    calls.set_capabilities(())
    if listener is None:
        peer.sendall(_DONE)
        return
    with listener:
        socket.send_fds(peer, [_DONE], [listener.fileno()])


def _map_users(process: int, plan: dict[str, Any]) -> None:
    """Map users and groups from outside: the process in the new namespace may not."""
    if not plan["setsGroups"]:
        _write(f"/proc/{process}/setgroups", "deny")
    for file, ranges in (("gid_map", plan["gids"]), ("uid_map", plan["uids"])):
        lines = [" ".join(str(number) for number in found) for found in ranges]
        _write(f"/proc/{process}/{file}", "\n".join(lines) + "\n")


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as any_socket:
        request = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, struct.pack(_IFREQ, b"lo", 0))
        _, flags = struct.unpack(_IFREQ, request)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack(_IFREQ, b"lo", flags | _IFF_UP))


def _open_low_ports() -> None:
    """Let containers, which have no capabilities, listen on any port of their own network."""
    _set("net/ipv4/ip_unprivileged_port_start", "0")


def _forbid_user_namespaces() -> None:
    """Allow no user namespace inside, which would give a container all capabilities there.

    Where that cannot be set, the seccomp filter of the containers forbids the same.
    """
    _set("user/max_user_namespaces", "0")


def _set(name: str, value: str) -> None:
    try:
        _write(f"/proc/sys/{name}", value)
    except OSError as error:
        # In a container of somebody else /proc/sys may be read-only.
        if error.errno != errno.EROFS:
            raise


def reset_signals() -> None:
    """Undo what Python and the shim have changed about signals."""
    for number in _CHANGED_SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def keep_only(*kept: int) -> None:
    """Close every descriptor but the standard streams and those."""
    first = 3
    for number in sorted(kept):
        if number > first:
            calls.close_range(first, number - 1)
        first = number + 1
    calls.close_range(first)


def born(process: int) -> float:
    """Return the start time of a process, which tells reused ids apart; -2 where it is gone."""
    try:
        descriptor = os.open(f"/proc/{process}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            fields = os.read(descriptor, _STAT_BYTES).rpartition(b")")[2].split()
        finally:
            os.close(descriptor)
    except OSError:
        return _GONE
    return _GONE if fields[0] == b"Z" else float(fields[19])


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode("ascii"))
    finally:
        os.close(descriptor)
