"""A pod whose selector fails on some node waits, and is tried again when that node is no reason."""

from __future__ import annotations

from dray.api.types.meta import JsonObject
from tests.unit.scheduler.world import (
    DRIVER,
    World,
    claim,
    device_class,
    exactly,
    gpu_slice,
    in_world,
    node,
    pod,
)

HOST = "kubernetes.io/hostname"
FAILS = "gpu.example.com/bad/gpu-0: CEL runtime error: no such key: fast"


def device(**attributes: JsonObject) -> JsonObject:
    return {"name": "gpu-0", "attributes": attributes}


async def failing_pod(here: World) -> None:
    """A pod that fits on one node, and whose selector fails on the other one."""
    selector = {"cel": {"expression": f'device.attributes["{DRIVER}"].fast'}}
    await here.create(
        device_class(),
        node("good", {HOST: "good"}),
        gpu_slice("good", 1, device(fast={"bool": True})),
        node("bad", {HOST: "bad"}),
        gpu_slice("bad", 1, device()),
        claim("x", exactly(selectors=[selector])),
        pod("p", "x"),
    )
    assert FAILS in await here.refused("p", containing="CEL runtime error")


@in_world()
async def test_until_the_node_is_removed(here: World) -> None:
    await failing_pod(here)
    await here.delete("nodes", "bad")
    assert await here.bound("p") == "good"


@in_world()
async def test_until_the_slice_is_removed(here: World) -> None:
    await failing_pod(here)
    await here.delete("resourceslices", "bad-gpus")
    assert await here.bound("p") == "good"


@in_world()
async def test_until_the_node_is_cordoned(here: World) -> None:
    await failing_pod(here)
    await here.patch("nodes", "bad", {"spec": {"unschedulable": True}})
    assert await here.bound("p") == "good"


@in_world()
async def test_until_another_pod_has_the_device(here: World) -> None:
    await failing_pod(here)
    await here.create(claim("any"), pod("other", "any", nodeSelector={HOST: "bad"}))
    assert await here.bound("other") == "bad"
    assert await here.bound("p") == "good"
