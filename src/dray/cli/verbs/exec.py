"""`dray exec` and `dray attach`: an interactive session with a container."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from typing import Any, NamedTuple

import click

from dray.api import kinds, remote_command
from dray.api.http_messages import Request
from dray.api.remote_command import CommandOutcome, TerminalSize
from dray.cli import lazy_group
from dray.cli.command_errors import CommandError, DrayCommand, WrongUsage
from dray.cli.session import connection
from dray.cli.session.connection import Session, Target
from dray.cli.verbs import pod_targets
from dray.client import api_client

CHUNK_BYTES = 32768
INPUT = 0

_container = click.option(
    "--container",
    "-c",
    default="",
    help="Which container, where there are several.",
    shell_complete=lazy_group.completer("containers"),
)
_quiet = click.option("--quiet", "-q", is_flag=True, help="Print only what the program prints.")


class PodChoice(NamedTuple):
    """A pod and a container of the command line."""

    pod: str
    container: str
    quiet: bool


class ExecCommand(DrayCommand):
    """A command whose own options end at `--`, as kubectl requires it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        has_command = "--" in args or ctx.resilient_parsing
        advice = _with_dashes(args)
        try:
            rest = super().parse_args(ctx, args)
        except click.UsageError as error:
            if has_command:
                raise
            raise WrongUsage("the command must follow --", advice) from error
        if not has_command:
            raise WrongUsage("the command must follow --", advice)
        return rest


def _with_dashes(args: list[str]) -> str:
    """Return how to write a command line without `--`: options of dray, a pod, a command."""
    pod = next((index for index, word in enumerate(args) if not word.startswith("-")), len(args))
    flags = {"-i", "-t", "-it", "-ti", "--stdin", "--tty"}
    command = args[pod + 1 :]
    if not flags.issuperset(args[:pod]) or not command or command[0].startswith("-"):
        return "Write: dray exec POD [-c CONTAINER] -- COMMAND"
    return f"Write: dray exec {shlex.join(args[: pod + 1])} -- {shlex.join(command)}"


@click.command("exec", cls=ExecCommand)
@click.argument("pod", shell_complete=lazy_group.completer("pods"))
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@connection.options
@_container
@click.option("--stdin", "-i", is_flag=True, help="Pass on what is typed or piped in.")
@click.option("--tty", "-t", "wants_tty", is_flag=True, help="Give the program a terminal.")
@_quiet
def exec_(
    target: Target,
    pod: str,
    command: tuple[str, ...],
    container: str,
    stdin: bool,
    wants_tty: bool,
    quiet: bool,
) -> None:
    """Run a command in a container: dray exec POD -- COMMAND. Ends with its exit code."""
    query = [("command", part) for part in command]
    _interact(target, "exec", PodChoice(pod, container, quiet), stdin, wants_tty, query)


@click.command("attach", cls=DrayCommand)
@click.argument("pod", shell_complete=lazy_group.completer("pods"))
@connection.options
@_container
@click.option("--stdin", "-i", is_flag=True, help="Pass on what is typed or piped in.")
@click.option("--tty", "-t", "wants_tty", is_flag=True, help="The container has a terminal.")
@_quiet
def attach(
    target: Target, pod: str, container: str, stdin: bool, wants_tty: bool, quiet: bool
) -> None:
    """See what a running container prints from now on, and type to it."""
    _interact(target, "attach", PodChoice(pod, container, quiet), stdin, wants_tty, [])


def _interact(
    target: Target,
    what: str,
    chosen: PodChoice,
    stdin: bool,
    wants_tty: bool,
    query: api_client.Query,
) -> None:
    has_tty = wants_tty and stdin and sys.stdin.isatty()
    options = {"stdin": stdin, "stdout": True, "stderr": not has_tty, "tty": has_tty}
    query += [(name, "true") for name, is_set in options.items() if is_set]
    terminal = TerminalStream(reads=stdin, has_tty=has_tty)
    outcome = connection.run(
        target, lambda session: _exchange(session, what, chosen, query, terminal)
    )
    if outcome.code is None:
        raise CommandError(outcome.message or "the connection was cut before the command ended")
    if outcome.code:
        sys.exit(outcome.code)


async def _exchange(
    session: Session,
    what: str,
    chosen: PodChoice,
    query: api_client.Query,
    terminal: TerminalStream,
) -> CommandOutcome:
    found = await pod_targets.first(session, chosen.pod)
    container = pod_targets.chosen_container(found, chosen.container, prints=not chosen.quiet)
    query = [*query, ("container", container)]
    path = api_client.object_path(kinds.POD, found["metadata"]["name"], session.namespace, what)
    headers = {"upgrade": "websocket", "sec-websocket-protocol": ",".join(remote_command.PROTOCOLS)}
    response = await session.client.raw(Request("GET", path, tuple(query), headers))
    if response.upgrade is None:
        raise api_client.error_of(response)
    with terminal.raw_keys():
        await response.upgrade.converse(terminal)
    return terminal.outcome


class TerminalStream:
    """This terminal, or pipes in its place, as one end of a session."""

    def __init__(self, *, reads: bool, has_tty: bool) -> None:
        self._reads = reads
        self._has_tty = has_tty
        self._is_readable = False
        self._is_resized = has_tty
        self._woken = asyncio.Event()
        self.outcome = CommandOutcome(None)

    @contextlib.contextmanager
    def raw_keys(self) -> Iterator[None]:
        """Send keys to the container as they are pressed, while the block runs."""
        loop, before = asyncio.get_running_loop(), _raw_terminal() if self._has_tty else None
        if self._has_tty:
            loop.add_signal_handler(signal.SIGWINCH, self._resized)
        if self._reads:
            self._await_input()
        try:
            yield
        finally:
            loop.remove_reader(INPUT)
            loop.remove_signal_handler(signal.SIGWINCH)
            if before is not None:
                termios.tcsetattr(INPUT, termios.TCSADRAIN, before)

    async def receive(self) -> bytes | None:
        """Return the next input or terminal size, or None at the end."""
        while True:
            if self._is_resized:
                self._is_resized = False
                columns, rows = shutil.get_terminal_size()
                return remote_command.resizing(TerminalSize(rows, columns))
            if self._is_readable:
                return self._typed()
            await self._woken.wait()
            self._woken.clear()

    async def send(self, message: bytes) -> None:
        if not message:
            return
        channel, data = message[0], message[1:]
        if channel == remote_command.ERROR:
            self.outcome = remote_command.outcome(data)
        elif channel in (remote_command.STDOUT, remote_command.STDERR):
            stream = sys.stdout.buffer if channel == remote_command.STDOUT else sys.stderr.buffer
            stream.write(data)
            stream.flush()

    def _typed(self) -> bytes:
        self._is_readable = False
        chunk = os.read(INPUT, CHUNK_BYTES)
        if not chunk:
            return remote_command.closing(remote_command.STDIN)
        self._await_input()
        return remote_command.message(remote_command.STDIN, chunk)

    def _await_input(self) -> None:
        try:
            asyncio.get_running_loop().add_reader(INPUT, self._readable)
        except PermissionError:
            # A file is always ready.
            self._is_readable = True

    def _readable(self) -> None:
        asyncio.get_running_loop().remove_reader(INPUT)
        self._is_readable = True
        self._woken.set()

    def _resized(self) -> None:
        self._is_resized = True
        self._woken.set()


def _raw_terminal() -> list[Any]:
    """Put the terminal into raw mode. Returns the former settings."""
    before = termios.tcgetattr(INPUT)
    tty.setraw(INPUT)
    return before
