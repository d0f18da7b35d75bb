"""Containers for logs, exec and attach: found on disk, or a reason why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.node.containers import shim
from dray.node.containers.container_attempts import Command, ContainerAttempt
from dray.node.pods.container_access import ContainerAccess, ContainerUnavailable
from dray.node.pods.context import PodState, PodWorkerContext
from tests import virtualtime
from tests.unit.node.fakes import FakeNode, Program, pod


async def access(folder: Path, program: Program | None = None) -> ContainerAccess:
    """A pod whose container was started with a program, or not yet."""
    node = FakeNode(folder, {"main": [program or Program()]})
    context = PodWorkerContext(node.context, PodState(pod()))
    if program is not None:
        started = await node.starter.start(context.container_folder("main"), 1, Command(["main"]))
        _log(started)
    return ContainerAccess(context)


def _log(attempt: ContainerAttempt) -> None:
    attempt.folder.mkdir(parents=True)
    (attempt.folder / shim.OUTPUT).touch()


def test_a_container_that_has_not_started_has_no_log(tmp_path: Path) -> None:
    async def test() -> None:
        containers = await access(tmp_path)
        assert containers.has_container("main")
        assert not containers.has_container("other")
        expected = 'container "main" in pod "p" is waiting to start: PodInitializing'
        with pytest.raises(ContainerUnavailable, match=expected):
            containers.logged("main")
        with pytest.raises(ContainerUnavailable, match="container main of pod p does not run"):
            containers.running("main")

    virtualtime.run(test())


def test_a_running_container_has_a_log_and_can_be_attached_to(tmp_path: Path) -> None:
    async def test() -> None:
        containers = await access(tmp_path, Program())
        assert containers.logged("main").number == containers.running("main").number == 1
        with pytest.raises(ContainerUnavailable, match="previous terminated container"):
            containers.logged("main", previous=True)

    virtualtime.run(test())


def test_the_log_of_the_start_before_is_kept(tmp_path: Path) -> None:
    async def test() -> None:
        containers = await access(tmp_path, Program())
        _log(ContainerAttempt(containers.running("main").folder.with_name("0")))
        assert containers.logged("main", previous=True).number == 0

    virtualtime.run(test())


def test_an_ended_container_has_a_log_and_does_not_run(tmp_path: Path) -> None:
    async def test() -> None:
        containers = await access(tmp_path, Program(0.0))
        await containers.logged("main").wait()
        assert containers.logged("main").number == 1
        with pytest.raises(ContainerUnavailable, match="does not run"):
            containers.running("main")

    virtualtime.run(test())


def test_a_program_that_cannot_be_run_inside_is_reported(tmp_path: Path) -> None:
    async def test() -> None:
        containers = await access(tmp_path, Program())
        with pytest.raises(ContainerUnavailable, match="cannot run sh"):
            containers.exec_command("main", ("sh",))

    virtualtime.run(test())
