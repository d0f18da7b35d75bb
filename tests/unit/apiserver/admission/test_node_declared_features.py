"""Slices whose devices use the node's own resources."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api import features
from dray.api.types.meta import JsonObject
from dray.apiserver.admission.node_declared_features import FEATURE
from tests.unit.apiserver import world
from tests.unit.apiserver.world import Answer, World

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
NODES = "/api/v1/nodes"
GATES = features.parse("DRANodeAllocatableResources=true")
DEVICE = {
    "name": "cpu-0",
    "capacity": {"cpu": {"value": "8"}},
    "allowMultipleAllocations": True,
    "nodeAllocatableResources": {
        "cpu": {"mapping": {"capacityKey": "cpu", "capacityMultiplier": "1"}}
    },
}


def add_node(server: World, name: str, *declared: str, **labels: str) -> None:
    body = {**world.node(name, **labels), "status": {"declaredFeatures": list(declared)}}
    server.create(NODES, body)


def publish(server: World, **place: Any) -> Answer:
    body = world.resource_slice("s", "n1", DEVICE)
    if place:
        del body["spec"]["nodeName"]
        body["spec"].update(place)
    return server.ask("POST", SLICES, body)


def why(answer: Answer) -> str:
    assert answer.status == 403, answer.body
    return answer.message.partition(" is forbidden: ")[2]


def test_a_node_that_declares_it_may_have_such_devices() -> None:
    server = World(GATES)
    add_node(server, "n1", FEATURE)
    answer = publish(server)
    assert answer.status == 201, answer.body


def test_a_node_that_does_not_may_not() -> None:
    server = World(GATES)
    add_node(server, "n1")
    assert why(publish(server)) == f'node "n1" does not support {FEATURE} feature'


def test_a_node_that_does_not_exist_may_not() -> None:
    assert why(publish(World(GATES))) == 'node "n1" not found for device "cpu-0"'


SELECTED: JsonObject = {
    "nodeSelector": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}
        ]
    }
}


@pytest.mark.parametrize(
    ("place", "allowed"), [(SELECTED, True), ({"allNodes": True}, False)], ids=["selected", "all"]
)
def test_all_nodes_in_question_have_to_declare_it(place: JsonObject, allowed: bool) -> None:
    server = World(GATES)
    add_node(server, "n1", FEATURE, pool="a")
    add_node(server, "n2", pool="b")
    assert publish(server, **place).status == (201 if allowed else 403)


def test_other_slices_are_not_concerned() -> None:
    device = {"name": "gpu-0"}
    World(GATES).create(SLICES, world.resource_slice("s", "n1", device))
