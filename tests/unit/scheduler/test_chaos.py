"""Random streams of events, lost answers and restarts: nothing leaks, and whoever can run runs."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from dray.api import errors
from dray.api import features as gates
from dray.api.http_messages import Request, Response
from dray.api.types.meta import JsonObject
from dray.apiserver.app import status_response
from dray.client.api_client import Client, InProcessTransport
from dray.scheduler import queue, scheduler
from dray.scheduler.claims import claim_writes
from tests import rounds, virtualtime
from tests.unit.scheduler.world import (
    SCHEDULER,
    World,
    claim,
    device_class,
    exactly,
    gpu_slice,
    node,
    pod,
    template,
    world,
)

STEPS = 60
FEATURES = gates.DEFAULT


class Chaos:
    """Does random things to a world, from a seed."""

    def __init__(self, here: World, seed: int) -> None:
        self._world = here
        self._random = random.Random(seed)
        self._made = 0

    async def step(self) -> None:
        actions: list[Callable[[], Awaitable[None]]] = [
            self._add_pod, self._add_pod, self._add_pod, self._share_claim, self._remove_pod,
            self._remove_pod, self._toggle_node, self._change_slice, self._cordon,
        ]  # fmt: skip
        with contextlib.suppress(errors.StatusError):
            await self._random.choice(actions)()
        if self._random.random() < 0.5:
            await asyncio.sleep(self._random.random() * 0.01)

    async def answer(
        self, request: Request, proceed: Callable[[], Awaitable[Response]]
    ) -> Response:
        """Some writes are lost before, some after they were done."""
        if request.method == "GET" or self._random.random() > 0.1:
            return await proceed()
        if self._random.random() < 0.5:
            return status_response(errors.service_unavailable("lost on the way there"))
        await proceed()
        return status_response(errors.timeout("lost on the way back"))

    def _name(self, prefix: str) -> str:
        self._made += 1
        return f"{prefix}-{self._made}"

    async def _add_pod(self) -> None:
        choice = self._random.choice(["one", "two", "none"])
        name = self._name("pod")
        requests = {"cpu": str(self._random.randint(1, 8))}
        if choice == "none":
            await self._world.create(pod(name, requests=requests))
        else:
            await self._world.create(pod(name, template_name=choice, requests=requests))

    async def _share_claim(self) -> None:
        name = self._name("shared")
        await self._world.create(claim(name))
        for _ in range(self._random.randint(1, 3)):
            await self._world.create(pod(self._name("pod"), name))

    async def _remove_pod(self) -> None:
        pods = await self._world.all("pods", "default")
        if pods:
            await self._world.remove_pod(self._random.choice(pods)["metadata"]["name"])

    async def _toggle_node(self) -> None:
        name = f"node-{self._random.randrange(4)}"
        names = {each["metadata"]["name"] for each in await self._world.all("nodes")}
        if name not in names:
            await self._world.create(node(name, cpu="16"))
        elif self._random.random() < 0.3:
            await self._world.delete("nodes", name)

    async def _change_slice(self) -> None:
        name = f"node-{self._random.randrange(4)}"
        await self._world.delete("resourceslices", f"{name}-gpus")
        await self._world.create(gpu_slice(name, self._random.randint(1, 4)))

    async def _cordon(self) -> None:
        name = f"node-{self._random.randrange(4)}"
        cordoned = self._random.random() < 0.3
        await self._world.patch("nodes", name, {"spec": {"unschedulable": cordoned}})


@contextlib.asynccontextmanager
async def another_scheduler(here: World) -> AsyncIterator[None]:
    client = Client(InProcessTransport(here.answer_scheduler, SCHEDULER))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(scheduler.run(client, features=FEATURES))
        yield
        task.cancel()


def devices_held(claims: list[JsonObject]) -> list[tuple[str, str]]:
    return [
        (result["pool"], result["device"])
        for each in claims
        for result in each["status"].get("allocation", {}).get("devices", {}).get("results", ())
    ]


async def check(here: World) -> None:
    pods = {each["metadata"]["uid"]: each for each in await here.all("pods", "default")}
    claims = await here.all("resourceclaims", "default")
    held = devices_held(claims)
    assert len(held) == len(set(held)), "a device is held twice"
    for each in claims:
        reserved = each["status"].get("reservedFor", ())
        for consumer in reserved:
            user = pods.get(consumer["uid"])
            assert user is not None, (
                f"{each['metadata']['name']} is reserved for a pod that is gone"
            )
            assert user["spec"].get("nodeName"), "reserved for a pod without a node"
        assert bool(reserved) == ("allocation" in each["status"]), "allocated for nobody"
    for each in pods.values():
        if each["spec"].get("nodeName"):
            for source in each["spec"].get("resourceClaims", ()):
                used = [
                    known
                    for known in claims
                    if any(
                        consumer["uid"] == each["metadata"]["uid"]
                        for consumer in known["status"].get("reservedFor", ())
                    )
                ]
                assert used, f"{each['metadata']['name']} runs without {source}"


async def bound_pods(here: World) -> set[str]:
    pods = await here.all("pods", "default")
    return {each["metadata"]["name"] for each in pods if each["spec"].get("nodeName")}


async def quiet(here: World) -> None:
    """Wait until nobody is ready or backing off, and nobody writes any more."""

    async def is_quiet() -> bool:
        figures = here.registry.render()
        states = (queue.READY, queue.BACKING_OFF, queue.IN_PROGRESS)
        return all(f'queue_pods{{state="{state}"}} 0' in figures for state in states)

    await here.until(is_quiet)
    await here.settle()
    await here.until(is_quiet)
    await asyncio.sleep(queue.MAX_BACKOFF_SECONDS)
    await here.settle()


async def resting(here: World) -> set[str]:
    """Wait until nobody gets a node any more, and what others free is used; who has one."""
    before: set[str] | None = None
    while True:
        await quiet(here)
        bound = await bound_pods(here)
        if bound == before:
            return bound
        before = bound


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(20, long=1000))
def test_chaos(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_writes, "FIRST_RETRY_SECONDS", 0.002)

    async def run() -> None:
        async with world(features=FEATURES) as here:
            await here.create(device_class(), template("one"), template("two", exactly(count=2)))
            chaos = Chaos(here, seed)
            here.intercept = chaos.answer
            for _ in range(STEPS):
                await chaos.step()
            here.intercept = None
            before = await resting(here)
            await check(here)
            async with another_scheduler(here):
                after = await resting(here)
            await check(here)
            assert after == before, "somebody was forgotten"

    virtualtime.run(run())
