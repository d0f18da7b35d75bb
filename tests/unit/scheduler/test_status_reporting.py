"""Why a pod waits: told once, in the right place."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.client import events
from dray.scheduler import explanations, status_reporting
from dray.scheduler.explanation_cache import Why, Wording
from dray.scheduling import unschedulable
from dray.scheduling.claims.device_fit import CANNOT_ALLOCATE
from dray.scheduling.nodes import node_fit
from tests.unit.scheduler.world import (
    World,
    claim,
    condition_of,
    device_class,
    exactly,
    gpu_slice,
    in_world,
    node,
    pod,
    template,
)

IMPOSSIBLE = exactly(selectors=[{"cel": {"expression": "false"}}])


def explainer(fleet: ClusterInventory) -> Why:
    def why(_pod: Pod, _claims: Sequence[ResourceClaim]) -> Wording:
        slices = sum(len(each.slices) for each in fleet.nodes.values())
        return lambda _names: f"None of {slices} slices will do."

    return why


async def failures(world: World, name: str) -> list[dict[str, object]]:
    events = await world.all("events", "default")
    return [
        event
        for event in events
        if event["reason"] == "FailedScheduling" and event["involvedObject"]["name"] == name
    ]


def test_reasons_are_counted_and_sorted_as_text() -> None:
    reasons = Counter({CANNOT_ALLOCATE: 10, node_fit.HAD_TAINTS: 2, node_fit.TOO_MANY_PODS: 1})
    assert unschedulable.message(unschedulable.no_fit(reasons, 13), 13) == (
        "0/13 nodes are available: 1 Too many pods, 10 cannot allocate all claims, "
        "2 node(s) had untolerated taint(s). preemption: 0/13 nodes are available: "
        "1 No preemption victims found for incoming pod, "
        "12 Preemption is not helpful for scheduling."
    )


def test_a_cluster_without_nodes_says_so() -> None:
    assert unschedulable.message(unschedulable.no_fit(Counter(), 0), 0) == (
        "no nodes available to schedule pods"
    )


@in_world(explainer=explainer)
async def test_drays_reason_follows_upstreams_sentence(world: World) -> None:
    await world.create(device_class(), node("node-0"), gpu_slice("node-0"))
    await world.create(claim("x", IMPOSSIBLE), pod("stuck", "x"))
    message = await world.refused("stuck")
    assert message == (
        "0/1 nodes are available: 1 cannot allocate all claims. preemption: 0/1 nodes are "
        "available: 1 Preemption is not helpful for scheduling. None of 1 slices will do."
    )
    condition = condition_of(await world.get("pods", "stuck"))
    assert condition["reason"] == "Unschedulable"
    assert condition["observedGeneration"] == 1
    assert condition["lastTransitionTime"]


@in_world(explainer=explainer)
async def test_the_claim_carries_the_explanation_until_it_is_allocated(world: World) -> None:
    await world.create(device_class(), node("node-0"))
    await world.create(claim("x"), pod("p", "x"))
    assert await world.until(lambda: explanation(world, "x")) == "None of 0 slices will do."
    await world.settle()
    await world.create(gpu_slice("node-0", 1))
    await world.bound("p")
    assert await explanation(world, "x") == ""


async def explanation(world: World, claim_name: str) -> str:
    found = await world.get("resourceclaims", claim_name)
    return str(found["metadata"].get("annotations", {}).get("dray.dev/explanation", ""))


@in_world(explainer=explainer)
async def test_conditions_of_pods_come_before_explanations_on_claims(world: World) -> None:
    await world.create(device_class(), node("node-0"))
    names = [f"p{number}" for number in range(50)]
    for name in names:
        await world.create(claim(name), pod(name, name))

    async def are_explained() -> bool:
        return all([await explanation(world, name) for name in names])

    await world.until(are_explained)
    patched = [request.path for request in world.requests if request.method == "PATCH"]
    kinds_in_order = ["pods" if "/pods/" in path else "claims" for path in patched]
    assert kinds_in_order == ["pods"] * len(names) + ["claims"] * len(names)


@in_world(explainer=explainer)
async def test_the_explanation_itself_wakes_nobody(world: World) -> None:
    await world.create(device_class(), node("node-0"))
    await world.create(claim("x"), pod("p", "x"))
    await world.until(lambda: explanation(world, "x"))
    await world.settle()
    before = len(world.decisions())
    await world.patch("resourceclaims", "x", {"metadata": {"annotations": {"a": "b"}}})
    await world.settle()
    assert len(world.decisions()) == before


@in_world()
async def test_one_event_is_updated_instead_of_repeated(world: World) -> None:
    await world.create(device_class(), node("node-0"))
    await world.create(claim("x"), pod("p", "x"))
    await world.refused("p", "0/1 nodes")
    await world.create(node("node-1"))
    await world.refused("p", "0/2 nodes")
    await world.until(lambda: failures(world, "p"), "the event")
    await world.settle()
    assert len(await failures(world, "p")) == 1


@in_world()
async def test_what_has_not_changed_is_not_written_again(world: World) -> None:
    await world.create(device_class(), node("node-0"), gpu_slice("node-0", 1))
    await world.create(template("gpu"))
    for number in range(20):
        await world.create(pod(f"p{number}", template_name="gpu"))

    async def settled() -> bool:
        pods = await world.all("pods", "default")
        return all(each["spec"].get("nodeName") or condition_of(each) for each in pods)

    await world.until(settled)
    await world.settle()
    before = len(world.decisions())
    await world.patch("nodes", "node-0", {"metadata": {"labels": {"a": "b"}}})
    await world.settle()
    assert len(world.decisions()) == before


@in_world()
async def test_a_selector_that_fails_is_an_error_in_upstreams_words(world: World) -> None:
    await world.create(device_class(), node("node-0"), gpu_slice("node-0"))
    failing = 'device.attributes["gpu.example.com"].nosuch == "x"'
    await world.create(
        claim("x", exactly(selectors=[{"cel": {"expression": failing}}])), pod("p", "x")
    )
    message = await world.refused("p")
    assert message.startswith(
        'running "DynamicResources" filter plugin: claim default/x: selector #0 on device '
        "gpu.example.com/node-0/gpu-0: CEL runtime error: no such key: nosuch."
    )
    assert condition_of(await world.get("pods", "p"))["reason"] == "SchedulerError"


@in_world()
async def test_metrics_count_the_pods_that_wait(world: World) -> None:
    await world.create(device_class(), node("node-0"))
    await world.create(template("gpu"))
    for number in range(3):
        await world.create(pod(f"p{number}", template_name="gpu"))
        await world.refused(f"p{number}", "cannot allocate")
    text = world.registry.render()
    assert 'dray_scheduler_queue_pods{state="waiting"} 3' in text


BOUND_SECONDS = 5.0


@in_world(explainer=explanations.sampled)
async def test_all_pods_that_wait_hear_of_a_new_cause(world: World) -> None:
    await world.create(device_class(), node("node-0"), template("gpu", exactly(count=3)))
    for number in range(30):
        await world.create(pod(f"p{number}", template_name="gpu"))
    await world.refused("p29", "no devices that can be used")
    await world.create(gpu_slice("node-0", 2))
    await asyncio.sleep(BOUND_SECONDS)
    for number in range(30):
        condition = condition_of(await world.get("pods", f"p{number}"))
        assert "fewer than 3 devices are of class" in condition["message"]
        (made,) = await world.claims_of(f"p{number}")
        annotation = made["metadata"]["annotations"]["dray.dev/explanation"]
        assert annotation
        assert condition["message"].endswith(annotation)
        (event,) = await failures(world, f"p{number}")
        assert event["message"] == condition["message"][: events.MAX_NOTE_CHARACTERS]


@in_world(explainer=explanations.sampled)
async def test_devices_that_another_pod_takes_change_the_cause(world: World) -> None:
    await world.create(device_class(), node("node-0"), gpu_slice("node-0", 3))
    await world.create(claim("held-1", exactly(count=2)), pod("first", "held-1"))
    await world.bound("first")
    await world.create(claim("pair", exactly(count=2)), pod("waits", "pair"))
    before = await world.refused("waits", "default/held-1")
    assert "held-2" not in before
    await asyncio.sleep(BOUND_SECONDS)
    await world.create(claim("held-2"), pod("second", "held-2"))
    await world.bound("second")
    await asyncio.sleep(BOUND_SECONDS)
    await world.refused("waits", "default/held-2")


@in_world(explainer=explanations.sampled)
async def test_a_pod_in_line_is_told_its_place_and_the_pods_ahead(world: World) -> None:
    await world.create(device_class(), node("node-0"), gpu_slice("node-0", 1), template("gpu"))
    for name in ("job-1", "job-2", "job-3", "job-4"):
        await world.create(pod(name, template_name="gpu"))
    await world.bound("job-1")
    await world.refused("job-4", "3rd in line for these devices, after pods default/job-2 and")
    await world.refused("job-3", "2nd in line for these devices, after pod default/job-2.")
    assert "in line" not in await world.refused("job-2")
    await world.remove_pod("job-2")
    await asyncio.sleep(BOUND_SECONDS)
    assert "in line" not in await world.refused("job-3")
    await world.refused("job-4", "2nd in line for these devices, after pod default/job-3.")


@in_world(explainer=explanations.sampled)
async def test_far_back_in_line_the_place_is_not_exact(world: World) -> None:
    await world.create(device_class(), node("node-0"), template("gpu"))
    for number in range(13):
        await world.create(pod(f"p{number:02}", template_name="gpu"))
    await asyncio.sleep(BOUND_SECONDS)
    assert "It is 10th in line" in await world.refused("p09")
    assert "At least 10 pods are ahead of it" in await world.refused("p10")
    assert "At least 10 pods are ahead of it" in await world.refused("p12")


@in_world(explainer=explanations.sampled)
async def test_an_error_names_each_pods_own_claim(world: World) -> None:
    await world.create(device_class(), node("node-0"))
    failing = 'device.attributes["gpu.example.com"].nosuch == "x"'
    request = exactly(selectors=[{"cel": {"expression": failing}}])
    await world.create(template("gpu", request))
    for name in ("a", "b", "c"):
        await world.create(pod(name, template_name="gpu"))
    await world.refused("c", "no devices that can be used")
    await world.create(gpu_slice("node-0", 1))
    await asyncio.sleep(BOUND_SECONDS)
    for name in ("a", "b", "c"):
        (made,) = await world.claims_of(name)
        message = await world.refused(name, "no such key: nosuch")
        assert f"claim default/{made['metadata']['name']}:" in message


@in_world(explainer=explanations.sampled)
async def test_conditions_are_written_at_a_bounded_rate(world: World) -> None:
    await world.create(device_class(), node("node-0"), template("gpu", exactly(count=9)))
    for number in range(200):
        await world.create(pod(f"p{number}", template_name="gpu"))
    await world.refused("p199")
    await asyncio.sleep(BOUND_SECONDS)
    before, seconds = len(writes(world)), 20.0
    for number in range(20):
        await world.delete("resourceslices", "node-0-gpus")
        await world.create(gpu_slice("node-0", 1 + number % 8))
        await asyncio.sleep(seconds / 20)
    written = writes(world)[before:]
    assert len(written) <= seconds * (status_reporting.REFRESHES_PER_SECOND + 1)
    assert max(Counter(written).values()) <= seconds / status_reporting.POD_SECONDS
    await asyncio.sleep(BOUND_SECONDS)
    before = len(writes(world))
    await asyncio.sleep(60.0)
    assert len(writes(world)) == before


def writes(world: World) -> list[str]:
    """The paths of conditions that the scheduler has written."""
    return [
        request.path
        for request in world.requests
        if request.method == "PATCH" and "/pods/" in request.path
    ]
