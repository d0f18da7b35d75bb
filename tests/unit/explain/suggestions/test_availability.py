"""What nodes could give."""

from __future__ import annotations

import pytest

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model import requests
from dray.allocator.problem import resolution
from dray.allocator.problem.resolution import ResolvedAlternative
from dray.api.ids import ClaimKey
from dray.api.types.dra import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    DeviceCapacity,
    DeviceRequest,
    DeviceTaint,
    DeviceToleration,
)
from dray.explain.suggestions import availability
from tests.builders import (
    claim,
    cluster_inventory,
    gpu_slice,
    hold,
    mig_slices,
    request,
    valid_values,
)


def on_node(
    cluster: ClusterInventory, asked: DeviceRequest
) -> tuple[NodeInventory, ResolvedAlternative]:
    question = requests.parse_claim(claim(asked).spec.devices)
    (resolved,) = resolution.resolve(
        [question], cluster.classes, cluster.selectors, cluster.features
    )
    return cluster.inventory(cluster.nodes["n1"]), resolved.requests[0].alternatives[0]


def in_range(value: str, least: str, most: str, step: str | None) -> DeviceCapacity:
    allowed = CapacityRequestPolicyRange(least, most, step)
    return DeviceCapacity(value, CapacityRequestPolicy(least, (), allowed))


@pytest.mark.parametrize(
    ("memory", "asked", "expected"),
    [
        pytest.param(DeviceCapacity("40Gi"), "35Gi", "30Gi", id="what-is-left"),
        pytest.param(valid_values("40Gi", "5Gi", "20Gi", "35Gi"), "35Gi", "20Gi", id="valid-value"),
        pytest.param(in_range("40Gi", "2Gi", "36Gi", "8Gi"), "34Gi", "26Gi", id="step"),
        pytest.param(in_range("40Gi", "1Gi", "16Gi", None), "20Gi", "16Gi", id="maximum"),
    ],
)
def test_largest_amount_that_the_policy_hands_out(
    memory: DeviceCapacity, asked: str, expected: str
) -> None:
    cluster = cluster_inventory(gpu_slice("n1", 1, memory=memory, shareable=True))
    hold(cluster, "other", "gpu-0", share={"memory": "10Gi"})
    inventory, option = on_node(cluster, request("gpu", capacity={"memory": asked}))
    (found,) = availability.affordable_amounts(inventory, option)
    assert found.amounts == {"memory": expected}
    assert 0 < found.share < 1


def test_nothing_is_offered_where_nothing_is_left() -> None:
    cluster = cluster_inventory(gpu_slice("n1", 1, shareable=True))
    hold(cluster, "other", "gpu-0", share={"memory": "80Gi"})
    assert (
        list(
            availability.affordable_amounts(*on_node(cluster, request(capacity={"memory": "1Gi"})))
        )
        == []
    )


def test_misspelt_capacity_is_offered_by_its_name() -> None:
    cluster = cluster_inventory(gpu_slice("n1", 1, shareable=True))
    (found,) = availability.affordable_amounts(
        *on_node(cluster, request(capacity={"memroy": "1Gi"}))
    )
    assert found.amounts == {"memory": "1Gi"}


def test_taints_that_are_tolerated_are_not_in_the_way() -> None:
    one = DeviceTaint("a", "", "NoSchedule")
    two = DeviceTaint("b", "", "NoSchedule")
    cluster = cluster_inventory(gpu_slice("n1", 1, taints=[one, two, DeviceTaint("c", "", "None")]))
    tolerant = request(tolerations=[DeviceToleration("a", "Exists")])
    assert list(availability.untolerated_taints(*on_node(cluster, tolerant))) == [two]
    assert set(availability.untolerated_taints(*on_node(cluster, request()))) == {None, one, two}


def test_holders_of_other_devices_on_the_same_counters_are_found() -> None:
    cluster = cluster_inventory(*mig_slices())
    hold(cluster, "other", "gpu-0-half-0")
    size = 'device.attributes["gpu.example.com"].size == "whole"'
    assert availability.holding_claims(*on_node(cluster, request("gpu", size))) == {
        ClaimKey("default", "other"): 1
    }
