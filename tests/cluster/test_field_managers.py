"""Each component has a name of its own in managedFields, so that people see who wrote a field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dray.api import kinds
from dray.api.types.meta import JsonObject
from tests.cluster.site import Site, container, needs_sandbox, with_node
from tests.cluster.site import pod as real_pod
from tests.cluster.world import (
    CLASS,
    World,
    claim,
    claim_spec,
    pod,
    request,
    template,
    with_cluster,
)

FLEET, NODES = "dray-fleet", "dray-node"
CONTROLLERS, SCHEDULER = "dray-controller-manager", "dray-scheduler"


def managers(document: JsonObject) -> set[tuple[str, str]]:
    """Who wrote an object, and its status, as (manager, subresource)."""
    entries = document["metadata"]["managedFields"]
    return {(entry["manager"], entry.get("subresource", "")) for entry in entries}


def manager_of(document: JsonObject, *fields: str) -> set[str]:
    """Who manages a field, named by the keys on the way to it."""
    return {
        field["manager"]
        for field in document["metadata"]["managedFields"]
        if _holds(field["fieldsV1"], fields)
    }


def _holds(owned: Any, fields: tuple[str, ...]) -> bool:
    for field in fields:
        owned = owned.get(f"f:{field}")
        if owned is None:
            return False
    return True


def test_the_way_of_a_pod_shows_who_did_what(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.create(template("t", claim_spec(request())))
        await world.create(pod("p", template="t"))
        found = await world.pod_phase("p", "Running")
        assert manager_of(found, "spec", "containers") == {"dray"}
        assert manager_of(found, "status", "resourceClaimStatuses") == {CONTROLLERS}
        assert manager_of(found, "status", "phase") == {NODES}
        made = await world.get(kinds.RESOURCE_CLAIM, await world.claim_of("p"))
        assert manager_of(made, "spec", "devices") == {CONTROLLERS}
        assert manager_of(made, "status", "allocation") == {SCHEDULER}
        assert manager_of(made, "status", "reservedFor") == {SCHEDULER}

    with_cluster(story, tmp_path)


def test_what_a_fleet_publishes_is_its_drivers_and_its_nodes_are_nodes(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for each in await world.all(kinds.NODE):
            assert managers(each) == {(NODES, "")}
        for each in await world.all(kinds.RESOURCE_SLICE):
            assert managers(each) == {(each["spec"]["driver"], "")}
        assert managers(await world.get(kinds.DEVICE_CLASS, CLASS)) == {(FLEET, "")}

    with_cluster(story, tmp_path)


def test_a_pod_that_waits_was_told_so_by_the_scheduler(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.create(claim("c", claim_spec(request(count=100))))
        await world.create(pod("p", claim="c"))
        await world.unschedulable("p")
        assert manager_of(await world.get(kinds.POD, "p"), "status", "conditions") == {SCHEDULER}

    with_cluster(story, tmp_path)


@needs_sandbox
def test_a_real_node_its_driver_and_its_registration_do_not_share_a_name() -> None:
    async def story(here: Site) -> None:
        await here.world.create(real_pod("p", container("exec sleep 100")))
        found = await here.world.pod_phase("p", "Running")
        assert manager_of(found, "status", "phase") == {NODES}
        assert {name for name, _ in managers(await here.world.get(kinds.NODE, here.node))} == {
            NODES
        }
        for each in await here.world.all(kinds.RESOURCE_SLICE):
            assert managers(each) == {(each["spec"]["driver"], "")}

    with_node(story)
