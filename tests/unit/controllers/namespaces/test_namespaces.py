"""Namespaces: emptied before they go, with an account of their own while they are there."""

from __future__ import annotations

from typing import Any

from dray.api import features as gates
from dray.controllers.namespaces.namespaces import Namespaces
from dray.controllers.namespaces.serviceaccounts import ServiceAccountLoop
from dray.controllers.workloads.podgroups import PodGroups
from tests.unit.controllers import objects
from tests.unit.controllers.kubelet import Kubelet
from tests.unit.controllers.world import World, with_loops

WORKLOADS = gates.with_gates(gates.DEFAULT, {"GenericWorkload": True})


def namespace(name: str) -> Any:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def gone(here: World, kind: str, name: str) -> None:
    async def check() -> bool:
        return await here.find(kind, name) is None

    await here.until(check, f"{name} to go")


@with_loops(Namespaces, Kubelet)
async def test_a_deleted_namespace_takes_its_content_along(here: World) -> None:
    await here.create(namespace("team"))
    await here.create(objects.claim("c"), "team")
    await here.create(objects.claim_template(), "team")
    await here.create(objects.pod("p", nodeName="n"), "team")
    await here.settle()
    await here.delete("namespaces", "team")
    await gone(here, "namespaces", "team")
    for kind in ("pods", "resourceclaims", "resourceclaimtemplates"):
        assert await here.list(kind) == []


@with_loops(Namespaces)
async def test_what_keeps_a_namespace_is_told(here: World) -> None:
    await here.create(namespace("team"))
    stuck = objects.claim("c")
    stuck["metadata"]["finalizers"] = ["example.com/hold"]
    await here.create(stuck, "team")
    await here.delete("namespaces", "team")

    async def told() -> Any:
        conditions = (await here.get("namespaces", "team"))["status"].get("conditions", [])
        return {
            condition["type"]: condition["message"]
            for condition in conditions
            if condition["status"] == "True"
        }

    messages = await here.until(told)
    assert messages == {
        "NamespaceContentRemaining": "Some resources are remaining: "
        "resourceclaims.resource.k8s.io has 1 resource instances",
        "NamespaceFinalizersRemaining": "Some content in the namespace has finalizers remaining: "
        "example.com/hold in 1 resource instances",
    }
    await here.patch("resourceclaims", "c", {"metadata": {"finalizers": None}}, "team")
    await gone(here, "namespaces", "team")


@with_loops(ServiceAccountLoop)
async def test_every_namespace_has_a_default_account(here: World) -> None:
    await here.create(namespace("team"))

    async def made() -> Any:
        return await here.find("serviceaccounts", "default", "team")

    await here.until(made)
    await here.delete("serviceaccounts", "default", "team")
    await here.until(made)


@with_loops(PodGroups, features=WORKLOADS)
async def test_a_pod_group_stays_until_its_pods_have_ended(here: World) -> None:
    await here.create(
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "pg", "finalizers": ["scheduling.k8s.io/podgroup-protection"]},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
        }
    )
    member: Any = {"schedulingGroup": {"podGroupName": "pg"}}
    await here.create(objects.pod("a", **member))
    await here.delete("podgroups", "pg")
    await here.settle()
    assert await here.find("podgroups", "pg")
    await here.set_status("pods", "a", {"phase": "Succeeded"})
    await gone(here, "podgroups", "pg")
