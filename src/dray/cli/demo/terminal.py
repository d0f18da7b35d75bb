"""A terminal for the guided tour: runs `dray` as a user would and checks its output."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from dray import own_process

DEADLINE_SECONDS: Final = 60.0
PAUSE_SECONDS: Final = 0.05


class UnexpectedOutput(click.ClickException):
    """A command failed or did not print what was expected."""


@dataclass(frozen=True)
class BackgroundCommand:
    """A command that runs in the background."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def printed(self) -> str:
        return self.log.read_text("utf-8")

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None


class Terminal:
    """Runs commands in `folder`, against the cluster whose data is there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        path = str(folder / "data" / "kubeconfig")
        self._environment = {**os.environ, "KUBECONFIG": path, "COLUMNS": "160"}

    def headline(self, text: str, *sentences: str) -> None:
        click.secho(f"\n── {text} ", bold=True)
        for sentence in sentences:
            click.echo(sentence)

    def say(self, text: str) -> None:
        click.secho(text, italic=True)

    def show_file(self, name: str) -> None:
        self._prompt(f"cat {name}")
        click.echo((self._folder / name).read_text("utf-8"), nl=False)

    def run(self, command: str, *, expect: str = "", quiet: bool = False) -> str:
        """Run a command. Raises UnexpectedOutput if it fails or does not print `expect`."""
        if not quiet:
            self._prompt(command)
        printed, succeeded = self._output(command)
        if not quiet:
            _print(printed, expect)
        if expect and expect not in printed:
            raise UnexpectedOutput(f"`{command}` should have said {expect!r}. It said: {printed}")
        if not expect and not succeeded:
            raise UnexpectedOutput(f"`{command}` should have succeeded. It said: {printed}")
        return printed

    def run_until(self, command: str, expect: str) -> str:
        """Repeat a command until it prints what is expected, and show that."""
        printed = ""

        def is_printed() -> bool:
            nonlocal printed
            printed = self._output(command)[0]
            return expect in printed

        self.until(is_printed, f"`{command}` saying {expect!r}")
        self._prompt(command)
        _print(printed, expect)
        return printed

    @contextlib.contextmanager
    def running(self, command: str) -> Iterator[BackgroundCommand]:
        """Run a command in the background; its output goes to a file."""
        self._prompt(command)
        log = self._folder / f"{shlex.split(command)[1]}.log"
        with log.open("w") as output:
            process = self._start(command, output.fileno())
        try:
            yield BackgroundCommand(process, log)
        finally:
            process.terminate()
            process.wait()

    def show(self, running: BackgroundCommand, expect: str, lines: int | None = None) -> None:
        """Show the output of a background command once it has what is expected."""
        self.until(lambda: expect in running.printed or running.has_ended, f"seeing {expect!r}")
        if expect not in running.printed:
            raise UnexpectedOutput(f"{expect!r} should have been seen. It said: {running.printed}")
        _print("".join(running.printed.splitlines(keepends=True)[:lines]), expect)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise UnexpectedOutput(f"{what} did not happen within {DEADLINE_SECONDS:.0f} s")
            time.sleep(PAUSE_SECONDS)

    def _output(self, command: str) -> tuple[str, bool]:
        """Return the output of a command, and whether it succeeded."""
        with self._start(command, subprocess.PIPE) as process:
            printed, _ = process.communicate()
        return printed.decode(), process.returncode == 0

    def _start(self, command: str, output: int) -> subprocess.Popen[bytes]:
        program, *arguments = shlex.split(command)
        assert program == "dray"
        return subprocess.Popen(
            [*own_process.command(), *arguments],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def _prompt(self, command: str) -> None:
        click.secho(f"$ {command}", fg="cyan")


def _print(text: str, expect: str) -> None:
    """Print the output of a command with the expected line highlighted."""
    for line in text.splitlines():
        click.secho(line, fg="green" if expect and expect in line else None)
