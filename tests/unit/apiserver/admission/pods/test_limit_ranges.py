"""LimitRanges: defaults of containers, and bounds of pods and of claims of storage."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.types.meta import JsonObject
from tests.unit.apiserver import world
from tests.unit.apiserver.world import World

RANGES = "/api/v1/namespaces/default/limitranges"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
ANNOTATION = "kubernetes.io/limit-ranger"


def limited(*items: JsonObject) -> World:
    server = World()
    server.create(RANGES, {"metadata": {"name": "l"}, "spec": {"limits": list(items)}})
    return server


def pod(requests: Any = None, limits: Any = None, **spec: Any) -> JsonObject:
    resources = {"requests": requests or {}, "limits": limits or {}}
    container = {"name": "c", "image": "i", "resources": resources}
    return world.pod("p", **{"containers": [container], **spec})


def storage(size: str) -> JsonObject:
    resources = {"requests": {"storage": size}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": resources}
    return {"metadata": {"name": "c"}, "spec": spec}


def refusal(server: World, body: JsonObject, path: str = world.PODS) -> str:
    answer = server.ask("POST", path, body)
    assert answer.status == 403
    return answer.message.partition("is forbidden: ")[2]


def test_the_range_itself_gets_defaults() -> None:
    item = {"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}
    (stored,) = limited(item).get(f"{RANGES}/l")["spec"]["limits"]
    assert stored["default"] == {"cpu": "2"}
    assert stored["defaultRequest"] == {"cpu": "2", "memory": "1Mi"}


def test_a_range_may_be_created_by_an_update() -> None:
    body = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}}
    assert World().ask("PUT", f"{RANGES}/l", body).status == 201


def test_containers_get_what_they_do_not_ask_for() -> None:
    item = {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"memory": "1Mi"}}
    server = limited(item)
    made = server.create(
        world.PODS, pod({"cpu": "1"}, initContainers=[{"name": "i", "image": "i"}])
    )
    (main,), (init,) = made["spec"]["containers"], made["spec"]["initContainers"]
    assert main["resources"]["requests"] == {"cpu": "1", "memory": "1Mi"}
    assert main["resources"]["limits"] == {"cpu": "2"}
    assert init["resources"]["requests"] == {"cpu": "2", "memory": "1Mi"}
    assert made["metadata"]["annotations"][ANNOTATION] == (
        "LimitRanger plugin set: memory request for container c; cpu limit for container c; "
        "cpu, memory request for init container i; cpu limit for init container i"
    )


def test_pods_of_other_namespaces_are_left_alone() -> None:
    server = limited({"type": "Container", "default": {"cpu": "2"}})
    server.create("/api/v1/namespaces", {"metadata": {"name": "other"}})
    made = server.create("/api/v1/namespaces/other/pods", pod())
    assert ANNOTATION not in (made["metadata"].get("annotations") or {})


@pytest.mark.parametrize("type_", ["Container", "Pod"])
@pytest.mark.parametrize(
    ("bounds", "resources", "message"),
    [
        (
            {"min": {"cpu": "1"}},
            ({"cpu": "500m"}, {}),
            "minimum cpu usage per {} is 1, but request is 500m",
        ),
        (
            {"max": {"cpu": "1"}},
            ({"cpu": "1"}, {"cpu": "2"}),
            "maximum cpu usage per {} is 1, but limit is 2",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            ({"cpu": "1"}, {"cpu": "3"}),
            "cpu max limit to request ratio per {} is 2, but provided ratio is 3.000000",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            ({}, {}),
            "cpu max limit to request ratio per {} is 2, but no request is specified or request "
            "is 0",
        ),
    ],
)
def test_bounds_are_kept(
    type_: str, bounds: JsonObject, resources: tuple[JsonObject, JsonObject], message: str
) -> None:
    server = limited({"type": type_, **bounds})
    assert refusal(server, pod(*resources)) == message.format(type_)


def test_without_a_limit_an_upper_bound_of_pods_is_not_kept() -> None:
    server = limited({"type": "Pod", "max": {"cpu": "1"}, "min": {"memory": "1Mi"}})
    assert refusal(server, pod()) == (
        "[minimum memory usage per Pod is 1Mi.  No request is specified, "
        "maximum cpu usage per Pod is 1.  No limit is specified]"
    )


def test_what_pods_have_already_is_not_asked_about_again() -> None:
    server = World()
    server.create(world.PODS, pod())
    limits = [{"type": "Container", "max": {"cpu": "1"}}]
    server.create(RANGES, {"metadata": {"name": "l"}, "spec": {"limits": limits}})
    labels = {"metadata": {"labels": {"a": "b"}}}
    answer = server.ask(
        "PATCH", f"{world.PODS}/p", labels, content_type="application/merge-patch+json"
    )
    assert answer.status == 200


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ("1Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"),
        ("3Gi", "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
    ],
)
def test_claims_of_storage_are_bounded(size: str, message: str) -> None:
    item = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}
    server = limited(item)
    assert refusal(server, storage(size), CLAIMS) == message
    server.create(CLAIMS, storage("2Gi"))
