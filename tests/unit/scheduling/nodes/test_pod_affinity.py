"""Near others, far from others, evenly spread."""

from __future__ import annotations

from typing import Any

from dray.api.types.meta import JsonObject
from tests.unit.scheduler.world import World, in_world, node, pod

HOST = "kubernetes.io/hostname"


def labelled(name: str, app: str, **spec: Any) -> JsonObject:
    body = pod(name, **spec)
    body["metadata"]["labels"] = {"app": app}
    return body


def term(app: str, key: str = HOST) -> JsonObject:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def near(app: str, key: str = HOST) -> JsonObject:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(app, key)]}}


def away_from(app: str, key: str = HOST) -> JsonObject:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(app, key)]}}


async def nodes(world: World, *zones: str) -> None:
    for number, zone in enumerate(zones):
        await world.create(node(f"node-{number}", {"zone": zone}))


@in_world()
async def test_pods_that_avoid_each_other_get_a_node_each(world: World) -> None:
    await nodes(world, "a", "a")
    for name in ("one", "two", "three"):
        await world.create(labelled(name, "db", affinity=away_from("db")))
        if name != "three":
            await world.bound(name)
    assert await world.bound("one") != await world.bound("two")
    await world.refused("three", "2 node(s) didn't match pod anti-affinity rules")
    await world.remove_pod("one")
    await world.bound("three")


@in_world()
async def test_a_pod_that_is_there_keeps_others_away(world: World) -> None:
    await nodes(world, "a")
    await world.create(labelled("shy", "db", affinity=away_from("web")))
    await world.bound("shy")
    await world.create(labelled("web", "web"), labelled("other", "other"))
    await world.bound("other")
    await world.refused("web", "1 node(s) didn't satisfy existing pods anti-affinity rules")


@in_world()
async def test_a_pod_goes_to_the_zone_of_its_friend(world: World) -> None:
    await nodes(world, "a", "b", "b")
    await world.create(labelled("friend", "db", nodeSelector={HOST: "node-1"}))
    await world.bound("friend")
    await world.create(labelled("fan", "web", affinity=near("db", "zone")))
    assert await world.bound("fan") in ("node-1", "node-2")


@in_world()
async def test_a_pod_waits_for_its_friend(world: World) -> None:
    await nodes(world, "a")
    await world.create(labelled("fan", "web", affinity=near("db")))
    await world.refused("fan", "1 node(s) didn't match pod affinity rules")
    await world.create(labelled("friend", "db"))
    await world.bound("fan")


@in_world()
async def test_the_first_of_pods_that_want_each_other_may_go_anywhere(world: World) -> None:
    await nodes(world, "a", "b")
    await world.create(labelled("one", "db", affinity=near("db", "zone")))
    first = await world.bound("one")
    await world.create(labelled("two", "db", affinity=near("db", "zone")))
    assert await world.bound("two") == first


@in_world()
async def test_pods_are_spread_over_zones(world: World) -> None:
    await nodes(world, "a", "a", "b")
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    zones = []
    for number in range(4):
        body = labelled(f"web-{number}", "web", topologySpreadConstraints=[constraint])
        await world.create(body)
        zones.append("b" if await world.bound(f"web-{number}") == "node-2" else "a")
    assert sorted(zones) == ["a", "a", "b", "b"]
    await world.patch("nodes", "node-2", {"spec": {"unschedulable": True}})
    for number in (4, 5):
        await world.create(labelled(f"web-{number}", "web", topologySpreadConstraints=[constraint]))
    await world.refused("web-5", "2 node(s) didn't match pod topology spread constraints")


@in_world()
async def test_a_node_without_the_label_cannot_be_spread_over(world: World) -> None:
    await world.create(node("plain"))
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    constraint["labelSelector"] = {}
    await world.create(labelled("web", "web", topologySpreadConstraints=[constraint]))
    await world.refused("web", "(missing required label)")
