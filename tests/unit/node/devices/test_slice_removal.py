"""The ResourceSlices of drivers that cannot be called: removed after a while, and not before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import msgspec

from dray.api import errors
from dray.client.api_client import ListPage, ObjectSelection
from dray.node.devices.slice_removal import DELAY_SECONDS, RETRY_SECONDS, SliceRemoval
from tests import virtualtime

DRIVER = "gpu.example.com"


class FakeDrivers:
    def __init__(self) -> None:
        self.names: list[str] = []
        self.usable_names: set[str] = set()
        self.changed = asyncio.Event()

    def set(self, *usable: str, registered: Iterable[str] = ()) -> None:
        self.usable_names = set(usable)
        self.names = [*usable, *registered]
        self.changed.set()
        self.changed = asyncio.Event()


class FakeClient:
    """Has slices of some drivers. `failures` are raised by the next requests."""

    def __init__(self, *published: str) -> None:
        self.published = published
        self.failures: list[Exception] = []
        self.removed: list[tuple[float, str]] = []

    async def pages(
        self, _kind: object, selection: ObjectSelection, *, limit: int
    ) -> AsyncIterator[ListPage]:
        assert (selection.field_selector, limit > 0) == ("spec.nodeName=n1", True)
        self._fail()
        for driver in self.published:
            item = msgspec.json.encode({"spec": {"driver": driver, "nodeName": "n1"}})
            yield ListPage(items=[msgspec.Raw(item)])

    async def delete_collection(self, _kind: object, selection: ObjectSelection) -> None:
        self._fail()
        self.removed.append((asyncio.get_running_loop().time(), selection.field_selector))

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


SELECTOR = f"spec.nodeName=n1,spec.driver={DRIVER}"


def following(
    test: Callable[[FakeClient, FakeDrivers], Awaitable[None]], *published: str, failures: int = 0
) -> None:
    async def run() -> None:
        client, drivers = FakeClient(*published), FakeDrivers()
        client.failures = [errors.ServiceUnavailable("later") for _ in range(failures)]
        untyped: tuple[Any, Any] = (client, drivers)
        task = asyncio.create_task(SliceRemoval(untyped[0], "n1", untyped[1]).run())
        await asyncio.sleep(0)
        await test(client, drivers)
        task.cancel()
        await asyncio.wait({task})

    virtualtime.run(run())


def test_slices_are_removed_some_time_after_the_driver_went() -> None:
    async def test(client: FakeClient, drivers: FakeDrivers) -> None:
        drivers.set(DRIVER)
        await asyncio.sleep(1000)
        assert client.removed == []
        drivers.set()
        await asyncio.sleep(DELAY_SECONDS - 1)
        assert client.removed == []
        await asyncio.sleep(1000)
        assert client.removed == [(1000 + DELAY_SECONDS, SELECTOR)]

    following(test)


def test_a_driver_that_comes_back_in_time_keeps_its_slices() -> None:
    async def test(client: FakeClient, drivers: FakeDrivers) -> None:
        for _ in range(3):
            drivers.set(DRIVER)
            await asyncio.sleep(10)
            drivers.set()
            await asyncio.sleep(DELAY_SECONDS - 1)
        drivers.set(DRIVER)
        await asyncio.sleep(1000)
        assert client.removed == []

    following(test)


def test_a_registered_driver_without_a_connection_is_not_usable() -> None:
    async def test(client: FakeClient, drivers: FakeDrivers) -> None:
        drivers.set(DRIVER)
        await asyncio.sleep(10)
        drivers.set(registered=[DRIVER])
        await asyncio.sleep(20)
        # Another change does not give it more time.
        drivers.set("other.example.com", registered=[DRIVER])
        await asyncio.sleep(1000)
        assert client.removed == [(10 + DELAY_SECONDS, SELECTOR)]

    following(test)


def test_slices_that_were_published_without_a_connection_are_removed_with_the_driver() -> None:
    async def test(client: FakeClient, drivers: FakeDrivers) -> None:
        drivers.set(registered=[DRIVER])
        await asyncio.sleep(100)
        drivers.set()
        await asyncio.sleep(1000)
        times = [time for time, _ in client.removed]
        assert times == [DELAY_SECONDS, 100 + DELAY_SECONDS]

    following(test)


def test_slices_that_a_starting_agent_finds_are_removed_unless_the_driver_registers() -> None:
    async def test(client: FakeClient, drivers: FakeDrivers) -> None:
        drivers.set("other.example.com")
        await asyncio.sleep(1000)
        assert client.removed == [(DELAY_SECONDS, SELECTOR)]

    following(test, DRIVER, "other.example.com")


def test_a_removal_that_fails_is_tried_again_until_the_driver_is_usable() -> None:
    async def test(client: FakeClient, drivers: FakeDrivers) -> None:
        await asyncio.sleep(RETRY_SECONDS)
        client.failures = [errors.ServiceUnavailable("later")]
        await asyncio.sleep(1000)
        assert client.removed == [(2 * RETRY_SECONDS + DELAY_SECONDS, SELECTOR)]

    following(test, DRIVER, failures=1)
