"""The shim: owns one container, its log and its exit code on disk, and outlives the agent.

The program forks a shim for each container (an interpreter per container would cost more than the
container). The next one waits on the standard input, a socket, for the folder of a container, which
holds `command.json`, and makes the namespaces of a pod meanwhile. A shim writes
`output.log` and, when the container has ended, `exit.json`, and writes "started" to the descriptor
that came with the folder. SIGTERM is passed on to the container's
processes, SIGUSR1 kills them, SIGUSR2 gives the terminal the size in `size.json`. Imports nothing
but a little of Python's own library.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import select
import selectors
import signal
import socket
import struct
import subprocess
import termios
import time
from typing import Any

from dray.node.containers import launch, oom_kills, pod_sandboxes, system_calls
from dray.node.containers.launch import Started
from dray.node.containers.pod_sandboxes import NewPodSandbox

COMMAND, PROCESS, EXIT = "command.json", "process.json", "exit.json"
OUTPUT, ROTATED = "output.log", "output.log.1"
INPUT, SIZE = "input", "size.json"
STARTED = b"started\n"
START, START_IN_SANDBOX, SOCKET = b"start", b"sandbox", b"socket"
END = b"end"
NOT_STARTED_CODE = launch.CANNOT_START_CODE
NOT_STARTED_REASON = "StartError"
MAX_LINE_BYTES = 16 * 1024
MAX_LOG_BYTES = 10 * 2**20
MAX_PATH_BYTES = 4096
LOOK_SECONDS = 0.002
IDLE_MILLISECONDS = 20
"""What is prepared for the next container does not slow down those that start now."""
INPUT_DESCRIPTOR = 0
NAMESPACE_DESCRIPTORS = {name: number for number, name in enumerate(launch.NAMESPACES, 64)}
"""Above all others that a shim has."""


def main() -> None:
    """Serve the socket that is the standard input."""
    system_calls.leave_interpreter()
    # A collection would write to pages that all shims share with this process.
    gc.disable()
    gc.freeze()
    serve(socket.socket(fileno=INPUT_DESCRIPTOR))


def serve(requests: socket.socket) -> None:
    """Have a process wait for each request, until the agent closes the socket."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    makes_sandboxes = False
    while True:
        taken, notice = os.pipe()
        if os.fork() == 0:
            os.close(taken)
            os.setsid()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _serve_one(requests, notice, makes_sandboxes)
            os._exit(0)
        os.close(notice)
        # Nothing where the process was killed before there was a request.
        kind = os.read(taken, MAX_PATH_BYTES)
        os.close(taken)
        if kind == END:
            return
        makes_sandboxes = makes_sandboxes or kind == START_IN_SANDBOX


def _serve_one(requests: socket.socket, notice: int, makes_sandbox: bool) -> None:
    """Wait for a request, and serve it.

    "start" or "sandbox" and the folder of a container's start: a shim. "socket" and the folder of a
    pod: a process that sends a socket of the pod's network back.
    """
    spare = pod_sandboxes.create() if makes_sandbox and _is_idle(requests) else None
    message, descriptors, _, _ = socket.recv_fds(requests, MAX_PATH_BYTES, 1)
    requests.close()
    kind, _, folder = message.partition(b" ")
    os.write(notice, kind or END)
    os.close(notice)
    if spare is not None and kind != START_IN_SANDBOX:
        spare.discard()
    if kind == SOCKET:
        pod_sandboxes.send_socket(os.fsdecode(folder), descriptors[0])
    elif kind:
        own(os.fsdecode(folder), descriptors[0], spare)


def _is_idle(requests: socket.socket) -> bool:
    waiting = select.poll()
    waiting.register(requests, select.POLLIN)
    return not waiting.poll(IDLE_MILLISECONDS)


def own(folder: str, told: int, spare: NewPodSandbox | None = None) -> None:
    """Run the container with this folder until it has ended.

    `spare` is a sandbox for its pod, unless that has one.
    """
    # The agent enters the container by these descriptors, which are open while it runs.
    identity: dict[str, Any] = {
        "pid": os.getpid(),
        "born": pod_sandboxes.born(os.getpid()),
        "startedAt": time.time(),
        "namespaces": NAMESPACE_DESCRIPTORS,
    }
    _write(os.path.join(folder, PROCESS), identity)
    os.dup2(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), INPUT_DESCRIPTOR)
    log = Log(folder)
    try:
        code, reason = Shim(folder, log, spare).run(told)
    finally:
        log.close()
    ended = {"exitCode": code, "reason": reason, "finishedAt": time.time()}
    _write(os.path.join(folder, EXIT), ended, durable=True)


class Shim:
    """One container: its process and its streams."""

    def __init__(self, folder: str, log: Log, spare: NewPodSandbox | None) -> None:
        self._folder = folder
        self._spare = spare
        with open(os.path.join(folder, COMMAND), "rb", buffering=0) as file:
            self._command: dict[str, Any] = json.loads(file.read())
        self._log = log
        self._terminal = -1
        self._stdin = -1
        self._outputs: dict[int, bytes] = {}
        self._inside = 0
        self._failed = False

    def run(self, told: int) -> tuple[int, str]:
        """Run the container until it ends; return its exit code, or why it never ran."""
        try:
            process = self._start()
        except OSError as error:
            text = f"{self._command['argv'][0]}: {error.strerror}"
            self._log.add(b"stderr", f"dray: {text}\n".encode(), at_once=True)
            return NOT_STARTED_CODE, NOT_STARTED_REASON
        signal.signal(signal.SIGTERM, lambda *_: self._terminate(process.pid))
        signal.signal(signal.SIGUSR1, lambda *_: self._kill(process.pid))
        signal.signal(signal.SIGUSR2, lambda *_: self._resize())
        self._wait_until_started(process)
        self._copy(process, told)
        code = process.wait()
        if argv := self._command.get("cleanup"):
            subprocess.run(argv, check=False, capture_output=True, env=self._command["env"])
        if self._failed:
            return NOT_STARTED_CODE, NOT_STARTED_REASON
        has_lost_one = code and oom_kills.count(self._command.get("cgroups", ()))
        return (128 - code if code < 0 else code), (oom_kills.REASON if has_lost_one else "")

    def _start(self) -> Started:
        """Start the command with its streams. Raises OSError."""
        inner = self._open_streams()
        try:
            if self._command.get("sandbox"):
                return self._start_in_sandbox(inner)
            child = subprocess.Popen(
                self._command["argv"],
                stdin=inner[0],
                stdout=inner[1],
                stderr=inner[2],
                env=self._command["env"],
                cwd=self._command.get("cwd") or "/",
                start_new_session=True,
                preexec_fn=lambda: launch.confine(self._command),
            )
            # Reaped by its id, as a container in a sandbox is.
            child.returncode = 0
            return Started(child.pid)
        except subprocess.SubprocessError as error:
            raise OSError(0, "its limits cannot be set") from error
        finally:
            for descriptor in {*inner}:
                os.close(descriptor)

    def _open_streams(self) -> tuple[int, int, int]:
        """Return the container's ends of its streams; the shim keeps the others."""
        if self._command.get("tty"):
            self._terminal, inner = os.openpty()
            self._outputs = {self._terminal: b"stdout"}
            return inner, inner, inner
        if self._command.get("stdin"):
            inside, self._stdin = os.pipe()
        else:
            inside = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        (out, out_inside), (errors, errors_inside) = os.pipe(), os.pipe()
        self._outputs = {out: b"stdout", errors: b"stderr"}
        return inside, out_inside, errors_inside

    def _start_in_sandbox(self, streams: tuple[int, int, int]) -> Started:
        """Start the container in the sandbox of its pod, or in one of its own without a pod."""
        pod = pod_sandboxes.ensure(self._command["sandbox"], self._spare)
        process, namespaces, failure = launch.start(self._command, self._folder, pod, streams)
        self._failed = bool(failure)
        self._inside = process.pid
        for name, descriptor in namespaces.items():
            os.dup2(descriptor, NAMESPACE_DESCRIPTORS[name], inheritable=False)
            os.close(descriptor)
        return process

    def _wait_until_started(self, process: Started) -> None:
        """Wait for the sign of a runtime that starts the container itself."""
        file = self._command.get("startedFile")
        while file and process.poll() is None and not os.path.exists(file):
            time.sleep(LOOK_SECONDS)
        if file:
            self._find_namespaces(file)

    def _find_namespaces(self, file: str) -> None:
        """Write down the first process of a container that its runtime started, by its id in a
        file. Its namespaces are found by that, as those of a pod are."""
        with contextlib.suppress(OSError, ValueError):
            with open(file, encoding="ascii") as written:
                found = int(written.read())
            known = {"pid": found, "born": pod_sandboxes.born(found)}
            _write(os.path.join(self._folder, pod_sandboxes.FILE), known)

    def _terminate(self, outer: int) -> None:
        """Send SIGTERM to the container's own processes, not to those of the sandbox."""
        for process in _children(self._inside) if self._inside else [outer]:
            _kill(process, signal.SIGTERM)

    def _kill(self, outer: int) -> None:
        if argv := self._command.get("kill"):
            subprocess.run(argv, check=False, capture_output=True, env=self._command["env"])
        elif self._inside:
            _kill(self._inside, signal.SIGKILL)
        else:
            _kill_session(outer)

    def _resize(self) -> None:
        if self._terminal < 0:
            return
        with open(os.path.join(self._folder, SIZE), encoding="utf-8") as file:
            rows, columns = json.load(file)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _copy(self, process: Started, told: int) -> None:
        """Write output as the kubelet's runtimes write logs: lines with time and stream."""
        sources = dict(self._outputs)
        with selectors.DefaultSelector() as selector:
            for descriptor, stream in sources.items():
                os.set_blocking(descriptor, False)
                selector.register(descriptor, selectors.EVENT_READ, stream)
            passed_on = self._input(selector)
            ended = _end_of(process, selector)
            _say_started(told)
            while sources:
                for key, _ in selector.select():
                    if key.fd == ended:
                        # What it leaves behind would keep its output open.
                        selector.unregister(ended)
                        _kill_session(process.pid)
                        continue
                    if key.data is passed_on:
                        passed_on.pump()
                        continue
                    chunk = _read(key.fd)
                    if chunk is None:
                        continue
                    if not chunk:
                        selector.unregister(key.fd)
                        del sources[key.fd]
                    self._log.add(key.data, chunk, at_once=self._terminal >= 0)
        self._log.finish()

    def _input(self, selector: selectors.BaseSelector) -> Input | None:
        if not self._command.get("stdin"):
            return None
        path = os.path.join(self._folder, INPUT)
        if self._terminal >= 0:
            return Input(path, os.dup(self._terminal), selector, ends=False)
        return Input(path, self._stdin, selector, ends=bool(self._command.get("stdinOnce")))


class Input:
    """Passes input of attached clients on; without `ends` the container never sees its end.

    Nothing is read before the container has taken what was read last.
    """

    def __init__(
        self, path: str, target: int, selector: selectors.BaseSelector, *, ends: bool
    ) -> None:
        self._path = path
        self._target = target
        self._selector = selector
        self._ends = ends
        self._pending = b""
        os.set_blocking(target, False)
        self._open()

    def _open(self) -> None:
        self._source = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        self._selector.register(self._source, selectors.EVENT_READ, self)

    def pump(self) -> None:
        if self._pending:
            self._pass_on()
            return
        chunk = _read(self._source)
        if chunk is None:
            return
        self._pending = chunk
        self._selector.unregister(self._source)
        if self._pending:
            self._selector.register(self._target, selectors.EVENT_WRITE, self)
            return
        left = self._source
        if self._ends:
            os.close(self._target)
        else:
            # Before the old one is closed: whoever comes now finds somebody who reads.
            self._open()
        os.close(left)

    def _pass_on(self) -> None:
        try:
            written = os.write(self._target, self._pending)
        except BlockingIOError:
            return
        except OSError:
            # The container reads no more.
            written = len(self._pending)
        self._pending = self._pending[written:]
        if not self._pending:
            self._selector.unregister(self._target)
            self._selector.register(self._source, selectors.EVENT_READ, self)


class Log:
    """Lines of "time stream tag text"; the tag P marks a line that the next one continues."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, OUTPUT)
        self._rotated = os.path.join(folder, ROTATED)
        self._descriptor = _opened(self._path)
        self._size = os.fstat(self._descriptor).st_size
        self._rest = {b"stdout": b"", b"stderr": b""}

    def add(self, stream: bytes, chunk: bytes, *, at_once: bool) -> None:
        """Write whole lines, and very long ones in parts; `at_once` keeps nothing back."""
        *lines, left = (self._rest[stream] + chunk).split(b"\n")
        for line in lines:
            self._write(stream, b"F", line)
        limit = 0 if at_once else MAX_LINE_BYTES
        while len(left) > limit:
            self._write(stream, b"P", left[:MAX_LINE_BYTES])
            left = left[MAX_LINE_BYTES:]
        self._rest[stream] = left

    def finish(self) -> None:
        for stream, left in self._rest.items():
            if left:
                self._write(stream, b"P", left)

    def close(self) -> None:
        os.close(self._descriptor)

    def _write(self, stream: bytes, tag: bytes, line: bytes) -> None:
        seconds, fraction = divmod(time.time_ns(), 10**9)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{fraction:09}Z"
        record = b"%s %s %s %s\n" % (stamp.encode(), stream, tag, line)
        if self._size + len(record) > MAX_LOG_BYTES:
            self._rotate()
        os.write(self._descriptor, record)
        self._size += len(record)

    def _rotate(self) -> None:
        """Start a new file; readers find a log under the name at every moment."""
        os.close(self._descriptor)
        fresh = self._path + ".new"
        self._descriptor = _opened(fresh)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._rotated)
        os.link(self._path, self._rotated)
        os.replace(fresh, self._path)
        self._size = 0


def _say_started(told: int) -> None:
    """Report the start to the agent, which may have died meanwhile; the container goes on."""
    with contextlib.suppress(BrokenPipeError):
        os.write(told, STARTED)
    os.close(told)


def _opened(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _read(descriptor: int) -> bytes | None:
    """Return the available bytes, None for nothing yet, empty at the end."""
    try:
        return os.read(descriptor, 65536)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _children(process: int) -> list[int]:
    try:
        with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as file:
            return [int(number) for number in file.read().split()]
    except OSError:
        return []


def _kill(process: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


def _end_of(process: Started, selector: selectors.BaseSelector) -> int:
    """Return a descriptor that is readable when the process ends, or -1 where it has ended."""
    if process.poll() is not None:
        _kill_session(process.pid)
        return -1
    descriptor = os.pidfd_open(process.pid)
    selector.register(descriptor, selectors.EVENT_READ)
    return descriptor


def _kill_session(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _write(path: str, content: dict[str, Any], *, durable: bool = False) -> None:
    # Not dray.durable_files: the shim imports nothing of dray, so that it starts at once.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    descriptor = os.open(path + ".new", flags, 0o600)
    try:
        os.write(descriptor, json.dumps(content).encode())
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(path + ".new", path)
