"""What devices add to a node's answer: shares, node resources, alternatives, long searches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from dray.api import features as gates
from dray.api.types.meta import JsonObject
from dray.scheduler import step_runner
from tests import loop
from tests.unit.scheduler.world import (
    World,
    claim,
    device_class,
    devices_of,
    exactly,
    gpu,
    gpu_slice,
    in_world,
    node,
    pod,
    template,
    world,
)

NODE_RESOURCES = gates.with_gates(gates.DEFAULT, {"DRANodeAllocatableResources": True})


@in_world()
async def test_four_pods_share_a_device_and_a_fifth_waits(world: World) -> None:
    policy = {"default": "10Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    shared = gpu("gpu-0", allowMultipleAllocations=True)
    shared["capacity"] = {"memory": {"value": "40Gi", "requestPolicy": policy}}
    await world.create(device_class(), node("node-0"), gpu_slice("node-0", 0, shared))
    await world.create(template("share", exactly(capacity={"requests": {"memory": "10Gi"}})))
    for number in range(5):
        await world.create(pod(f"p{number}", template_name="share"))
        if number < 4:
            await world.bound(f"p{number}")
    await world.refused("p4", "cannot allocate all claims")
    results = [
        (await world.claims_of(f"p{number}"))[0]["status"]["allocation"]["devices"]["results"][0]
        for number in range(4)
    ]
    assert {result["device"] for result in results} == {"gpu-0"}
    assert len({result["shareID"] for result in results}) == 4
    assert {result["consumedCapacity"]["memory"] for result in results} == {"10Gi"}
    await world.remove_pod("p0")
    await world.bound("p4")


def sockets(count: int = 1) -> JsonObject:
    made = [
        {
            "name": f"socket-{number}",
            "allowMultipleAllocations": True,
            "capacity": {
                "cpu": {
                    "value": "32",
                    "requestPolicy": {"default": "1", "validRange": {"min": "1"}},
                }
            },
            "nodeAllocatableResources": {
                "cpu": {"mapping": {"capacityKey": "cpu", "capacityMultiplier": "1"}}
            },
        }
        for number in range(count)
    ]
    return gpu_slice("node-0", 0, *made)


async def cpu_node(world: World, cpu: str) -> None:
    await world.create(device_class(), node("node-0", None, cpu=cpu))
    declared = {"declaredFeatures": ["DRANodeAllocatableResources"]}
    await world.patch("nodes", "node-0", {"status": declared}, subresource="status")
    await world.create(sockets())


@in_world(features=NODE_RESOURCES)
async def test_what_devices_use_of_the_node_is_noted_and_counted(world: World) -> None:
    await cpu_node(world, "6")
    four = exactly(capacity={"requests": {"cpu": "4"}})
    await world.create(claim("cpus", four), pod("cpus", "cpus"))
    await world.bound("cpus")
    status = (await world.get("pods", "cpus"))["status"]["nodeAllocatableResourceClaimStatuses"]
    assert status == [
        {
            "containers": ["c"],
            "mapping": [{"name": "cpu", "quantity": "4"}],
            "resourceClaimName": "cpus",
        }
    ]
    await world.create(pod("plain", requests={"cpu": "3"}))
    await world.refused("plain", "Insufficient cpu")


@in_world(features=NODE_RESOURCES)
async def test_devices_that_use_more_than_the_node_has_are_refused(world: World) -> None:
    await cpu_node(world, "2")
    four = exactly(capacity={"requests": {"cpu": "4"}})
    await world.create(claim("cpus", four), pod("cpus", "cpus"))
    await world.refused("cpus", "Insufficient cpu")


@in_world(features=NODE_RESOURCES)
async def test_a_claim_that_stands_for_node_resources_has_one_user(world: World) -> None:
    await cpu_node(world, "16")
    await world.create(claim("cpus"), pod("one", "cpus"))
    await world.bound("one")
    await world.create(pod("two", "cpus"))
    await world.refused("two", "has a mapped device and cannot be shared across pods")


@in_world()
async def test_the_node_with_the_better_alternative_is_chosen(world: World) -> None:
    await world.create(device_class())
    await world.create(node("small"), gpu_slice("small", 0, gpu("gpu-0", "10Gi")))
    await world.create(node("large"), gpu_slice("large", 0, gpu("gpu-0", "80Gi")))
    big = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0'
    alternatives = [
        {
            "name": "large",
            "deviceClassName": "gpu.example.com",
            "selectors": [{"cel": {"expression": big}}],
        },
        {"name": "any", "deviceClassName": "gpu.example.com"},
    ]
    request = {"name": "gpu", "firstAvailable": alternatives}
    await world.create(claim("x", request), pod("p", "x"))
    assert await world.bound("p") == "large"


@in_world(node_selector="dray=yes")
async def test_only_selected_nodes_are_used(world: World) -> None:
    await world.create(device_class(), node("theirs"), gpu_slice("theirs"))
    await world.create(node("ours", {"dray": "yes"}, cpu="1"), gpu_slice("ours", 1))
    await world.create(claim("x"), pod("p", "x"))
    assert await world.bound("p") == "ours"
    await world.create(claim("y"), pod("q", "y"))
    await world.refused("q", "0/1 nodes are available: 1 cannot allocate all claims.")


@in_world(policy="pack")
async def test_a_policy_chooses_among_nodes(world: World) -> None:
    await world.create(device_class())
    for name in ("a", "b"):
        await world.create(node(name), gpu_slice(name, 4))
    await world.create(
        claim("first"), pod("first", "first", nodeSelector={"kubernetes.io/hostname": "b"})
    )
    await world.bound("first")
    await world.create(claim("second"), pod("second", "second"))
    assert await world.bound("second") == "b"


def test_a_search_that_takes_long_is_continued_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(step_runner, "INLINE_SECONDS", -1.0)
    run_searches(fitting_pods)


def test_a_search_that_takes_too_long_is_given_up_and_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(step_runner, "INLINE_SECONDS", -1.0)
    monkeypatch.setattr(step_runner, "NODE_SECONDS", -1.0)

    async def refused(here: World) -> None:
        await here.create(device_class(), node("node-0"), gpu_slice("node-0"))
        await here.create(claim("x"), pod("p", "x"))
        await here.refused("p", "node node-0: timed out trying to allocate devices")

    run_searches(refused)


async def fitting_pods(here: World) -> None:
    await here.create(device_class(), node("node-0"), gpu_slice("node-0", 4), template("gpu"))
    for number in range(4):
        await here.create(pod(f"p{number}", template_name="gpu"))
    held = []
    for number in range(4):
        await here.bound(f"p{number}")
        held += devices_of((await here.claims_of(f"p{number}"))[0])
    assert len(set(held)) == 4


def run_searches(test: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        async with world() as here:
            await test(here)

    loop.run(run())
