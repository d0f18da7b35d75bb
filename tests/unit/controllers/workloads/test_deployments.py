"""Deployments and ReplicaSets against the real API server."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.templates.workload_types import Deployment, ReplicaSet
from dray.api.types.meta import JsonObject
from dray.controllers.status_patches import decode
from dray.controllers.workloads import rollouts
from dray.controllers.workloads.deployments import Deployments
from dray.controllers.workloads.replicasets import ReplicaSets
from tests.unit.controllers import objects
from tests.unit.controllers.kubelet import NEVER_READY, Kubelet
from tests.unit.controllers.world import Clock, World, with_loops

LOOPS = (Deployments, ReplicaSets, Kubelet)


def deployment(
    name: str = "web", replicas: int = 4, image: str = "pause:1", **spec: Any
) -> JsonObject:
    containers = [{"name": "c", "image": image}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "containers": containers,
                    "volumes": [{"name": "v", "nfs": {"server": "s", "path": "/p"}}],
                },
            },
            **spec,
        },
    }


async def rolled_out(here: World, name: str = "web") -> JsonObject:
    async def check() -> Any:
        found = await here.get("deployments", name)
        status, wanted = found.get("status", {}), found["spec"]["replicas"]
        counts = ("replicas", "updatedReplicas", "availableReplicas")
        is_done = all(status.get(count, 0) == wanted for count in counts)
        is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
        return found if is_done and is_seen else None

    await here.until(check, "the rollout")
    await here.settle()
    return await here.get("deployments", name)


def condition(found: JsonObject, type_: str) -> JsonObject:
    return next(each for each in found["status"]["conditions"] if each["type"] == type_)


async def set_image(here: World, image: str, name: str = "web") -> None:
    containers = [{"name": "c", "image": image}]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    await here.patch("deployments", name, patch)


@with_loops(*LOOPS)
async def test_a_deployment_makes_one_replica_set_with_all_its_pods(here: World) -> None:
    await here.create(deployment())
    found = await rolled_out(here)
    assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
    assert condition(found, "Available")["reason"] == "MinimumReplicasAvailable"
    progressing = condition(found, "Progressing")
    (replica_set,) = await here.list("replicasets")
    name = replica_set["metadata"]["name"]
    assert progressing["reason"] == "NewReplicaSetAvailable"
    assert progressing["message"] == f'ReplicaSet "{name}" has successfully progressed.'
    hashed = name.removeprefix("web-")
    assert replica_set["spec"]["selector"]["matchLabels"] == {
        "app": "web",
        "pod-template-hash": hashed,
    }
    assert replica_set["metadata"]["annotations"] == {
        "deployment.kubernetes.io/desired-replicas": "4",
        "deployment.kubernetes.io/max-replicas": "5",
        "deployment.kubernetes.io/revision": "1",
    }
    pods = await here.list("pods")
    assert len(pods) == 4
    owner = pods[0]["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("ReplicaSet", name)
    assert owner["blockOwnerDeletion"] is True
    assert pods[0]["metadata"]["generateName"] == f"{name}-"
    assert pods[0]["spec"]["volumes"][0]["nfs"] == {"server": "s", "path": "/p"}


@with_loops(*LOOPS)
async def test_a_quiet_deployment_writes_nothing(here: World) -> None:
    await here.create(deployment())
    await rolled_out(here)

    async def nothing() -> None:
        here.context.caches.deployments.subscribe(lambda change: None)

    assert await here.writes(nothing()) == 0


@with_loops(*LOOPS)
async def test_a_new_image_rolls_within_surge_and_availability(here: World) -> None:
    await here.create(deployment(replicas=6))
    await rolled_out(here)
    most, fewest = 0, 100

    def watch_counts(_: Any) -> None:
        nonlocal most, fewest
        pods = [
            pod
            for pod in here.context.caches.pods
            if not pod.metadata.deletion_timestamp and pod.status.phase != "Succeeded"
        ]
        most = max(most, len(pods))
        fewest = min(fewest, sum(pod.status.phase == "Running" for pod in pods))

    here.context.caches.pods.subscribe(watch_counts)
    most, fewest = 0, 100
    await set_image(here, "pause:2")
    found = await rolled_out(here)
    assert most <= 6 + 2
    assert fewest >= 6 - 1
    assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    sizes = sorted(each["spec"]["replicas"] for each in await here.list("replicasets"))
    assert sizes == [0, 6]
    images = {each["spec"]["containers"][0]["image"] for each in await here.list("pods")}
    assert images == {"pause:2"}


@with_loops(*LOOPS)
async def test_going_back_revives_the_old_replica_set(here: World) -> None:
    await here.create(deployment(replicas=2))
    await rolled_out(here)
    await set_image(here, "pause:2")
    await rolled_out(here)
    await set_image(here, "pause:1")
    found = await rolled_out(here)
    assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
    sets = await here.list("replicasets")
    assert len(sets) == 2
    current = next(set_ for set_ in sets if set_["spec"]["replicas"])
    annotations = current["metadata"]["annotations"]
    assert annotations["deployment.kubernetes.io/revision-history"] == "1"


@with_loops(*LOOPS)
async def test_scaling_changes_the_size_and_nothing_else(here: World) -> None:
    await here.create(deployment(replicas=2))
    await rolled_out(here)
    await here.patch("deployments", "web", {"spec": {"replicas": 5}})
    found = await rolled_out(here)
    assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
    assert len(await here.list("pods")) == 5
    await here.patch("deployments", "web", {"spec": {"replicas": 1}})
    await rolled_out(here)
    assert len(await here.list("pods")) == 1


@with_loops(*LOOPS)
async def test_recreate_ends_all_old_pods_first(here: World) -> None:
    await here.create(deployment(replicas=3, strategy={"type": "Recreate"}))
    await rolled_out(here)
    mixed = []

    def watch_images(_: Any) -> None:
        running = [pod for pod in here.context.caches.pods if pod.status.phase == "Running"]
        images = {pod.spec.containers[0].image for pod in running}
        mixed.append(len(images) > 1)

    here.context.caches.pods.subscribe(watch_images)
    await set_image(here, "pause:2")
    await rolled_out(here)
    assert not any(mixed)
    images = {each["spec"]["containers"][0]["image"] for each in await here.list("pods")}
    assert images == {"pause:2"}


@with_loops(*LOOPS)
async def test_history_keeps_as_many_revisions_as_it_is_told(here: World) -> None:
    await here.create(deployment(replicas=1, revisionHistoryLimit=1))
    for number in range(1, 5):
        await set_image(here, f"pause:{number}")
        await rolled_out(here)
    await here.until(lambda: _count(here, "replicasets", 2))


async def _count(here: World, kind: str, wanted: int) -> bool:
    return len(await here.list(kind)) == wanted


@with_loops(*LOOPS)
async def test_a_paused_deployment_does_not_roll(here: World) -> None:
    await here.create(deployment(replicas=2))
    await rolled_out(here)
    await here.patch("deployments", "web", {"spec": {"paused": True}})
    await set_image(here, "pause:2")
    await here.settle()
    assert len(await here.list("replicasets")) == 1
    found = await here.get("deployments", "web")
    assert condition(found, "Progressing")["reason"] == "DeploymentPaused"
    await here.patch("deployments", "web", {"spec": {"paused": False}})
    await rolled_out(here)
    assert len(await here.list("replicasets")) == 2


@with_loops(*LOOPS, clock=Clock)
async def test_a_rollout_that_is_stuck_says_so(here: World, clock: Clock) -> None:
    stuck = deployment(replicas=1, progressDeadlineSeconds=60)
    stuck["spec"]["template"]["metadata"]["annotations"] = {NEVER_READY: "yes"}
    await here.create(stuck)
    await here.settle()
    clock.advance(61)
    await here.patch("deployments", "web", {"metadata": {"labels": {"look": "again"}}})
    await here.settle()
    found = await here.get("deployments", "web")
    progressing = condition(found, "Progressing")
    assert (progressing["status"], progressing["reason"]) == ("False", "ProgressDeadlineExceeded")
    assert condition(found, "Available")["reason"] == "MinimumReplicasUnavailable"


@with_loops(*LOOPS)
async def test_a_pod_that_goes_away_is_replaced(here: World) -> None:
    await here.create(deployment(replicas=3))
    await rolled_out(here)
    victim = (await here.list("pods"))[0]["metadata"]["name"]
    await here.delete("pods", victim)
    await rolled_out(here)
    names = {each["metadata"]["name"] for each in await here.list("pods")}
    assert len(names) == 3
    assert victim not in names


@with_loops(*LOOPS)
async def test_a_pod_that_matches_is_adopted_and_one_that_does_not_is_released(
    here: World,
) -> None:
    await here.create(deployment(replicas=2))
    await rolled_out(here)
    (replica_set,) = await here.list("replicasets")
    pod = (await here.list("pods"))[0]["metadata"]["name"]
    await here.patch("pods", pod, {"metadata": {"labels": {"app": None}}})
    await here.until(lambda: _count(here, "pods", 3))
    await here.settle()
    assert "ownerReferences" not in (await here.get("pods", pod))["metadata"]
    orphan = objects.pod("orphan")
    orphan["metadata"]["labels"] = replica_set["spec"]["selector"]["matchLabels"]
    await here.create(orphan)
    await here.settle()
    found = await here.find("pods", "orphan")
    owners = [] if found is None else found["metadata"]["ownerReferences"]
    assert [owner["uid"] for owner in owners] in ([], [replica_set["metadata"]["uid"]])
    owned = [each for each in await here.list("pods") if "ownerReferences" in each["metadata"]]
    assert len(owned) == 2


def make(kind: type[Any], name: str, replicas: int, available: int = 0, **annotations: str) -> Any:
    return decode(
        {
            "metadata": {"name": name, "creationTimestamp": name, "annotations": annotations},
            "spec": {"replicas": replicas},
            "status": {"availableReplicas": available, "replicas": replicas},
        },
        kind,
    )


def rolling(replicas: int, surge: Any, unavailable: Any) -> Deployment:
    update = {"maxSurge": surge, "maxUnavailable": unavailable}
    raw = deployment(replicas=replicas, strategy={"type": "RollingUpdate", "rollingUpdate": update})
    return decode(raw, Deployment)


@pytest.mark.parametrize(
    ("surge", "unavailable", "expected"),
    [
        pytest.param("25%", "25%", (3, 2), id="surge rounds up, unavailable down"),
        pytest.param(0, 0, (0, 1), id="one must be allowed to move"),
        pytest.param(2, 20, (2, 10), id="no more can be missing than there are"),
    ],
)
def test_budget(surge: Any, unavailable: Any, expected: tuple[int, int]) -> None:
    assert rollouts.budget(rolling(10, surge, unavailable)) == expected


def test_unhealthy_old_pods_go_first() -> None:
    """Case 1 of rolling.go: new pods never become available, so healthy old ones stay."""
    web = rolling(10, 3, 2)
    old = [make(ReplicaSet, "a", 8, 7)]
    assert rollouts.old_sizes(web, old, make(ReplicaSet, "b", 5, 0)) == {"a": 8}
    assert rollouts.old_sizes(web, old, make(ReplicaSet, "b", 2, 1)) == {"a": 7}


def test_scaling_amid_a_rollout_keeps_proportions() -> None:
    web = rolling(20, 0, 2)
    before = {rollouts.MAX_REPLICAS: "10"}
    sets = [
        make(ReplicaSet, "a", 5, 5, **before),
        make(ReplicaSet, "b", 5, 5, **before),
    ]
    assert rollouts.proportional_sizes(web, sets) == {"a": 10, "b": 10}
