"""Writes docs/terminal.svg: the first minutes with dray, as a terminal shows them.

`python -m tools.make_picture`. The commands are really run, so names and times differ from run to
run; make the picture anew when the output of a command in it changes.
"""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "terminal.svg"
COLUMNS = 128
START_SECONDS = 30.0
PROGRESS = re.compile("[^\n]*[\u2800-\u28ff][^\n]*|\r|\x1b\\[[0-9;?]*[A-KSTfhl]")
"""A spinner, and how it moves the cursor to wipe itself out."""
UP = "dray up"
FIRST_LINES = 2
COMMANDS = (
    "dray apply -f examples/01-one-gpu",
    "dray wait --for=condition=Ready pod/train",
    "dray get pods,resourceclaims",
    "dray logs train",
    "dray apply -f ~/dream.yaml",
    "dray explain pod/dream",
)
THEME = TerminalTheme(
    (17, 24, 39),
    (229, 231, 235),
    [
        (55, 65, 81),
        (248, 113, 113),
        (110, 231, 183),
        (252, 211, 77),
        (147, 197, 253),
        (216, 180, 254),
        (103, 232, 249),
        (229, 231, 235),
    ],
)


def main() -> None:
    screen = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory(prefix="dray-", dir="/tmp") as home:
        environment = _environment(Path(home))
        (Path(home) / "dream.yaml").write_text(_dream(), "utf-8")
        with _cluster(environment, Path(home)) as announced:
            _show(screen, UP, "\n".join(announced.splitlines()[:FIRST_LINES]))
            for command in COMMANDS:
                _show(screen, command, _printed(command, environment))
    TARGET.write_text(screen.export_svg(title="dray", theme=THEME, unique_id="dray"), "utf-8")


def _dream() -> str:
    """The first example with a wish that nobody can fulfil."""
    text = (ROOT / "examples" / "01-one-gpu" / "one-gpu.yaml").read_text("utf-8")
    return text.replace("40Gi", "500Gi").replace("40gi", "500gi").replace("train", "dream")


def _environment(home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "KUBECONFIG": str(home / ".local/share/dray/kubeconfig"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
        "LANG": "C.UTF-8",
    }


@contextmanager
def _cluster(environment: dict[str, str], home: Path) -> Iterator[str]:
    """A cluster of its own, and what it says when it is up."""
    log = home / "log"
    with log.open("w") as output:
        process = subprocess.Popen(UP.split(), env=environment, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + START_SECONDS
        while "Ctrl-C" not in log.read_text("utf-8"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"dray up did not come up: {log.read_text('utf-8')}")
            time.sleep(0.1)
        yield log.read_text("utf-8")
    finally:
        process.terminate()
        process.wait()


def _printed(command: str, environment: dict[str, str]) -> str:
    """What a command prints to a terminal, with its colours."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=ROOT, env=environment, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    parts = []
    while part := _read(ours):
        parts.append(part)
    os.close(ours)
    process.wait()
    return PROGRESS.sub("", b"".join(parts).decode().replace("\r\n", "\n")).strip("\n")


def _read(descriptor: int) -> bytes:
    """Linux reports the end of a terminal as an error."""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""


def _show(screen: Console, command: str, printed: str) -> None:
    screen.print(Text.assemble(("$ ", "bold green"), (command, "bold white")))
    screen.print(Text.from_ansi(printed), end="\n\n")


if __name__ == "__main__":
    main()
