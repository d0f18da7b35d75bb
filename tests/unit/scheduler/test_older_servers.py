"""The scheduler against servers of older versions, which lack kinds or versions of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from dray.api import features as gates
from dray.api.http_messages import Request, Response
from dray.api.types.meta import JsonObject
from tests.unit.scheduler.world import (
    DRIVER,
    Intercept,
    World,
    claim,
    device_class,
    gpu_slice,
    in_world,
    node,
    pod,
)

RULES = "devicetaintrules"
GROUPS = gates.with_gates(gates.DEFAULT, {"GenericWorkload": True})
NOT_FOUND = Response(404, {"content-type": "application/json"}, b'{"kind":"Status","code":404}')


def serving_only(**versions: str) -> Intercept:
    """Serve a kind, named by its plural, in one version; in none if that is empty."""

    async def intercept(request: Request, ask: Callable[[], Awaitable[Response]]) -> Response:
        parts = request.path.strip("/").split("/")
        version = parts[2] if len(parts) > 2 else ""
        if any(versions[plural] != version for plural in versions.keys() & set(parts)):
            return NOT_FOUND
        response = await ask()
        if len(parts) != 3 or parts[0] != "apis" or response.status != 200:
            return response
        document = msgspec.json.decode(response.body)
        document["resources"] = [
            resource
            for resource in document["resources"]
            if versions.get(resource["name"].partition("/")[0], version) == version
        ]
        return Response(200, response.headers, msgspec.json.encode(document))

    return intercept


def rule() -> JsonObject:
    taint = {"key": "broken", "effect": "NoSchedule"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "broken"},
        "spec": {"deviceSelector": {"driver": DRIVER, "device": "gpu-0"}, "taint": taint},
    }


def asked(here: World, plural: str) -> set[str]:
    """Return the versions in which the scheduler has asked for a kind."""
    paths = [request.path.strip("/").split("/") for request in here.requests]
    return {parts[2] for parts in paths if plural in parts}


@in_world(intercept=serving_only(devicetaintrules="", podgroups=""), features=GROUPS)
async def test_a_server_without_kinds_is_served_without_them(here: World) -> None:
    await here.create(device_class(), node("one"), gpu_slice("one", 1), claim("x"), pod("p", "x"))
    assert await here.bound("p") == "one"
    assert not asked(here, RULES) | asked(here, "podgroups")


@in_world(intercept=serving_only(devicetaintrules="v1beta2"))
async def test_rules_are_read_in_the_version_that_is_served(here: World) -> None:
    await here.create(device_class(), rule(), node("one"), gpu_slice("one", 2), claim("x"))
    await here.create(pod("p", "x"))
    assert await here.bound("p") == "one"
    allocation = (await here.get("resourceclaims", "x"))["status"]["allocation"]
    assert [result["device"] for result in allocation["devices"]["results"]] == ["gpu-1"]
    assert asked(here, RULES) == {"v1beta2"}


@in_world(intercept=serving_only(devicetaintrules="v1alpha3"))
async def test_alpha_versions_are_not_read(here: World) -> None:
    await here.create(device_class(), node("one"), gpu_slice("one", 1), claim("x"), pod("p", "x"))
    assert await here.bound("p") == "one"
    assert not asked(here, RULES)


@in_world(features=gates.for_version("1.34"))
async def test_gates_of_an_older_version_need_no_rules(here: World) -> None:
    await here.create(device_class(), node("one"), gpu_slice("one", 1), claim("x"), pod("p", "x"))
    assert await here.bound("p") == "one"
    assert not asked(here, RULES)
