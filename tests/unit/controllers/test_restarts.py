"""Loops are killed at any moment and started again: nothing is made twice, nothing is left over."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter

import pytest

from dray.api import errors
from dray.controllers import manager
from tests import rounds
from tests.unit.controllers import objects
from tests.unit.controllers.devices.test_claims import FINALIZER
from tests.unit.controllers.jobs.test_jobs import finished, job
from tests.unit.controllers.kubelet import Kubelet
from tests.unit.controllers.world import World, with_loops

pytestmark = pytest.mark.random

LOOPS = ("claims", "jobs", "garbage", "deployments", "replicasets")
ROUNDS = 40
DEATHS = 10
"""So often the loops are killed at least."""


async def lives_and_deaths(here: World, seed: int, is_over: asyncio.Event) -> None:
    """Run the loops, kill them after a random moment, and again."""
    chance, deaths = random.Random(seed), 0
    while deaths < DEATHS or not is_over.is_set():
        running = asyncio.create_task(manager.run(here.context.client, only=LOOPS))
        await asyncio.sleep(chance.uniform(0.0, 0.05))
        await end(running)
        deaths += 1
    await manager.run(here.context.client, only=LOOPS)


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def user_and_scheduler(here: World, seed: int) -> None:
    """Pods come, get devices, end and go, some of them at a bad moment."""
    chance = random.Random(seed)
    alive: list[str] = []
    for number in range(ROUNDS):
        name = f"p{number}"
        await here.create(objects.pod(name, template="one-gpu", claim="shared"))
        alive.append(name)
        await asyncio.sleep(chance.uniform(0.0, 0.01))
        await allocate_some(here, chance)
        if chance.random() < 0.4:
            victim = alive.pop(chance.randrange(len(alive)))
            await here.delete("pods", victim, gracePeriodSeconds=0)
        elif chance.random() < 0.5:
            await here.set_status("pods", chance.choice(alive), {"phase": "Succeeded"})


async def allocate_some(here: World, chance: random.Random) -> None:
    for claim in await here.list("resourceclaims"):
        owners = claim["metadata"].get("ownerReferences")
        if not owners or claim["status"].get("allocation") or chance.random() < 0.5:
            continue
        name = claim["metadata"]["name"]
        reserved = {"resource": "pods", "name": owners[0]["name"], "uid": owners[0]["uid"]}
        status = {"allocation": objects.allocation(name), "reservedFor": [reserved]}
        with contextlib.suppress(errors.NotFound, errors.Conflict, errors.Invalid):
            await here.patch("resourceclaims", name, {"metadata": {"finalizers": [FINALIZER]}})
            await here.set_status("resourceclaims", name, status)


@pytest.mark.parametrize("seed", rounds.seeds(10, long=500))
def test_claims_survive_restarts(seed: int) -> None:
    async def test(here: World) -> None:
        await here.create(objects.claim_template())
        await here.create(objects.claim("shared"))
        is_over = asyncio.Event()
        lives = asyncio.create_task(lives_and_deaths(here, seed, is_over))
        await user_and_scheduler(here, seed)
        is_over.set()

        async def in_order() -> bool:
            pods = {pod["metadata"]["uid"]: pod for pod in await here.list("pods")}
            active = {uid for uid, pod in pods.items() if pod["status"]["phase"] == "Pending"}
            owners = Counter(
                claim["metadata"]["ownerReferences"][0]["uid"]
                for claim in await here.list("resourceclaims")
                if claim["metadata"]["name"] != "shared"
            )
            return owners == Counter(active)

        await here.until(in_order, "one claim for each pod that needs one")
        await end(lives)

    with_loops()(test)()


@pytest.mark.parametrize("seed", rounds.seeds(10, long=500))
def test_jobs_count_right_across_restarts(seed: int) -> None:
    async def test(here: World) -> None:
        is_over = asyncio.Event()
        lives = asyncio.create_task(lives_and_deaths(here, seed, is_over))
        await here.create(job(completions=12, parallelism=3))
        is_over.set()
        found = await finished(here)
        assert found["status"]["succeeded"] == 12
        assert len(await here.list("pods")) == 12
        await end(lives)

    with_loops(Kubelet)(test)()
