"""The revisions of StatefulSets and DaemonSets: recorded, returned to, and cleaned up."""

from __future__ import annotations

from typing import Any

from dray.api import http_messages
from dray.api.types.meta import JsonObject
from dray.controllers.workloads.controller_revisions import short_hash
from dray.controllers.workloads.daemonsets import DaemonSets
from dray.controllers.workloads.statefulsets import StatefulSets
from tests.unit.controllers import objects
from tests.unit.controllers.kubelet import NEVER_READY, Kubelet
from tests.unit.controllers.world import World, with_loops

LABEL = "controller-revision-hash"


def workload(kind: str, **spec: Any) -> JsonObject:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "db"},
        "spec": {
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "c", "image": "web:1"}]},
            },
            **spec,
        },
    }


async def node(here: World, name: str) -> None:
    await here.create(objects.node(name))
    await here.patch("nodes", name, {"spec": {"taints": None}})


async def use(here: World, kind: str, image: str) -> None:
    containers = [{"name": "c", "image": image}]
    await here.patch(kind, "db", {"spec": {"template": {"spec": {"containers": containers}}}})


async def images(here: World) -> dict[str, str]:
    pods = await here.list("pods")
    return {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in pods}


async def come_to(here: World, *expected: str) -> None:
    """Wait until the pods, by name, have these images and nothing more happens."""

    async def has_come() -> bool:
        return list((await images(here)).values()) == list(expected)

    await here.until(has_come, f"{expected}")
    await here.settle()
    assert list((await images(here)).values()) == list(expected)


async def history(here: World) -> dict[int, str]:
    """The image of each revision."""
    return {
        each["revision"]: each["data"]["spec"]["template"]["spec"]["containers"][0]["image"]
        for each in sorted(
            await here.list("controllerrevisions"), key=lambda each: int(each["revision"])
        )
    }


async def revision_named(here: World, image: str) -> JsonObject:
    numbers = {image: number for number, image in (await history(here)).items()}
    revisions = await here.list("controllerrevisions")
    return next(revision for revision in revisions if revision["revision"] == numbers[image])


def test_the_hash_of_a_revision_is_the_one_kubernetes_computes() -> None:
    container = {
        "command": ["sh", "-c", "a && b < c > d"],
        "image": "web:1",
        "imagePullPolicy": "IfNotPresent",
        "name": "c",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    spec = {
        "terminationGracePeriodSeconds": 0,
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "containers": [container],
    }
    template = {"metadata": {"labels": {"app": "db"}}, "spec": spec, "$patch": "replace"}
    data = {"spec": {"template": template}}
    assert short_hash(data, 0) == "648d8df9d6"
    assert short_hash(data, 1) == "648d8df9d7"


@with_loops(StatefulSets, Kubelet)
async def test_a_stateful_set_records_each_template_once_and_returns_to_it(here: World) -> None:
    await here.create(workload("StatefulSet", replicas=2))
    await come_to(here, "web:1", "web:1")
    await use(here, "statefulsets", "web:2")
    await come_to(here, "web:2", "web:2")
    assert await history(here) == {1: "web:1", 2: "web:2"}
    first = await revision_named(here, "web:1")
    await here.patch(
        "statefulsets", "db", first["data"], patch_type=http_messages.STRATEGIC_MERGE_PATCH
    )
    await come_to(here, "web:1", "web:1")
    assert await history(here) == {2: "web:2", 3: "web:1"}
    status = (await here.get("statefulsets", "db"))["status"]
    name = first["metadata"]["name"]
    assert (status["currentRevision"], status["updateRevision"]) == (name, name)
    assert (status["currentReplicas"], status["collisionCount"]) == (2, 0)
    assert {pod["metadata"]["labels"][LABEL] for pod in await here.list("pods")} == {name}


@with_loops(DaemonSets, Kubelet)
async def test_a_daemon_set_records_each_template_once_and_returns_to_it(here: World) -> None:
    await node(here, "a")
    await here.create(workload("DaemonSet"))
    await come_to(here, "web:1")
    await use(here, "daemonsets", "web:2")
    await come_to(here, "web:2")
    await use(here, "daemonsets", "web:1")
    await come_to(here, "web:1")
    assert await history(here) == {2: "web:2", 3: "web:1"}
    (pod,) = await here.list("pods")
    labels = (await revision_named(here, "web:1"))["metadata"]["labels"]
    assert labels == {"app": "db", LABEL: pod["metadata"]["labels"][LABEL]}
    assert pod["metadata"]["labels"]["pod-template-generation"] == "3"


@with_loops(StatefulSets, Kubelet)
async def test_below_the_partition_a_lost_pod_comes_back_in_the_current_revision(
    here: World,
) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    await here.create(
        workload("StatefulSet", replicas=2, ordinals={"start": 5}, updateStrategy=rolling)
    )
    await come_to(here, "web:1", "web:1")
    await use(here, "statefulsets", "web:2")
    await come_to(here, "web:1", "web:2")
    lost = await here.get("pods", "db-5")
    await here.delete("pods", "db-5")

    async def is_new() -> bool:
        found = await here.find("pods", "db-5")
        return found is not None and found["metadata"]["uid"] != lost["metadata"]["uid"]

    await here.until(is_new)
    await come_to(here, "web:1", "web:2")
    status = (await here.get("statefulsets", "db"))["status"]
    assert status["currentRevision"] != status["updateRevision"]
    assert (status["currentReplicas"], status["updatedReplicas"]) == (1, 1)


@with_loops(StatefulSets, Kubelet)
async def test_a_rolling_update_without_numbers_replaces_every_pod(here: World) -> None:
    body = workload("StatefulSet", replicas=3, updateStrategy={"type": "RollingUpdate"})
    body["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 0
    await here.create(body)
    await come_to(here, "web:1", "web:1", "web:1")
    await use(here, "statefulsets", "web:2")
    await come_to(here, "web:2", "web:2", "web:2")
    status = (await here.get("statefulsets", "db"))["status"]
    assert status["currentRevision"] == status["updateRevision"]


@with_loops(StatefulSets, Kubelet)
async def test_on_delete_updates_only_what_the_user_deletes(here: World) -> None:
    await here.create(workload("StatefulSet", replicas=2, updateStrategy={"type": "OnDelete"}))
    await come_to(here, "web:1", "web:1")
    await use(here, "statefulsets", "web:2")
    await come_to(here, "web:1", "web:1")
    await here.delete("pods", "db-0")
    await come_to(here, "web:2", "web:1")


@with_loops(StatefulSets, Kubelet)
async def test_a_parallel_set_replaces_at_once_the_pods_that_are_down(here: World) -> None:
    stuck = workload("StatefulSet", replicas=3, podManagementPolicy="Parallel")
    stuck["spec"]["template"]["metadata"]["annotations"] = {NEVER_READY: "yes"}
    await here.create(stuck)
    await come_to(here, "web:1", "web:1", "web:1")
    template = {"metadata": {"annotations": {NEVER_READY: None}}}
    await here.patch("statefulsets", "db", {"spec": {"template": template}})
    await use(here, "statefulsets", "web:2")
    await come_to(here, "web:2", "web:2", "web:2")


@with_loops(StatefulSets, Kubelet)
async def test_of_revisions_that_nothing_uses_only_the_newest_are_kept(here: World) -> None:
    await here.create(workload("StatefulSet", replicas=1, revisionHistoryLimit=1))
    await come_to(here, "web:1")
    for number in (2, 3, 4):
        await use(here, "statefulsets", f"web:{number}")
        await come_to(here, f"web:{number}")
    assert await history(here) == {3: "web:3", 4: "web:4"}


@with_loops(DaemonSets, Kubelet)
async def test_a_daemon_set_keeps_a_revision_that_a_pod_is_of(here: World) -> None:
    await node(here, "a")
    on_delete = {"type": "OnDelete"}
    await here.create(workload("DaemonSet", revisionHistoryLimit=0, updateStrategy=on_delete))
    await come_to(here, "web:1")
    for number in (2, 3):
        await use(here, "daemonsets", f"web:{number}")
        await here.settle()
    assert await history(here) == {1: "web:1", 3: "web:3"}
    assert list((await images(here)).values()) == ["web:1"]


@with_loops(StatefulSets, Kubelet)
async def test_a_name_that_is_taken_is_counted_and_passed_over(here: World) -> None:
    await here.create(workload("StatefulSet", replicas=1))
    await come_to(here, "web:1")
    taken = (await revision_named(here, "web:1"))["metadata"]["name"]

    def to_strangers(revision: JsonObject) -> None:
        del revision["metadata"]["ownerReferences"], revision["metadata"]["labels"]
        revision["data"] = {"spec": {}}

    await here.overwrite("controllerrevisions", taken, to_strangers)

    async def collisions() -> Any:
        return (await here.get("statefulsets", "db"))["status"].get("collisionCount")

    assert await here.until(collisions) == 1
    await here.settle()
    revisions = {each["metadata"]["name"] for each in await here.list("controllerrevisions")}
    assert len(revisions) == 2
    pod = await here.get("pods", "db-0")
    assert {pod["metadata"]["labels"][LABEL]} == revisions - {taken}


@with_loops(StatefulSets, Kubelet)
async def test_a_set_adopts_the_revisions_its_predecessor_left(here: World) -> None:
    await here.create(workload("StatefulSet", replicas=1))
    await come_to(here, "web:1")
    await use(here, "statefulsets", "web:2")
    await come_to(here, "web:2")
    left = await history(here)
    for revision in await here.list("controllerrevisions"):
        name = revision["metadata"]["name"]
        await here.overwrite(
            "controllerrevisions", name, lambda each: each["metadata"].pop("ownerReferences")
        )
    await here.settle()
    await use(here, "statefulsets", "web:1")
    await come_to(here, "web:1")
    assert await history(here) == {2: left[2], 3: left[1]}
    for revision in await here.list("controllerrevisions"):
        assert revision["metadata"]["ownerReferences"][0]["name"] == "db"


@with_loops(StatefulSets, Kubelet)
async def test_a_default_that_is_new_makes_no_revision(here: World) -> None:
    await here.create(workload("StatefulSet", replicas=1))
    await come_to(here, "web:1")
    before = await here.get("pods", "db-0")

    def without_defaults(revision: JsonObject) -> None:
        template = revision["data"]["spec"]["template"]
        del template["spec"]["dnsPolicy"], template["spec"]["containers"][0]["resources"]
        template["metadata"]["creationTimestamp"] = None

    (revision,) = await here.list("controllerrevisions")
    await here.overwrite("controllerrevisions", revision["metadata"]["name"], without_defaults)
    await here.patch("statefulsets", "db", {"metadata": {"annotations": {"seen": "again"}}})
    await here.settle()
    assert await history(here) == {1: "web:1"}
    assert (await here.get("pods", "db-0"))["metadata"]["uid"] == before["metadata"]["uid"]
    await use(here, "statefulsets", "web:2")
    await come_to(here, "web:2")
    assert await history(here) == {1: "web:1", 2: "web:2"}
