"""Subresources have bodies of their own, and a connection has only options."""

from __future__ import annotations

import pytest

from dray.api.types.meta import JsonObject
from tests.unit.apiserver import world
from tests.unit.apiserver.admission.policies.objects import denied, enforce, policy, rules
from tests.unit.apiserver.world import World

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def with_pod(expression: str, resource: str) -> World:
    server = World()
    server.create(PODS, world.pod("a"))
    enforce(server, policy("p", expression, matchConstraints=rules(resource)))
    return server


def test_an_eviction_is_a_create_of_an_eviction() -> None:
    expression = (
        "request.operation == 'CREATE' && request.kind.kind == 'Eviction' && "
        "request.resource.resource == 'pods' && request.subResource == 'eviction' && "
        "object.deleteOptions.gracePeriodSeconds == 5"
    )
    server = with_pod(expression, "pods/eviction")
    body: JsonObject = {"metadata": {"name": "a"}, "deleteOptions": {"gracePeriodSeconds": 4}}
    assert denied(
        server.ask("POST", f"{PODS}/a/eviction", body), f"failed expression: {expression}"
    )
    body["deleteOptions"] = {"gracePeriodSeconds": 5}
    assert server.ask("POST", f"{PODS}/a/eviction", body).status == 201


def test_an_eviction_is_no_deletion() -> None:
    server = with_pod("false", "pods")
    assert server.ask("DELETE", f"{PODS}/a").status == 422
    body = {"metadata": {"name": "a"}}
    assert server.ask("POST", f"{PODS}/a/eviction", body).status == 201


def test_a_binding_of_a_pod() -> None:
    server = with_pod("object.target.name != 'n1' && object.kind == 'Binding'", "pods/binding")
    for node, code in (("n1", 422), ("n2", 201)):
        body = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": node}}
        assert server.ask("POST", f"{PODS}/a/binding", body).status == code


def test_a_status_is_an_update() -> None:
    expression = "request.operation == 'UPDATE' && object.status.?message.orValue('') == 'well'"
    server = with_pod(expression, "pods/status")
    merge = "application/merge-patch+json"
    for message, code in (("bad", 422), ("well", 200)):
        body = {"status": {"message": message}}
        answer = server.ask("PATCH", f"{PODS}/a/status", body, content_type=merge)
        assert answer.status == code


def test_a_token_is_asked_about() -> None:
    server = World()
    constraints = rules("serviceaccounts/token")
    expression = "object.spec.expirationSeconds <= 3600 && request.kind.kind == 'TokenRequest'"
    enforce(server, policy("p", expression, matchConstraints=constraints))
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    server.create(accounts, {"metadata": {"name": "robot"}})
    path = f"{accounts}/robot/token"
    assert server.ask("POST", path, {"spec": {"expirationSeconds": 7200}}).status == 422
    assert server.ask("POST", path, {"spec": {}}).status == 201


def test_a_scale_is_a_scale() -> None:
    server = World()
    template = {"metadata": {"labels": {"a": "b"}}, "spec": world.pod("x")["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    server.create(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
    expression = (
        "object.kind == 'Scale' && oldObject.kind == 'Scale' && request.kind.kind == 'Scale' && "
        "request.kind.group == 'autoscaling' && oldObject.spec.replicas == 1 && "
        "object.spec.replicas < 5"
    )
    constraints = rules("deployments/scale", group="apps")
    enforce(server, policy("p", expression, matchConstraints=constraints))
    merge = "application/merge-patch+json"
    path = f"{DEPLOYMENTS}/d/scale"
    for replicas, code in ((5, 422), (4, 200)):
        body = {"spec": {"replicas": replicas}}
        assert server.ask("PATCH", path, body, content_type=merge).status == code


def test_the_finalizers_of_a_namespace() -> None:
    server = World()
    server.create("/api/v1/namespaces", world.namespace("team"))
    expression = (
        "request.subResource == 'finalize' && size(oldObject.spec.finalizers) == 1 && "
        "has(object.spec.finalizers)"
    )
    constraints = rules("namespaces/finalize")
    enforce(server, policy("p", expression, matchConstraints=constraints))
    body = {"metadata": {"name": "team"}, "spec": {"finalizers": []}}
    assert server.ask("PUT", "/api/v1/namespaces/team/finalize", body).status == 422


@pytest.mark.parametrize(
    ("subresource", "query", "expression"),
    [
        (
            "exec",
            "command=ls&command=-l&container=c&stdout=true",
            "object.command == ['ls', '-l'] && object.container == 'c' && object.stdout "
            "&& !has(object.stdin) && object.kind == 'PodExecOptions'",
        ),
        ("attach", "stdin=1", "has(object.stdin) && object.kind == 'PodAttachOptions'"),
    ],
)
def test_a_connection_is_asked_about(subresource: str, query: str, expression: str) -> None:
    asked = f"request.operation == 'CONNECT' && oldObject == null && {expression}"
    server = with_pod(f"!({asked})", f"pods/{subresource}")
    for method in ("GET", "POST"):
        answer = server.ask(method, f"{PODS}/a/{subresource}", query=query)
        assert denied(answer, f"failed expression: !({asked})")
    # Only the node is missing where the policy agrees.
    answer = server.ask("GET", f"{PODS}/a/{subresource}", query="container=other")
    assert answer.status == 400
