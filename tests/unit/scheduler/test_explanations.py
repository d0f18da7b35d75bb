"""Explanations survey a sample of the nodes, however the scheduler was started."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api import features as gates
from dray.api.features import Features
from dray.api.http_messages import Request, Response, User
from dray.api.types.dra import DeviceClass, ResourceClaim, ResourceSlice
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.cli.components import foreground
from dray.cli.components import scheduler as command
from dray.cli.session.connection import Target
from dray.client.api_client import Client, InProcessTransport
from dray.cluster import assembly
from dray.explain import claim_explanation
from dray.scheduler import explanations, scheduler
from dray.store import memory
from tests import loop, waiting
from tests.unit.scheduler import world


def inventory(nodes: int) -> ClusterInventory:
    built = ClusterInventory()
    built.put_class(msgspec.convert(world.device_class(), DeviceClass))
    for number in range(nodes):
        name = f"node-{number}"
        built.put_node(msgspec.convert(world.node(name), Node))
        built.put_slice(msgspec.convert(world.gpu_slice(name, 1), ResourceSlice))
    return built


def too_many() -> ResourceClaim:
    return msgspec.convert(world.claim("x", world.exactly(count=2)), ResourceClaim)


def explained(nodes: int) -> str:
    claim = too_many()
    return explanations.sampled(inventory(nodes))(Pod(), [claim])((claim.key,))


@pytest.mark.parametrize(("nodes", "surveyed"), [(1, 1), (64, 64), (65, 33), (200, 50)])
def test_at_most_64_nodes_are_surveyed(
    nodes: int, surveyed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    explain = claim_explanation.explain

    def recorded(*args: Any, nodes: Any, **options: Any) -> Any:
        seen.append(list(nodes))
        return explain(*args, nodes=nodes, **options)

    monkeypatch.setattr(claim_explanation, "explain", recorded)
    text = explained(nodes)
    assert [len(names) for names in seen] == [surveyed]
    prefix = f"Of {nodes} nodes, {surveyed} were looked at: "
    assert text.startswith(prefix) == (surveyed < nodes)
    assert len(text) > len(prefix)


def test_without_nodes_there_is_still_an_explanation() -> None:
    assert explained(0)


@pytest.fixture
def explainers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The explainers with which the scheduler is started."""
    started: list[Any] = []

    async def run(_client: Client, *, explainer: Any, **_options: Any) -> None:
        started.append(explainer)

    monkeypatch.setattr(scheduler, "run", run)
    return started


def test_the_standalone_scheduler_samples(
    explainers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.asynccontextmanager
    async def client_of(_target: Target, _manager: str) -> AsyncIterator[Client]:
        yield Client(InProcessTransport(unreachable, world.ADMIN))

    async def unreachable(_request: Request, _user: User) -> Response:
        raise AssertionError("nothing is requested before the scheduler runs")

    async def allowed_features(*_args: Any) -> Features:
        return gates.DEFAULT

    monkeypatch.setattr(foreground, "run", loop.run)
    monkeypatch.setattr(foreground, "until_signalled", lambda work: work())
    monkeypatch.setattr(foreground, "client_of", client_of)
    monkeypatch.setattr(command, "allowed_features", allowed_features)
    result = CliRunner().invoke(command.scheduler, ["--no-leader-elect", "--metrics-listen", ""])
    assert result.exception is None
    assert explainers == [explanations.sampled]


def test_the_scheduler_of_dray_up_samples(explainers: list[Any], tmp_path: Path) -> None:
    async def run() -> None:
        plan = assembly.ClusterPlan(controls=False)
        async with memory.open() as store, assembly.running(store, tmp_path, plan):
            await waiting.until(lambda: bool(explainers))

    loop.run(run())
    assert explainers[0] is explanations.sampled
