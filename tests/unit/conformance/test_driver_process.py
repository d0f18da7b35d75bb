"""The driver's process: placeholders, variables, and how it ends."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from dray.conformance import driver_process
from dray.conformance.driver_process import CommandInvalid, Launcher
from dray.driverkit.plugin import Directories
from tests import waiting

TELL = "import os, sys; print(sys.argv[1:], os.environ['POD_UID'], os.environ['NODE_NAME'])"


def launcher(command: str, folder: Path) -> Launcher:
    return Launcher(command, Directories.under(folder), folder, "n1", folder / "kubeconfig")


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("", "is empty"),
        ("driver 'x", "cannot be split into words"),
        ("driver {plugin}", r"no placeholder \{plugin\}; there are \{cdi\}"),
    ],
)
def test_a_wrong_command_is_refused(command: str, text: str) -> None:
    with pytest.raises(CommandInvalid, match=text):
        driver_process.parse(command)


def test_braces_of_others_stay() -> None:
    assert driver_process.parse("""driver '{"a": 1}' {} {Node}""") == [
        "driver",
        '{"a": 1}',
        "{}",
        "{Node}",
    ]


def test_placeholders_and_variables_are_set(tmp_path: Path) -> None:
    command = f'{sys.executable} -c "{TELL}" --registry={{registry}} {{instance}} {{node}}'

    async def test() -> str:
        started = await launcher(command, tmp_path).start("uid-1")
        await waiting.until(lambda: not started.is_running, "the end of the process")
        return started.state

    written = f"['--registry={tmp_path}/registry', 'uid-1', 'n1'] uid-1 n1"
    assert asyncio.run(test()) == f"the driver ended with code 0; its last lines: {written}"


def test_a_program_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandInvalid, match="/no/such/driver cannot be run: No such file"):
        asyncio.run(launcher("/no/such/driver", tmp_path).start("a"))


def test_a_process_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    ignore = "import signal; signal.signal(15, signal.SIG_IGN)"
    deaf = f"{ignore}; print('deaf', flush=True); signal.pause()"

    async def test() -> tuple[bool, bool]:
        started = await launcher(f'{sys.executable} -c "{deaf}"', tmp_path).start("a")
        await waiting.until(lambda: "deaf" in started.state, "the program to begin")
        in_time = await started.terminate(0.1)
        return in_time, started.is_running

    assert asyncio.run(test()) == (False, False)


def test_what_a_wrapper_started_ends_with_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    command = f"sh -c 'sleep 1000 & echo $! > {pid}; wait'"

    async def test() -> None:
        started = await launcher(command, tmp_path).start("a")
        await waiting.until(lambda: pid.exists() and pid.read_text("utf-8").strip(), "the child")
        await started.kill()

    asyncio.run(test())
    stat = Path(f"/proc/{pid.read_text('utf-8').strip()}/stat")
    waiting.block_until(
        lambda: not stat.exists() or stat.read_text("utf-8").split()[2] == "Z", "the child's end"
    )
