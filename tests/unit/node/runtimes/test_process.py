"""Plain processes as containers: honest about what they are not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dray.node.containers import logs
from dray.node.containers.container_attempts import Starter
from dray.node.runtimes.interface import Bind, ContainerConfigError, ContainerSpec
from dray.node.runtimes.process import PlainProcess


def test_a_process_runs_where_and_with_what_it_is_told(tmp_path: Path) -> None:
    async def run() -> None:
        env = {**PlainProcess().default_environment, "WHO": "me"}
        script = ("/bin/sh", "-c", "echo $WHO; pwd; exit 3")
        spec = ContainerSpec(script, env=env, working_directory=str(tmp_path))
        async with Starter() as starter:
            command = PlainProcess().command(spec, str(tmp_path / "c" / "0"))
            attempt = await starter.start(tmp_path / "c", 0, command)
            assert (await attempt.wait()).code == 3
        assert logs.read(attempt.log).decode().split() == ["me", str(tmp_path)]
        entered = PlainProcess().exec_command(attempt, ("true",))
        assert (entered.argv, entered.cwd, entered.env["WHO"]) == (["true"], str(tmp_path), "me")

    asyncio.run(run())


def test_nothing_can_be_mounted() -> None:
    spec = ContainerSpec(("true",), binds=(Bind("/here", "/data"),))
    with pytest.raises(
        ContainerConfigError, match="/data: the process runtime cannot mount anything"
    ):
        PlainProcess().command(spec, "")
