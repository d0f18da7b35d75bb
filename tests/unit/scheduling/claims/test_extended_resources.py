"""Extended resources that come from devices."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from dray.api import errors
from dray.api.http_messages import Request, Response
from dray.api.types.dra import DeviceClass, DeviceClassSpec
from dray.api.types.meta import ObjectMeta
from dray.api.types.pods import Pod
from dray.apiserver.app import status_response
from dray.scheduling.claims import extended_resources
from dray.scheduling.claims.extended_resources import Classes
from tests.unit.scheduler.world import (
    World,
    claim,
    device_class,
    devices_of,
    exactly,
    gpu_slice,
    in_world,
    node,
    pod,
)

RESOURCE = "example.com/gpu"


def classes(*made: tuple[str, str | None, str]) -> Classes:
    found = Classes()
    found.reload(
        [
            DeviceClass(
                ObjectMeta(name=name, creation_timestamp=created),
                DeviceClassSpec(extended_resource_name=resource),
            )
            for name, resource, created in made
        ]
    )
    return found


def pod_with(containers: list[int], init: list[tuple[int, bool]]) -> Pod:
    def container(name: str, amount: int, sidecar: bool = False) -> dict[str, Any]:
        requests = {RESOURCE: str(amount)} if amount else {}
        body: dict[str, Any] = {"name": name, "resources": {"requests": requests}}
        return body | ({"restartPolicy": "Always"} if sidecar else {})

    spec = {
        "containers": [container(f"c{i}", amount) for i, amount in enumerate(containers)],
        "initContainers": [
            container(f"i{i}", amount, sidecar) for i, (amount, sidecar) in enumerate(init)
        ],
    }
    return msgspec.convert({"metadata": {"name": "p", "uid": "u"}, "spec": spec}, Pod)


def requests_of(made: extended_resources.ExtendedClaim) -> dict[str, int]:
    return {
        request.name: request.exactly.count
        for request in made.claim.spec.devices.requests
        if request.exactly is not None
    }


def mappings_of(made: extended_resources.ExtendedClaim) -> list[tuple[str, str]]:
    return [(mapping.container_name, mapping.request_name) for mapping in made.mappings]


def test_the_newest_class_with_a_name_wins() -> None:
    found = classes(
        ("old", RESOURCE, "2026-01-01T00:00:00Z"), ("new", RESOURCE, "2026-02-01T00:00:00Z")
    )
    assert found.class_of(RESOURCE) == "new"
    assert found.class_of("deviceclass.resource.kubernetes.io/old") == "old"


def test_of_classes_of_one_age_the_first_by_name_wins() -> None:
    created = "2026-01-01T00:00:00Z"
    assert classes(("b", RESOURCE, created), ("a", RESOURCE, created)).class_of(RESOURCE) == "a"
    assert classes(("a", RESOURCE, created), ("ab", RESOURCE, created)).class_of(RESOURCE) == "a"


@pytest.mark.parametrize(
    ("containers", "init", "requests", "mappings"),
    [
        pytest.param(
            [1, 2],
            [],
            {"container-0-request-0": 1, "container-1-request-0": 2},
            [("c0", "container-0-request-0"), ("c1", "container-1-request-0")],
            id="each container has its own request",
        ),
        pytest.param(
            [2],
            [(1, False)],
            {"container-1-request-0": 2},
            [("c0", "container-1-request-0"), ("i0", "container-1-request-0")],
            id="an init container uses what comes after it",
        ),
        pytest.param(
            [1],
            [(3, False), (2, False)],
            {"container-0-request-0": 2, "container-2-request-0": 1},
            [
                ("c0", "container-2-request-0"),
                ("i0", "container-2-request-0"),
                ("i0", "container-0-request-0"),
                ("i1", "container-2-request-0"),
                ("i1", "container-0-request-0"),
            ],
            id="init containers share the greatest request",
        ),
        pytest.param(
            [1],
            [(1, True), (2, False)],
            {"container-0-request-0": 1, "container-1-request-0": 1, "container-2-request-0": 1},
            [
                ("i0", "container-0-request-0"),
                ("c0", "container-2-request-0"),
                ("i1", "container-2-request-0"),
                ("i1", "container-1-request-0"),
            ],
            id="a sidecar that started before keeps what it has",
        ),
    ],
)
def test_requests_and_mappings(
    containers: list[int],
    init: list[tuple[int, bool]],
    requests: dict[str, int],
    mappings: list[tuple[str, str]],
) -> None:
    found = classes(("gpu", RESOURCE, "2026-01-01T00:00:00Z"))
    made = extended_resources.claim_for(pod_with(containers, init), [RESOURCE], found)
    assert requests_of(made) == requests
    assert mappings_of(made) == mappings


async def fleet(world: World) -> None:
    await world.create(node("node-0"), gpu_slice("node-0"), device_class())
    await world.create(device_class("ext.example.com", extendedResourceName=RESOURCE))


@in_world()
async def test_an_explicit_name_is_served_by_a_claim_made_when_the_pod_is_bound(
    world: World,
) -> None:
    await fleet(world)
    await world.create(pod("ext", requests={RESOURCE: "2"}))
    await world.bound("ext")
    (made,) = await world.all("resourceclaims", "default")
    assert made["metadata"]["name"].startswith("ext-extended-resources-")
    assert made["metadata"]["annotations"] == {
        "resource.kubernetes.io/extended-resource-claim": "true"
    }
    uid = (await world.get("pods", "ext"))["metadata"]["uid"]
    assert made["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "ext", "uid": uid, "controller": True}
    ]
    assert devices_of(made) == ["node-0/gpu-0", "node-0/gpu-1"]
    assert made["status"]["reservedFor"][0]["name"] == "ext"
    status = (await world.get("pods", "ext"))["status"]["extendedResourceClaimStatus"]
    assert status == {
        "requestMappings": [
            {
                "containerName": "c",
                "requestName": "container-0-request-0",
                "resourceName": RESOURCE,
            }
        ],
        "resourceClaimName": made["metadata"]["name"],
    }


@in_world()
async def test_the_implicit_name_of_a_class_works_too(world: World) -> None:
    await fleet(world)
    name = "deviceclass.resource.kubernetes.io/gpu.example.com"
    await world.create(pod("ext", requests={name: "1"}))
    await world.bound("ext")
    (made,) = await world.all("resourceclaims", "default")
    (request,) = made["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == "gpu.example.com"


@in_world()
async def test_too_many_devices_are_refused_and_leave_no_claim(world: World) -> None:
    await fleet(world)
    await world.create(pod("ext", requests={RESOURCE: "20"}))
    await world.refused("ext", "0/1 nodes are available: 1 cannot allocate all claims.")
    assert await world.all("resourceclaims", "default") == []


@in_world()
async def test_a_node_that_has_the_resource_itself_needs_no_claim(world: World) -> None:
    await fleet(world)
    await world.create(node("plugin", None, **{RESOURCE: "4"}))
    await world.create(
        pod("ext", requests={RESOURCE: "1"}, nodeSelector={"kubernetes.io/hostname": "plugin"})
    )
    assert await world.bound("ext") == "plugin"
    assert await world.all("resourceclaims", "default") == []


@in_world()
async def test_without_a_class_the_node_lacks_the_resource(world: World) -> None:
    await world.create(node("node-0"), gpu_slice("node-0"))
    await world.create(pod("ext", requests={RESOURCE: "1"}))
    await world.refused("ext", f"1 Insufficient {RESOURCE}")
    await world.create(device_class("ext.example.com", extendedResourceName=RESOURCE))
    await world.bound("ext")


@in_world()
async def test_a_claim_that_an_earlier_attempt_has_left_is_replaced(world: World) -> None:
    await fleet(world)
    body = pod("ext", requests={RESOURCE: "1"}, schedulingGates=[{"name": "example.com/wait"}])
    uid = (await world.create(body))["metadata"]["uid"]
    left = claim("left", exactly(deviceClassName="ext.example.com"))
    left["metadata"] |= {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "finalizers": ["resource.kubernetes.io/delete-protection"],
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "ext", "uid": uid, "controller": True}
        ],
    }
    await world.create(left)
    await world.settle()
    await world.patch("pods", "ext", {"spec": {"schedulingGates": []}})
    await world.bound("ext")
    (made,) = await world.all("resourceclaims", "default")
    assert made["metadata"]["name"] != "left"


@in_world()
async def test_the_claim_goes_when_the_pod_cannot_be_bound(world: World) -> None:
    await fleet(world)
    names: set[str] = set()

    async def refuse(request: Request, proceed: Callable[[], Awaitable[Response]]) -> Response:
        if request.path.endswith("/binding"):
            names.update(each["metadata"]["name"] for each in await world.all("resourceclaims"))
            return status_response(errors.forbidden(None, "ext", "not here"))
        return await proceed()

    world.intercept = refuse
    await world.create(pod("ext", requests={RESOURCE: "8"}))
    await world.refused("ext", "bind pod to node node-0")
    assert len(names) == 1

    async def is_gone() -> bool:
        found = await world.all("resourceclaims", "default")
        return names.isdisjoint(each["metadata"]["name"] for each in found)

    await world.until(is_gone)
    world.intercept = None
    assert await world.bound("ext") == "node-0"


@in_world()
async def test_the_claim_and_its_devices_come_back_with_the_end_of_the_pod(world: World) -> None:
    await fleet(world)
    await world.create(pod("first", requests={RESOURCE: "8"}))
    await world.bound("first")
    await world.create(pod("second", requests={RESOURCE: "8"}))
    await world.refused("second", "cannot allocate all claims")
    (made,) = await world.all("resourceclaims", "default")
    await world.set_status("pods", "first", {"phase": "Succeeded"})
    assert await world.bound("second") == "node-0"

    async def is_gone() -> bool:
        found = await world.all("resourceclaims", "default")
        return made["metadata"]["name"] not in {each["metadata"]["name"] for each in found}

    await world.until(is_gone)


@in_world()
async def test_explicit_and_implicit_names_share_one_claim(world: World) -> None:
    await fleet(world)
    implicit = "deviceclass.resource.kubernetes.io/gpu.example.com"
    await world.create(pod("ext", requests={RESOURCE: "1", implicit: "2"}))
    await world.bound("ext")
    (made,) = await world.all("resourceclaims", "default")
    counts = {
        request["exactly"]["deviceClassName"]: request["exactly"]["count"]
        for request in made["spec"]["devices"]["requests"]
    }
    assert counts == {"ext.example.com": 1, "gpu.example.com": 2}
    assert len(set(devices_of(made))) == 3
    status = (await world.get("pods", "ext"))["status"]["extendedResourceClaimStatus"]
    assert {mapping["resourceName"] for mapping in status["requestMappings"]} == {
        RESOURCE,
        implicit,
    }
