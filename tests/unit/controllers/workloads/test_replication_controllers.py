"""ReplicationControllers: the loop of ReplicaSets, with plain labels for a selector."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api import errors
from dray.api.types.meta import JsonObject
from dray.controllers.disruption_budgets import Budgets
from dray.controllers.workloads.replicasets import ReplicaSets, ReplicationControllers
from tests.unit.controllers.kubelet import Kubelet
from tests.unit.controllers.world import World, with_loops


def controller(replicas: int = 2, **spec: Any) -> JsonObject:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "pause:1"}]},
    }
    return {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "template": template, **spec},
    }


async def until_ready(here: World, count: int) -> JsonObject:
    async def ready() -> JsonObject | None:
        found = await here.get("replicationcontrollers", "web")
        status = found.get("status", {})
        counts = (status.get("replicas", 0), status.get("readyReplicas", 0))
        return found if counts == (count, count) else None

    found: JsonObject = await here.until(ready)
    return found


@with_loops(ReplicationControllers, ReplicaSets, Kubelet)
async def test_it_keeps_its_number_of_pods(here: World) -> None:
    await here.create(controller())
    made = await until_ready(here, 2)
    assert made["spec"]["selector"] == {"app": "web"}
    assert "terminatingReplicas" not in made["status"]
    assert made["status"]["observedGeneration"] == made["metadata"]["generation"]
    pods = await here.list("pods")
    owners = [pod["metadata"]["ownerReferences"][0] for pod in pods]
    assert {(owner["apiVersion"], owner["kind"]) for owner in owners} == {
        ("v1", "ReplicationController")
    }
    await here.remove_pod(pods[0]["metadata"]["name"])
    await until_ready(here, 2)
    assert {pod["metadata"]["uid"] for pod in pods} != {
        pod["metadata"]["uid"] for pod in await here.list("pods")
    }
    await here.patch("replicationcontrollers", "web", {"spec": {"replicas": 0}})
    await until_ready(here, 0)


@with_loops(ReplicationControllers, Kubelet)
async def test_it_adopts_and_releases_pods_by_their_labels(here: World) -> None:
    orphan = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "orphan", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "pause:1"}]},
    }
    await here.create(orphan)
    await here.create(controller(replicas=1))
    await until_ready(here, 1)
    assert [pod["metadata"]["name"] for pod in await here.list("pods")] == ["orphan"]
    await here.patch("pods", "orphan", {"metadata": {"labels": {"app": "other"}}})

    async def replaced() -> bool:
        pods = {pod["metadata"]["name"]: pod for pod in await here.list("pods")}
        return len(pods) == 2 and "ownerReferences" not in pods["orphan"]["metadata"]

    await here.until(replaced)


@with_loops(ReplicationControllers, Kubelet)
async def test_a_quota_that_is_used_up_shows_in_its_conditions(here: World) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
    quota["spec"] = {"hard": {"pods": "2"}}
    await here.create(quota)
    await here.set_status("resourcequotas", "q", {"hard": {"pods": "2"}, "used": {"pods": "0"}})
    await here.create(controller(replicas=3))

    async def failure() -> Any:
        status = (await here.get("replicationcontrollers", "web")).get("status", {})
        return [each["reason"] for each in status.get("conditions", ())]

    assert await here.until(failure) == ["FailedCreate"]
    await here.patch("replicationcontrollers", "web", {"spec": {"replicas": 2}})

    async def no_failure() -> bool:
        return not await failure()

    await here.until(no_failure)


@with_loops(ReplicationControllers, Budgets, Kubelet)
async def test_a_budget_counts_its_replicas(here: World) -> None:
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
    budget["spec"] = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await here.create(budget)
    await here.create(controller(replicas=3))

    async def allowed() -> bool:
        status = (await here.get("poddisruptionbudgets", "b")).get("status", {})
        return (status.get("expectedPods"), status.get("disruptionsAllowed")) == (3, 1)

    await here.until(allowed)


@with_loops()
async def test_what_cannot_work_is_refused(here: World) -> None:
    for spec, field in (
        ({"selector": {"app": "other"}}, "spec.template.metadata.labels"),
        ({"replicas": -1}, "spec.replicas"),
        ({"minReadySeconds": -1}, "spec.minReadySeconds"),
        ({"template": None}, "spec.template"),
    ):
        body = controller()
        body["spec"] |= spec
        with pytest.raises(errors.Invalid) as refusal:
            await here.create(body)
        assert refusal.value.details is not None
        assert field in [cause.field for cause in refusal.value.details.causes], spec
