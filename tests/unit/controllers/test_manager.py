"""All loops together, started and elected."""

from __future__ import annotations

import asyncio
import functools

import pytest

from dray.api import features as gates
from dray.client.lease import Timing
from dray.controllers import manager
from tests.unit.controllers import objects
from tests.unit.controllers.workloads.test_deployments import deployment
from tests.unit.controllers.world import World, with_loops


def test_gates_decide_which_loops_there_are() -> None:
    names = manager.chosen((), gates.DEFAULT)
    assert "claims" in names
    assert "pool-status" not in names
    assert manager.chosen(("taints", "claims"), gates.DEFAULT) == ["claims", "taints"]


def test_a_name_no_loop_has_is_refused() -> None:
    with pytest.raises(manager.UnknownLoop, match="unknown controllers: clams"):
        manager.chosen(("clams",), gates.DEFAULT)


@with_loops()
async def test_every_loop_starts_and_a_claim_is_made(here: World) -> None:
    started = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(manager.run(here.context.client, started=started))
        async with asyncio.timeout(10):
            await started.wait()
        await here.create(objects.claim_template())
        await here.create(objects.pod("p", template="one-gpu"))
        await here.create(deployment())

        async def made() -> bool:
            return len(await here.list("pods")) == 5 and bool(await here.list("resourceclaims"))

        await here.until(made)
        running.cancel()


@with_loops()
async def test_only_the_leader_works(here: World) -> None:
    timing = Timing(duration_seconds=1.0, deadline_seconds=0.6, retry_seconds=0.05)
    async with asyncio.TaskGroup() as group:
        client = here.context.client
        work = functools.partial(manager.run, client, only=("claims",))
        tasks = [
            group.create_task(
                manager.run_elected(manager.candidate(client, name, timing=timing), work)
            )
            for name in ("a", "b")
        ]

        async def holder() -> str:
            lease = await here.find("leases", "dray-controllers", "kube-system")
            return str(lease["spec"].get("holderIdentity", "")) if lease else ""

        leader = await here.until(holder)
        tasks[("a", "b").index(leader)].cancel()

        async def moved() -> bool:
            return await holder() not in ("", leader)

        await here.until(moved)
        await here.create(objects.claim_template())
        await here.create(objects.pod("p", template="one-gpu"))

        async def made() -> bool:
            return bool(await here.list("resourceclaims"))

        await here.until(made)
        for task in tasks:
            task.cancel()
