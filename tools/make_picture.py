"""Writes the pictures of terminals in docs: the first minutes with dray, and single commands.

`python -m tools.make_picture`, or `make generate`. The commands are run on a cluster that runs
containers, so names and times differ from run to run. A test checks that pages show each picture.
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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs"
COLUMNS = 128
START_SECONDS = 30.0
PROGRESS = re.compile("[^\n]*[\u2800-\u28ff][^\n]*|\r|\x1b\\[[0-9;?]*[A-KSTfhl]")
"""A spinner, and how it moves the cursor to wipe itself out."""
UP = "dray up"
FIRST_LINES = 2
FIRST_MINUTES = (
    "dray apply -f examples/01-one-gpu",
    "dray wait --for=condition=Ready pod/train",
    "dray get pods,resourceclaims",
    "dray logs train",
    "dray apply -f ~/dream.yaml",
    "dray explain pod/dream",
)
PARTITIONS = (
    "dray apply -f examples/09-partitions/halves.yaml",
    "dray wait --for=condition=Ready pod/left pod/right",
)
"""Run before the picture of `top`, so that it shows partitions in use."""
SINGLE = {
    "explain": "dray explain pod/dream",
    "devices": "dray get devices",
    "top": "dray top --once",
    "lint": "dray lint examples/19-mistakes/quantity.yaml --against h100",
}
"""The commands of the other pictures, by the name of the file."""
TABLES = ("devices",)
"""The pictures that are as wide as their output."""
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
    with tempfile.TemporaryDirectory(prefix="dray-", dir="/tmp") as home:
        environment = _environment(Path(home))
        (Path(home) / "dream.yaml").write_text(_dream(), "utf-8")
        with _cluster(environment, Path(home)) as announced:
            first = {UP: "\n".join(announced.splitlines()[:FIRST_LINES])}
            _write("terminal", first | _all_printed(FIRST_MINUTES, environment))
            for name, command in SINGLE.items():
                if name == "top":
                    _all_printed(PARTITIONS, environment)
                _write(name, _all_printed((command,), environment))


def _write(name: str, outputs: Mapping[str, str]) -> None:
    """Write a picture of commands and their outputs."""
    lines = [line for text in outputs.values() for line in Text.from_ansi(text).plain.splitlines()]
    # Rows of a table that are broken cannot be read.
    width = max(COLUMNS, *map(len, lines)) if name in TABLES else COLUMNS
    screen = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    for command, printed in outputs.items():
        _show(screen, command, printed)
    picture = screen.export_svg(title="dray", theme=THEME, unique_id=f"dray-{name}")
    (FOLDER / f"{name}.svg").write_text(picture, "utf-8")


def _all_printed(commands: Iterable[str], environment: dict[str, str]) -> dict[str, str]:
    return {command: _printed(command, environment) for command in commands}


def _dream() -> str:
    """Return the first example with a request that no device satisfies."""
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
    """Run a cluster for the pictures. Yields its first output."""
    log = home / "log"
    with log.open("w") as output:
        process = subprocess.Popen(UP.split(), env=environment, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + START_SECONDS
        while "Ctrl-C" not in log.read_text("utf-8"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"dray up did not start: {log.read_text('utf-8')}")
            time.sleep(0.1)
        yield log.read_text("utf-8")
    finally:
        process.terminate()
        process.wait()


def _printed(command: str, environment: dict[str, str]) -> str:
    """Return the output of a command on a terminal, with its colours."""
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
