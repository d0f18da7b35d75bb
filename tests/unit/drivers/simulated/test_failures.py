"""The simulated driver publishes a fleet and breaks devices on command."""

from __future__ import annotations

from dray.api.ids import DeviceId
from dray.api.types.meta import JsonObject
from tests.unit.node.machines import Machines, with_fleet

GPU = DeviceId("gpu.nvidia.com", "l4-0", "gpu-0")
SLICE = "l4-0-gpu.nvidia.com"


async def taints(here: Machines, name: str = SLICE) -> list[JsonObject]:
    found = await here.world.get("resourceslices", name)
    return [taint for device in found["spec"]["devices"] for taint in device.get("taints", ())]


async def until_tainted(here: Machines, effects: list[str]) -> None:
    async def look() -> bool:
        return [taint["effect"] for taint in await taints(here)] == effects

    await here.world.until(look, f"taints {effects}")


@with_fleet("h100")
async def test_every_slice_and_class_of_the_fleet_is_published(here: Machines) -> None:
    published = await here.world.list("resourceslices")
    wanted = {resource_slice.metadata.name for resource_slice in here.fleet.slices()}
    assert {each["metadata"]["name"] for each in published} == wanted
    classes = {each["metadata"]["name"] for each in await here.world.list("deviceclasses")}
    assert classes == {"gpu.nvidia.com", "mig.nvidia.com", "dra.net", "rdma.dra.net"}


@with_fleet("network-attached")
async def test_pools_without_a_node_are_published(here: Machines) -> None:
    published = await here.world.list("resourceslices")
    pools = {each["spec"]["pool"]["name"] for each in published}
    assert pools == {"fabric-zone-a", "fabric-everywhere"}


@with_fleet("l4")
async def test_slices_belong_to_their_node_and_go_with_it(here: Machines) -> None:
    found = await here.world.get("resourceslices", SLICE)
    (owner,) = found["metadata"]["ownerReferences"]
    node = await here.world.get("nodes", "l4-0")
    assert (owner["kind"], owner["uid"]) == ("Node", node["metadata"]["uid"])
    await here.world.delete("nodes", "l4-0")

    async def gone() -> bool:
        return await here.world.find("resourceslices", SLICE) is None

    await here.world.until(gone)
    assert len(await here.world.list("resourceslices")) == 7


@with_fleet("l4")
async def test_a_failed_device_is_tainted_until_it_recovers(here: Machines) -> None:
    here.driver.fail(GPU)
    await until_tainted(here, ["NoExecute"])
    (taint,) = await taints(here)
    assert taint["key"] == "gpu.nvidia.com/unhealthy"
    assert taint["timeAdded"]
    here.driver.recover(GPU)
    await until_tainted(here, [])


@with_fleet("l4")
async def test_an_annotation_of_the_node_breaks_a_device(here: Machines) -> None:
    broken = {"dray.dev/failed-devices": "gpu-0:NoSchedule"}
    await here.world.patch("nodes", "l4-0", {"metadata": {"annotations": broken}})
    await until_tainted(here, ["NoSchedule"])
    repaired = {"dray.dev/failed-devices": None}
    await here.world.patch("nodes", "l4-0", {"metadata": {"annotations": repaired}})
    await until_tainted(here, [])


@with_fleet("l4")
async def test_a_slice_that_somebody_deletes_comes_back(here: Machines) -> None:
    await here.world.delete("resourceslices", SLICE)

    async def back() -> bool:
        return await here.world.find("resourceslices", SLICE) is not None

    await here.world.until(back)


@with_fleet("l4")
async def test_a_slice_that_somebody_changes_is_put_right(here: Machines) -> None:
    found = await here.world.get("resourceslices", SLICE)
    devices = found["spec"]["devices"]
    await here.world.patch("resourceslices", SLICE, {"spec": {"devices": [{"name": "fake"}]}})

    async def right() -> bool:
        now = await here.world.get("resourceslices", SLICE)
        return bool(now["spec"]["devices"] == devices)

    await here.world.until(right)
