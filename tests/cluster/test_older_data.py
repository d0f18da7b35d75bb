"""A data directory of an older dray opens: pods, claims and devices are kept, and it goes on."""

from __future__ import annotations

import tarfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from dray.api import kinds
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.cluster import assembly
from dray.cluster.assembly import ClusterPlan
from dray.drivers.simulated import fleet as fleets
from dray.node.runtimes import sandbox, simulated
from dray.store import sqlite
from tests.cluster.site import container, from_template, needs_sandbox, on_folder, pod
from tests.cluster.world import World, sound
from tests.recorded import CORPUS

RECORDED_PATH = b"@DATA@"
"""Stands in the archives for the path of the data directory."""
NODE = "gpu-0"
RUNNING = {"first", "second", "own"}
HELD = {"shared": "gpu-0/gpu-0", "own": "gpu-0/gpu-1"}


def unpack(name: str, folder: Path) -> None:
    """Restore a recorded data directory as if it had always been in `folder`."""
    with tarfile.open(CORPUS / "data" / f"{name}-42293c0.tar.gz") as archive:
        for member in archive:
            target = folder / member.name
            content = archive.extractfile(member)
            if content is None:
                target.mkdir(exist_ok=True)
                continue
            text = content.read()
            if target.suffix == ".json":
                text = text.replace(RECORDED_PATH, str(folder).encode())
            target.write_bytes(text)
            target.chmod(member.mode)


def reopened(runtime: str, name: str, test: Callable[[World], Awaitable[None]]) -> None:
    """Run a test on a cluster that was started on a recorded data directory."""

    async def run(folder: Path) -> None:
        unpack(name, folder)
        plan = ClusterPlan(fleet=fleets.load("quickstart"), runtime=runtime)
        async with (
            sqlite.open(folder / "store.db") as store,
            assembly.running(store, folder, plan) as running,
        ):
            await test(World(running, running.client()))

    on_folder(run)


async def pods_by_name(world: World) -> dict[str, Pod]:
    pods = [msgspec.convert(document, Pod) for document in await world.all(kinds.POD)]
    return {item.metadata.name: item for item in pods}


async def devices(world: World) -> dict[str, str]:
    """The device of each claim, by the names in HELD."""
    own = await world.claim_of("own")
    names = {"shared": "shared", "own": own}
    return {name: " ".join(await world.devices_of(claim)) for name, claim in names.items()}


async def everything_is_kept(world: World) -> None:
    pods = await pods_by_name(world)
    web = {name for name in pods if name.startswith("web-")}
    assert set(pods) == RUNNING | web | {"finished", "pending"}
    assert len(web) == 2
    assert pods["finished"].status.phase == "Succeeded"
    assert pods["pending"].status.phase == "Pending"
    assert {pods[name].spec.node_name for name in RUNNING | web} == {NODE}
    assert await devices(world) == HELD
    shared = await world.get(kinds.RESOURCE_CLAIM, "shared")
    consumers = {consumer["uid"] for consumer in shared["status"]["reservedFor"]}
    assert consumers == {pods[name].metadata.uid for name in ("first", "second")}
    for name in sorted(RUNNING | web):
        await world.pod_phase(name, "Running")
    uids = {name: item.metadata.uid for name, item in (await pods_by_name(world)).items()}
    assert uids == {name: item.metadata.uid for name, item in pods.items()}


async def it_goes_on(world: World) -> None:
    """A new pod gets a device that is free, and a deleted one gives its device back."""
    newest = max(int(document["metadata"]["resourceVersion"]) for document in await objects(world))
    main = container("exec sleep 100", claims=["gpu"])
    created = await world.create(pod("new", main, claims=[from_template("gpu", "one-gpu")]))
    assert int(created["metadata"]["resourceVersion"]) > newest
    await world.pod_phase("new", "Running")
    taken = await world.devices_of(await world.claim_of("new"))
    assert set(taken).isdisjoint(HELD.values())
    own = await world.claim_of("own")
    await world.client.delete(kinds.POD, "own", "default")

    async def is_given_back() -> bool:
        claims = {claim["metadata"]["name"] for claim in await world.all(kinds.RESOURCE_CLAIM)}
        return own not in claims

    await world.until(is_given_back, "the claim of a deleted pod being gone")
    await sound(world)


async def objects(world: World) -> list[JsonObject]:
    return [*await world.all(kinds.POD), *await world.all(kinds.RESOURCE_CLAIM)]


def test_simulated_pods_go_on() -> None:
    async def test(world: World) -> None:
        await everything_is_kept(world)
        restarts = [
            status.restart_count
            for item in (await pods_by_name(world)).values()
            for status in item.status.container_statuses
        ]
        assert set(restarts) == {0}
        await it_goes_on(world)

    reopened(simulated.NAME, "simulated", test)


@needs_sandbox
def test_pods_in_sandboxes_are_started_again_with_the_claims_that_were_prepared() -> None:
    async def test(world: World) -> None:
        await everything_is_kept(world)

        async def has_restarted() -> bool:
            (main,) = (await pods_by_name(world))["first"].status.container_statuses
            return main.restart_count == 1 and main.state.running is not None

        # Its process was lost with the computer on which it was recorded.
        await world.until(has_restarted, "the container of `first` being started again")
        prepared = {claim.uid: set(claim.pods) for claim in world.cluster.prepared_claims()}
        pods = await pods_by_name(world)
        shared = await world.get(kinds.RESOURCE_CLAIM, "shared")
        own = await world.get(kinds.RESOURCE_CLAIM, await world.claim_of("own"))
        assert prepared == {
            shared["metadata"]["uid"]: {pods[name].metadata.uid for name in ("first", "second")},
            own["metadata"]["uid"]: {pods["own"].metadata.uid},
        }
        await it_goes_on(world)

    reopened(sandbox.NAME, "sandbox", test)
