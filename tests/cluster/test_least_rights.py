"""What runs beside the API server may do its work and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dray.api import errors, kinds
from dray.api.types.meta import JsonObject
from dray.apiserver.access import bootstrap_policy
from dray.apiserver.server import Settings
from dray.client.api_client import Client, ObjectSelection
from dray.cluster import assembly
from dray.cluster.assembly import FLEET, ClusterPlan
from dray.drivers.simulated import fleet as fleets
from dray.drivers.simulated import scaling
from dray.drivers.simulated.faults import FAILED_ANNOTATION
from dray.drivers.simulated.fleet import FLEET_LABEL
from dray.store import memory
from tests import audit
from tests.audit import Right
from tests.cluster.site import Site, needs_sandbox, with_node
from tests.cluster.world import World, claim, claim_spec, pod, request, template

COMPONENTS = {assembly.SCHEDULER.name, assembly.CONTROLLERS.name}
NOTHING = ClusterPlan(schedules=False, controls=False)
SELDOM = {("patch", "", "events")}
"""Rights that a short life does not use: what repeats is counted in its event, seconds later."""


def granted(rules: tuple[JsonObject, ...]) -> set[Right]:
    return {
        (verb, group, resource)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


async def live_a_life(world: World) -> None:
    """Everything that a fleet of simulated nodes has to react to."""
    await world.until(lambda: has_slices(world, "h100-1"), "the fleet being published")
    await world.create(template("t", claim_spec(request())))
    await world.create(pod("p", template="t"))
    await world.pod_phase("p", "Running")
    await world.client.delete(kinds.POD, "p", "default")
    await gone(world, kinds.POD, "p")
    await refuse_a_claim(world)
    await lose_a_node(world)
    await break_a_device(world)
    await scaling.set_desired_size(world.client, "h100", 1)
    await gone(world, kinds.NODE, "h100-1")
    await leave_things_of_others(world)
    await scaling.set_desired_size(world.client, "h100", 3)
    await world.until(lambda: has_slices(world, "h100-2"), "a new node having devices")


async def get_up(world: World) -> None:
    await world.until(lambda: has_slices(world, "h100-0"), "the fleet being published")


async def leave_things_of_others(world: World) -> None:
    """A node and a slice that look like the fleet's: one is taken over, the other is removed."""
    labels = {FLEET_LABEL: "h100"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "h100-2", "labels": labels}}
    await world.create(node)
    (known, *_) = await has_slices(world, "h100-0")
    spec = {**known["spec"], "pool": {**known["spec"]["pool"], "name": "nobodys"}}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "spec": spec}
    await world.create({**body, "metadata": {"name": "nobodys", "labels": labels}})
    await gone(world, kinds.RESOURCE_SLICE, "nobodys")


async def refuse_a_claim(world: World) -> None:
    """A pod that somebody bound by hand waits for its claim, and an event says so."""
    await world.create(claim("never", claim_spec(request(count=100))))
    body = pod("bound", claim="never")
    body["spec"]["nodeName"] = "h100-0"
    await world.create(body)

    async def is_told() -> bool:
        reasons = {each["reason"] for each in await world.all(kinds.EVENT)}
        return "FailedPrepareDynamicResources" in reasons

    await world.until(is_told, "an event about the claim")


async def lose_a_node(world: World) -> None:
    lost = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
    await world.client.patch(kinds.NODE, "h100-0", {"status": lost}, subresource="status")

    async def is_ready() -> bool:
        conditions = (await world.get(kinds.NODE, "h100-0"))["status"]["conditions"]
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in conditions
        )

    await world.until(is_ready, "the node being ready again")


async def break_a_device(world: World) -> None:
    annotations = {FAILED_ANNOTATION: "gpu-0"}
    await world.client.patch(kinds.NODE, "h100-0", {"metadata": {"annotations": annotations}})

    async def is_tainted() -> bool:
        slices = await has_slices(world, "h100-0")
        devices = [
            device for resource_slice in slices for device in resource_slice["spec"]["devices"]
        ]
        return any(device.get("taints") for device in devices)

    await world.until(is_tainted, "the device being tainted")


async def has_slices(world: World, node: str) -> list[JsonObject]:
    return await world.all(kinds.RESOURCE_SLICE, field_selector=f"spec.nodeName={node}")


async def gone(world: World, kind: kinds.Kind, name: str) -> None:
    async def is_gone() -> bool:
        return name not in {each["metadata"]["name"] for each in await world.all(kind)}

    await world.until(is_gone, f"{name} being gone")


async def run_twice(folder: Path, log: Path) -> None:
    """The second time the fleet has another size."""
    async with memory.open() as store:
        for nodes, story in ((1, get_up), (2, live_a_life)):
            plan = ClusterPlan(Settings(audit_log=log), fleet=fleets.load("h100", nodes=nodes))
            async with assembly.running(store, folder, plan) as running:
                await story(World(running, running.client()))


def test_no_component_is_refused_and_the_fleet_needs_all_its_rights(tmp_path: Path) -> None:
    log = tmp_path / "audit"
    asyncio.run(run_twice(tmp_path, log))
    asked = audit.read(log)
    assert audit.refused(asked) == set()
    assert {each.user for each in asked} >= {FLEET.name, *COMPONENTS}
    fleet = [each for each in asked if each.user == FLEET.name]
    used = {each.right for each in fleet}
    assert granted(bootstrap_policy.CLUSTER_ROLES[FLEET.name]) - used <= SELDOM
    for (namespace, _), rules in bootstrap_policy.ROLES.items():
        there = {each.right for each in fleet if each.namespace == namespace}
        assert granted(rules) - there == set()


@needs_sandbox
def test_real_nodes_are_refused_nothing_either(tmp_path: Path) -> None:
    log = tmp_path / "audit"

    async def story(here: Site) -> None:
        await here.world.create(template("t", claim_spec(request())))
        await here.world.create(pod("p", template="t"))
        await here.world.pod_phase("p", "Running")

    with_node(story, settings=Settings(audit_log=log))
    asked = audit.read(log)
    assert audit.refused(asked) == set()
    assert FLEET.name in {each.user for each in asked}


async def read_secrets(fleet: Client) -> None:
    await fleet.list(kinds.SECRET)


async def read_config_of_others(fleet: Client) -> None:
    await fleet.list(kinds.CONFIG_MAP, ObjectSelection("default"))


async def delete_a_namespace(fleet: Client) -> None:
    await fleet.delete(kinds.NAMESPACE, "default")


async def create_a_pod(fleet: Client) -> None:
    await fleet.create(kinds.POD, pod("p", claim="c"), "default")


async def allocate_a_claim(fleet: Client) -> None:
    await fleet.patch(kinds.RESOURCE_CLAIM, "c", {"status": {}}, "default", subresource="status")


async def become_an_administrator(fleet: Client) -> None:
    await fleet.delete(kinds.CLUSTER_ROLE_BINDING, "cluster-admin")


async def take_a_leaders_lease(fleet: Client) -> None:
    await fleet.patch(kinds.LEASE, "dray-scheduler", {"spec": {}}, "kube-system")


@pytest.mark.parametrize(
    "deed",
    [
        read_secrets,
        read_config_of_others,
        delete_a_namespace,
        create_a_pod,
        allocate_a_claim,
        become_an_administrator,
        take_a_leaders_lease,
    ],
    ids=lambda deed: deed.__name__,
)
def test_the_fleet_may_not(deed: Callable[[Client], Awaitable[None]], tmp_path: Path) -> None:
    async def try_it() -> None:
        async with memory.open() as store, assembly.running(store, tmp_path, NOTHING) as running:
            with pytest.raises(errors.Forbidden, match=FLEET.name):
                await deed(running.fleet_client)

    asyncio.run(try_it())
