"""StatefulSets and DaemonSets that change their template while their pods hold devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dray.api import kinds
from dray.api.types.meta import JsonObject
from tests.cluster.world import World, claim_spec, pod_spec, request, template, with_cluster


def workload(kind: str, **spec: Any) -> JsonObject:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "serve"},
        "spec": {
            "selector": {"matchLabels": {"app": "serve"}},
            "template": {
                "metadata": {"labels": {"app": "serve"}},
                "spec": {**pod_spec(template="one"), "terminationGracePeriodSeconds": 0},
            },
            **spec,
        },
    }


async def use(world: World, kind: kinds.Kind, image: str) -> None:
    containers = [{**pod_spec(template="one")["containers"][0], "image": image}]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    await world.client.patch(kind, "serve", patch, "default")


async def images_of_ready(world: World) -> list[str]:
    """What the pods run, in the order of their names."""

    def is_ready(pod: JsonObject) -> bool:
        conditions = pod["status"].get("conditions", ())
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in conditions
        )

    pods = [pod for pod in await world.all(kinds.POD) if is_ready(pod)]
    pods.sort(key=lambda pod: str(pod["metadata"]["name"]))
    return [pod["spec"]["containers"][0]["image"] for pod in pods]


async def revisions(world: World) -> dict[int, str]:
    return {
        each["revision"]: each["data"]["spec"]["template"]["spec"]["containers"][0]["image"]
        for each in await world.all(kinds.CONTROLLER_REVISION)
    }


def test_a_stateful_set_rolls_down_to_its_canary_and_back(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.create(template("one", claim_spec(request())))
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
        await world.create(workload("StatefulSet", replicas=3, updateStrategy=rolling))
        await world.come_to(lambda: images_of_ready(world), ["busybox"] * 3)
        await use(world, kinds.STATEFUL_SET, "busybox:2")
        await world.come_to(lambda: images_of_ready(world), ["busybox", "busybox", "busybox:2"])
        lost = await world.get(kinds.POD, "serve-0")
        await world.client.delete(kinds.POD, "serve-0", "default")

        async def is_new() -> bool:
            pods = await world.all(kinds.POD)
            return any(
                pod["metadata"]["name"] == "serve-0"
                and pod["metadata"]["uid"] != lost["metadata"]["uid"]
                for pod in pods
            )

        await world.until(is_new, "serve-0 coming back")
        await world.come_to(lambda: images_of_ready(world), ["busybox", "busybox", "busybox:2"])
        await use(world, kinds.STATEFUL_SET, "busybox")
        await world.come_to(lambda: images_of_ready(world), ["busybox"] * 3)
        await world.come_to(lambda: revisions(world), {2: "busybox:2", 3: "busybox"})

    with_cluster(story, tmp_path, nodes=1)


def test_a_daemon_set_surges_and_returns(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.create(template("one", claim_spec(request())))
        surge = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
        await world.create(workload("DaemonSet", updateStrategy=surge))
        nodes = len(await world.all(kinds.NODE))
        await world.come_to(lambda: images_of_ready(world), ["busybox"] * nodes)
        await use(world, kinds.DAEMON_SET, "busybox:2")
        await world.come_to(lambda: images_of_ready(world), ["busybox:2"] * nodes)
        await use(world, kinds.DAEMON_SET, "busybox")
        await world.come_to(lambda: images_of_ready(world), ["busybox"] * nodes)
        await world.come_to(lambda: revisions(world), {2: "busybox:2", 3: "busybox"})

    with_cluster(story, tmp_path, nodes=2)
