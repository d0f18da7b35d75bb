"""Starts a container's program in its namespaces, with the container's rights and no more.

Rights are given up before the program is executed, and its environment is applied with it: nothing
that the container chooses acts on a process with more rights. Imports nothing but Python's own
library, as the shim does.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import functools
import os
import resource
import signal
import socket
import termios
from collections.abc import Callable
from typing import Any, Final, NoReturn

from dray.node.containers import pod_sandboxes
from dray.node.containers import system_calls as calls
from dray.node.containers.container_root import ContainerRoot
from dray.node.containers.pod_sandboxes import PodSandbox

CANNOT_START_CODE: Final = 128
NOT_EXECUTABLE_CODE, NOT_FOUND_CODE = 126, 127
"""The exit codes of a shell."""
NAMESPACES: Final = ("user", "net", "ipc", "uts", "cgroup", "pid", "mnt")
"""The namespaces of a container, by their names in /proc."""
JOIN, MADE = b"join", b"made"
MAX_TEXT_BYTES: Final = 4096


class Started:
    """The first process of a container, a child of this process, as subprocess.Popen has it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def start(
    command: dict[str, Any], folder: str, pod: PodSandbox, streams: tuple[int, int, int]
) -> tuple[Started, dict[str, int], str]:
    """Start a container with these streams; return its process, its namespaces, and its error.

    Joins the user namespace of the pod where it needs that to make others. Raises OSError.
    """
    names = _joined(command["sandbox"])
    # Asked before: everybody is root in the user namespace of a pod.
    is_root = os.geteuid() == 0
    if not is_root:
        pod.complete()
        (user,) = pod.namespaces("user").values()
        calls.join_namespace(user, calls.CLONE_NEWUSER)
        names = tuple(name for name in names if name != "user")
    here = _namespace("pid")
    calls.unshare(calls.CLONE_NEWPID)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = os.fork()
    if process == 0:
        ours.close()
        _be_first(command, folder, streams, theirs)
    theirs.close()
    if is_root:
        # What is started later is no process of the container. Nothing is, by an ordinary user.
        calls.join_namespace(here, calls.CLONE_NEWPID)
    os.close(here)
    with ours:
        said, inside = _follow(ours, pod, names)
    made = dict(zip(NAMESPACES, inside, strict=False))
    return Started(process), made, said.decode("utf-8", "replace")


def _follow(
    peer: socket.socket, pod: PodSandbox, names: tuple[str, ...]
) -> tuple[bytes, list[int]]:
    """Give the namespaces of the pod to the first process; return its error and its namespaces.

    It makes the root of the container meanwhile, and ends where it gets none. Raises OSError.
    """
    pod.complete()
    found = pod.namespaces(*names)
    with contextlib.suppress(OSError):
        # It may have failed already, and says why.
        socket.send_fds(peer, [JOIN], list(found.values()))
    pod_sandboxes.close(found)
    said, inside, _, _ = socket.recv_fds(peer, MAX_TEXT_BYTES, len(NAMESPACES))
    if said == MADE:
        said = peer.recv(MAX_TEXT_BYTES)
    return said, inside


def _joined(plan: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the namespaces of the pod that a container joins, in this order."""
    shared = ("user", *pod_sandboxes.SHARED)
    return tuple(name for name in shared if name != "net") if plan["hasHostNetwork"] else shared


def _be_first(
    command: dict[str, Any],
    folder: str,
    streams: tuple[int, int, int],
    peer: socket.socket,
) -> NoReturn:
    """Be the first process of the container: make its root, start its program, reap others."""
    plan = command["sandbox"]
    code = CANNOT_START_CODE
    try:
        _prepare_process(streams, peer.fileno())
        join_groups(command)
        calls.unshare(calls.CLONE_NEWNS | calls.CLONE_NEWCGROUP)
        ContainerRoot(folder, plan).enter()
        _join(peer)
        made = [_namespace(name) for name in NAMESPACES]
        socket.send_fds(peer, [MADE], made)
        for descriptor in made:
            os.close(descriptor)
        become_user(plan)
        calls.die_with_parent(signal.SIGKILL)
        program = _start_program(command, peer)
        os.closerange(0, 3)
        calls.set_capabilities(())
        calls.forbid_new_privileges()
        peer.close()
        code = _reap(program)
    except (OSError, ValueError) as error:
        _say(peer, error)
    finally:
        os._exit(code)


def _start_program(command: dict[str, Any], peer: socket.socket) -> int:
    """Start the program of the container as a child of its first process."""
    tty = bool(command.get("tty"))
    if not tty and not command.get("rlimits"):
        # Without a copy of this process. The first process may have what the program has.
        _give_up_rights(command["sandbox"])
        spawn = functools.partial(os.posix_spawn, setsid=True)
        return _execute(command["argv"], command["env"], spawn)
    program = os.fork()
    if program == 0:
        run(command, command["argv"], command["env"], peer, tty=tty)
    return program


def _join(peer: socket.socket) -> None:
    """Join the namespaces that the parent sends; end where it has ended, or has none."""
    said, descriptors, _, _ = socket.recv_fds(peer, len(JOIN), len(NAMESPACES))
    if said != JOIN:
        os._exit(CANNOT_START_CODE)
    for descriptor in descriptors:
        calls.join_namespace(descriptor)
        os.close(descriptor)


def _namespace(name: str) -> int:
    return os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)


def _prepare_process(streams: tuple[int, int, int], kept: int) -> None:
    """Leave nothing of the parent in this process but what it needs."""
    calls.forbid_tracing()
    os.setsid()
    pod_sandboxes.reset_signals()
    # Above the standard streams first: one of them may have a number that another will get.
    copies = [fcntl.fcntl(stream, fcntl.F_DUPFD_CLOEXEC, 3) for stream in streams]
    for number, copy in enumerate(copies):
        os.dup2(copy, number)
    pod_sandboxes.keep_only(kept)
    os.umask(0o022)


def confine(command: dict[str, Any]) -> None:
    """Apply the control groups and limits of a command that has no sandbox to this process."""
    join_groups(command)
    _set_limits(command)


def _set_limits(command: dict[str, Any]) -> None:
    if wanted := command.get("openFiles"):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        soft = min(wanted, hard) if hard != resource.RLIM_INFINITY else wanted
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for name, limit in command.get("rlimits", {}).items():
        resource.setrlimit(getattr(resource, name), (limit, limit))


def join_groups(command: dict[str, Any]) -> None:
    """Join the control groups of the container. This process must have one thread."""
    for folder in command.get("cgroups", ()):
        descriptor = _members(folder)
        try:
            os.write(descriptor, b"0")
        finally:
            os.close(descriptor)


def _members(folder: str) -> int:
    """Open the file by which a process joins a control group."""
    flags = os.O_WRONLY | os.O_CLOEXEC
    try:
        # For a thread that moves itself the kernel takes no lock of all processes, as it does for
        # `cgroup.procs`: 0.1 instead of 16 ms. Only version 1 has this file.
        return os.open(os.path.join(folder, "tasks"), flags)
    except FileNotFoundError:
        return os.open(os.path.join(folder, "cgroup.procs"), flags)


def become_user(plan: dict[str, Any]) -> None:
    """Become the container's user, in the user namespace of the pod."""
    calls.bound_capabilities(tuple(plan["capabilities"]))
    with contextlib.suppress(OSError):
        # The kernel may have no keyrings, or a filter forbids them: then there are none to leave.
        calls.leave_keyring()
    if plan["setsGroups"]:
        os.setgroups(plan["groups"])
    os.setresgid(plan["gid"], plan["gid"], plan["gid"])
    os.setresuid(plan["uid"], plan["uid"], plan["uid"])
    calls.forbid_tracing()


def run(
    command: dict[str, Any],
    argv: list[str],
    env: dict[str, str],
    peer: socket.socket | None,
    *,
    tty: bool,
) -> NoReturn:
    """Give up what the container does not have, and execute a program. Reports an error."""
    code = CANNOT_START_CODE
    try:
        os.setsid()
        if tty:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        _set_limits(command)
        _give_up_rights(command["sandbox"])
        _execute(argv, env, os.execve)
    except (OSError, ValueError) as error:
        _say(peer, error)
        code = NOT_FOUND_CODE if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE_CODE
    finally:
        os._exit(code)


def _give_up_rights(plan: dict[str, Any]) -> None:
    """Keep the rights of the container alone, in its working directory."""
    os.chdir(plan["workingDirectory"])
    calls.set_capabilities(tuple(plan["capabilities"]) if plan["uid"] == 0 else ())
    calls.forbid_new_privileges()
    if plan["filter"]:
        calls.filter_system_calls(base64.b64decode(plan["filter"]))


def _execute(
    argv: list[str], env: dict[str, str], execute: Callable[[str, list[str], dict[str, str]], int]
) -> int:
    """Execute a program, found by the container's own PATH. Raises OSError."""
    program = argv[0]
    if "/" in program:
        candidates = [program]
    else:
        folders = env.get("PATH", os.defpath).split(":")
        candidates = [os.path.join(folder or ".", program) for folder in folders]
    last: OSError | None = None
    for candidate in candidates:
        try:
            os.stat(candidate)
            return execute(candidate, argv, env)
        except (FileNotFoundError, NotADirectoryError) as error:
            last = last or error
        except OSError as error:
            last = error
    assert last is not None
    raise OSError(last.errno, f"{program}: {os.strerror(last.errno or 0)}") from last


def _reap(program: int) -> int:
    """Wait for the program, and for orphans meanwhile; return its exit code as a shell does."""
    while True:
        process, status = os.wait()
        if process == program:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code


def _text(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _say(peer: socket.socket | None, error: Exception) -> None:
    """Report an error to the parent and in the log of the container."""
    text = _text(error).encode()[:MAX_TEXT_BYTES]
    with contextlib.suppress(OSError):
        os.write(2, b"dray: " + text + b"\n")
    if peer is not None:
        with contextlib.suppress(OSError):
            peer.send(text)
