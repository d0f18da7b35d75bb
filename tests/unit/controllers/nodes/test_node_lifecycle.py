"""Nodes that are lost, and the pods on them."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

from dray.api.well_known import LEASE_ANNOTATION
from dray.controllers.nodes.node_eviction import NodeEviction
from dray.controllers.nodes.node_lifecycle import NodeLifecycle
from dray.controllers.nodes.pod_garbage import PodGarbage
from tests.unit.controllers import objects
from tests.unit.controllers.world import World, with_loops
from tests.waiting import DEADLINE_SECONDS

Impatient = functools.partial(NodeLifecycle, grace_seconds=0.2)
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


def taints(node: Any) -> set[tuple[str, str]]:
    return {(taint["key"], taint["effect"]) for taint in node["spec"].get("taints", [])}


def condition(found: Any, type_: str) -> Any:
    return next(each for each in found["status"]["conditions"] if each["type"] == type_)


def lease(name: str, renewed: str = "2026-01-01T00:00:00.000000Z") -> Any:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": name, "renewTime": renewed, "leaseDurationSeconds": 40},
    }


async def until_tainted(here: World, node: str, expected: set[tuple[str, str]]) -> None:
    async def check() -> bool:
        return taints(await here.get("nodes", node)) == expected

    await here.until(check, f"taints of {node}")


@with_loops(NodeLifecycle)
async def test_a_ready_node_loses_the_taint_it_was_born_with(here: World) -> None:
    await here.create(objects.node("n"))
    await until_tainted(here, "n", set())


@with_loops(NodeLifecycle)
async def test_a_node_that_is_not_ready_evicts_while_others_are_well(here: World) -> None:
    await here.create(objects.node("well"))
    sick = objects.node("sick")
    sick["status"]["conditions"][0]["status"] = "False"
    await here.create(sick)
    await until_tainted(here, "sick", {(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")})


@with_loops(NodeLifecycle)
async def test_when_every_node_is_lost_nobody_is_evicted(here: World) -> None:
    sick = objects.node("sick")
    sick["status"]["conditions"][0]["status"] = "False"
    await here.create(sick)
    await here.settle()
    assert taints(await here.get("nodes", "sick")) == {(NOT_READY, "NoSchedule")}


@with_loops(NodeLifecycle)
async def test_a_cordoned_node_says_so_in_a_taint_and_keeps_other_taints(here: World) -> None:
    await here.create(objects.node("n", taints=[{"key": "mine", "effect": "NoExecute"}]))
    await until_tainted(here, "n", {("mine", "NoExecute")})
    await here.patch("nodes", "n", {"spec": {"unschedulable": True}})
    cordoned = ("node.kubernetes.io/unschedulable", "NoSchedule")
    await until_tainted(here, "n", {("mine", "NoExecute"), cordoned})


@with_loops(Impatient)
async def test_a_node_that_is_not_heard_of_becomes_unknown_and_its_pods_not_ready(
    here: World,
) -> None:
    await here.create(objects.node("lost"))
    await here.create(objects.pod("p", nodeName="lost"))
    ready = {"type": "Ready", "status": "True"}
    await here.set_status("pods", "p", {"phase": "Running", "conditions": [ready]})

    async def unknown() -> bool:
        return bool(condition(await here.get("nodes", "lost"), "Ready")["status"] == "Unknown")

    await here.until(unknown)
    node = await here.get("nodes", "lost")
    assert condition(node, "Ready")["reason"] == "NodeStatusUnknown"
    assert condition(node, "MemoryPressure")["reason"] == "NodeStatusNeverUpdated"

    async def not_ready() -> bool:
        return bool(condition(await here.get("pods", "p"), "Ready")["status"] == "False")

    await here.until(not_ready)


@with_loops(Impatient)
async def test_a_renewed_lease_keeps_a_node_whatever_time_it_tells(here: World) -> None:
    shared = objects.node("simulated")
    shared["metadata"]["annotations"] = {LEASE_ANNOTATION: "shared"}
    await here.create(shared)
    await here.create(lease("shared"), "kube-node-lease")
    await here.create(objects.node("lost"))

    async def lost() -> bool:
        return bool(condition(await here.get("nodes", "lost"), "Ready")["status"] == "Unknown")

    number = 0
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not await lost():
            await asyncio.sleep(0.01)
            number += 1
            spec = {"renewTime": f"1970-01-01T00:00:{number % 60:02}.{number:06}Z"}
            await here.patch("leases", "shared", {"spec": spec}, "kube-node-lease")
    assert condition(await here.get("nodes", "simulated"), "Ready")["status"] == "True"


@with_loops(NodeEviction)
async def test_pods_leave_a_tainted_node_unless_they_tolerate_it(here: World) -> None:
    await here.create(objects.node("n"))
    stays = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}
    briefly = {**stays, "tolerationSeconds": 3600}
    await here.create(objects.pod("leaves", nodeName="n"))
    await here.create(objects.pod("stays", nodeName="n", tolerations=[stays]))
    await here.create(objects.pod("later", nodeName="n", tolerations=[briefly]))
    await here.settle()
    taint = {"key": "broken", "effect": "NoExecute"}
    await here.patch("nodes", "n", {"spec": {"taints": [taint]}})

    async def leaving() -> Any:
        return (await here.get("pods", "leaves"))["metadata"].get("deletionTimestamp")

    await here.until(leaving)
    await here.settle()
    pod = await here.get("pods", "leaves")
    assert condition(pod, "DisruptionTarget")["reason"] == "DeletionByTaintManager"
    for name in ("stays", "later"):
        assert "deletionTimestamp" not in (await here.get("pods", name))["metadata"]


@with_loops(functools.partial(PodGarbage, quarantine_seconds=0.05))
async def test_pods_of_a_node_that_is_gone_fail_and_go(here: World) -> None:
    phases: list[str] = []
    here.context.caches.pods.subscribe(
        lambda change: phases.append(change.new.status.phase if change.new else "gone")
    )
    await here.create(objects.pod("p", nodeName="ghost"))

    async def gone() -> bool:
        return await here.find("pods", "p") is None

    await here.until(gone)
    await here.settle()
    assert phases[-2:] == ["Failed", "gone"]


@with_loops(functools.partial(PodGarbage, max_ended=2))
async def test_the_oldest_of_too_many_ended_pods_go(here: World) -> None:
    for name in ("a", "b", "c", "d"):
        await here.create(objects.pod(name))
        await here.set_status("pods", name, {"phase": "Succeeded"})

    async def two_left() -> bool:
        return [pod["metadata"]["name"] for pod in await here.list("pods")] == ["c", "d"]

    await here.until(two_left)
