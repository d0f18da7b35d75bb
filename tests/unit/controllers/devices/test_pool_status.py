"""What is free, when somebody asks."""

from __future__ import annotations

from typing import Any

from dray.api import features as gates
from dray.api.ids import PoolId
from dray.api.types.dra import DeviceRequestAllocationResult, DeviceTaintRule, ResourceSlice
from dray.api.types.meta import JsonObject
from dray.controllers.devices import pool_summary
from dray.controllers.devices.pool_status import PoolStatuses
from dray.controllers.devices.pool_summary import PoolUse
from dray.controllers.status_patches import decode
from tests.unit.controllers import objects
from tests.unit.controllers.devices.test_claims import allocate
from tests.unit.controllers.devices.test_taint_eviction import published, rule
from tests.unit.controllers.world import World, with_loops

GATED = gates.with_gates(gates.DEFAULT, {"DRAResourcePoolStatus": True})


def request(name: str = "gpus", **spec: Any) -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourcePoolStatusRequest",
        "metadata": {"name": name},
        "spec": {"driver": "gpu.example.com", **spec},
    }


@with_loops(PoolStatuses, features=GATED)
async def test_a_request_is_answered_once(here: World) -> None:
    await here.create(published())
    await here.create(objects.claim("c"))
    await allocate(here, "c")
    await here.create(request())

    async def answered() -> Any:
        return (await here.get("resourcepoolstatusrequests", "gpus")).get("status")

    status = await here.until(answered)
    assert status["poolCount"] == 1
    assert status["pools"] == [
        {
            "driver": "gpu.example.com",
            "poolName": "node-1",
            "generation": 1,
            "nodeName": "node-1",
            "resourceSliceCount": 1,
            "totalDevices": 2,
            "allocatedDevices": 1,
            "availableDevices": 1,
            "unavailableDevices": 0,
        }
    ]
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"]) == ("Complete", "True")
    assert condition["message"] == "Calculated status for 1 pools"
    await here.create(objects.claim("d"))
    assert await here.writes(allocate(here, "d", device="gpu-1")) == 2


UNUSED = PoolUse()


def view(
    *slices: JsonObject, use: PoolUse = UNUSED, rules: Any = (), attribute: str | None = None
) -> Any:
    decoded = [decode(resource_slice, ResourceSlice) for resource_slice in slices]
    return pool_summary.pool_status(
        decoded, use, [decode(each, DeviceTaintRule) for each in rules], attribute
    )


def test_an_incomplete_pool_says_so_and_counts_nothing() -> None:
    body = published()
    body["spec"]["pool"]["resourceSliceCount"] = 2
    status = view(body)
    assert status.validation_error == (
        "PoolIncomplete: pool gpu.example.com/node-1 is incomplete: "
        "observed 1/2 slices at generation 1"
    )
    assert status.total_devices is None


def test_tainted_devices_are_unavailable_whoever_taints_them() -> None:
    tainted = published({"key": "k", "effect": "NoSchedule"})
    other = rule("NoExecute", driver="gpu.example.com", device="gpu-1")
    status = view(tainted, rules=[other])
    assert (status.unavailable_devices, status.available_devices) == (2, 0)


def partitioned(*used: str) -> Any:
    body = published()
    body["spec"]["sharedCounters"] = [{"name": "gpu-0", "counters": {"slices": {"value": "7"}}}]
    body["spec"]["devices"] = [
        {
            "name": f"{profile}-{number}",
            "attributes": {"profile": {"string": profile}},
            "consumesCounters": [
                {"counterSet": "gpu-0", "counters": {"slices": {"value": str(cost)}}}
            ],
        }
        for profile, cost, count in (("1g", 1, 7), ("3g", 3, 2))
        for number in range(count)
    ]
    body["spec"]["partitionTypeAttribute"] = "gpu.example.com/profile"
    return view(body, use=PoolUse(frozenset(used)))


def test_partitions_that_still_fit_are_counted_per_type() -> None:
    empty = {each.type: (each.total, each.allocatable) for each in partitioned().partition_summary}
    assert empty == {"1g": (7, 7), "3g": (2, 2)}
    summary = partitioned("3g-0", "1g-0", "1g-1").partition_summary
    assert {each.type: each.allocatable for each in summary} == {"1g": 2, "3g": 0}


def test_partitions_without_counters_flag_the_pool_and_keep_its_counts() -> None:
    status = view(published(), attribute="gpu.example.com/profile")
    assert status.validation_error.startswith("PartitionTypeMissing:")
    assert status.total_devices == 2


def test_shared_capacity_is_what_claims_have_left() -> None:
    body = published()
    for device in body["spec"]["devices"]:
        device["allowMultipleAllocations"] = True
        device["capacity"] = {"memory": {"value": "40Gi"}}
    results = [
        DeviceRequestAllocationResult(
            driver="gpu.example.com",
            pool="node-1",
            device="gpu-0",
            consumed_capacity={"memory": "10Gi"},
        ),
        DeviceRequestAllocationResult(
            driver="gpu.example.com", pool="node-1", device="gpu-1", admin_access=True
        ),
    ]
    use = pool_summary.uses(results)[PoolId("gpu.example.com", "node-1")]
    summary = view(body, use=use).shareable_summary
    assert (summary.fully_available_devices, summary.partially_available_devices) == (1, 1)
    (memory,) = summary.capacity
    assert (memory.total, memory.consumed, memory.available) == ("80Gi", "10Gi", "70Gi")
