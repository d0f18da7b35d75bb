"""deployments/scale and its like."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.types.meta import JsonObject
from tests.unit.apiserver import world
from tests.unit.apiserver.world import Answer, World

DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/web"
MERGE = "application/merge-patch+json"


def workload(**spec: Any) -> JsonObject:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": world.pod("p")["spec"],
    }
    selector = {"matchLabels": {"app": "web"}}
    return {
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": selector, "template": template, **spec},
    }


def deployed() -> World:
    server = World()
    server.create(DEPLOYMENT.rpartition("/")[0], workload())
    return server


def test_a_scale_is_what_matters_of_a_deployment() -> None:
    server = deployed()
    scale = server.get(f"{DEPLOYMENT}/scale")
    metadata = server.get(DEPLOYMENT)["metadata"]
    wanted = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    assert scale == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in wanted},
        "spec": {"replicas": 2},
        "status": {"replicas": 0, "selector": "app=web"},
    }


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/apis/apps/v1/namespaces/default/replicasets", workload()),
        ("/apis/apps/v1/namespaces/default/statefulsets", workload(serviceName="s")),
        ("/api/v1/namespaces/default/replicationcontrollers", workload(selector={"app": "web"})),
    ],
)
def test_others_have_a_scale_too(path: str, body: JsonObject) -> None:
    server = World()
    server.create(path, body)
    answer = server.ask("PATCH", f"{path}/web/scale", {"spec": {"replicas": 5}}, content_type=MERGE)
    assert answer.status == 200, answer.body
    assert answer.body["spec"] == {"replicas": 5}
    assert answer.body["status"]["selector"] == "app=web"
    assert server.get(f"{path}/web")["spec"]["replicas"] == 5


def put(server: World, replicas: int, **metadata: str) -> Answer:
    scale = server.get(f"{DEPLOYMENT}/scale")
    scale["spec"] = {"replicas": replicas}
    scale["metadata"].update(metadata)
    return server.ask("PUT", f"{DEPLOYMENT}/scale", scale)


def test_a_scale_can_be_put_back() -> None:
    server = deployed()
    answer = put(server, 3)
    assert (answer.status, answer.body["spec"]) == (200, {"replicas": 3})
    deployment = server.get(DEPLOYMENT)
    assert deployment["spec"]["replicas"] == 3
    assert deployment["metadata"]["generation"] == 2
    managers = [
        (entry["manager"], entry.get("subresource"))
        for entry in deployment["metadata"]["managedFields"]
    ]
    assert ("test", "scale") in managers


def test_scaling_to_nothing_is_allowed() -> None:
    server = deployed()
    assert put(server, 0).status == 200
    assert server.get(DEPLOYMENT)["spec"]["replicas"] == 0


def test_a_stale_scale_is_a_conflict() -> None:
    server = deployed()
    answer = put(server, 3, resourceVersion="1")
    assert answer.status == 409
    assert answer.message.startswith('Operation cannot be fulfilled on deployments.apps "web"')
    assert server.get(DEPLOYMENT)["spec"]["replicas"] == 2


def test_less_than_nothing_is_invalid() -> None:
    answer = put(deployed(), -1)
    assert answer.status == 422
    assert answer.message == (
        'Scale.autoscaling "web" is invalid: spec.replicas: Invalid value: -1: must be greater '
        "than or equal to 0"
    )


def test_a_scale_needs_a_workload() -> None:
    answer = World().ask("GET", f"{DEPLOYMENT}/scale")
    assert (answer.status, answer.message) == (404, 'deployments.apps "web" not found')


def test_a_scale_without_metadata_is_refused() -> None:
    answer = deployed().ask("PUT", f"{DEPLOYMENT}/scale", {"kind": "Scale", "spec": {}})
    assert (answer.status, "metadata.name: Required value" in answer.message) == (400, True)


def test_what_is_no_scale_is_refused() -> None:
    server = deployed()
    answer = server.ask("PUT", f"{DEPLOYMENT}/scale", server.get(DEPLOYMENT))
    assert answer.status == 400
