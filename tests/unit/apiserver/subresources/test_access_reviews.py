"""Questions that are answered and forgotten."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from dray.api.http_messages import User
from dray.api.types.meta import JsonObject
from dray.apiserver.access import service_account_tokens
from tests.unit.apiserver import world
from tests.unit.apiserver.world import ADMIN, ALICE, Answer, World

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"
CREATE_CLAIMS = {
    "verb": "create",
    "group": "resource.k8s.io",
    "resource": "resourceclaims",
    "namespace": "default",
}
ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


def may_i(server: World, user: User, **spec: Any) -> Answer:
    path = f"{AUTHORIZATION}/selfsubjectaccessreviews"
    return server.ask("POST", path, {"spec": spec}, user=user)


def test_everyone_may_ask_what_he_may_do() -> None:
    server = World()
    answer = may_i(server, ADMIN, resourceAttributes=CREATE_CLAIMS)
    assert answer.status == 201
    assert answer.body["status"] == {"allowed": True}
    assert answer.body["spec"] == {"resourceAttributes": CREATE_CLAIMS}
    (entry,) = answer.body["metadata"]["managedFields"]
    assert entry["fieldsV1"]["f:spec"]["f:resourceAttributes"]["f:verb"] == {}
    assert may_i(server, ALICE, resourceAttributes=CREATE_CLAIMS).body["status"] == {
        "allowed": False
    }


def test_paths_can_be_asked_for_too() -> None:
    server = World()
    for path, allowed in (("/version", True), ("/metrics", False)):
        attributes = {"path": path, "verb": "get"}
        answer = may_i(server, ALICE, nonResourceAttributes=attributes)
        assert answer.body["status"] == {"allowed": allowed}


def test_a_node_learns_why_not() -> None:
    attributes = {"verb": "get", "resource": "secrets", "namespace": "default", "name": "s"}
    answer = may_i(World(), world.node_user("n1"), resourceAttributes=attributes)
    assert answer.body["status"] == {
        "allowed": False,
        "reason": "no relationship found between node 'n1' and this object",
    }


def test_a_field_selector_is_part_of_the_question() -> None:
    server, node = World(), world.node_user("n1")
    attributes: JsonObject = {"verb": "list", "resource": "pods"}
    assert not may_i(server, node, resourceAttributes=attributes).body["status"]["allowed"]
    for selector in (
        {"rawSelector": "spec.nodeName=n1"},
        {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]},
    ):
        answer = may_i(server, node, resourceAttributes={**attributes, "fieldSelector": selector})
        assert answer.body["status"]["allowed"]


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ({}, "null"),
        (
            {
                "resourceAttributes": CREATE_CLAIMS,
                "nonResourceAttributes": {"path": "/x", "verb": "get"},
            },
            '{"path":"/x","verb":"get"}',
        ),
    ],
    ids=["neither", "both"],
)
def test_a_question_is_about_one_thing(spec: JsonObject, shown: str) -> None:
    answer = may_i(World(), ALICE, **spec)
    assert answer.status == 422
    assert answer.message == (
        'SelfSubjectAccessReview.authorization.k8s.io "" is invalid: spec: Invalid value: '
        f"{shown}: {ONE_OF}"
    )


def may_they(server: World, path: str = "subjectaccessreviews", **spec: Any) -> Answer:
    spec.setdefault("resourceAttributes", CREATE_CLAIMS)
    return server.ask("POST", f"{AUTHORIZATION}/{path}", {"spec": spec})


def test_others_can_be_asked_about() -> None:
    server = World()
    world.grant(
        server,
        ALICE,
        {"verbs": ["create"], "apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"]},
    )
    assert may_they(server, user="alice").body["status"] == {"allowed": True}
    assert may_they(server, user="bob").body["status"] == {"allowed": False}
    assert may_they(server, groups=["system:masters"]).body["status"] == {"allowed": True}


def test_somebody_must_be_asked_about() -> None:
    answer = may_they(World())
    assert answer.causes[0]["message"] == (
        'Invalid value: "": at least one of user or group must be specified'
    )


def test_only_those_who_may_ask_about_others() -> None:
    path = f"{AUTHORIZATION}/subjectaccessreviews"
    body = {"spec": {"user": "bob", "resourceAttributes": CREATE_CLAIMS}}
    assert World().ask("POST", path, body, user=ALICE).status == 403


def test_a_local_question_stays_in_its_namespace() -> None:
    server, path = World(), "namespaces/default/localsubjectaccessreviews"
    assert may_they(server, path, user="bob").body["status"] == {"allowed": False}
    elsewhere = {**CREATE_CLAIMS, "namespace": "other"}
    answer = may_they(server, path, user="bob", resourceAttributes=elsewhere)
    assert answer.causes[0]["field"] == "spec.resourceAttributes.namespace"
    assert answer.causes[0]["message"] == 'Invalid value: "other": must match metadata.namespace'


def test_a_namespace_that_does_not_exist_is_not_told() -> None:
    path = "namespaces/nowhere/localsubjectaccessreviews"
    attributes = {**CREATE_CLAIMS, "namespace": "nowhere"}
    answer = may_they(World(), path, user="bob", resourceAttributes=attributes)
    assert answer.status == 201


def test_my_rules_are_listed() -> None:
    path = f"{AUTHORIZATION}/selfsubjectrulesreviews"
    answer = World().ask("POST", path, {"spec": {"namespace": "default"}}, user=ALICE)
    assert answer.status == 201
    status = answer.body["status"]
    assert status["incomplete"] is False
    assert {
        "verbs": ["create"],
        "apiGroups": ["authentication.k8s.io"],
        "resources": ["selfsubjectreviews"],
    } in status["resourceRules"]
    paths = {url for rule in status["nonResourceRules"] for url in rule["nonResourceURLs"]}
    assert "/version" in paths


def test_rules_are_those_of_a_namespace() -> None:
    answer = World().ask("POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {}})
    assert (answer.status, answer.message) == (400, "no namespace on request")


def test_a_node_has_more_rights_than_rules() -> None:
    path = f"{AUTHORIZATION}/selfsubjectrulesreviews"
    body = {"spec": {"namespace": "default"}}
    status = World().ask("POST", path, body, user=world.node_user("n1")).body["status"]
    assert status["incomplete"] is True
    assert status["evaluationError"] == "node authorizer does not support user rule resolution"


def test_who_am_i() -> None:
    answer = World().ask("POST", f"{AUTHENTICATION}/selfsubjectreviews", {})
    assert answer.status == 201
    assert answer.body["status"] == {
        "userInfo": {
            "username": "admin",
            "uid": "admin-uid",
            "groups": ["system:masters", "system:authenticated"],
        }
    }
    assert answer.body["metadata"]["creationTimestamp"]


def token_of(server: World) -> str:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    account = server.create(accounts, {"metadata": {"name": "builder"}})
    return server.signer.sign(
        service_account_tokens.service_account_claims(
            "default",
            {"name": "builder", "uid": account["metadata"]["uid"]},
            now=datetime.datetime.now().timestamp(),
            expiration_seconds=600,
            token_id="t",
        )
    )


def review(server: World, **spec: Any) -> Answer:
    return server.ask("POST", f"{AUTHENTICATION}/tokenreviews", {"spec": spec})


def test_whose_token_is_this() -> None:
    server = World()
    status = review(server, token=token_of(server)).body["status"]
    assert status["authenticated"] is True
    assert status["user"]["username"] == "system:serviceaccount:default:builder"
    assert status["audiences"] == [service_account_tokens.DEFAULT_AUDIENCE]


@pytest.mark.parametrize(
    "spec", [{"token": "nonsense"}, {"token": "x", "audiences": ["other"]}], ids=["bad", "other"]
)
def test_a_token_that_is_not_ours_is_nobodys(spec: JsonObject) -> None:
    status = review(World(), **spec).body["status"]
    assert status["authenticated"] is False
    assert status["error"]


def test_a_review_needs_a_token() -> None:
    answer = review(World(), token="")
    assert answer.message == "token is required for TokenReview in authentication"
