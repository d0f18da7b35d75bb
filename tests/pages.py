"""Pages of documentation as scripts: commands run as printed, what they print is compared.

A ```console block is a session in a terminal. `$ ` starts a command, `> ` continues it, and the
other lines are what it prints: `…` stands for any text, a line of `…` for any lines, and blanks
count as one. Where nothing is shown, the command must only succeed. A command that looks is
repeated until it shows what the page says. `dray up` and its like run until the page ends.
Where pods are simulated, commands that look into them are left out, and whole blocks below
the comment `<!-- needs containers -->`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.node.runtimes import selection

ROOT: Final = Path(__file__).parents[1]
DEADLINE_SECONDS: Final = 60.0
PAUSE_SECONDS: Final = 0.1
ANY: Final = "…"
BLOCK: Final = re.compile(
    r"^(?P<marker><!-- needs containers -->\n)?```console\n(?P<lines>.*?)^```$", re.S | re.M
)
STAYS: Final = re.compile(
    r"dray (up|apiserver|scheduler|controllers|exporter|record)\b|python examples/drivers/"
)
STARTED: Final = re.compile(
    r"dray is up|Serving the Kubernetes API|is registered by the node|Metrics are at|Recording into"
)
LOOKS: Final = re.compile(
    r"(dray|kubectl) (get|describe|events|explain|logs|exec|status|history)\b"
)
INSIDE: Final = re.compile(r"dray (logs|exec)\b|allocatedResourcesStatus")
"""What only a container that really runs can show."""
NO_CONTAINERS: Final = "containers cannot be run here"


@dataclass(frozen=True)
class Step:
    """A command of a page and what the page says it prints."""

    line: int
    command: str
    shown: tuple[str, ...]
    needs_containers: bool = False

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile("".join(_line_pattern(line) for line in _squeezed(self.shown)))


@functools.cache
def _runs_containers() -> bool:
    return selection.choose(selection.AUTO).runtime is not None


def steps(text: str) -> Iterator[Step]:
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start("lines")) + 1
        yield from _steps(block["lines"].splitlines(), first, block["marker"] is not None)


def _steps(lines: list[str], first: int, is_marked: bool) -> Iterator[Step]:
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        command = [lines[start][2:]]
        shown: list[str] = []
        for line in lines[start + 1 : end]:
            if line.startswith("> ") and not shown:
                command.append(line[2:])
            else:
                shown.append(line)
        text = "\n".join(command)
        needs_containers = is_marked or INSIDE.search(text) is not None
        yield Step(first + start, text, tuple(shown), needs_containers)


def _line_pattern(line: str) -> str:
    if line == ANY:
        return r"(?:.*\n)*?"
    return ".*?".join(re.escape(piece) for piece in line.split(ANY)) + r"\n"


def _squeezed(lines: Iterable[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines if line.strip()]


class Session:
    """A person with a home of their own and one terminal beside those where clusters run."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._memory = home / ".session"
        self._memory.write_text(f"cd {ROOT}\n", "utf-8")
        self._running: list[subprocess.Popen[bytes]] = []
        self.environment = {
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "COLUMNS": "120",
            "DRAY_UP_LISTEN": "127.0.0.1:0",
            "DRAY_APISERVER_LISTEN": "127.0.0.1:0",
            "DRAY_EXPORTER_LISTEN": "127.0.0.1:0",
            "DRAY_WAIT_TIMEOUT": f"{DEADLINE_SECONDS:.0f}s",
            "KUBECONFIG": str(home / ".local/share/dray/kubeconfig"),
        }

    def follow(self, page: str) -> bool:
        """Do what a page says, and see what it shows; whether nothing had to be left out."""
        is_whole = True
        for step in steps(page):
            if step.needs_containers and not _runs_containers():
                is_whole = False
            else:
                self.do(step)
        return is_whole

    def do(self, step: Step) -> str:
        """Run one command; what it printed, once that is what the page shows."""
        look = self._start if STAYS.match(step.command) else self._run
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            printed, is_right = look(step)
            if is_right:
                return printed
            if not LOOKS.match(step.command) or time.monotonic() > deadline:
                raise AssertionError(f"{_surprise(step, printed)}\n{self._evidence()}")
            time.sleep(PAUSE_SECONDS)

    def _run(self, step: Step) -> tuple[str, bool]:
        """Each command has a shell of its own; variables and the folder are carried on."""
        script = f". {self._memory}\n{step.command}\nresult=$?\n"
        script += f"{{ export -p; echo cd '\"'$PWD'\"'; }} > {self._memory}\nexit $result\n"
        ran = subprocess.run(
            ["bash", "-c", script],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=DEADLINE_SECONDS * 2,
            check=False,
        )
        printed = ran.stdout.decode()
        return printed, _is_shown(step, printed) if step.shown else ran.returncode == 0

    def _start(self, step: Step) -> tuple[str, bool]:
        """A command that stays: it is right once it has printed what is shown."""
        log = self.home / f"terminal-{len(self._running)}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f". {self._memory}\nexec {step.command}"],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._running.append(process)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            printed = log.read_text("utf-8")
            if STARTED.search(printed) and (not step.shown or _is_shown(step, printed)):
                return printed, True
            time.sleep(PAUSE_SECONDS)
        return log.read_text("utf-8"), False

    def _evidence(self) -> str:
        """What else there is to know when a page is wrong."""
        logs = [path.read_text("utf-8") for path in sorted(self.home.glob("terminal-*"))]
        pods, _ = self._run(Step(0, "dray get pods,events -A", ()))
        return "\n--- ".join(["--- then", *logs, pods])

    def close(self) -> None:
        for process in reversed(self._running):
            process.send_signal(signal.SIGINT)
        for process in reversed(self._running):
            try:
                process.wait(DEADLINE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def session() -> Iterator[Session]:
    """A session in an empty home; its path is short, as paths of sockets must be."""
    home = Path(tempfile.mkdtemp(prefix="dray-"))
    person = Session(home)
    try:
        yield person
    finally:
        person.close()
        shutil.rmtree(home, ignore_errors=True)


def _is_shown(step: Step, printed: str) -> bool:
    lines = _squeezed(printed.splitlines())
    return step.pattern.fullmatch("".join(f"{line}\n" for line in lines)) is not None


def _surprise(step: Step, printed: str) -> str:
    shown = "\n".join(step.shown) or "(that it succeeds)"
    return f"line {step.line}: $ {step.command}\n--- shown\n{shown}\n--- printed\n{printed}"
