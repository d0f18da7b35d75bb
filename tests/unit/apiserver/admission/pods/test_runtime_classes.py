"""RuntimeClasses: overhead, nodes and tolerations of pods; classes that are missing."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.types.meta import JsonObject
from tests.unit.apiserver import world
from tests.unit.apiserver.world import World

CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
OVERHEAD = {"podFixed": {"cpu": "10m"}}


def with_class(**fields: Any) -> World:
    server = World()
    server.create(CLASSES, {"metadata": {"name": "r"}, "handler": "h", **fields})
    return server


def made(server: World, **spec: Any) -> JsonObject:
    spec = server.create(world.PODS, world.pod("p", runtimeClassName="r", **spec))["spec"]
    return spec


def refusal(server: World, **spec: Any) -> str:
    answer = server.ask("POST", world.PODS, world.pod("p", **spec))
    assert answer.status == 403
    return answer.message.partition("is forbidden: ")[2]


def test_a_class_gives_its_overhead() -> None:
    server = with_class(overhead=OVERHEAD)
    assert made(server)["overhead"] == {"cpu": "10m"}
    assert "overhead" not in made(with_class())


def test_an_overhead_of_the_pod_must_be_that_of_its_class() -> None:
    server = with_class(overhead=OVERHEAD)
    differs = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    assert refusal(server, runtimeClassName="r", overhead={"cpu": "1"}) == differs
    assert made(server, overhead={"cpu": "0.01"})["overhead"] == {"cpu": "10m"}
    alone = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    assert refusal(server, overhead={"cpu": "10m"}) == alone


def test_a_class_chooses_nodes() -> None:
    server = with_class(scheduling={"nodeSelector": {"a": "b"}})
    assert made(server, nodeSelector={"c": "d"})["nodeSelector"] == {"a": "b", "c": "d"}
    assert refusal(server, runtimeClassName="r", nodeSelector={"a": "x"}) == (
        "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = x"
    )


def test_tolerations_that_others_include_are_left_out() -> None:
    everything = {"key": "k", "operator": "Exists"}
    server = with_class(scheduling={"tolerations": [everything]})
    one = {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}
    other = {"key": "x", "operator": "Exists", "effect": "NoSchedule"}
    tolerations = made(server, tolerations=[one, other])["tolerations"]
    assert [item["key"] for item in tolerations if item["key"] in "kx"] == ["x", "k"]


def test_a_class_that_does_not_exist() -> None:
    missing = 'pod rejected: RuntimeClass "r" not found'
    assert refusal(World(), runtimeClassName="r") == missing


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"handler": ""}, "handler: Required value"),
        ({"handler": "A"}, 'handler: Invalid value: "A"'),
        ({"overhead": {"podFixed": {"cpu": "-1"}}}, "overhead.limits[cpu]: Invalid value"),
        (
            {"scheduling": {"tolerations": [{"key": "a", "operator": "Exists"}] * 2}},
            "scheduling.tolerations[1]: Duplicate value",
        ),
        ({"scheduling": {"nodeSelector": {"a": "?"}}}, "scheduling.nodeSelector: Invalid value"),
    ],
)
def test_classes_that_are_not_valid(fields: JsonObject, error: str) -> None:
    body = {"metadata": {"name": "r"}, "handler": "h", **fields}
    answer = World().ask("POST", CLASSES, body)
    assert answer.status == 422
    assert error in answer.message


def test_the_handler_cannot_change() -> None:
    server = with_class()
    stored = server.get(f"{CLASSES}/r")
    answer = server.ask("PUT", f"{CLASSES}/r", {**stored, "handler": "other"})
    assert "handler: Invalid value" in answer.message
