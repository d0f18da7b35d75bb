"""Real containers when something goes wrong: agents end, drivers fail, pods vanish."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path

import pytest

from dray.api import kinds
from dray.api.types.meta import JsonObject
from dray.cluster import assembly
from dray.cluster.assembly import ClusterPlan
from dray.driverkit import sockets
from dray.drivers.simulated import faults
from dray.drivers.simulated import fleet as fleets
from dray.node.containers import container_attempts, pod_sandboxes
from dray.node.pods import pod_preparation
from dray.store import memory
from tests.cluster.site import (
    LIST,
    Site,
    container,
    from_template,
    needs_sandbox,
    on_folder,
    pod,
    running,
    template,
    with_node,
)
from tests.cluster.world import CLASS, World

pytestmark = needs_sandbox


def waiting_pod(script: str, claims: tuple[str, ...] = ("gpu",), **spec: object) -> JsonObject:
    """A pod that goes on when somebody puts a file into its volume."""
    mounts = [{"name": "go", "mountPath": "/go"}]
    waits = "while [ ! -e /go/on ]; do sleep 0.05; done"
    main = container(f"{LIST}; {waits}; {script}", claims=claims, volumeMounts=mounts)
    volumes = [{"name": "go", "emptyDir": {}}]
    return pod("p", main, claims=[*map(from_template, claims)], volumes=volumes, **spec)


def let_go_on(here: Site, made: JsonObject) -> None:
    (here.node_folder / "pods" / made["metadata"]["uid"] / "volumes" / "go" / "on").touch()


async def exists(path: Path) -> bool:
    return os.path.exists(path)


def test_the_next_agent_finds_what_ended_meanwhile() -> None:
    async def story(folder: Path) -> None:
        async with memory.open() as store:
            async with running(store, folder, keeps_pods=True) as here:
                await here.world.create(template("t"))
                script = "echo last words; exit 3"
                made = await here.world.create(waiting_pod(script, restartPolicy="Never"))
                await here.output("p")
            let_go_on(here, made)
            attempt = here.container_folder(made) / "0"
            await here.world.until(lambda: exists(attempt / "exit.json"), "the container ending")
            async with running(store, folder) as here:
                found = await here.world.pod_phase("p", "Failed")
                state = found["status"]["containerStatuses"][0]["state"]["terminated"]
                assert state["exitCode"] == 3
                assert (await here.log("p")).splitlines()[-1] == "last words"
                await here.empty()

    on_folder(story)


def test_the_next_agent_goes_on_with_what_still_runs() -> None:
    async def story(folder: Path) -> None:
        async with memory.open() as store:
            async with running(store, folder, keeps_pods=True) as here:
                await here.world.create(template("t"))
                made = await here.world.create(waiting_pod("echo went on; exec sleep 100"))
                before = await here.output("p")
            async with running(store, folder) as here:
                let_go_on(here, made)
                assert await here.output("p", lines=2) == f"{before}went on\n"
                outcome, printed, _ = await here.execute("p", "nvidia-smi", "-L")
                assert (outcome.code, printed.decode()) == (0, before)
                status = (await here.world.get(kinds.POD, "p"))["status"]["containerStatuses"][0]
                assert status["restartCount"] == 0
                await here.empty()

    on_folder(story)


def test_containers_are_stopped_with_the_cluster_and_started_again_with_the_next() -> None:
    async def story(folder: Path) -> None:
        async with memory.open() as store:
            async with running(store, folder) as here:
                await here.world.create(pod("p", container("echo up; exec sleep 100")))
                await here.output("p")
            assert here.left()[1:] == []
            async with running(store, folder) as here:

                async def again() -> bool:
                    (status,) = (await here.world.get(kinds.POD, "p"))["status"][
                        "containerStatuses"
                    ]
                    return bool(status["restartCount"] == 1 and "running" in status["state"])

                await here.world.until(again, "the container being started again")
                await here.empty()

    on_folder(story)


def test_what_a_pod_left_that_vanished_meanwhile_is_cleaned_up() -> None:
    async def story(folder: Path) -> None:
        async with memory.open() as store:
            async with running(store, folder, keeps_pods=True) as here:
                await here.world.create(template("t"))
                main = container("echo up; exec sleep 100", claims=["gpu"])
                made = await here.world.create(pod("p", main, claims=[from_template("gpu")]))
                await here.output("p")
            attempt = container_attempts.last_attempt(here.container_folder(made))
            assert attempt is not None
            assert attempt.exit() is None
            await here.delete("p", 0)
            await here.gone("p")

            async def has_ended() -> bool:
                return pod_sandboxes.born(attempt.pid) < 0

            async with running(store, folder) as here:
                await here.empty()
                await here.world.until(has_ended, "the end of the shim")

    on_folder(story)


def test_a_missing_driver_is_named_in_an_event_and_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The driver would create its socket again before a slow agent has missed it.
    monkeypatch.setattr(sockets, "LOOK_SECONDS", math.inf)

    async def story(here: Site) -> None:
        await here.world.create(template("t"))
        machines = here.world.cluster.nodes
        assert machines is not None
        drivers = machines.agent(here.node).drivers
        socket = here.node_folder / "registry" / f"{CLASS}-reg.sock"
        aside = socket.with_name("aside")

        async def has_driver() -> bool:
            return drivers.find(CLASS) is not None

        async def no_driver() -> bool:
            return drivers.find(CLASS) is None

        # A registration that is under way would still succeed without the socket.
        await here.world.until(has_driver, "the driver being registered")
        socket.rename(aside)
        await here.world.until(no_driver, "the driver being forgotten")
        main = container(LIST, claims=["gpu"])
        claims = [from_template("gpu")]
        await here.world.create(pod("p", main, claims=claims, restartPolicy="Never"))
        note = await here.event("is not registered")
        claim = await here.world.claim_of("p")
        assert note.startswith(
            f"driver {CLASS} is not registered on this node, and claim default/{claim} needs it; "
            "next try in"
        )
        aside.rename(socket)
        await here.world.pod_phase("p", "Succeeded")

    with_node(story)


def test_a_driver_that_dies_while_it_prepares_is_named_and_tried_again() -> None:
    async def story(here: Site) -> None:
        await here.world.create(template("t"))
        crash = {"metadata": {"annotations": {faults.CRASH_ANNOTATION: "true"}}}
        await here.world.client.patch(kinds.NODE, here.node, crash)
        main = container(f"{LIST}; exec sleep 100", claims=["gpu"])
        await here.world.create(pod("p", main, claims=[from_template("gpu")]))
        note = await here.event("next try in")
        claim = await here.world.claim_of("p")
        assert f"driver {CLASS}" in note
        assert f"claim default/{claim}" in note
        healed = {"metadata": {"annotations": {faults.CRASH_ANNOTATION: None}}}
        await here.world.client.patch(kinds.NODE, here.node, healed)
        await here.world.pod_phase("p", "Running")
        assert "UUID" in await here.output("p")

    with_node(story)


def test_a_driver_that_is_slow_is_named_while_it_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(here: Site) -> None:
        await here.world.create(template("t"))
        slow = {"metadata": {"annotations": {faults.SLOW_ANNOTATION: "1s"}}}
        await here.world.client.patch(kinds.NODE, here.node, slow)
        main = container("exec sleep 100", claims=["gpu"])
        await here.world.create(pod("p", main, claims=[from_template("gpu")]))
        note = await here.event("no answer")
        claim = await here.world.claim_of("p")
        assert note.startswith(f"driver {CLASS}: NodePrepareResources of claim default/{claim}")
        await here.world.pod_phase("p", "Running")

    monkeypatch.setattr(pod_preparation, "SLOW_SECONDS", 0.1)
    with_node(story)


def test_a_claim_that_is_reserved_for_another_pod_is_refused() -> None:
    async def story(here: Site) -> None:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await here.world.create(account)
        requests = [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]
        claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        spec = {"devices": {"requests": requests}}
        await here.world.create({**claim, "metadata": {"name": "c"}, "spec": spec})
        result = {"request": "gpu", "driver": CLASS, "pool": here.node, "device": "gpu-0"}
        owner = {"resource": "pods", "name": "thief", "uid": "of-another-thief"}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [owner]}
        patch = {"status": status}
        await here.world.client.patch(
            kinds.RESOURCE_CLAIM, "c", patch, "default", subresource="status"
        )
        main = container("exec sleep 100", claims=["gpu"])
        thief = pod("thief", main, claims=[{"name": "gpu", "resourceClaimName": "c"}])
        thief["spec"]["nodeName"] = here.node
        await here.world.create(thief)
        note = await here.event("is not allowed to use ResourceClaim c")
        assert note.startswith("pod thief (")
        assert (await here.world.get(kinds.POD, "thief"))["status"]["phase"] == "Pending"

    with_node(story, controls=False)


def test_a_pod_that_is_active_for_too_long_fails() -> None:
    async def story(here: Site) -> None:
        await here.world.create(pod("p", container("exec sleep 100"), activeDeadlineSeconds=1))
        found = await here.world.pod_phase("p", "Failed")
        assert found["status"]["reason"] == "DeadlineExceeded"

    with_node(story)


def test_the_image_is_ignored_and_that_is_said() -> None:
    async def story(here: Site) -> None:
        await here.world.create(pod("p", container("exec sleep 100")))
        found = await here.world.pod_phase("p", "Running")
        assert found["status"]["containerStatuses"][0]["imageID"] == "sandbox://image-ignored"
        assert "has no images" in await here.event("The sandbox")

    with_node(story)


@pytest.mark.parametrize(("allowed", "expected"), [(False, ""), (True, "hello")])
def test_the_files_of_the_host_are_seen_only_where_that_is_allowed(
    allowed: bool, expected: str
) -> None:
    async def story(here: Site) -> None:
        shown = here.folder / "shown"
        shown.mkdir()
        (shown / "f").write_text("hello", "utf-8")
        mounts = [{"name": "host", "mountPath": "/host"}]
        main = container("cat /host/f; echo; exec sleep 100", volumeMounts=mounts)
        volumes = [{"name": "host", "hostPath": {"path": str(shown)}}]
        await here.world.create(pod("p", main, volumes=volumes))
        if expected:
            assert (await here.output("p")).strip() == expected
        else:
            assert "hostPath needs --allow-host-access" in await here.event("volume host")

    with_node(story, allows_host=allowed)


@pytest.mark.slow  # Two hundred sandboxes on few processors.
def test_two_hundred_pods_at_once_all_run_and_leave_nothing() -> None:
    async def story(here: Site) -> None:
        await here.world.create(template("t"))
        names = [f"p{number}" for number in range(200)]
        for number, name in enumerate(names):
            claims = ["gpu"] if number % 13 == 0 else []
            main = container("echo up; exec sleep 100", claims=claims)
            await here.world.create(pod(name, main, claims=[*map(from_template, claims)]))

        async def all_run() -> bool:
            phases = [each["status"].get("phase") for each in await here.world.all(kinds.POD)]
            return phases == ["Running"] * len(names)

        for _ in range(5):
            with contextlib.suppress(AssertionError):
                await here.world.until(all_run, "all pods running")
                break
        assert await all_run()
        await here.empty()
        await here.world.come_to(lambda: here.world.all(kinds.RESOURCE_CLAIM), [])

    with_node(story, nodes=2)


def test_a_fleet_may_be_real_now_and_in_name_only_next_time() -> None:
    async def story(folder: Path) -> None:
        async with memory.open() as store:
            async with running(store, folder) as here:
                slices = {
                    each["metadata"]["name"] for each in await here.world.all(kinds.RESOURCE_SLICE)
                }
            plan = ClusterPlan(fleet=fleets.load("h100", nodes=1))
            async with assembly.running(store, folder, plan) as made:
                world = World(made, made.client())

                async def is_in_name() -> bool:
                    info = (await world.get(kinds.NODE, here.node))["status"]["nodeInfo"]
                    return bool(info["containerRuntimeVersion"] == "none://1")

                await world.until(is_in_name, "the node running pods in name only")
                found = await world.all(kinds.RESOURCE_SLICE)
                assert {each["metadata"]["name"] for each in found} == slices
            async with running(store, folder) as here:
                await here.world.create(pod("p", container("echo up; exec sleep 100")))
                assert await here.output("p") == "up\n"
                await here.empty()

    on_folder(story)
