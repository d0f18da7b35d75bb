"""Explanations survey a sample of the nodes, however the scheduler was started."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.types.dra import DeviceClass, ResourceClaim, ResourceSlice
from dray.api.types.nodes import Node
from dray.cli.components import scheduler as command
from dray.cluster import assembly
from dray.explain import claim_explanation
from dray.scheduler import explanations
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
    text = explanations.sampled(inventory(nodes))([too_many()])
    assert [len(names) for names in seen] == [surveyed]
    prefix = f"Of {nodes} nodes, {surveyed} were looked at: "
    assert text.startswith(prefix) == (surveyed < nodes)
    assert len(text) > len(prefix)


def test_without_nodes_there_is_still_an_explanation() -> None:
    assert explanations.sampled(inventory(0))([too_many()])


@pytest.mark.parametrize("module", [assembly, command])
def test_both_ways_to_start_the_scheduler_explain_alike(module: Any) -> None:
    assert module.explanations is explanations
