"""Less important pods make room for more important ones, and no more of them than needed."""

from __future__ import annotations

from typing import Any

from dray.api import features as gates
from dray.api.types.meta import JsonObject
from tests.unit.scheduler.test_podgroups import group
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
GANGS = gates.with_gates(PREEMPTING, {"GenericWorkload": True, "DrayGangSearch": True})


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


async def run_pod(world: World, name: str, priority: str, gpus: int = 1, **spec: Any) -> JsonObject:
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
async def test_a_disruption_budget_is_exceeded_only_if_nothing_else_helps(world: World) -> None:
    await fleet(world, gpus=2)
    await run_pod(world, "other", "middle")
    await world.bound("other")
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

    async def asked() -> set[str]:
        return await terminating(world)

    # A higher priority costs less than a violation of the budget.
    assert await world.until(asked) == {"other"}
    await leave(world, "other")
    await world.bound("urgent")
    await run_pod(world, "next", "high")

    async def batch_asked() -> bool:
        return "batch" in await terminating(world)

    await world.until(batch_asked)


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


async def budget(world: World, allowed: int, **labels: str) -> None:
    """A disruption budget as its controller would report it."""
    await world.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "budget"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        }
    )
    status = {
        "disruptionsAllowed": allowed,
        "currentHealthy": 2,
        "desiredHealthy": 2 - allowed,
        "expectedPods": 2,
        "observedGeneration": 1,
    }
    await world.set_status("poddisruptionbudgets", "budget", status)


async def run_labelled(world: World, name: str, gpus: int, **labels: str) -> None:
    await world.create(claim(name, exactly(count=gpus)))
    body = pod(name, name, priorityClassName="low")
    body["metadata"]["labels"] = labels
    await world.create(body)
    await world.bound(name)


@in_world(features=PREEMPTING)
async def test_a_disruption_budget_with_room_is_used_up_but_not_overdrawn(world: World) -> None:
    await fleet(world, gpus=3)
    await run_labelled(world, "one", 1, app="batch")
    await run_labelled(world, "two", 2, app="batch")
    await budget(world, 1, app="batch")
    # Only the larger one frees enough by itself, and both together must not go.
    await run_pod(world, "urgent", "high", 2)

    async def asked() -> set[str]:
        return await terminating(world)

    assert await world.until(asked) == {"two"}
    await leave(world, "two")
    assert await world.bound("urgent") == "node-0"
    assert await terminating(world) == set()


@in_world(features=PREEMPTING)
async def test_the_node_with_the_fewest_victims_is_cleared(world: World) -> None:
    await fleet(world, gpus=2)
    await world.create(node("node-1"), gpu_slice("node-1", 2))
    on = {f"node-{number}": {"kubernetes.io/hostname": f"node-{number}"} for number in (0, 1)}
    for name, where, gpus in (("a", "node-0", 1), ("b", "node-0", 1), ("c", "node-1", 2)):
        await run_pod(world, name, "low", gpus, nodeSelector=on[where])
        await world.bound(name)
    await run_pod(world, "urgent", "high", 2)

    async def asked() -> set[str]:
        return await terminating(world)

    assert await world.until(asked) == {"c"}


@in_world(features=PREEMPTING)
async def test_nobody_goes_whose_devices_somebody_important_uses_as_well(world: World) -> None:
    await fleet(world, gpus=1)
    await run_pod(world, "batch", "low")
    await world.bound("batch")
    await world.create(pod("service", "batch", priorityClassName="high"))
    await world.bound("service")
    await run_pod(world, "urgent", "high")
    await world.refused("urgent", "cannot allocate all claims")
    await world.settle()
    assert await terminating(world) == set()


@in_world(features=GANGS)
async def test_pods_that_their_gang_does_not_need_evict_on_their_own(world: World) -> None:
    await fleet(world, gpus=2)
    await run_pod(world, "batch", "low")
    await world.bound("batch")
    await world.create(group("pg", 1, priorityClassName="high"))
    for name in ("a", "b"):
        await run_pod(world, name, "high", schedulingGroup={"podGroupName": "pg"})

    async def asked() -> bool:
        return await terminating(world) == {"batch"}

    await world.until(asked)
    await leave(world, "batch")
    assert [await world.bound(name) for name in ("a", "b")] == ["node-0", "node-0"]
