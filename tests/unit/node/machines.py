"""Simulated nodes in front of a real API server; tests play the scheduler."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from dray.api import features
from dray.api.ids import DeviceId
from dray.api.types.meta import JsonObject
from dray.client.api_client import ObjectSelection
from dray.clock import utc_now
from dray.drivers.simulated import fleet
from dray.drivers.simulated.fleet import FLEET_LABEL, Fleet
from dray.drivers.simulated.publisher import SimulatedDriver
from dray.node.registration import Registration
from dray.node.runtimes import simulated
from dray.node.simulated_agent import SimulatedAgent
from tests.unit.controllers import world
from tests.unit.controllers.world import World


@dataclass
class Machines:
    world: World
    fleet: Fleet
    registration: Registration
    driver: SimulatedDriver
    agent: SimulatedAgent

    async def pod(self, name: str, node: str, **spec: Any) -> JsonObject:
        """A pod that the scheduler has bound."""
        annotations = spec.pop("annotations", {})
        metadata = {"name": name, "annotations": annotations, **spec.pop("metadata", {})}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": [{"name": "main", "image": "none"}], **spec},
        }
        await self.world.create(body)
        await self.world.bind(name, node)
        return await self.world.get("pods", name)

    async def phase(self, name: str, phase: str) -> JsonObject:
        """Wait for a phase; the pod."""

        async def look() -> JsonObject | None:
            pod = await self.world.get("pods", name)
            return pod if pod["status"].get("phase") == phase else None

        found: JsonObject = await self.world.until(look, f"{name} to be {phase}")
        return found

    async def gone(self, name: str) -> None:
        async def look() -> bool:
            return await self.world.find("pods", name) is None

        await self.world.until(look, f"{name} to be gone")

    async def claim(self, name: str, device: DeviceId, *pods: JsonObject) -> JsonObject:
        """A claim that the scheduler has allocated and reserved."""
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [request]}},
        }
        await self.world.create(body)
        result = {"request": "gpu", **device._asdict()}
        return await self.world.set_status(
            "resourceclaims",
            name,
            {
                "allocation": {"devices": {"results": [result]}},
                "reservedFor": [
                    {"resource": "pods", "name": pod["metadata"]["name"], "uid": uid(pod)}
                    for pod in pods
                ],
            },
        )


def uid(document: JsonObject) -> str:
    found: str = document["metadata"]["uid"]
    return found


@contextlib.asynccontextmanager
async def running(here: World, loaded: Fleet) -> AsyncIterator[Machines]:
    ours = ObjectSelection(label_selector=f"{FLEET_LABEL}={loaded.name}")
    registration = Registration(
        here.client,
        loaded.nodes(),
        lease="machines",
        runtime=simulated.NAME,
        now=utc_now,
        selection=ours,
    )
    driver = SimulatedDriver(here.client, loaded, now=utc_now)
    agent = SimulatedAgent(here.client, registration.addresses, now=utc_now)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each.run()) for each in (registration, driver, agent)]
        made = Machines(here, loaded, registration, driver, agent)
        await here.until_true(lambda: registration.is_complete and driver.is_settled)
        await here.settle()
        yield made
        for task in tasks:
            task.cancel()


def with_fleet(
    name: str, nodes: int | None = None
) -> Callable[[Callable[[Machines], Awaitable[None]]], Callable[[], None]]:
    def decorate(test: Callable[[Machines], Awaitable[None]]) -> Callable[[], None]:
        @functools.wraps(test)
        def run() -> None:
            asyncio.run(_run())

        async def _run() -> None:
            async with (
                world.world([], features.DEFAULT, None) as here,
                running(here, fleet.load(name, nodes=nodes)) as machines,
            ):
                await test(machines)

        # pytest must not take the machines for a fixture.
        del run.__dict__["__wrapped__"]
        return run

    return decorate
