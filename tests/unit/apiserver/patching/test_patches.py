"""What of a patched object is checked: that which the patch changed, at any depth."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dray.api import http_messages
from dray.api.types.meta import JsonObject
from tests.unit.apiserver.world import World

PODS = "/api/v1/namespaces/default/pods"
CONTAINERS = [{"name": "a", "image": "busybox"}]
UNKNOWN: list[Any] = [
    pytest.param({"nope": 1}, "nope", id="of the object"),
    pytest.param({"metadata": {"nope": 1}}, "metadata.nope", id="of its metadata"),
    pytest.param({"spec": {"nope": 1}}, "spec.nope", id="of its spec"),
]
BELOW = pytest.param({"spec": {"os": {"nope": 1}}}, "spec.os.nope", id="below a new member")


def pod() -> World:
    world = World()
    world.create(PODS, {"metadata": {"name": "a"}, "spec": {"containers": CONTAINERS}})
    return world


def patch(world: World, change: JsonObject, validation: str) -> Any:
    return world.ask(
        "PATCH",
        f"{PODS}/a",
        change,
        query=f"fieldValidation={validation}",
        content_type=http_messages.MERGE_PATCH,
    )


@pytest.mark.parametrize(("change", "path"), [*UNKNOWN, BELOW])
def test_unknown_fields_are_refused(change: JsonObject, path: str) -> None:
    answer = patch(pod(), change, "Strict")
    assert answer.status == 422
    assert f'unknown field "{path}"' in answer.body["message"]


@pytest.mark.parametrize(("change", "_path"), UNKNOWN)
def test_unknown_fields_are_dropped_and_the_rest_is_written(change: JsonObject, _path: str) -> None:
    world = pod()
    before = world.get(f"{PODS}/a")
    labelled = {**change, "metadata": {"labels": {"x": "y"}, **change.get("metadata", {})}}
    answer = patch(world, labelled, "Ignore")
    assert answer.status == 200
    after = world.get(f"{PODS}/a")
    assert "nope" not in json.dumps(
        {**after, "metadata": {**after["metadata"], "managedFields": 0}}
    )
    assert after["metadata"]["labels"] == {"x": "y"}
    assert after["spec"]["containers"] == before["spec"]["containers"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


def test_a_member_of_a_wrong_type_is_refused() -> None:
    answer = patch(pod(), {"spec": {"hostname": 5}}, "Ignore")
    assert answer.status == 422
    assert "Go struct field PodSpec.spec.hostname of type string" in answer.body["message"]
