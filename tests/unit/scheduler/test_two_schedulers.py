"""Two schedulers beside each other: each has its own pods and its own nodes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from dray.client.api_client import Client, InProcessTransport
from dray.scheduler import scheduler
from tests.unit.scheduler.world import (
    SCHEDULER,
    World,
    device_class,
    devices_of,
    gpu_slice,
    in_world,
    node,
    pod,
    template,
)


@contextlib.asynccontextmanager
async def beside(world: World, name: str, node_selector: str) -> AsyncIterator[None]:
    client = Client(InProcessTransport(world.answer_scheduler, SCHEDULER))
    async with asyncio.TaskGroup() as group:
        running = scheduler.run(client, name=name, node_selector=node_selector)
        task = group.create_task(running)
        yield
        task.cancel()


async def fleet(world: World) -> None:
    await world.create(device_class(), template("gpu"))
    for owner in ("theirs", "ours"):
        await world.create(node(owner, {"scheduler": owner}), gpu_slice(owner, 2))


@in_world(node_selector="scheduler=theirs")
async def test_each_uses_its_own_nodes_for_its_own_pods(world: World) -> None:
    await fleet(world)
    async with beside(world, "ours", "scheduler=ours"):
        for number in range(2):
            await world.create(pod(f"theirs-{number}", template_name="gpu"))
            own = pod(f"ours-{number}", template_name="gpu", schedulerName="ours")
            await world.create(own)
        held: list[str] = []
        for owner in ("theirs", "ours"):
            for number in range(2):
                assert await world.bound(f"{owner}-{number}") == owner
                held += devices_of((await world.claims_of(f"{owner}-{number}"))[0])
        assert len(set(held)) == 4


@in_world(node_selector="scheduler=theirs")
async def test_a_full_scheduler_does_not_look_over_the_fence(world: World) -> None:
    await fleet(world)
    async with beside(world, "ours", "scheduler=ours"):
        for number in range(3):
            await world.create(pod(f"p{number}", template_name="gpu"))
        placed = {f"p{number}" for number in range(3)}

        async def two_are_bound() -> set[str]:
            found = await world.all("pods", "default")
            bound = {each["metadata"]["name"] for each in found if each["spec"].get("nodeName")}
            return bound if len(bound) == 2 else set()

        (last,) = placed - await world.until(two_are_bound)
        await world.refused(last, "0/1 nodes are available: 1 cannot allocate all claims.")


@in_world()
async def test_a_pod_of_nobody_known_is_left_alone_and_another_may_come_for_it(
    world: World,
) -> None:
    await fleet(world)
    await world.create(pod("p", template_name="gpu", schedulerName="later"))
    await world.settle()
    found = await world.get("pods", "p")
    assert "nodeName" not in found["spec"]
    assert "conditions" not in found["status"]
    async with beside(world, "later", ""):
        await world.bound("p")
