"""The figures of a node's agent."""

from __future__ import annotations

from dray.node import metrics
from dray.node.devices.preparation import ClaimRecord
from dray.telemetry import Registry


def held(name: str, *drivers: str) -> ClaimRecord:
    return ClaimRecord("default", name, f"uid-{name}", drivers, ("pod",))


def test_what_is_counted_is_what_there_is_when_somebody_looks() -> None:
    registry = Registry()
    claims: list[ClaimRecord] = []
    metrics.register(registry, pods=lambda: 2, drivers=lambda: ["d1"], claims=lambda: claims)
    assert 'dra_resource_claims_in_use{driver_name="<any>"} 0' in registry.render()
    claims += [held("a", "d1", "d2"), held("b", "d1")]
    lines = registry.render().splitlines()
    assert {
        "kubelet_running_pods 2",
        'dray_node_drivers{driver="d1"} 1',
        'dra_resource_claims_in_use{driver_name="<any>"} 2',
        'dra_resource_claims_in_use{driver_name="d1"} 2',
        'dra_resource_claims_in_use{driver_name="d2"} 1',
    } <= set(lines)
