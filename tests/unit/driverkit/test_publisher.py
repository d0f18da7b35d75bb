"""Desired pools and the slices that are published for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from dray.api import features, kinds
from dray.api.http_messages import Request, Response
from dray.api.ids import PoolId
from dray.api.types.dra import Device, DeviceTaint
from dray.api.types.meta import JsonObject
from dray.client.api_client import ObjectSelection, Transport
from dray.driverkit import driver
from dray.driverkit.pool_layout import PublishedPool
from dray.driverkit.publisher import PoolToPublish, Publisher
from tests.unit.controllers import world
from tests.unit.controllers.world import World

DRIVER = "gpu.example.com"
POOL = PoolId(DRIVER, "n1")


class LateResponses:
    """A transport over which the event of a write comes before the response to it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(self, request: Request) -> Response:
        response = await self._transport.send(request)
        if request.method != "GET":
            for _ in range(10):
                await asyncio.sleep(0)
        return response


class Published:
    """A pool that a test changes, and what is published of it."""

    def __init__(self, here: World) -> None:
        self.here = here
        self.offers: dict[PoolId, PoolToPublish] = {}
        ours = ObjectSelection(field_selector=f"spec.driver={DRIVER}")
        self.described: list[PoolId] = []
        client = here.client.wrapped(LateResponses)
        self.publisher = Publisher(client, self._describe, selection=ours)

    def _describe(self, pool: PoolId) -> PoolToPublish | None:
        self.described.append(pool)
        return self.offers.get(pool)

    async def offer(self, *devices: Device) -> list[JsonObject]:
        self.offers[POOL] = PoolToPublish(PublishedPool(DRIVER, "n1", devices, node_name="n1"))
        return await self.settle()

    async def settle(self) -> list[JsonObject]:
        self.publisher.refresh(POOL)
        await self.here.until_true(lambda: self.publisher.is_settled)
        await self.here.settle()
        found = await self.here.list("resourceslices")
        return sorted(found, key=lambda each: str(each["metadata"]["name"]))


def run(test: Callable[[Published], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with world.world([], features.DEFAULT, None) as here:
            published = Published(here)
            async with asyncio.TaskGroup() as group:
                task = group.create_task(published.publisher.run())
                await test(published)
                task.cancel()

    asyncio.run(inside())


def devices(count: int) -> list[Device]:
    return [driver.device(f"gpu-{number:03}", index=number) for number in range(count)]


def pool_of(document: JsonObject) -> tuple[int, int]:
    pool = document["spec"]["pool"]
    return pool["generation"], pool["resourceSliceCount"]


def tainted(device: Device) -> Device:
    taint = DeviceTaint(key="k", effect="NoSchedule")
    return Device(name=device.name, attributes=device.attributes, taints=(taint,))


def test_a_pool_appears_changes_and_goes() -> None:
    async def test(published: Published) -> None:
        (only,) = await published.offer(*devices(2))
        assert len(only["spec"]["devices"]) == 2
        (only,) = await published.offer(*devices(3))
        assert len(only["spec"]["devices"]) == 3
        published.offers.clear()
        assert await published.settle() == []

    run(test)


def test_publishing_the_same_again_writes_nothing() -> None:
    async def test(published: Published) -> None:
        await published.offer(*devices(200))
        assert await published.here.writes(published.offer(*devices(200))) == 0

    run(test)


def test_devices_that_move_between_slices_make_a_new_generation() -> None:
    async def test(published: Published) -> None:
        before = await published.offer(*devices(200))
        assert [pool_of(each) for each in before] == [(1, 2), (1, 2)]
        after = await published.offer(*devices(300))
        assert [pool_of(each) for each in after] == [(2, 3)] * 3

    run(test)


def test_a_change_inside_one_slice_keeps_the_generation() -> None:
    async def test(published: Published) -> None:
        some = devices(70)
        some[0] = tainted(some[0])
        before = await published.offer(*some)
        some[1] = tainted(some[1])
        after = await published.offer(*some)
        assert [pool_of(each) for each in after] == [pool_of(each) for each in before]
        assert len([device for device in after[0]["spec"]["devices"] if device.get("taints")]) == 2
        assert before[1]["metadata"] == after[1]["metadata"]

    run(test)


def test_a_pool_that_shrinks_loses_its_other_slices() -> None:
    async def test(published: Published) -> None:
        await published.offer(*devices(200))
        (only,) = await published.offer(*devices(5))
        assert pool_of(only) == (2, 1)

    run(test)


def test_what_a_dead_process_left_is_taken_over() -> None:
    async def test(published: Published) -> None:
        await published.offer(*devices(2))
        successor = Published(published.here)
        successor.offers[POOL] = PoolToPublish(
            PublishedPool(DRIVER, "n1", tuple(devices(2)), node_name="n1")
        )
        async with asyncio.TaskGroup() as group:
            task = group.create_task(successor.publisher.run())
            assert await published.here.writes(successor.settle()) == 0
            task.cancel()

    run(test)


def test_slices_of_other_drivers_are_left_alone() -> None:
    async def test(published: Published) -> None:
        foreign = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "foreign"},
            "spec": {
                "driver": "nic.example.com",
                "nodeName": "n1",
                "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "nic-0"}],
            },
        }
        await published.here.create(foreign)
        names = [each["metadata"]["name"] for each in await published.offer(*devices(1))]
        assert names == ["foreign", "n1-gpu.example.com"]

    run(test)


def test_a_pool_becomes_whole_though_the_cache_showed_a_part_of_it() -> None:
    async def test(published: Published) -> None:
        await published.offer(*devices(300))
        cache = published.publisher._slices
        current = cache.find
        stale = [current("pool", POOL)[:1]]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cache, "find", lambda *asked: stale.pop() if stale else current(*asked))
            found = await published.settle()
        assert stale == []
        assert len(found) == 3
        assert len({pool_of(each) for each in found}) == 1

    run(test)


def test_a_pool_is_described_once_for_what_is_written() -> None:
    async def test(published: Published) -> None:
        await published.offer(*devices(2))
        published.described.clear()
        await published.offer(*devices(3))
        assert published.described == [POOL]

    run(test)


def test_a_slice_that_another_client_changes_meanwhile_is_restored() -> None:
    async def test(published: Published) -> None:
        (only,) = await published.offer(*devices(2))
        name = only["metadata"]["name"]

        async def interfere() -> None:
            await published.here.client.patch(
                kinds.RESOURCE_SLICE, name, {"spec": {"devices": [{"name": "other"}]}}
            )

        async with asyncio.TaskGroup() as group:
            group.create_task(interfere())
            (only,) = await published.offer(*devices(3))
        (only,) = await published.settle()
        names = [device["name"] for device in only["spec"]["devices"]]
        assert names == ["gpu-000", "gpu-001", "gpu-002"]

    run(test)
