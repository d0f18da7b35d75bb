"""serviceaccounts/token: a token for an account."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from dray.api.formats import gotime
from dray.api.http_messages import User
from dray.api.types.meta import JsonObject
from dray.apiserver.access import service_account_tokens
from tests.unit.apiserver import world
from tests.unit.apiserver.world import ADMIN, Answer, World

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


def with_account() -> World:
    server = World()
    server.create(ACCOUNTS, {"metadata": {"name": "builder"}})
    return server


def request(
    server: World, *, user: User = ADMIN, metadata: JsonObject | None = None, **spec: Any
) -> Answer:
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": metadata or {},
        "spec": spec,
    }
    return server.ask("POST", f"{ACCOUNTS}/builder/token", body, user=user)


def claims_of(server: World, answer: Answer) -> JsonObject:
    assert answer.status == 201, answer.body
    now = datetime.datetime.now().timestamp()
    return server.signer.read(answer.body["status"]["token"], now)


def test_a_token_speaks_for_its_account_for_an_hour() -> None:
    server = with_account()
    answer = request(server)
    claims = claims_of(server, answer)
    uid = server.get(f"{ACCOUNTS}/builder")["metadata"]["uid"]
    assert claims["sub"] == "system:serviceaccount:default:builder"
    assert claims["kubernetes.io"] == {
        "namespace": "default",
        "serviceaccount": {"name": "builder", "uid": uid},
    }
    assert claims["exp"] - claims["iat"] == 3600
    assert answer.body["spec"] == {
        "audiences": [service_account_tokens.DEFAULT_AUDIENCE],
        "expirationSeconds": 3600,
        "boundObjectRef": None,
    }
    expires = gotime.parse(answer.body["status"]["expirationTimestamp"])
    assert int(expires.timestamp()) == claims["exp"]
    assert answer.body["metadata"]["name"] == "builder"


def test_the_token_is_accepted() -> None:
    server = with_account()
    user = world.run(server.authenticator.user_of_token(request(server).body["status"]["token"]))
    assert user.name == "system:serviceaccount:default:builder"


def test_audiences_and_life_time_can_be_chosen() -> None:
    server = with_account()
    claims = claims_of(server, request(server, audiences=["vault"], expirationSeconds=700))
    assert (claims["aud"], claims["exp"] - claims["iat"]) == (["vault"], 700)


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        (10, "may not specify a duration less than 10 minutes"),
        (2**32 + 1, "may not specify a duration larger than 2^32 seconds"),
    ],
)
def test_neither_too_short_nor_too_long(seconds: int, message: str) -> None:
    answer = request(with_account(), expirationSeconds=seconds)
    assert answer.status == 422
    assert answer.message == (
        'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: '
        f"{seconds}: {message}"
    )


def test_an_account_that_does_not_exist_has_no_token() -> None:
    answer = request(World())
    assert (answer.status, answer.message) == (404, 'serviceaccounts "builder" not found')


def bound_pod(server: World, **spec: Any) -> JsonObject:
    return server.create(world.PODS, world.pod("p", serviceAccountName="builder", **spec))


def reference(pod: JsonObject, **changes: str) -> JsonObject:
    uid = pod["metadata"]["uid"]
    return {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, **changes}


def test_a_token_may_live_and_die_with_a_pod() -> None:
    server = with_account()
    node = server.create("/api/v1/nodes", world.node("n1"))
    pod = bound_pod(server, nodeName="n1")
    answer = request(server, boundObjectRef=reference(pod))
    claims = claims_of(server, answer)
    private = claims["kubernetes.io"]
    assert private["pod"] == {"name": "p", "uid": pod["metadata"]["uid"]}
    assert private["node"] == {"name": "n1", "uid": node["metadata"]["uid"]}
    user = world.run(server.authenticator.user_of_token(answer.body["status"]["token"]))
    assert dict(user.extra) == {
        "authentication.kubernetes.io/credential-id": (f"JTI={claims['jti']}",),
        "authentication.kubernetes.io/pod-name": ("p",),
        "authentication.kubernetes.io/pod-uid": (pod["metadata"]["uid"],),
        "authentication.kubernetes.io/node-name": ("n1",),
        "authentication.kubernetes.io/node-uid": (node["metadata"]["uid"],),
    }


def test_a_token_is_for_pods_of_its_own_account() -> None:
    server = with_account()
    pod = server.create(world.PODS, world.pod("p"))
    answer = request(server, boundObjectRef=reference(pod))
    assert (answer.status, answer.message) == (
        400,
        'cannot bind token for serviceaccount "builder" to pod running with different '
        "serviceaccount name.",
    )


def test_a_token_is_for_the_pod_that_was_meant() -> None:
    server = with_account()
    pod = bound_pod(server)
    answer = request(server, boundObjectRef=reference(pod, uid="other"))
    assert answer.status == 409
    assert "does not match the UID in record" in answer.message


@pytest.mark.parametrize(
    ("changes", "status"), [({"name": "gone"}, 404), ({"kind": "ConfigMap"}, 400)], ids=str
)
def test_a_token_is_bound_to_something_that_can_be(changes: JsonObject, status: int) -> None:
    server = with_account()
    pod = bound_pod(server)
    assert request(server, boundObjectRef=reference(pod, **changes)).status == status


@pytest.mark.parametrize("key", ["name", "namespace"])
def test_the_request_is_for_the_account_of_the_path(key: str) -> None:
    answer = request(with_account(), metadata={key: "other"})
    assert answer.causes[0]["message"] == (
        f'Invalid value: "other": must match the service account {key} if specified'
    )


def test_a_node_gets_tokens_for_its_pods_only() -> None:
    server = with_account()
    pod = bound_pod(server, nodeName="n1")
    node = world.node_user("n1")
    unbound = request(server, user=node)
    assert unbound.message == (
        'serviceaccounts "builder" is forbidden: node requested token not bound to a pod'
    )
    assert request(server, user=node, boundObjectRef=reference(pod)).status == 201
    other = request(server, user=world.node_user("n2"), boundObjectRef=reference(pod))
    assert other.status == 403


def test_the_token_of_a_pods_volume_outlives_the_hour_that_it_names() -> None:
    server = with_account()
    made = server.create(world.PODS, world.pod("p", serviceAccountName="builder"))["metadata"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made["uid"]}
    answer = request(server, expirationSeconds=3607, boundObjectRef=bound)
    claims = claims_of(server, answer)
    assert claims["exp"] - claims["iat"] == 365 * 24 * 3600
    expires = gotime.parse(answer.body["status"]["expirationTimestamp"]).timestamp()
    assert expires - claims["iat"] <= 3608
    unbound = claims_of(server, request(server, expirationSeconds=3607))
    assert unbound["exp"] - unbound["iat"] == 3607
    other = request(server, expirationSeconds=3607, boundObjectRef=bound, audiences=["vault"])
    claims = claims_of(server, other)
    assert claims["exp"] - claims["iat"] == 3607
