"""Objects go with their owners."""

from __future__ import annotations

from typing import Any

from dray.api.types.meta import JsonObject
from dray.controllers.devices.claims import Claims
from dray.controllers.garbage_collector import Garbage
from dray.controllers.jobs.jobs import Jobs
from dray.controllers.workloads.deployments import Deployments
from dray.controllers.workloads.replicasets import ReplicaSets
from tests.unit.controllers import objects
from tests.unit.controllers.jobs.test_jobs import finished, job
from tests.unit.controllers.kubelet import Kubelet
from tests.unit.controllers.workloads.test_deployments import deployment, rolled_out
from tests.unit.controllers.world import World, with_loops

DEPLOYED = (Deployments, ReplicaSets, Kubelet, Garbage)


def config(name: str, *owners: JsonObject, blocks: bool = True, **metadata: Any) -> JsonObject:
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": blocks,
        }
        for owner in owners
    ]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": references, **metadata},
    }


async def gone(here: World, kind: str, *names: str) -> None:
    async def check() -> bool:
        return all([await here.find(kind, name) is None for name in names])

    await here.until(check, f"{names} to go")


@with_loops(*DEPLOYED)
async def test_a_deployment_takes_its_sets_and_pods_along(here: World) -> None:
    await here.create(deployment(replicas=3))
    await rolled_out(here)
    await here.delete("deployments", "web")

    async def empty() -> bool:
        return not await here.list("replicasets") and not await here.list("pods")

    await here.until(empty)


@with_loops(*DEPLOYED)
async def test_foreground_deletion_removes_the_deployment_last(here: World) -> None:
    await here.create(deployment(replicas=2))
    await rolled_out(here)
    order: list[str] = []
    shared = here.context.caches
    shared.deployments.subscribe(lambda c: order.append("deployment") if not c.new else None)
    shared.replica_sets.subscribe(lambda c: order.append("replicaset") if not c.new else None)
    shared.pods.subscribe(lambda c: order.append("pod") if not c.new else None)
    await here.delete("deployments", "web", propagationPolicy="Foreground")
    await gone(here, "deployments", "web")
    await here.settle()
    assert order == ["pod", "pod", "replicaset", "deployment"]


@with_loops(*DEPLOYED)
async def test_orphans_stay_and_forget_their_owner(here: World) -> None:
    await here.create(deployment(replicas=2))
    await rolled_out(here)
    await here.delete("deployments", "web", propagationPolicy="Orphan")
    await gone(here, "deployments", "web")
    await here.settle()
    (replica_set,) = await here.list("replicasets")
    assert "ownerReferences" not in replica_set["metadata"]
    assert len(await here.list("pods")) == 2


@with_loops(Jobs, Kubelet, Garbage)
async def test_a_job_deleted_by_kubectl_takes_its_pods_along(here: World) -> None:
    await here.create(job(completions=3, parallelism=3))
    await finished(here)
    await here.delete("jobs", "work", propagationPolicy="Background")

    async def empty() -> bool:
        return not await here.list("pods")

    await here.until(empty)


@with_loops(Claims, Garbage)
async def test_the_claim_of_a_deleted_pod_goes(here: World) -> None:
    await here.create(objects.claim_template())
    await here.create(objects.pod("p", template="one-gpu"))

    async def made() -> bool:
        return bool(await here.list("resourceclaims"))

    await here.until(made)
    await here.delete("pods", "p")

    async def empty() -> bool:
        return not await here.list("resourceclaims")

    await here.until(empty)


@with_loops(Garbage)
async def test_one_remaining_owner_is_enough(here: World) -> None:
    first = await here.create(config("first"))
    second = await here.create(config("second"))
    await here.create(config("shared", first, second))
    await here.settle()
    await here.delete("configmaps", "first")

    async def dropped() -> bool:
        references = (await here.get("configmaps", "shared"))["metadata"]["ownerReferences"]
        return [reference["uid"] for reference in references] == [second["metadata"]["uid"]]

    await here.until(dropped)
    await here.delete("configmaps", "second")
    await gone(here, "configmaps", "shared")


@with_loops(Garbage)
async def test_what_is_born_to_an_owner_that_never_was_goes(here: World) -> None:
    ghost = {"metadata": {"name": "ghost", "uid": "11111111-1111-4111-8111-111111111111"}}
    await here.create(config("child", ghost))
    await gone(here, "configmaps", "child")


@with_loops(Garbage)
async def test_an_owner_of_an_unknown_kind_keeps_its_dependents(here: World) -> None:
    child = config("child")
    child["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "name": "w",
            "uid": "11111111-1111-4111-8111-111111111111",
        }
    ]
    await here.create(child)
    await here.settle()
    assert await here.find("configmaps", "child")


@with_loops(Garbage)
async def test_a_dependent_that_does_not_block_is_not_waited_for(here: World) -> None:
    owner = await here.create(config("owner"))
    await here.create(config("child", owner, blocks=False, finalizers=["example.com/hold"]))
    await here.settle()
    await here.delete("configmaps", "owner", propagationPolicy="Foreground")
    await gone(here, "configmaps", "owner")
    child = await here.get("configmaps", "child")
    assert child["metadata"]["finalizers"] == ["example.com/hold"]
