"""What may happen while pods make room for others, and that nobody is evicted in vain then."""

from __future__ import annotations

import asyncio
import datetime

from dray.api import features as gates
from dray.api.http_messages import Request, Response
from dray.api.types.meta import JsonObject
from dray.clock import utc_now
from dray.scheduling.preemption import leaving
from tests.unit.scheduler.test_podgroups import group, has_node, member
from tests.unit.scheduler.test_preemption import PREEMPTING, fleet, leave, run_pod, terminating
from tests.unit.scheduler.test_preemptions import (
    Proceed,
    before_first_eviction,
    evictions,
    figure,
    gone,
    is_binding,
    is_eviction,
    nominated,
    restarted,
)
from tests.unit.scheduler.world import (
    Clock,
    World,
    claim,
    condition_of,
    exactly,
    gpu_slice,
    in_world,
    node,
    pod,
)

GANGS = gates.with_gates(PREEMPTING, {"GenericWorkload": True, "DrayGangSearch": True})
IN_VAIN = "dray_scheduler_preemption_in_vain_total"


async def victims_are(world: World, *names: str) -> None:
    async def are_leaving() -> bool:
        return await terminating(world) == {*names}

    await world.until(are_leaving, f"the end of {names}")


async def second_node(world: World, gpus: int = 1) -> None:
    await world.create(node("node-1"), gpu_slice("node-1", gpus))


@in_world(features=PREEMPTING, clock=Clock())
async def test_a_victim_that_does_not_end_is_given_up(world: World) -> None:
    await fleet(world, gpus=1)
    await run_pod(world, "stuck", "low")
    await world.bound("stuck")
    await second_node(world)
    await run_pod(world, "other", "middle")
    await world.bound("other")
    await run_pod(world, "urgent", "high")
    await victims_are(world, "stuck")
    await asyncio.sleep(5.0)
    await victims_are(world, "stuck")
    # Its node is gone, or its driver: it should have ended long ago.
    world.clock.time = utc_now() + datetime.timedelta(seconds=leaving.STUCK_SECONDS + 60)
    await victims_are(world, "stuck", "other")
    assert await nominated(world, "urgent") == "node-1"
    await leave(world, "other")
    assert await world.bound("urgent") == "node-1"
    assert figure(world, IN_VAIN) == 1


@in_world(features=PREEMPTING)
async def test_another_pod_is_evicted_if_a_budget_forbids_the_first_by_now(world: World) -> None:
    await fleet(world, gpus=2)
    for name, priority in (("cheap", "low"), ("dear", "middle")):
        await run_pod(world, name, priority)
        await world.bound(name)
    await world.patch("pods", "cheap", {"metadata": {"labels": {"app": "cheap"}}})
    asked: list[Request] = []

    async def intercept(request: Request, proceed: Proceed) -> Response:
        if b"nominatedNodeName" in request.body and not asked:
            asked.append(request)
            # The budget comes after the decision, and before the first eviction.
            await world.create(budget("cheap"))
            await asyncio.sleep(1.0)
        return await proceed()

    world.intercept = intercept
    await run_pod(world, "urgent", "high")
    await victims_are(world, "dear")
    assert figure(world, IN_VAIN) == 0


@in_world(features=PREEMPTING)
async def test_a_budget_that_forbids_all_does_not_save_the_only_victim(world: World) -> None:
    await fleet(world, gpus=1)
    await run_pod(world, "cheap", "low")
    await world.bound("cheap")
    await world.patch("pods", "cheap", {"metadata": {"labels": {"app": "cheap"}}})
    asked: list[Request] = []

    async def intercept(request: Request, proceed: Proceed) -> Response:
        if b"nominatedNodeName" in request.body and not asked:
            asked.append(request)
            await world.create(budget("cheap"))
            await asyncio.sleep(1.0)
        return await proceed()

    world.intercept = intercept
    await run_pod(world, "urgent", "high")
    await victims_are(world, "cheap")


@in_world(features=PREEMPTING)
async def test_a_pod_takes_no_other_device_while_an_eviction_is_on_its_way(world: World) -> None:
    await fleet(world, gpus=2)
    for name, priority in (("batch", "low"), ("service", "high")):
        await run_pod(world, name, priority)
        await world.bound(name)
    bound: list[bool] = []

    async def something_is_free() -> None:
        await gone(world, "service")
        await asyncio.sleep(5.0)
        bound.append(await has_node(world, "urgent"))

    before_first_eviction(world, something_is_free)
    await run_pod(world, "urgent", "high")
    assert await evictions(world, 1) == ["batch"]
    await world.bound("urgent")
    assert bound == [False]


def budget(app: str) -> JsonObject:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": app}}},
    }


@in_world(features=PREEMPTING)
async def test_a_scheduler_that_is_killed_between_evictions_is_followed(world: World) -> None:
    await fleet(world, gpus=8)
    names = [f"batch-{number}" for number in range(8)]
    for name in names:
        await run_pod(world, name, "low")
        await world.bound(name)
    stopped = asyncio.Event()

    async def intercept(request: Request, proceed: Proceed) -> Response:
        if is_eviction(request) and len(await terminating(world)) == 3:
            stopped.set()
            return await asyncio.Future[Response]()
        return await proceed()

    world.intercept = intercept
    await run_pod(world, "urgent", "high", 8)
    await stopped.wait()
    async with restarted(world):
        await victims_are(world, *names)
        await leave(world, *names)
        assert await world.bound("urgent") == "node-0"


@in_world(features=PREEMPTING)
async def test_pods_that_share_a_claim_do_not_both_evict_for_it(world: World) -> None:
    await fleet(world, gpus=2)
    for name in ("a", "b"):
        await run_pod(world, name, "low")
        await world.bound(name)
    await world.create(claim("shared", exactly()))
    for name in ("first", "second"):
        await world.create(pod(name, "shared", priorityClassName="high"))
    (victim,) = await evictions(world, 1)
    await asyncio.sleep(5.0)
    await victims_are(world, victim)
    await leave(world, victim)
    assert await world.bound("first") == "node-0"
    assert await world.bound("second") == "node-0"
    assert len(await evictions(world, 1)) == 1


@in_world(features=PREEMPTING)
async def test_a_pod_that_is_just_being_bound_is_evicted_afterwards(world: World) -> None:
    await fleet(world, gpus=1)
    proceeding = asyncio.Event()

    async def intercept(request: Request, proceed: Proceed) -> Response:
        if is_binding(request, "batch"):
            await proceeding.wait()
        return await proceed()

    world.intercept = intercept
    await run_pod(world, "batch", "low")
    await asyncio.sleep(1.0)
    await run_pod(world, "urgent", "high")
    await world.refused("urgent")
    await asyncio.sleep(1.0)
    proceeding.set()
    await victims_are(world, "batch")


@in_world(features=PREEMPTING)
async def test_the_claim_of_the_preemptor_is_deleted(world: World) -> None:
    await fleet(world, gpus=2)
    for name in ("a", "b"):
        await run_pod(world, name, "low")
        await world.bound(name)

    async def lose_the_claim() -> None:
        await world.delete("resourceclaims", "urgent")
        await asyncio.sleep(0.5)

    before_first_eviction(world, lose_the_claim)
    await run_pod(world, "urgent", "high", 2)
    await evictions(world, 1)
    await asyncio.sleep(5.0)
    assert len(await terminating(world)) == 1
    # It comes back smaller, and needs no more than what is leaving.
    await world.create(claim("urgent", exactly()))
    await asyncio.sleep(5.0)
    (first,) = await terminating(world)
    await leave(world, first)
    assert await world.bound("urgent") == "node-0"
    assert figure(world, IN_VAIN) == 0


@in_world(features=PREEMPTING)
async def test_the_claim_of_a_victim_is_freed_by_force(world: World) -> None:
    await fleet(world, gpus=2)
    for name in ("a", "b"):
        await run_pod(world, name, "low")
        await world.bound(name)

    async def free() -> None:
        for name in ("a", "b"):
            freed = {"reservedFor": None, "allocation": None}
            await world.set_status("resourceclaims", name, freed)
        await asyncio.sleep(0.5)

    before_first_eviction(world, free)
    await run_pod(world, "urgent", "high", 2)
    assert await world.bound("urgent") == "node-0"
    await asyncio.sleep(5.0)
    assert len(await terminating(world)) <= 1


@in_world(features=PREEMPTING)
async def test_a_node_that_a_user_has_nominated_evicts_and_keeps_nothing(world: World) -> None:
    await fleet(world, gpus=1)
    await second_node(world)
    await run_pod(world, "service", "high")
    await run_pod(world, "other", "high")
    await world.bound("other")
    await run_pod(world, "wanting", "low")
    for name in ("node-0", "nowhere"):
        await world.set_status("pods", "wanting", {"nominatedNodeName": name})
        await asyncio.sleep(2.0)
        assert await terminating(world) == set()
    await run_pod(world, "late", "low")
    await world.remove_pod("service")
    await world.until(lambda: _one_of(world, "wanting", "late"))


async def _one_of(world: World, *names: str) -> bool:
    return any([await has_node(world, name) for name in names])


@in_world(features=PREEMPTING)
async def test_a_claim_with_an_important_user_as_well_is_no_reason_to_evict(world: World) -> None:
    await fleet(world, gpus=1)
    await world.create(claim("shared", exactly()))
    await world.create(pod("batch", "shared", priorityClassName="low"))
    await world.create(pod("service", "shared", priorityClassName="high"))
    for name in ("batch", "service"):
        await world.bound(name)
    await run_pod(world, "urgent", "high")
    await world.refused("urgent")
    await asyncio.sleep(5.0)
    assert await terminating(world) == set()


@in_world(features=PREEMPTING)
async def test_the_claim_of_the_preemptor_has_devices_on_another_node(world: World) -> None:
    await fleet(world, gpus=1)
    await world.set_status("nodes", "node-0", {"allocatable": {"cpu": "4"}})
    await world.create(claim("shared", exactly()))
    busy = {"cpu": "3"}
    await world.create(pod("batch", "shared", priorityClassName="low", requests=busy))
    await world.bound("batch")
    await second_node(world)
    await run_pod(world, "elsewhere", "low")
    assert await world.bound("elsewhere") == "node-1"
    # Only the node of its claim helps, although the other one has a cheaper victim.
    await world.create(pod("urgent", "shared", priorityClassName="high", requests=busy))
    await victims_are(world, "batch")
    assert await nominated(world, "urgent") == "node-0"
    await leave(world, "batch")
    assert await world.bound("urgent") == "node-0"


# Gangs.


async def run_gang(world: World, name: str, priority: str, size: int, **spec: object) -> list[str]:
    names = [f"{name}-{number}" for number in range(size)]
    await world.create(group(name, size, priorityClassName=priority, **spec))
    for each in names:
        await world.create(claim(each, exactly()))
    for each in names:
        await world.create(member(each, name, claim_name=each, priorityClassName=priority))
    return names


@in_world(features=GANGS)
async def test_a_gang_takes_over_from_single_pods(world: World) -> None:
    await fleet(world, gpus=2)
    await second_node(world, 2)
    for name, priority in (("a", "low"), ("b", "low"), ("c", "low"), ("d", "high")):
        await run_pod(world, name, priority)
        await world.bound(name)
    members = await run_gang(world, "gang", "middle", 3)
    await victims_are(world, "a", "b", "c")
    condition = condition_of(await world.get("pods", "a"), "DisruptionTarget")
    assert condition["message"].endswith("a higher priority podgroup default/gang")
    assert "preempting 3 victims" in await world.refused(members[0], "preemption")
    assert all([await nominated(world, each) for each in members])
    # What leaves is for nobody else, and no member is bound before all fit.
    await run_pod(world, "rival", "middle")
    await leave(world, "a", "b")
    await asyncio.sleep(5.0)
    assert not any([await has_node(world, each) for each in (*members, "rival")])
    await leave(world, "c")
    for each in members:
        await world.bound(each)
    assert not await has_node(world, "rival")
    assert figure(world, IN_VAIN) == 0


@in_world(features=GANGS)
async def test_a_gang_is_preempted_by_a_gang_as_one(world: World) -> None:
    await fleet(world, gpus=4)
    old = await run_gang(world, "old", "low", 3, disruptionMode={"all": {}})
    for each in old:
        await world.bound(each)
    await run_gang(world, "new", "high", 2)
    await victims_are(world, *old)
    await leave(world, *old)
    for each in ("new-0", "new-1"):
        await world.bound(each)


@in_world(features=GANGS)
async def test_pods_of_a_gang_are_preempted_singly_where_that_is_allowed(world: World) -> None:
    await fleet(world, gpus=4)
    old = await run_gang(world, "old", "low", 4)
    for each in old:
        await world.bound(each)
    await run_pod(world, "urgent", "high")
    (victim,) = await evictions(world, 1)
    await asyncio.sleep(5.0)
    await victims_are(world, victim)


@in_world(features=GANGS)
async def test_the_rest_of_a_group_goes_although_the_pod_is_content(world: World) -> None:
    await fleet(world, gpus=3)
    old = await run_gang(world, "old", "low", 2, disruptionMode={"all": {}})
    await run_pod(world, "service", "high")
    for each in (*old, "service"):
        await world.bound(each)

    async def is_enough() -> None:
        await world.remove_pod("service")
        await asyncio.sleep(1.0)

    # After the first one of the group was evicted, another device becomes free.
    before_first_eviction(world, is_enough)
    await run_pod(world, "urgent", "high", 2)
    await victims_are(world, *old)


@in_world(features=GANGS)
async def test_evictions_end_when_a_gang_loses_a_pod(world: World) -> None:
    await fleet(world, gpus=3)
    for name in ("a", "b", "c"):
        await run_pod(world, name, "low")
        await world.bound(name)
    before_first_eviction(world, lambda: world.remove_pod("gang-1"))
    await run_gang(world, "gang", "high", 3)
    await evictions(world, 1)
    await asyncio.sleep(5.0)
    assert len(await terminating(world)) == 1
    # When it is back, those that are leaving are not evicted again.
    await world.create(member("gang-1", "gang", claim_name="gang-1", priorityClassName="high"))
    await victims_are(world, "a", "b", "c")
    assert sorted(await evictions(world, 3)) == ["a", "b", "c"]
    await leave(world, "a", "b", "c")
    for number in range(3):
        await world.bound(f"gang-{number}")


@in_world(features=GANGS)
async def test_a_restarted_scheduler_goes_on_for_a_gang(world: World) -> None:
    await fleet(world, gpus=2)
    for name in ("a", "b"):
        await run_pod(world, name, "low")
        await world.bound(name)
    members = await run_gang(world, "gang", "high", 2)
    await victims_are(world, "a", "b")
    await world.settle()
    await run_pod(world, "also", "high")
    async with restarted(world, GANGS):
        await leave(world, "a")
        await asyncio.sleep(5.0)
        assert not await has_node(world, "also")
        await leave(world, "b")
        for each in members:
            await world.bound(each)


@in_world(features=GANGS)
async def test_a_pod_of_a_gang_that_cannot_be_bound_keeps_its_device(world: World) -> None:
    await fleet(world, gpus=2)
    for name in ("a", "b"):
        await run_pod(world, name, "low")
        await world.bound(name)
    refusals: list[Request] = []

    async def intercept(request: Request, proceed: Proceed) -> Response:
        if is_binding(request, "gang-1") and len(refusals) < 3:
            refusals.append(request)
            raise OSError
        return await proceed()

    world.intercept = intercept
    members = await run_gang(world, "gang", "high", 2)
    await victims_are(world, "a", "b")
    await run_pod(world, "second", "high")
    await leave(world, "a", "b")
    for each in members:
        await world.bound(each)
    assert not await has_node(world, "second")
