"""Nobody is evicted twice or in vain, and what was freed is kept until it is used or given up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from dray.api import errors
from dray.api.features import Features
from dray.api.http_messages import Request, Response
from dray.api.ids import GroupResource
from dray.apiserver.app import status_response
from dray.client.api_client import Client, InProcessTransport
from dray.scheduler import preemptions, scheduler
from tests.unit.scheduler.test_preemption import (
    PREEMPTING,
    fleet,
    leave,
    run_pod,
    terminating,
)
from tests.unit.scheduler.world import (
    SCHEDULER,
    World,
    condition_of,
    gpu_slice,
    in_world,
    node,
    pod,
    template,
)

REFUSED = status_response(errors.forbidden(GroupResource("", "pods"), "it", "not now"))
Proceed = Callable[[], Awaitable[Response]]


def is_eviction(request: Request) -> bool:
    return request.method == "DELETE" and "/pods/" in request.path


def is_binding(request: Request, name: str) -> bool:
    return request.path.endswith(f"/pods/{name}/binding")


def before_first_eviction(world: World, deed: Callable[[], Awaitable[None]]) -> None:
    """Do something while the first deletion of a victim is on its way."""
    done: list[Request] = []

    async def intercept(request: Request, proceed: Proceed) -> Response:
        if is_eviction(request) and not done:
            done.append(request)
            await deed()
        return await proceed()

    world.intercept = intercept


async def evictions(world: World, count: int) -> list[str]:
    """Wait until so many pods were asked to go; their names, the first one first."""

    async def asked() -> list[str]:
        names = [each.path.rsplit("/", 1)[1] for each in world.requests if is_eviction(each)]
        return names if len(names) >= count else []

    found: list[str] = await world.until(asked, f"{count} evictions")
    return found


def figure(world: World, name: str) -> float:
    lines = world.registry.render().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


async def gone(world: World, name: str) -> None:
    """Wait until nobody holds the claim of a pod that was removed."""
    await world.remove_pod(name)

    async def is_free() -> bool:
        found = await world.get("resourceclaims", name)
        return "allocation" not in found.get("status", {})

    await world.until(is_free)
    await asyncio.sleep(0.05)


@in_world(features=PREEMPTING)
async def test_the_node_is_nominated_and_the_victim_marked_before_it_is_deleted(
    world: World,
) -> None:
    await fleet(world, gpus=1)
    await run_pod(world, "batch", "low")
    await world.bound("batch")
    await run_pod(world, "urgent", "high")
    await evictions(world, 1)
    writes = [
        (request.method, request.path.rsplit("/pods/")[1])
        for request in world.requests
        if b"nominatedNodeName" in request.body
        or b"DisruptionTarget" in request.body
        or is_eviction(request)
    ]
    assert writes == [("PATCH", "urgent/status"), ("PATCH", "batch/status"), ("DELETE", "batch")]
    condition = condition_of(await world.get("pods", "batch"), "DisruptionTarget")
    assert condition["message"] == (
        "default-scheduler: preempting to accommodate a higher priority pod default/urgent"
    )


@in_world(features=PREEMPTING)
async def test_nobody_else_is_evicted_while_an_eviction_is_on_its_way(world: World) -> None:
    await fleet(world, gpus=1)
    await run_pod(world, "batch", "middle")
    await world.bound("batch")
    await world.create(node("node-1"), gpu_slice("node-1", 1))
    await run_pod(world, "other", "low")
    assert await world.bound("other") == "node-1"
    await world.patch("nodes", "node-1", {"spec": {"unschedulable": True}})

    async def a_better_victim_appears() -> None:
        await world.patch("nodes", "node-1", {"spec": {"unschedulable": False}})
        await asyncio.sleep(2.0)

    before_first_eviction(world, a_better_victim_appears)
    await run_pod(world, "urgent", "high")
    assert await evictions(world, 1) == ["batch"]
    await asyncio.sleep(5.0)
    assert await terminating(world) == {"batch"}
    await leave(world, "batch")
    assert await world.bound("urgent") == "node-0"
    assert await evictions(world, 1) == ["batch"]


@in_world(features=PREEMPTING)
async def test_evictions_end_with_the_pod_that_they_are_for(world: World) -> None:
    await fleet(world, gpus=2)
    for name in ("a", "b"):
        await run_pod(world, name, "low")
        await world.bound(name)
    before_first_eviction(world, lambda: world.remove_pod("urgent"))
    await run_pod(world, "urgent", "high", 2)
    await evictions(world, 1)
    await asyncio.sleep(5.0)
    assert len(await terminating(world)) == 1


@in_world(features=PREEMPTING)
async def test_a_victim_is_spared_when_something_else_becomes_free(world: World) -> None:
    await fleet(world, gpus=3)
    for name, priority in (("a", "low"), ("b", "low"), ("service", "high")):
        await run_pod(world, name, priority)
        await world.bound(name)
    before_first_eviction(world, lambda: gone(world, "service"))
    await run_pod(world, "urgent", "high", 2)
    (first,) = await evictions(world, 1)
    await asyncio.sleep(5.0)
    assert await terminating(world) == {first}
    await leave(world, first)
    await world.bound("urgent")
    assert await terminating(world) == set()
    assert figure(world, "dray_scheduler_preemption_in_vain_total") == 0


@in_world(features=PREEMPTING)
async def test_another_pod_with_the_name_of_a_victim_stays(world: World) -> None:
    await fleet(world, gpus=1)
    await run_pod(world, "batch", "low")
    await world.bound("batch")

    async def replace() -> None:
        await world.remove_pod("batch")
        await world.create(pod("batch"))

    before_first_eviction(world, replace)
    await run_pod(world, "urgent", "high")
    await world.bound("urgent")
    assert await terminating(world) == set()
    assert not condition_of(await world.get("pods", "batch"), "DisruptionTarget")


@in_world(features=PREEMPTING)
async def test_a_refused_eviction_is_tried_again(world: World) -> None:
    await fleet(world, gpus=1)
    await run_pod(world, "batch", "low")
    await world.bound("batch")
    refusals: list[Request] = []

    async def intercept(request: Request, proceed: Proceed) -> Response:
        if is_eviction(request) and len(refusals) < 3:
            refusals.append(request)
            return REFUSED
        return await proceed()

    world.intercept = intercept
    await run_pod(world, "urgent", "high")
    await evictions(world, 4)
    await world.settle()
    assert await terminating(world) == {"batch"}


async def nominated(world: World, name: str) -> str:
    return str((await world.get("pods", name))["status"].get("nominatedNodeName", ""))


@in_world(features=PREEMPTING)
async def test_a_nomination_that_ends_is_taken_back_from_the_status(world: World) -> None:
    await fleet(world, gpus=1)
    await run_pod(world, "batch", "low")
    await world.bound("batch")
    await run_pod(world, "service", "middle")
    await evictions(world, 1)
    assert await nominated(world, "service") == "node-0"
    await run_pod(world, "urgent", "high")

    async def is_taken_over() -> bool:
        return (await nominated(world, "service"), await nominated(world, "urgent")) == (
            "",
            "node-0",
        )

    await world.until(is_taken_over)
    await leave(world, "batch")
    await world.bound("urgent")
    assert await evictions(world, 1) == ["batch"]


@in_world(features=PREEMPTING)
async def test_what_is_kept_is_free_when_the_pod_is_gone(world: World) -> None:
    await fleet(world, gpus=1)
    await run_pod(world, "batch", "low")
    await world.bound("batch")
    await run_pod(world, "urgent", "high")
    await evictions(world, 1)
    await run_pod(world, "service", "middle")
    await world.refused("service")
    await leave(world, "batch")
    await world.remove_pod("urgent")
    assert await world.bound("service") == "node-0"


@in_world(features=PREEMPTING)
async def test_what_was_freed_is_kept_while_the_pod_cannot_be_bound(world: World) -> None:
    await fleet(world, gpus=1)
    await run_pod(world, "batch", "low")
    await world.bound("batch")
    refusals: list[Request] = []

    async def intercept(request: Request, proceed: Proceed) -> Response:
        if is_binding(request, "urgent") and len(refusals) < 3:
            refusals.append(request)
            return REFUSED
        return await proceed()

    world.intercept = intercept
    await run_pod(world, "urgent", "high")
    await evictions(world, 1)
    await run_pod(world, "second", "high")
    await leave(world, "batch")
    assert await world.bound("urgent") == "node-0"
    assert len(refusals) == 3
    assert not (await world.get("pods", "second"))["spec"].get("nodeName")


@in_world(features=PREEMPTING)
async def test_what_was_freed_is_given_up_after_a_while(world: World) -> None:
    await fleet(world, gpus=1)
    await run_pod(world, "batch", "low")
    await world.bound("batch")

    async def intercept(request: Request, proceed: Proceed) -> Response:
        return REFUSED if is_binding(request, "urgent") else await proceed()

    world.intercept = intercept
    await run_pod(world, "urgent", "high")
    await evictions(world, 1)
    await run_pod(world, "second", "high")
    # A victim that takes its time does not count.
    await asyncio.sleep(preemptions.LIMIT_SECONDS + 60.0)
    await leave(world, "batch")
    await asyncio.sleep(preemptions.LIMIT_SECONDS - 60.0)
    assert not (await world.get("pods", "second"))["spec"].get("nodeName")
    await asyncio.sleep(120.0)
    assert await world.bound("second") == "node-0"
    assert await nominated(world, "urgent") == ""
    assert figure(world, "dray_scheduler_preemption_in_vain_total") == 1


@in_world(features=PREEMPTING)
async def test_a_nominated_pod_does_not_wait_behind_one_like_it(world: World) -> None:
    await fleet(world, gpus=1)
    await world.create(
        template("gpu"),
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "patient"},
            "value": 100,
            "preemptionPolicy": "Never",
        },
    )
    await run_pod(world, "batch", "low")
    await world.bound("batch")
    await world.create(pod("first", template_name="gpu", priorityClassName="patient"))
    await world.refused("first")
    await world.create(pod("second", template_name="gpu", priorityClassName="high"))
    await evictions(world, 1)
    await leave(world, "batch")
    assert await world.bound("second") == "node-0"


@contextlib.asynccontextmanager
async def restarted(world: World, features: Features = PREEMPTING) -> AsyncIterator[None]:
    """Another scheduler, while the first one gets nothing written any more."""

    async def intercept(request: Request, proceed: Proceed) -> Response:
        return await asyncio.Future[Response]()

    world.intercept = intercept
    client = Client(InProcessTransport(world.handle, SCHEDULER))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(scheduler.run(client, features=features))
        yield
        task.cancel()


@in_world(features=PREEMPTING)
async def test_a_restarted_scheduler_goes_on_with_what_is_leaving(world: World) -> None:
    await fleet(world, gpus=1)
    await run_pod(world, "batch", "low")
    await world.bound("batch")
    await run_pod(world, "urgent", "high")
    await evictions(world, 1)
    await world.settle()
    # It comes before the other one by name.
    await run_pod(world, "also", "high")
    await world.refused("also")
    async with restarted(world):
        await asyncio.sleep(5.0)
        assert await terminating(world) == {"batch"}
        await leave(world, "batch")
        assert await world.bound("urgent") == "node-0"
        assert not (await world.get("pods", "also"))["spec"].get("nodeName")


@in_world(features=PREEMPTING)
async def test_preemption_is_counted(world: World) -> None:
    await fleet(world, gpus=2)
    for name in ("a", "b"):
        await run_pod(world, name, "low")
        await world.bound(name)
    await run_pod(world, "urgent", "high", 2)
    await evictions(world, 2)
    await leave(world, "a", "b")
    await world.bound("urgent")
    assert figure(world, "scheduler_preemption_attempts_total") >= 1
    assert figure(world, "scheduler_preemption_victims_count") == 1
    assert figure(world, "scheduler_preemption_victims_sum") == 2
    assert figure(world, "dray_scheduler_preemption_in_vain_total") == 0
    assert figure(world, "dray_scheduler_preemption_plan_seconds_count") >= 1


@in_world()
async def test_without_the_gate_there_are_no_figures(world: World) -> None:
    await fleet(world, gpus=1)
    assert "preemption" not in world.registry.render()
