"""Whatever happens in a cluster, the condition of a waiting pod soon says what explain says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dray.api.types.dra import ResourceClaim
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.cli.inputs import cluster_objects, pod_contexts
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.explain import claim_explanation
from dray.explain.claim_explanation import Outcome
from dray.explain.pod import node_scope, pod_context
from dray.explain.text import explanation_text
from dray.scheduler import explanations
from tests import rounds, virtualtime
from tests.unit.scheduler.world import (
    DRIVER,
    World,
    claim,
    condition_of,
    device_class,
    exactly,
    gpu,
    gpu_slice,
    named,
    node,
    pod,
    template,
    world,
)

BOUND_SECONDS = 5.0
NODES, PODS = ("node-0", "node-1"), ("a", "b", "c", "d", "e")
TAINT = {"key": "broken", "effect": "NoSchedule"}
KINDS = ("nodes", "resourceslices", "deviceclasses", "resourceclaims", "pods")

Step = Callable[[World], Awaitable[None]]


def steps() -> st.SearchStrategy[tuple[str, Step]]:
    """Every change is tried on objects that may or may not exist."""
    nodes, pods = st.sampled_from(NODES), st.sampled_from(PODS)
    return st.one_of(
        st.builds(_publish, nodes, st.integers(1, 3), st.booleans()),
        st.builds(_delete, st.just("resourceslices"), nodes.map("{}-gpus".format)),
        st.builds(_create_pod, pods, st.integers(1, 2), st.booleans()),
        st.builds(_create_pod, pods, st.integers(1, 2), st.booleans()),
        st.builds(_delete, st.just("pods"), pods),
        st.builds(_set_class, st.booleans()),
        st.builds(_cordon, nodes, st.booleans()),
        st.builds(_sleep, st.sampled_from([0.1, 1.0, 5.0])),
    )


def _publish(name: str, count: int, tainted: bool) -> tuple[str, Step]:
    async def step(here: World) -> None:
        more: dict[str, Any] = {"taints": [TAINT]} if tainted else {}
        devices = [gpu(f"gpu-{number}", **more) for number in range(count)]
        await here.delete("resourceslices", f"{name}-gpus")
        await here.create(gpu_slice(name, 0, *devices))

    return f"publish {count} on {name}, tainted={tainted}", step


def _delete(plural: str, name: str) -> tuple[str, Step]:
    async def step(here: World) -> None:
        options: dict[str, Any] = {"gracePeriodSeconds": 0} if plural == "pods" else {}
        await here.delete(plural, name, **options)
        if plural == "pods":
            # What the garbage collector and the controller that releases claims do.
            for owned in (name, f"own-{name}"):
                await _release(here, owned)

    return f"delete {plural} {name}", step


async def _release(here: World, pod_name: str) -> None:
    for found in await here.all("resourceclaims"):
        owners = found["metadata"].get("ownerReferences") or []
        name = found["metadata"]["name"]
        if name == pod_name or any(owner["name"] == pod_name for owner in owners):
            await here.patch("resourceclaims", name, {"metadata": {"finalizers": None}})
            status = {"allocation": None, "reservedFor": None}
            await here.set_status("resourceclaims", name, status)
            await here.delete("resourceclaims", name)


def _create_pod(name: str, count: int, from_template: bool) -> tuple[str, Step]:
    async def step(here: World) -> None:
        if any(item["metadata"]["name"] == name for item in await here.all("pods")):
            return
        if from_template:
            await here.create(pod(name, template_name=f"template-{count}"))
        else:
            await here.create(claim(f"own-{name}", exactly(count=count)), pod(name, f"own-{name}"))

    return f"create pod {name} with {count}, from a template: {from_template}", step


def _set_class(exists: bool) -> tuple[str, Step]:
    async def step(here: World) -> None:
        await here.delete("deviceclasses", DRIVER)
        if exists:
            await here.create(device_class())

    return f"class exists: {exists}", step


def _cordon(name: str, cordoned: bool) -> tuple[str, Step]:
    async def step(here: World) -> None:
        await here.patch("nodes", name, {"spec": {"unschedulable": cordoned}})

    return f"{name} is cordoned: {cordoned}", step


def _sleep(seconds: float) -> tuple[str, Step]:
    async def step(_here: World) -> None:
        await asyncio.sleep(seconds)

    return f"sleep {seconds:g}", step


@given(st.lists(steps(), min_size=6, max_size=20))
@rounds.examples(40, long=2000)
def test_conditions_say_what_explain_says(history: list[tuple[str, Step]]) -> None:
    virtualtime.run(_run(history))


async def _run(history: list[tuple[str, Step]]) -> None:
    async with world(explainer=explanations.sampled) as here:
        await here.create(device_class(), *map(node, NODES))
        await here.create(*(template(f"template-{n}", exactly(count=n)) for n in (1, 2)))
        for name in PODS:
            await here.create(pod(name, template_name="template-1"))
        for _, step in history:
            await step(here)
        await asyncio.sleep(BOUND_SECONDS)
        objects = await _read(here)
        for waiting in objects.of(Pod):
            if not waiting.spec.node_name:
                _check(waiting, objects, await here.get("pods", waiting.metadata.name))


async def _read(here: World) -> ClusterObjects:
    objects = ClusterObjects("test")
    for plural in KINDS:
        for item in await here.all(plural):
            whole = {**named(plural).type_meta, **item}
            objects.add(cluster_objects.decode(whole, "test"))
    return objects


def _check(waiting: Pod, objects: ClusterObjects, found: dict[str, Any]) -> None:
    message = condition_of(found).get("message", "")
    explained = claim_explanation.explain(
        objects.inventory(),
        _claims(waiting, objects),
        new_share_id=lambda: "new",
        nodes=node_scope.names_of(waiting, objects.of(Node)),
        combine=1,
    )
    summary = explanation_text.summary(explained)
    usable = [item for item in objects.of(Node) if not item.spec.unschedulable]
    if not objects.inventory().classes:
        assert "does not exist" in message
    elif explained.outcome is Outcome.FITS or not usable:
        assert "were unschedulable" in message
    else:
        assert summary in message
    _check_names(waiting, objects, message)


def _claims(waiting: Pod, objects: ClusterObjects) -> list[ResourceClaim]:
    return list(pod_context.claims_of(waiting, pod_contexts.of_all(objects)).values())


def _check_names(waiting: Pod, objects: ClusterObjects, message: str) -> None:
    """No other waiting pod's claim is named."""
    for other in objects.of(Pod):
        if other.metadata.name == waiting.metadata.name or other.spec.node_name:
            continue
        for claim_of_other in _claims(other, objects):
            assert str(claim_of_other.key) not in message
