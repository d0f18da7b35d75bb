"""StatefulSets and DaemonSets."""

from __future__ import annotations

from typing import Any

from dray.api.types.meta import JsonObject
from dray.controllers.workloads.daemonsets import DaemonSets
from dray.controllers.workloads.statefulsets import StatefulSets
from tests.unit.controllers import objects
from tests.unit.controllers.kubelet import NEVER_READY, Kubelet
from tests.unit.controllers.world import World, with_loops


def workload(kind: str, image: str = "pause:1", **spec: Any) -> JsonObject:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "db"},
        "spec": {
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
            **spec,
        },
    }


def stateful_set(**spec: Any) -> JsonObject:
    return workload("StatefulSet", serviceName="db", **spec)


async def names(here: World) -> list[str]:
    return [pod["metadata"]["name"] for pod in await here.list("pods")]


async def images(here: World) -> list[str]:
    return [pod["spec"]["containers"][0]["image"] for pod in await here.list("pods")]


async def set_image(here: World, kind: str, image: str) -> None:
    containers = [{"name": "c", "image": image}]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    await here.patch(kind, "db", patch)


@with_loops(StatefulSets, Kubelet)
async def test_pods_of_a_stateful_set_come_in_order_and_know_who_they_are(here: World) -> None:
    order: list[str] = []
    here.context.caches.pods.subscribe(
        lambda change: order.append(change.key.name) if not change.old else None
    )
    await here.create(stateful_set(replicas=3))

    async def ready() -> Any:
        return (await here.get("statefulsets", "db"))["status"].get("readyReplicas") == 3

    await here.until(ready)
    await here.settle()
    assert order == ["db-0", "db-1", "db-2"]
    pod = await here.get("pods", "db-1")
    assert pod["spec"]["hostname"] == "db-1"
    assert pod["spec"]["subdomain"] == "db"
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
    status = (await here.get("statefulsets", "db"))["status"]
    assert status["currentRevision"] == status["updateRevision"]
    assert (status["replicas"], status["updatedReplicas"], status["availableReplicas"]) == (3, 3, 3)


@with_loops(StatefulSets, Kubelet)
async def test_an_ordered_set_waits_for_the_pod_before(here: World) -> None:
    stuck = stateful_set(replicas=3)
    stuck["spec"]["template"]["metadata"]["annotations"] = {NEVER_READY: "yes"}
    await here.create(stuck)
    await here.settle()
    assert await names(here) == ["db-0"]


@with_loops(StatefulSets, Kubelet)
async def test_a_parallel_set_waits_for_nobody(here: World) -> None:
    stuck = stateful_set(replicas=3, podManagementPolicy="Parallel")
    stuck["spec"]["template"]["metadata"]["annotations"] = {NEVER_READY: "yes"}
    await here.create(stuck)
    await here.settle()
    assert await names(here) == ["db-0", "db-1", "db-2"]


@with_loops(StatefulSets, Kubelet)
async def test_a_stateful_set_shrinks_from_the_top_and_updates_down_to_the_partition(
    here: World,
) -> None:
    partition = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    await here.create(stateful_set(replicas=4, updateStrategy=partition))

    async def four() -> Any:
        return len(await names(here)) == 4

    await here.until(four)
    await here.settle()
    await here.patch("statefulsets", "db", {"spec": {"replicas": 3}})
    await here.settle()
    assert await names(here) == ["db-0", "db-1", "db-2"]
    await set_image(here, "statefulsets", "pause:2")

    async def updated() -> Any:
        return await images(here) == ["pause:1", "pause:2", "pause:2"]

    await here.until(updated)
    await here.settle()
    assert await images(here) == ["pause:1", "pause:2", "pause:2"]


@with_loops(DaemonSets, Kubelet)
async def test_every_node_that_will_have_it_gets_a_daemon(here: World) -> None:
    for name in ("a", "b", "c"):
        await here.create(objects.node(name))
    await here.patch("nodes", "c", {"spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]}})
    for name in ("a", "b"):
        await here.patch("nodes", name, {"spec": {"taints": None}})
    await here.settle()
    await here.create(workload("DaemonSet"))

    async def placed() -> Any:
        status = (await here.get("daemonsets", "db"))["status"]
        return status.get("numberAvailable") == 2 and status

    status = await here.until(placed)
    assert status["desiredNumberScheduled"] == 2
    targets = {
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ][0]["matchFields"][0]["values"][0]
        for pod in await here.list("pods")
    }
    assert targets == {"a", "b"}


@with_loops(DaemonSets, Kubelet)
async def test_a_daemon_set_follows_nodes_and_templates(here: World) -> None:
    await here.create(objects.node("a"))
    await here.patch("nodes", "a", {"spec": {"taints": None}})
    await here.create(workload("DaemonSet"))

    async def one() -> Any:
        return await images(here) == ["pause:1"]

    await here.until(one)
    await here.settle()
    await set_image(here, "daemonsets", "pause:2")

    async def rolled() -> Any:
        return await images(here) == ["pause:2"]

    await here.until(rolled)
    await here.delete("nodes", "a")

    async def gone() -> Any:
        return await names(here) == []

    await here.until(gone)


@with_loops(DaemonSets, Kubelet)
async def test_a_daemon_without_owner_is_adopted_and_not_doubled(here: World) -> None:
    await here.create(objects.node("a"))
    await here.patch("nodes", "a", {"spec": {"taints": None}})
    await here.create(workload("DaemonSet"))

    async def one() -> Any:
        return len(await names(here)) == 1

    await here.until(one)
    await here.settle()
    appeared: list[str] = []
    here.context.caches.pods.subscribe(
        lambda change: appeared.append(change.key.name) if not change.old else None
    )
    (name,) = await names(here)
    await here.overwrite("pods", name, lambda pod: pod["metadata"].pop("ownerReferences"))

    async def adopted() -> Any:
        return (await here.get("pods", name))["metadata"].get("ownerReferences")

    assert (await here.until(adopted))[0]["name"] == "db"
    await here.settle()
    assert appeared == [name]
