"""Writing a decision: conflicts, time-outs, refusals, binding conditions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from dray.api import errors
from dray.api.http_messages import Request, Response
from dray.api.ids import GroupResource
from dray.apiserver.app import status_response
from dray.scheduler import queue
from dray.scheduler.claims import claim_writes
from tests import loop
from tests.unit.scheduler.world import (
    DRIVER,
    Clock,
    World,
    claim,
    condition_of,
    device_class,
    devices_of,
    exactly,
    gpu_slice,
    in_world,
    node,
    pod,
    template,
)
from tests.unit.scheduler.world import world as connected

CLAIMS = GroupResource("resource.k8s.io", "resourceclaims")
Proceed = Callable[[], Awaitable[Response]]


def is_status_patch(request: Request) -> bool:
    return (
        request.method == "PATCH"
        and "resourceclaims" in request.path
        and (request.path.endswith("/status"))
    )


def is_binding(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/binding")


async def fleet(world: World, gpus: int = 2) -> None:
    await world.create(device_class(), node("node-0"), gpu_slice("node-0", gpus))


@in_world()
async def test_finalizer_then_allocation_and_reservation_then_binding(world: World) -> None:
    await fleet(world)
    await world.create(claim("gpu"), pod("p", "gpu"))
    await world.bound("p")
    writes = [
        (request.method, request.path.rsplit("default/", 1)[-1])
        for request in world.decisions()
        if request.method != "GET"
    ]
    assert writes == [
        ("PATCH", "resourceclaims/gpu"),
        ("PATCH", "resourceclaims/gpu/status"),
        ("POST", "pods/p/binding"),
    ]


@in_world()
async def test_a_benign_change_of_the_claim_is_a_reason_to_write_again(world: World) -> None:
    await fleet(world)
    changed = 0

    async def interfere(request: Request, proceed: Proceed) -> Response:
        nonlocal changed
        if is_status_patch(request) and not changed:
            changed += 1
            await world.patch("resourceclaims", "gpu", {"metadata": {"labels": {"a": "b"}}})
        return await proceed()

    world.intercept = interfere
    await world.create(claim("gpu"), pod("p", "gpu"))
    await world.bound("p")
    assert changed == 1
    assert devices_of(await world.get("resourceclaims", "gpu")) == ["node-0/gpu-0"]


@in_world()
async def test_a_device_somebody_else_took_is_given_up_and_another_found(world: World) -> None:
    await fleet(world)
    taken = False

    async def interfere(request: Request, proceed: Proceed) -> Response:
        nonlocal taken
        if is_status_patch(request) and "mine" in request.path and not taken:
            taken = True
            await world.create(claim("theirs"))
            result = {
                "request": "gpu", "driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0",
            }  # fmt: skip
            allocation = {"devices": {"results": [result]}}
            await world.set_status("resourceclaims", "theirs", {"allocation": allocation})
        return await proceed()

    world.intercept = interfere
    await world.create(claim("mine"), pod("p", "mine"))
    await world.bound("p")
    assert devices_of(await world.get("resourceclaims", "mine")) == ["node-0/gpu-1"]


@in_world()
async def test_after_a_write_without_answer_a_fresh_read_decides_that_it_happened(
    world: World,
) -> None:
    await fleet(world)
    lost = 0

    async def interfere(request: Request, proceed: Proceed) -> Response:
        nonlocal lost
        response = await proceed()
        if (is_status_patch(request) or is_binding(request)) and lost < 2:
            lost += 1
            return status_response(errors.timeout("the answer was lost"))
        return response

    world.intercept = interfere
    await world.create(claim("gpu"), pod("p", "gpu"))
    await world.bound("p")
    await world.settle()
    assert lost == 2
    found = await world.get("resourceclaims", "gpu")
    assert len(found["status"]["reservedFor"]) == 1


@in_world()
async def test_a_reservation_stays_while_nobody_knows_what_became_of_the_write(
    world: World,
) -> None:
    await fleet(world, gpus=1)
    reachable = asyncio.Event()

    async def interfere(request: Request, proceed: Proceed) -> Response:
        is_read = request.method == "GET" and request.path.endswith("/unknown")
        if not (is_status_patch(request) or is_read) or reachable.is_set():
            return await proceed()
        if not is_read:
            await proceed()
        return status_response(errors.service_unavailable("cut off"))

    world.intercept = interfere
    await world.create(claim("unknown"), pod("first", "unknown"))

    async def tried() -> bool:
        return any(is_status_patch(request) for request in world.requests)

    await world.until(tried)
    await world.create(claim("late"), pod("second", "late"))
    await world.refused("second", "cannot allocate all claims")
    reachable.set()
    assert await world.bound("first") == "node-0"
    assert "nodeName" not in (await world.get("pods", "second"))["spec"]


@in_world()
async def test_what_was_written_is_given_back_when_the_pod_cannot_be_bound(world: World) -> None:
    await fleet(world, gpus=1)

    async def interfere(request: Request, proceed: Proceed) -> Response:
        if is_binding(request) and "/first/" in request.path:
            return status_response(errors.forbidden(None, "first", "not this one"))
        return await proceed()

    world.intercept = interfere
    await world.create(template("gpu"), pod("first", template_name="gpu"))
    await world.refused("first", "bind pod to node node-0")
    (made,) = await world.claims_of("first")
    assert not made["status"]
    await world.create(pod("second", template_name="gpu"))
    assert await world.bound("second") == "node-0"


@in_world()
async def test_a_pod_that_is_deleted_meanwhile_gives_its_devices_back(world: World) -> None:
    await fleet(world, gpus=1)

    async def interfere(request: Request, proceed: Proceed) -> Response:
        if is_binding(request) and "/first/" in request.path:
            await world.remove_pod("first")
        return await proceed()

    world.intercept = interfere
    await world.create(claim("gpu"), pod("first", "gpu"))
    await world.create(claim("other"), pod("second", "other"))
    assert await world.bound("second") == "node-0"


def fabric(*, node_name: str | None = None) -> dict[str, object]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "fabric"},
        "spec": {
            "driver": "gpu.example.com",
            "allNodes": True,
            "pool": {"name": "fabric", "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": f"fpga-{number}",
                    "bindsToNode": True,
                    "bindingConditions": ["example.com/attached"],
                    "bindingFailureConditions": ["example.com/failed"],
                }
                for number in range(2)
            ],
        },
    }


def device_condition(device: str, type_: str, pool: str = "fabric") -> dict[str, object]:
    condition = {
        "type": type_,
        "status": "True",
        "reason": "Told",
        "message": "by the test",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {
        "devices": [
            {
                "driver": "gpu.example.com",
                "pool": pool,
                "device": device,
                "conditions": [condition],
            }
        ]
    }


async def allocated(world: World, name: str, device: str) -> None:
    async def has_device() -> bool:
        found = await world.get("resourceclaims", name)
        return bool(found["status"]) and devices_of(found) == [f"fabric/{device}"]

    await world.until(has_device, f"{name} to have {device}")


@in_world()
async def test_a_pod_is_bound_when_its_device_is_attached(world: World) -> None:
    await world.create(device_class(), node("node-0"), fabric(), claim("attach"))
    await world.create(pod("binder", "attach"))
    await allocated(world, "attach", "fpga-0")

    async def nominated() -> bool:
        found = await world.get("pods", "binder")
        return bool(found["status"].get("nominatedNodeName") == "node-0")

    await world.until(nominated)
    assert "nodeName" not in (await world.get("pods", "binder"))["spec"]
    selector = (await world.get("resourceclaims", "attach"))["status"]["allocation"]["nodeSelector"]
    assert selector["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["node-0"]
    status = device_condition("fpga-0", "example.com/attached")
    await world.set_status("resourceclaims", "attach", status)
    assert await world.bound("binder") == "node-0"
    assert condition_of(await world.get("pods", "binder"))["status"] == "True"


@in_world()
async def test_a_device_that_fails_is_given_back_and_the_pod_tried_again(world: World) -> None:
    await world.create(device_class(), node("node-0"), fabric(), claim("attach"))
    await world.create(pod("binder", "attach"))
    await allocated(world, "attach", "fpga-0")
    status = device_condition("fpga-0", "example.com/failed")
    await world.set_status("resourceclaims", "attach", status)
    message = await world.refused("binder", "device binding failed")
    assert 'claim=attach, reason=Told, message="by the test"' in message
    await allocated(world, "attach", "fpga-0")
    status = device_condition("fpga-0", "example.com/attached")
    await world.set_status("resourceclaims", "attach", status)
    await world.bound("binder")


CLOCK = Clock()


@in_world(clock=CLOCK)
async def test_a_driver_that_does_not_answer_in_time_is_given_up(world: World) -> None:
    await world.create(device_class(), node("node-0"), fabric(), claim("attach"))
    await world.create(pod("binder", "attach"))
    await allocated(world, "attach", "fpga-0")
    world.clock.advance(601)
    # Any change of the claim makes the scheduler look at the clock again.
    await world.patch("resourceclaims", "attach", {"metadata": {"labels": {"look": "again"}}})
    await world.refused("binder", "device binding timeout: claim=attach")


@in_world()
async def test_a_claim_nobody_uses_is_deallocated_for_a_pod_that_needs_it_elsewhere(
    world: World,
) -> None:
    await fleet(world)
    await world.create(node("node-1", {"zone": "b"}), gpu_slice("node-1", 1), claim("gpu"))
    result = {
        "request": "gpu", "driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0",
    }  # fmt: skip
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]}
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [term]},
    }
    await world.set_status("resourceclaims", "gpu", {"allocation": allocation})
    await world.create(pod("p", "gpu", nodeSelector={"zone": "b"}))
    assert await world.bound("p") == "node-1"
    assert devices_of(await world.get("resourceclaims", "gpu")) == ["node-1/gpu-0"]


@in_world()
async def test_admin_access_sees_devices_that_others_hold(world: World) -> None:
    await fleet(world, gpus=1)
    label = {"resource.kubernetes.io/admin-access": "true"}
    await world.patch("namespaces", "default", {"metadata": {"labels": label}})
    await world.create(claim("mine"), pod("user", "mine"))
    await world.bound("user")
    watching = exactly(adminAccess=True, allocationMode="All")
    await world.create(claim("all", watching), pod("monitor", "all"))
    await world.bound("monitor")
    found = await world.get("resourceclaims", "all")
    assert found["status"]["allocation"]["devices"]["results"][0]["adminAccess"] is True


def fabric_of(node_name: str, *, taints: list[dict[str, str]] | None = None) -> dict[str, object]:
    """One device of a node that has to be attached."""
    device = {
        "name": "fpga",
        "bindingConditions": ["example.com/attached"],
        "bindingFailureConditions": ["example.com/failed"],
        "taints": taints or [],
    }
    return gpu_slice(node_name, 0, device)


@in_world()
async def test_a_pod_goes_elsewhere_when_its_driver_gives_the_device_up(world: World) -> None:
    await world.create(device_class(), claim("attach"))
    for name in ("node-0", "node-1"):
        await world.create(node(name), fabric_of(name))
    await world.create(pod("binder", "attach"))

    async def chosen() -> str:
        found = await world.get("resourceclaims", "attach")
        return devices_of(found)[0].split("/")[0] if "allocation" in found["status"] else ""

    first = await world.until(chosen)
    (second,) = {"node-0", "node-1"} - {first}
    taints = [{"key": "example.com/broken", "effect": "NoSchedule"}]
    spec = {"spec": fabric_of(first, taints=taints)["spec"]}
    await world.patch("resourceslices", f"{first}-gpus", spec)
    await world.set_status(
        "resourceclaims", "attach", device_condition("fpga", "example.com/failed", pool=first)
    )

    async def moved() -> bool:
        return await chosen() == second

    await world.until(moved, "the claim to move")
    await world.set_status(
        "resourceclaims", "attach", device_condition("fpga", "example.com/attached", pool=second)
    )
    assert await world.bound("binder") == second


@in_world(clock=Clock())
async def test_after_a_time_out_the_pod_is_tried_again(world: World) -> None:
    await world.create(device_class(), node("node-0"), fabric(), claim("attach"))
    await world.create(pod("binder", "attach"))
    await allocated(world, "attach", "fpga-0")
    before = await world.get("resourceclaims", "attach")
    world.clock.advance(601)
    await world.patch("resourceclaims", "attach", {"metadata": {"labels": {"look": "again"}}})

    async def allocated_anew() -> bool:
        found = await world.get("resourceclaims", "attach")
        stamps = [
            each["status"].get("allocation", {}).get("allocationTimestamp")
            for each in (before, found)
        ]
        return stamps[1] is not None and stamps[0] != stamps[1]

    await world.until(allocated_anew, "another attempt")
    status = device_condition("fpga-0", "example.com/attached")
    await world.set_status("resourceclaims", "attach", status)
    await world.bound("binder")


def test_a_write_that_is_never_answered_ends_with_a_fresh_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claim_writes, "WRITE_SECONDS", 0.05)

    async def run() -> None:
        async with connected() as world:
            await fleet(world, gpus=1)
            hung = 0

            async def hang(request: Request, proceed: Proceed) -> Response:
                nonlocal hung
                if (is_status_patch(request) or is_binding(request)) and hung < 2:
                    hung += 1
                    await proceed()
                    await asyncio.Event().wait()
                return await proceed()

            world.intercept = hang
            await world.create(claim("gpu"), pod("p", "gpu"))
            await world.bound("p")
            await world.create(claim("late"), pod("second", "late"))
            await world.refused("second", "cannot allocate all claims")
            assert hung == 2

    loop.run(run())


def test_a_claim_that_others_keep_changing_is_given_up_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue, "FIRST_ERROR_SECONDS", 0.05)

    async def run() -> None:
        async with connected() as world:
            await fleet(world, gpus=1)
            is_disturbed = True

            async def disturb(request: Request, proceed: Proceed) -> Response:
                if is_status_patch(request) and is_disturbed:
                    label = {"labels": {"turn": str(len(world.requests))}}
                    await world.patch("resourceclaims", "gpu", {"metadata": label})
                return await proceed()

            world.intercept = disturb
            await world.create(claim("gpu"), pod("p", "gpu"))
            await world.refused("p", "others keep changing it")
            is_disturbed = False
            await world.bound("p")

    loop.run(run())


async def interrupted(world: World, name: str) -> None:
    """Leave a pod as a scheduler that ended before it bound it, and delete its claim."""
    gates = [{"name": "example.com/wait"}]
    await world.create(pod(name, template_name="gpu", schedulingGates=gates))

    async def is_made() -> bool:
        return bool((await world.get("pods", name))["status"].get("resourceClaimStatuses"))

    await world.until(is_made, "the claim of the pod")
    (made,) = await world.claims_of(name)
    claim_name = made["metadata"]["name"]
    finalizers = {"finalizers": ["resource.kubernetes.io/delete-protection"]}
    await world.patch("resourceclaims", claim_name, {"metadata": finalizers})
    result = {"request": "gpu", "driver": DRIVER, "pool": "node-0", "device": "gpu-0"}
    uid = (await world.get("pods", name))["metadata"]["uid"]
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
    }
    await world.set_status("resourceclaims", claim_name, status)
    await world.delete("resourceclaims", claim_name)
    assert (await world.get("resourceclaims", claim_name))["metadata"]["deletionTimestamp"]


@in_world()
async def test_a_deleted_claim_that_an_interrupted_attempt_reserved_is_given_up(
    world: World,
) -> None:
    await fleet(world, gpus=1)
    await world.create(template("gpu"))
    await interrupted(world, "p")
    await world.patch("pods", "p", {"spec": {"schedulingGates": []}})
    assert await world.bound("p") == "node-0"


@in_world()
async def test_a_withdrawal_goes_on_until_it_is_answered(world: World) -> None:
    await fleet(world, gpus=1)
    refusals = 0

    async def interfere(request: Request, proceed: Proceed) -> Response:
        nonlocal refusals
        if is_status_patch(request) and b'"reservedFor":null' in request.body and refusals < 8:
            refusals += 1
            return status_response(errors.conflict(CLAIMS, "it", "somebody else was faster"))
        return await proceed()

    world.intercept = interfere
    await world.create(template("gpu"))
    await interrupted(world, "p")
    await world.patch("pods", "p", {"spec": {"schedulingGates": []}})
    assert await world.bound("p") == "node-0"
    assert refusals == 8
