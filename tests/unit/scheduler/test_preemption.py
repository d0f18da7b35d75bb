"""Less important pods make room for more important ones, and no more of them than needed."""

from __future__ import annotations

from typing import Any

from dray.api import features as gates
from dray.client.verbs import Object
from tests.unit.scheduler.world import (
    World,
    claim,
    condition_of,
    device_class,
    exactly,
    gpu_slice,
    in_world,
    node,
    pod,
)

PREEMPTING = gates.with_gates(gates.DEFAULT, {"DrayPreemption": True})


async def fleet(world: World, gpus: int) -> None:
    for name, value in (("low", 10), ("middle", 50), ("high", 100)):
        await world.create(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
        )
    await world.create(device_class(), node("node-0"), gpu_slice("node-0", gpus))


async def run_pod(world: World, name: str, priority: str, gpus: int = 1, **spec: Any) -> Object:
    await world.create(claim(name, exactly(count=gpus)))
    return await world.create(pod(name, name, priorityClassName=priority, **spec))


async def terminating(world: World) -> set[str]:
    """The pods that are asked to go. Without a node agent they stay until a test removes them."""
    pods = await world.all("pods", "default")
    return {each["metadata"]["name"] for each in pods if "deletionTimestamp" in each["metadata"]}


async def leave(world: World, *names: str) -> None:
    for name in names:
        await world.remove_pod(name)


@in_world(features=PREEMPTING)
async def test_a_device_is_freed_for_a_more_important_pod(world: World) -> None:
    await fleet(world, gpus=1)
    await run_pod(world, "batch", "low")
    await world.bound("batch")
    await run_pod(world, "urgent", "high")

    async def asked() -> bool:
        return await terminating(world) == {"batch"}

    await world.until(asked)
    message = await world.refused("urgent")
    assert message.endswith(
        "preemption: found a potential placement for pod on node node-0, preempting 1 victims"
    )
    victim = await world.get("pods", "batch")
    assert condition_of(victim, "DisruptionTarget")["reason"] == "PreemptionByScheduler"
    nominated = await world.get("pods", "urgent")
    assert nominated["status"]["nominatedNodeName"] == "node-0"
    await leave(world, "batch")
    assert await world.bound("urgent") == "node-0"


@in_world(features=PREEMPTING)
async def test_no_more_victims_than_needed(world: World) -> None:
    await fleet(world, gpus=4)
    for name, priority, gpus in (("a", "low", 2), ("b", "low", 1), ("c", "low", 1)):
        await run_pod(world, name, priority, gpus)
        await world.bound(name)
    await run_pod(world, "urgent", "high", 2)

    async def asked() -> set[str]:
        return await terminating(world)

    assert await world.until(asked) == {"a"}
    await world.settle()
    assert await terminating(world) == {"a"}


@in_world(features=PREEMPTING)
async def test_the_least_important_pods_go(world: World) -> None:
    await fleet(world, gpus=2)
    await run_pod(world, "batch", "low")
    await run_pod(world, "service", "middle")
    await world.bound("batch")
    await world.bound("service")
    await run_pod(world, "urgent", "high")

    async def asked() -> set[str]:
        return await terminating(world)

    assert await world.until(asked) == {"batch"}


@in_world(features=PREEMPTING)
async def test_equally_important_pods_stay(world: World) -> None:
    await fleet(world, gpus=1)
    await run_pod(world, "first", "high")
    await world.bound("first")
    await run_pod(world, "second", "high")
    await world.refused("second", "Preemption is not helpful for scheduling")
    assert await terminating(world) == set()


@in_world(features=PREEMPTING)
async def test_a_pod_that_never_preempts_waits(world: World) -> None:
    await fleet(world, gpus=1)
    await run_pod(world, "batch", "low")
    await world.bound("batch")
    await world.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "patient"},
            "value": 100,
            "preemptionPolicy": "Never",
        }
    )
    await run_pod(world, "urgent", "patient")
    await world.refused("urgent", "preemption: not eligible due to preemptionPolicy=Never.")
    assert await terminating(world) == set()


@in_world(features=PREEMPTING)
async def test_a_disruption_budget_is_never_overdrawn(world: World) -> None:
    await fleet(world, gpus=1)
    await world.create(claim("batch"))
    body = pod("batch", "batch", priorityClassName="low")
    body["metadata"]["labels"] = {"app": "batch"}
    await world.create(body)
    await world.bound("batch")
    await world.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "keep"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "batch"}}},
        }
    )
    await run_pod(world, "urgent", "high")
    await world.refused("urgent", "cannot allocate all claims")
    await world.settle()
    assert await terminating(world) == set()


@in_world(features=PREEMPTING)
async def test_what_is_freed_is_kept_from_lesser_pods(world: World) -> None:
    await fleet(world, gpus=2)
    for name in ("a", "b"):
        await run_pod(world, name, "low")
        await world.bound(name)
    await run_pod(world, "urgent", "high", 2)

    async def asked() -> bool:
        return await terminating(world) == {"a", "b"}

    await world.until(asked)
    await run_pod(world, "sneaky", "middle")
    await leave(world, "a")
    await world.settle()
    assert "nodeName" not in (await world.get("pods", "sneaky"))["spec"]
    await leave(world, "b")
    assert await world.bound("urgent") == "node-0"


@in_world(features=PREEMPTING)
async def test_cpu_is_made_free_as_well(world: World) -> None:
    await fleet(world, gpus=1)
    await world.create(pod("batch", requests={"cpu": "60"}, priorityClassName="low"))
    await world.bound("batch")
    await world.create(pod("urgent", requests={"cpu": "10"}, priorityClassName="high"))

    async def asked() -> bool:
        return await terminating(world) == {"batch"}

    await world.until(asked)


@in_world()
async def test_without_the_gate_nobody_has_to_go(world: World) -> None:
    await fleet(world, gpus=1)
    await run_pod(world, "batch", "low")
    await world.bound("batch")
    await run_pod(world, "urgent", "high")
    await world.refused("urgent", "Preemption is not helpful for scheduling")
    assert await terminating(world) == set()
