"""PodGroups are placed as a whole, or not at all."""

from __future__ import annotations

from typing import Any

from dray.api import features as gates
from dray.api.types.meta import JsonObject
from tests.unit.scheduler.world import (
    DRIVER,
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
)

GROUPS = gates.with_gates(
    gates.DEFAULT, {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
)


def group(name: str, minimum: int, **spec: Any) -> JsonObject:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}, **spec},
    }


def member(name: str, group_name: str = "pg", **options: Any) -> JsonObject:
    return pod(name, schedulingGroup={"podGroupName": group_name}, **options)


async def fleet(world: World, **gpus: int) -> None:
    await world.create(device_class())
    for name, count in gpus.items():
        await world.create(node(name), gpu_slice(name, count))


async def has_node(world: World, name: str) -> bool:
    return "nodeName" in (await world.get("pods", name))["spec"]


@in_world(features=GROUPS)
async def test_a_gang_waits_until_enough_of_it_is_there(world: World) -> None:
    await fleet(world, one=4)
    await world.create(group("pg", 2), template("gpu"), member("a", template_name="gpu"))
    await world.refused("a", "waiting for minCount pods from a gang to appear")
    await world.create(member("b", template_name="gpu"))
    await world.bound("a")
    await world.bound("b")


@in_world(features=GROUPS)
async def test_a_gang_that_does_not_fit_takes_nothing(world: World) -> None:
    await fleet(world, one=2)
    await world.create(group("pg", 3), template("gpu"))
    for name in "abc":
        await world.create(member(name, template_name="gpu"))
    message = await world.refused("a", "cannot be satisfied")
    assert message == "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
    await world.create(claim("single", exactly(count=2)), pod("single", "single"))
    assert await world.bound("single") == "one"
    for name in "abc":
        assert not await has_node(world, name)


@in_world(features=GROUPS)
async def test_a_gang_is_tried_again_when_devices_come(world: World) -> None:
    await fleet(world, one=1)
    await world.create(group("pg", 2), template("gpu"))
    for name in "ab":
        await world.create(member(name, template_name="gpu"))
    await world.refused("a", "cannot be satisfied")
    await world.create(node("two"), gpu_slice("two", 1))
    assert {await world.bound("a"), await world.bound("b")} == {"one", "two"}

    async def noted() -> bool:
        found = await world.get("podgroups", "pg")
        return any(
            condition["type"] == "PodGroupInitiallyScheduled" and condition["status"] == "True"
            for condition in found["status"].get("conditions", [])
        )

    await world.until(noted)


@in_world(features=GROUPS)
async def test_a_claim_of_the_group_is_shared_and_reserved_for_the_group(world: World) -> None:
    await fleet(world, one=4, two=4)
    source = {"name": "gpu", "resourceClaimTemplateName": "shared"}
    await world.create(template("shared"), group("pg", 2, resourceClaims=[source]))
    for name in "ab":
        await world.create(member(name, template_name="shared"))
    assert await world.bound("a") == await world.bound("b")
    (shared,) = await world.all("resourceclaims", "default")
    (consumer,) = shared["status"]["reservedFor"]
    assert (consumer["resource"], consumer["name"]) == ("podgroups", "pg")


@in_world(features=GROUPS)
async def test_the_shared_claim_goes_where_the_whole_group_has_room(world: World) -> None:
    await world.create(device_class())
    await world.create(node("small", cpu="80"), gpu_slice("small", 4))
    await world.create(node("large", cpu="100"), gpu_slice("large", 4))
    await world.create(
        pod("load", requests={"cpu": "70"}, nodeSelector={"kubernetes.io/hostname": "large"})
    )
    await world.bound("load")
    await world.patch(
        "nodes", "small", {"status": {"allocatable": {"pods": "1"}}}, subresource="status"
    )
    source = {"name": "gpu", "resourceClaimTemplateName": "shared"}
    await world.create(template("shared"), group("pg", 2, resourceClaims=[source]))
    for name in "ab":
        await world.create(member(name, template_name="shared"))
    assert {await world.bound("a"), await world.bound("b")} == {"large"}


@in_world(features=GROUPS)
async def test_a_pod_with_a_choice_leaves_the_only_device_to_the_one_without(
    world: World,
) -> None:
    await world.create(
        device_class(), node("one"), gpu_slice("one", 0, gpu("big"), gpu("small", "10Gi"))
    )
    big = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0'
    await world.create(
        group("pg", 2),
        claim("any"),
        claim("big", exactly(selectors=[{"cel": {"expression": big}}])),
        member("a", claim_name="any"),
        member("b", claim_name="big"),
    )
    await world.bound("a")
    await world.bound("b")
    assert devices_of(await world.get("resourceclaims", "big")) == ["one/big"]
    assert devices_of(await world.get("resourceclaims", "any")) == ["one/small"]


@in_world(features=GROUPS)
async def test_earlier_members_move_so_that_the_last_finds_room(world: World) -> None:
    """Room for one on the left, for two on the right; only the right will do for the last two."""
    await fleet(world, left=1, right=2)
    right = {"kubernetes.io/hostname": "right"}
    await world.create(group("pg", 3), template("gpu"))
    await world.create(member("a", template_name="gpu"))
    for name in "bc":
        await world.create(member(name, template_name="gpu", nodeSelector=right))
    assert [await world.bound(name) for name in "abc"] == ["left", "right", "right"]


@in_world(features=GROUPS)
async def test_what_a_gang_cannot_use_stays_with_nobody(world: World) -> None:
    await fleet(world, one=2)
    await world.create(group("pg", 3), template("gpu"))
    for name in "abc":
        await world.create(member(name, template_name="gpu"))
    await world.refused("a", "cannot be satisfied")
    await world.settle()
    for made in await world.all("resourceclaims", "default"):
        assert "allocation" not in made["status"]
        assert "reservedFor" not in made["status"]


@in_world(features=GROUPS)
async def test_members_beyond_the_minimum_come_when_there_is_room(world: World) -> None:
    await fleet(world, one=2)
    await world.create(group("pg", 2), template("gpu"))
    for name in "abc":
        await world.create(member(name, template_name="gpu"))

    async def two_have_a_node() -> bool:
        return sum([await has_node(world, name) for name in "abc"]) == 2

    await world.until(two_have_a_node)
    await world.create(node("two"), gpu_slice("two", 1))
    for name in "abc":
        await world.bound(name)


@in_world(features=gates.with_gates(GROUPS, {"DrayGangSearch": True}))
async def test_pods_that_prefer_two_devices_get_one_where_all_need_one(world: World) -> None:
    await fleet(world, one=2)
    counts = [{"name": f"s{count}", "deviceClassName": DRIVER, "count": count} for count in (2, 1)]
    await world.create(template("gpu", {"name": "gpu", "firstAvailable": counts}), group("pg", 2))
    for name in "ab":
        await world.create(member(name, template_name="gpu"))
    assert {await world.bound("a"), await world.bound("b")} == {"one"}
    devices = [devices_of(found) for found in await world.all("resourceclaims", "default")]
    assert sorted(devices) == [["one/gpu-0"], ["one/gpu-1"]]
