"""exec and attach sessions: the streams of a program in a container, over a WebSocket.

As pkg/kubelet's streaming server: input and output are messages on channels, and the last message
on the error channel is the exit status.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import subprocess
import termios
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dray.api import remote_command
from dray.api.http_messages import MessageSocket
from dray.api.remote_command import TerminalSize
from dray.node.containers import logs, processes
from dray.node.containers.container_attempts import Command, ContainerAttempt
from dray.node.containers.processes import Process

CHUNK_BYTES: Final = 65536
DRAIN_SECONDS: Final = 2.0
"""The wait for output after the program's end: a process left behind may hold it open."""


@dataclass(frozen=True)
class Wanted:
    """The streams that the client wants."""

    stdin: bool = False
    stdout: bool = True
    stderr: bool = True
    tty: bool = False


async def execute(socket: MessageSocket, command: Command, wanted: Wanted) -> None:
    """Run a program with its streams on a socket until it ends or the client leaves."""
    await socket.send(remote_command.message(_first_channel(wanted), b""))
    try:
        program = _Terminal(command) if wanted.tty else _Piped(command, wanted)
    except OSError as error:
        await socket.send(remote_command.failure(f"{command.argv[0]}: {error.strerror}"))
        return
    with contextlib.closing(program):
        await _hold(socket, program, _run(socket, program))


async def attach(socket: MessageSocket, attempt: ContainerAttempt, wanted: Wanted) -> None:
    """Connect the container's own streams to a socket until it ends or the client leaves."""
    await socket.send(remote_command.message(_first_channel(wanted), b""))

    async def show() -> None:
        async for records in logs.records_from_now(attempt.log, lambda: attempt.exit() is not None):
            for record in records:
                is_error = record.stream == b"stderr"
                channel = remote_command.STDERR if is_error else remote_command.STDOUT
                end = b"\n" if record.is_whole else b""
                await socket.send(remote_command.message(channel, record.text + end))
        await socket.send(remote_command.exit_status(0))

    typed = _Typed(attempt, wanted.stdin and bool(attempt.command().get("stdin")))
    with contextlib.closing(typed):
        await _hold(socket, typed, show())


def _first_channel(wanted: Wanted) -> int:
    """Return the channel of the first, empty message, which starts the session."""
    return remote_command.STDOUT if wanted.stdout else remote_command.ERROR


async def _hold(socket: MessageSocket, target: _Input, work: Coroutine[Any, Any, None]) -> None:
    """Run the work until it is done or the client leaves."""
    async with asyncio.TaskGroup() as group:
        working = group.create_task(work)
        typing = group.create_task(_pass_on(socket, target))
        await asyncio.wait({working, typing}, return_when=asyncio.FIRST_COMPLETED)
        working.cancel()
        typing.cancel()


async def _pass_on(socket: MessageSocket, target: _Input) -> None:
    """Pass messages of the client on, until it leaves."""
    while (message := await socket.receive()) is not None:
        if not message:
            continue
        channel, data = message[0], message[1:]
        if channel == remote_command.STDIN:
            await target.write(data)
        elif channel == remote_command.CLOSE and data == bytes((remote_command.STDIN,)):
            target.end()
        elif channel == remote_command.RESIZE and (size := remote_command.size(data)) is not None:
            target.resize(size)


async def _run(socket: MessageSocket, program: _Piped | _Terminal) -> None:
    async with asyncio.TaskGroup() as group:
        shown = [
            group.create_task(_show(socket, channel, descriptor))
            for channel, descriptor in program.outputs.items()
        ]
        code = await program.process.wait()
        if shown:
            await asyncio.wait(shown, timeout=DRAIN_SECONDS)
        for task in shown:
            task.cancel()
    await socket.send(remote_command.exit_status(code))


async def _show(socket: MessageSocket, channel: int, descriptor: int) -> None:
    while True:
        try:
            chunk = os.read(descriptor, CHUNK_BYTES)
        except BlockingIOError:
            await processes.ready(descriptor)
            continue
        except OSError:
            # The end of a terminal.
            return
        if not chunk:
            return
        await socket.send(remote_command.message(channel, chunk))


class _Input:
    """The receiver of a client's input: a descriptor whose reader may be slow, or gone."""

    def __init__(self, number: int | None) -> None:
        self.number = None if number is None else _unblocked(number)

    async def write(self, data: bytes) -> None:
        while data and self.number is not None:
            try:
                data = data[os.write(self.number, data) :]
            except BlockingIOError:
                await processes.ready(self.number, to_write=True)
            except OSError:
                return

    def end(self) -> None:
        if self.number is not None:
            os.close(self.number)
            self.number = None

    def resize(self, size: TerminalSize) -> None:
        """Does nothing: pipes have no size."""

    def close(self) -> None:
        _Input.end(self)


class _Piped(_Input):
    """A program with pipes."""

    def __init__(self, command: Command, wanted: Wanted) -> None:
        self.process = Process(
            command.argv,
            env=command.env,
            cwd=command.cwd,
            stdin=_pipe_if(wanted.stdin),
            stdout=_pipe_if(wanted.stdout),
            stderr=_pipe_if(wanted.stderr),
            start_new_session=True,
        )
        child = self.process.child
        pipes = {remote_command.STDOUT: child.stdout, remote_command.STDERR: child.stderr}
        self.outputs: Mapping[int, int] = {
            channel: _unblocked(os.dup(pipe.fileno()))
            for channel, pipe in pipes.items()
            if pipe is not None
        }
        super().__init__(os.dup(child.stdin.fileno()) if child.stdin is not None else None)
        self.process.close_pipes()

    def close(self) -> None:
        super().close()
        for descriptor in self.outputs.values():
            os.close(descriptor)


class _Terminal(_Input):
    """A program with a terminal of its own; programs that run there get SIGHUP at its close."""

    def __init__(self, command: Command) -> None:
        outer, inner = os.openpty()
        try:
            self.process = Process(
                command.argv,
                env={"TERM": "xterm", **command.env},
                cwd=command.cwd,
                stdin=inner,
                stdout=inner,
                stderr=inner,
                start_new_session=True,
            )
        except OSError:
            os.close(outer)
            raise
        finally:
            os.close(inner)
        super().__init__(outer)
        self.outputs: Mapping[int, int] = {remote_command.STDOUT: outer}

    def end(self) -> None:
        """Does nothing: a terminal ends by what is typed, not by closing."""

    def resize(self, size: TerminalSize) -> None:
        if self.number is not None:
            packed = struct.pack("HHHH", size.rows, size.columns, 0, 0)
            fcntl.ioctl(self.number, termios.TIOCSWINSZ, packed)


class _Typed(_Input):
    """The standard input of a container, behind its shim."""

    def __init__(self, attempt: ContainerAttempt, is_open: bool) -> None:
        super().__init__(None)
        self._attempt = attempt
        if is_open:
            with contextlib.suppress(OSError):
                super().__init__(os.open(attempt.input, os.O_WRONLY | os.O_NONBLOCK))

    def resize(self, size: TerminalSize) -> None:
        self._attempt.resize(size.rows, size.columns)


def _pipe_if(wanted: bool) -> int:
    return subprocess.PIPE if wanted else subprocess.DEVNULL


def _unblocked(descriptor: int) -> int:
    os.set_blocking(descriptor, False)
    return descriptor
