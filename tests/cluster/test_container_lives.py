"""Pods in real containers from their start to their end: order, probes, hooks, restarts."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dray.api import kinds
from dray.api.types.meta import JsonObject
from tests.cluster.site import Site, container, needs_sandbox, pod, with_node

pytestmark = needs_sandbox


def test_a_failing_container_ends_its_pod_with_its_code() -> None:
    async def story(here: Site) -> None:
        await here.world.create(pod("p", container("exit 3"), restartPolicy="Never"))
        found = await here.world.pod_phase("p", "Failed")
        state = found["status"]["containerStatuses"][0]["state"]
        assert (state["terminated"]["exitCode"], state["terminated"]["reason"]) == (3, "Error")

    with_node(story)


def test_pods_that_are_deleted_while_they_start_leave_nothing() -> None:
    async def story(here: Site) -> None:
        for number in range(12):
            name = f"p{number}"
            await here.world.create(pod(name, container("exec sleep 100")))
            # Each a little later: before it has a node, while its container starts, when it runs.
            await asyncio.sleep(number * 0.008)
            await here.delete(name)

    with_node(story)


def test_environment_volumes_and_init_containers() -> None:
    async def story(here: Site) -> None:
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
        await here.world.create({**config, "data": {"greeting": "hello", "NAME": "x"}})
        mounts = [
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "config", "mountPath": "/config", "readOnly": True},
        ]
        volumes = [
            {"name": "scratch", "emptyDir": {}},
            {"name": "config", "configMap": {"name": "c"}},
        ]
        env = [
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "WHO", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "NAME"}}},
            {"name": "BOTH", "value": "$(POD)-$(WHO)"},
        ]
        first = container("echo from-init > /scratch/f", "first", volumeMounts=mounts)
        script = "cat /scratch/f; cat /config/greeting; echo; echo $BOTH; pwd; hostname"
        main = container(script, volumeMounts=mounts, env=env, workingDir="/scratch")
        body = pod("p", main, initContainers=[first], volumes=volumes, restartPolicy="Never")
        await here.world.create(body)
        await here.world.pod_phase("p", "Succeeded")
        assert (await here.log("p")).split() == ["from-init", "hello", "p-x", "/scratch", "p"]

    with_node(story)


def ready(document: JsonObject) -> str:
    conditions = document["status"].get("conditions", ())
    return "".join(condition["status"] for condition in conditions if condition["type"] == "Ready")


def test_a_readiness_probe_decides_when_a_pod_is_ready() -> None:
    async def story(here: Site) -> None:
        probe = {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1}
        await here.world.create(pod("p", container("exec sleep 100", readinessProbe=probe)))
        assert ready(await here.world.pod_phase("p", "Running")) == "False"
        await here.execute("p", "touch", "/tmp/ready")

        async def is_ready() -> bool:
            return ready(await here.world.get(kinds.POD, "p")) == "True"

        await here.world.until(is_ready, "the pod being ready")

    with_node(story)


def test_a_liveness_probe_restarts_a_container_that_hangs() -> None:
    async def story(here: Site) -> None:
        action = {"exec": {"command": ["test", "!", "-e", "/tmp/hung"]}}
        probe = {**action, "periodSeconds": 1, "failureThreshold": 1}
        main = container("touch /tmp/hung; exec sleep 100", livenessProbe=probe)
        await here.world.create(pod("p", main))

        async def restarted() -> bool:
            found = (await here.world.get(kinds.POD, "p"))["status"].get("containerStatuses", [{}])[
                0
            ]
            return bool(found.get("restartCount"))

        await here.world.until(restarted, "the container being restarted")
        assert (await here.event("Liveness probe")).startswith("Liveness probe failed")

    with_node(story)


def test_hooks_run_after_the_start_and_before_the_end() -> None:
    async def story(here: Site) -> None:
        mounts = [{"name": "data", "mountPath": "/data"}]
        say = ["/bin/sh", "-c", "echo $0 >> /data/said"]
        hooks = {
            "postStart": {"exec": {"command": [*say, "hello"]}},
            "preStop": {"exec": {"command": [*say, "goodbye"]}},
        }
        script = "trap 'cat /data/said; exit 0' TERM; echo up; while :; do sleep 0.05; done"
        main = container(script, volumeMounts=mounts, lifecycle=hooks)
        held = {"finalizers": ["example.com/held"]}
        body = pod("p", main, volumes=[{"name": "data", "emptyDir": {}}])
        body["metadata"] |= held
        await here.world.create(body)

        async def is_ready() -> bool:
            return ready(await here.world.get(kinds.POD, "p")) == "True"

        await here.world.until(is_ready, "the pod being ready")
        uid = (await here.world.get(kinds.POD, "p"))["metadata"]["uid"]
        said = here.node_folder / "pods" / uid / "volumes" / "data" / "said"
        assert said.read_text("utf-8") == "hello\n"
        await here.world.client.delete(kinds.POD, "p", "default", {"gracePeriodSeconds": 10})
        await here.world.until(lambda: contains(said, "goodbye"), "the hook before the end")
        await here.world.client.patch(kinds.POD, "p", {"metadata": {"finalizers": None}}, "default")

    with_node(story)


async def contains(path: Path, text: str) -> bool:
    return text in path.read_text("utf-8")


def test_deletion_is_graceful_and_waits_for_the_container() -> None:
    async def story(here: Site) -> None:
        script = "trap 'echo bye > /data/bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"
        await here.world.create(pod("p", container(script)))
        await here.output("p")
        await here.world.client.delete(kinds.POD, "p", "default", {"gracePeriodSeconds": 20})
        await here.gone("p")

    with_node(story)


def test_many_pods_at_once_all_run_and_all_go() -> None:
    async def story(here: Site) -> None:
        names = [f"p{number}" for number in range(40)]
        for name in names:
            await here.world.create(pod(name, container("echo up; exec sleep 100")))
        for name in names:
            await here.world.pod_phase(name, "Running")

    with_node(story)
