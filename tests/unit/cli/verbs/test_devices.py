"""`dray get devices`: the state of a device is that of the metrics."""

from __future__ import annotations

from typing import Any

import pytest

from dray.allocator.inventory.device_counts import DeviceCounts
from dray.api.ids import DeviceId
from dray.api.types.dra import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    DeviceTaint,
    ResourceClaim,
    ResourceClaimStatus,
)
from dray.api.types.meta import ObjectMeta
from dray.cli.verbs import devices
from tests import builders

BROKEN = DeviceTaint(key="broken", effect="NoExecute")
GPU = DeviceId(builders.DRIVER, "n1", "gpu-0")


def holder(name: str, **fields: Any) -> ResourceClaim:
    result = DeviceRequestAllocationResult(request="gpu", **GPU._asdict(), **fields)
    allocation = AllocationResult(devices=DeviceAllocationResult(results=(result,)))
    metadata = ObjectMeta(name=name, namespace="ns")
    return ResourceClaim(metadata, status=ResourceClaimStatus(allocation=allocation))


@pytest.mark.parametrize("taints", [(), (BROKEN,)])
@pytest.mark.parametrize(
    ("holders", "state"),
    [
        ([], None),
        ([holder("admin", admin_access=True)], None),
        ([holder("a")], "allocated"),
        ([holder("a"), holder("admin", admin_access=True)], "allocated"),
        ([holder("a", share_id="1"), holder("b", share_id="2")], "shared"),
    ],
)
def test_the_table_and_the_metrics_agree(
    taints: tuple[DeviceTaint, ...], holders: list[ResourceClaim], state: str | None
) -> None:
    expected = state or ("tainted" if taints else "free")
    resource_slice = builders.gpu_slice("n1", 1, taints=taints)
    assert devices.states([resource_slice], holders) == {GPU: expected}
    inventory = builders.cluster_inventory(resource_slice)
    for claim in holders:
        inventory.put_claim(claim)
    counts = DeviceCounts(inventory).counts()
    assert {group.state for group, count in counts.items() if count} == {expected}
