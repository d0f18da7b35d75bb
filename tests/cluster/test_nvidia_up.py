"""`dray up` on a computer with a GPU: the computer is the node, and its GPU can be claimed."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dray.api import kinds
from dray.apiserver.server import Settings
from dray.cli.components import up as command
from dray.cluster import assembly
from dray.cluster.assembly import ClusterPlan
from dray.drivers.nvidia import driver as drivers
from dray.drivers.nvidia import nvml
from dray.drivers.nvidia.driver import NvidiaDriver, Options
from dray.node.runtimes import sandbox, simulated
from dray.node.runtimes.interface import RuntimeUnusable
from dray.store import memory
from tests import audit
from tests.cluster.test_nvidia import STAY
from tests.cluster.world import World
from tests.nvidia import fake
from tests.nvidia.machine_driver import FakeMachineDriver
from tests.nvidia.site import claim_template, shell

needs_sandbox = pytest.mark.skipif(not sandbox.is_usable(), reason="containers cannot be run here")
Find = Callable[[Path, Options], NvidiaDriver]


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A computer with a fake GPU."""
    hardware = fake.hardware(tmp_path / "machine")

    def find(folder: Path, options: Options) -> NvidiaDriver:
        return FakeMachineDriver(hardware, folder, options)

    monkeypatch.setattr(drivers, "find", find)
    return hardware.known[0].uuid


@needs_sandbox
def test_the_computer_is_the_node_and_its_gpu_can_be_claimed(tmp_path: Path, gpu: str) -> None:
    log = tmp_path / "audit"

    async def run() -> None:
        plan = ClusterPlan(Settings(audit_log=log), has_local_node=True, runtime=sandbox.NAME)
        async with memory.open() as store, assembly.running(store, tmp_path, plan) as made:
            world = World(made, made.client())
            await world.until(lambda: world.all(kinds.RESOURCE_SLICE), "the GPU being published")
            (node,) = await world.all(kinds.NODE)
            assert node["metadata"]["name"] == platform.node().lower()
            names = {each["metadata"]["name"] for each in await world.all(kinds.DEVICE_CLASS)}
            assert names == {"gpu.nvidia.com", "mig.nvidia.com"}
            await world.create(claim_template("t"))
            await world.create(shell("p", STAY, "t"))
            await world.pod_phase("p", "Running")
            await world.until(lambda: log_of(tmp_path, gpu), "nvidia-smi -L")
            await world.client.delete(kinds.POD, "p", "default", {"gracePeriodSeconds": 1})

    asyncio.run(run())
    assert audit.refused(audit.read(log)) == set()


async def log_of(folder: Path, text: str) -> bool:
    logs = (folder / "computer" / "pods").rglob("output.log")
    return any(text in path.read_text("utf-8") for path in logs)


def test_without_a_runtime_the_computer_is_no_node(tmp_path: Path, gpu: str) -> None:
    async def run() -> None:
        plan = ClusterPlan(has_local_node=True, runtime=simulated.NAME)
        async with memory.open() as store, assembly.running(store, tmp_path, plan):
            raise AssertionError(gpu)

    with pytest.raises(RuntimeUnusable):
        asyncio.run(run())


@pytest.mark.parametrize(
    ("options", "has_gpu", "expected"),
    [
        pytest.param([], True, (True, None), id="a-gpu"),
        pytest.param([], False, (False, "quickstart"), id="no-gpu"),
        pytest.param(["--fleet", "h100"], True, (False, "h100"), id="a-fleet-is-named"),
        pytest.param(["--runtime", "none"], True, (False, "quickstart"), id="in-name-only"),
    ],
)
def test_what_the_nodes_are(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    has_gpu: bool,
    expected: tuple[bool, str | None],
) -> None:
    plans: list[ClusterPlan] = []

    async def run(_directory: Path, _store: str, _listen: Any, plan: ClusterPlan, *_: Any) -> None:
        plans.append(plan)

    monkeypatch.setattr(nvml, "is_here", lambda: has_gpu)
    monkeypatch.setattr(command, "_run", run)
    ended = CliRunner().invoke(command.up, ["--data", str(tmp_path), *options])
    assert ended.exit_code == 0, ended.output
    (plan,) = plans
    assert (plan.has_local_node, plan.fleet.name if plan.fleet else None) == expected
