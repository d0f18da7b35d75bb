"""Waiting for the devices of a fleet: they are there when the wait ends, and it has a limit."""

from __future__ import annotations

from dray.drivers.simulated import publication, scaling
from dray.drivers.simulated.fleet import Fleet
from tests.unit.node.machines import Machines, with_fleet

LONG, SHORT = 60.0, 0.05


async def is_published(here: Machines, fleet: Fleet, seconds: float) -> bool:
    return await publication.wait_until_published(here.world.client, fleet, seconds)


@with_fleet("network-attached")
async def test_pools_of_nodes_and_pools_without_a_node_are_waited_for(here: Machines) -> None:
    for each in await here.world.list("resourceslices"):
        await here.world.delete("resourceslices", each["metadata"]["name"])
    assert await is_published(here, here.fleet, LONG)
    published = await here.world.list("resourceslices")
    wanted = {(pool.driver, pool.name) for pool in here.fleet.pools()}
    found = {(each["spec"]["driver"], each["spec"]["pool"]["name"]) for each in published}
    assert found == wanted


@with_fleet("l4", nodes=2)
async def test_what_nobody_publishes_is_not_waited_for_longer_than_the_limit(
    here: Machines,
) -> None:
    assert not await is_published(here, scaling.scaled(here.fleet, 3), SHORT)


@with_fleet("l4", nodes=2)
async def test_the_requested_size_counts_and_not_that_of_the_file(here: Machines) -> None:
    loaded = scaling.scaled(here.fleet, 3)
    await here.world.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": scaling.name_of(loaded.name), "namespace": scaling.NAMESPACE},
            "data": {scaling.MADE_FOR: "3", scaling.NODES: "2"},
        },
        namespace=scaling.NAMESPACE,
    )
    assert await is_published(here, loaded, LONG)
    assert not await is_published(here, scaling.scaled(loaded, 4), SHORT)
