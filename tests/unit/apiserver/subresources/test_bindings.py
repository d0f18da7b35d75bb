"""pods/binding: a scheduler says on which node a pod runs."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.types.meta import JsonObject
from tests.unit.apiserver import world
from tests.unit.apiserver.world import Answer, World

SUCCESS = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


def bind(server: World, node: str = "n1", *, query: str = "", **metadata: Any) -> Answer:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", **metadata},
        "target": {"kind": "Node", "name": node},
    }
    return server.ask("POST", f"{world.PODS}/p/binding", body, query=query)


def test_a_pod_is_bound_once() -> None:
    server = World()
    server.create(world.PODS, world.pod("p"))
    answer = bind(server)
    assert (answer.status, answer.body) == (201, SUCCESS)
    bound = server.get(f"{world.PODS}/p")
    assert bound["spec"]["nodeName"] == "n1"
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert condition["lastProbeTime"] is None
    again = bind(server, "n2")
    assert again.status == 409
    assert again.message == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
    )
    assert again.body["details"] == {"name": "p", "kind": "pods/binding"}


def test_what_the_scheduler_notes_comes_along() -> None:
    server = World()
    body = world.pod("p")
    body["metadata"]["annotations"] = {"kept": "yes"}
    server.create(world.PODS, body)
    bind(server, annotations={"a": "b"}, labels={"c": "d"})
    metadata = server.get(f"{world.PODS}/p")["metadata"]
    assert metadata["annotations"] == {"kept": "yes", "a": "b"}
    assert metadata["labels"] == {"c": "d"}


def test_a_pod_is_labelled_with_where_its_node_is() -> None:
    server = World()
    server.create("/api/v1/nodes", world.node("n1", **{"topology.kubernetes.io/zone": "z"}))
    server.create(world.PODS, world.pod("p"))
    bind(server)
    labels = server.get(f"{world.PODS}/p")["metadata"]["labels"]
    assert labels == {"topology.kubernetes.io/zone": "z"}


def test_the_condition_of_a_pod_that_could_not_be_scheduled_is_replaced() -> None:
    server = World()
    made = server.create(world.PODS, world.pod("p"))
    failed = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    made["status"].update(conditions=[failed], nominatedNodeName="n1")
    assert server.ask("PUT", f"{world.PODS}/p/status", made).status == 200
    bind(server)
    status = server.get(f"{world.PODS}/p")["status"]
    assert [condition["status"] for condition in status["conditions"]] == ["True"]
    assert "reason" not in status["conditions"][0]
    assert "nominatedNodeName" not in status


def test_a_dry_run_binds_nothing() -> None:
    server = World()
    server.create(world.PODS, world.pod("p"))
    assert bind(server, query="dryRun=All").status == 201
    assert "nodeName" not in server.get(f"{world.PODS}/p")["spec"]


def test_a_gated_pod_is_not_bound() -> None:
    server = World()
    server.create(world.PODS, world.pod("p", schedulingGates=[{"name": "example.com/wait"}]))
    answer = bind(server)
    assert answer.status == 409
    assert answer.message.endswith("pod p has non-empty .spec.schedulingGates")


def test_a_pod_that_leaves_is_not_bound() -> None:
    server = World()
    body = world.pod("p")
    body["metadata"]["finalizers"] = ["example.com/wait"]
    server.create(world.PODS, body)
    server.ask("DELETE", f"{world.PODS}/p")
    assert bind(server).message.endswith("pod p is being deleted, cannot be assigned to a host")


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
def test_only_the_pod_that_was_meant_is_bound(field: str) -> None:
    server = World()
    server.create(world.PODS, world.pod("p"))
    assert bind(server, **{field: "1"}).status == 409


def test_a_pod_that_is_not_there_is_not_found() -> None:
    answer = bind(World())
    assert (answer.status, answer.message) == (404, 'pods "p" not found')


def test_the_name_is_that_of_the_path() -> None:
    answer = bind(World(), name="q")
    assert answer.status == 400
    assert answer.message == "name in URL does not match name in Binding object"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"kind": "Node"}, "target.name: Required value"),
        (
            {"kind": "Minion", "name": "n1"},
            'target.kind: Unsupported value: "Minion": supported values: "Node", "<empty>"',
        ),
    ],
)
def test_a_target_is_a_node(target: JsonObject, message: str) -> None:
    server = World()
    server.create(world.PODS, world.pod("p"))
    body = {"metadata": {"name": "p"}, "target": target}
    answer = server.ask("POST", f"{world.PODS}/p/binding", body)
    assert (answer.status, answer.message) == (500, message)


def test_bindings_are_accepted_on_the_old_path_too() -> None:
    server = World()
    server.create(world.PODS, world.pod("p"))
    body = {"metadata": {"name": "p"}, "target": {"name": "n1"}}
    answer = server.ask("POST", "/api/v1/namespaces/default/bindings", body)
    assert answer.status == 201, answer.body
    assert server.get(f"{world.PODS}/p")["spec"]["nodeName"] == "n1"


def test_a_node_binds_nothing() -> None:
    server = World()
    server.create(world.PODS, world.pod("p"))
    body = {"metadata": {"name": "p"}, "target": {"name": "n1"}}
    answer = server.ask("POST", f"{world.PODS}/p/binding", body, user=world.node_user("n1"))
    assert answer.status == 403
