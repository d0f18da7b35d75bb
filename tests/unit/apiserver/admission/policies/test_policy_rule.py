"""Policies decide about requests, as their bindings say."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.http_messages import User
from tests.unit.apiserver import world
from tests.unit.apiserver.admission.policies.objects import (
    BINDINGS,
    CONFIG_MAPS,
    POLICIES,
    binding,
    config_map,
    denied,
    enforce,
    enforcing,
    policy,
    rules,
)
from tests.unit.apiserver.world import ALICE, World

PODS = "/api/v1/namespaces/default/pods"


def test_a_denied_object_is_not_stored() -> None:
    server = enforcing("size(object.data) < 2")
    answer = server.ask("POST", CONFIG_MAPS, config_map(a="1", b="2"))
    assert answer.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": (
            "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied "
            "request: failed expression: size(object.data) < 2"
        ),
        "reason": "Invalid",
        "details": {
            "name": "c",
            "kind": "configmaps",
            "causes": [
                {
                    "message": "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: "
                    "failed expression: size(object.data) < 2"
                }
            ],
        },
        "code": 422,
    }
    assert server.ask("GET", f"{CONFIG_MAPS}/c").status == 404
    assert server.ask("POST", CONFIG_MAPS, config_map(a="1")).status == 201


def test_a_policy_without_a_binding_does_nothing() -> None:
    server = World()
    server.create(POLICIES, policy("p", "false"))
    assert server.ask("POST", CONFIG_MAPS, config_map()).status == 201


def test_a_deleted_policy_decides_no_more() -> None:
    server = enforcing("false")
    assert server.ask("POST", CONFIG_MAPS, config_map()).status == 422
    assert server.ask("DELETE", f"{POLICIES}/p").status == 200
    assert server.ask("POST", CONFIG_MAPS, config_map()).status == 201


def test_a_changed_policy_is_compiled_again() -> None:
    server = enforcing("false")
    assert server.ask("POST", CONFIG_MAPS, config_map()).status == 422
    patch = {"spec": {"validations": [{"expression": "true"}]}}
    merge = "application/merge-patch+json"
    answer = server.ask("PATCH", f"{POLICIES}/p", patch, content_type=merge)
    assert (answer.status, answer.body["metadata"]["generation"]) == (200, 2)
    assert server.ask("POST", CONFIG_MAPS, config_map()).status == 201


def test_a_binding_that_warns_lets_the_request_through() -> None:
    server = World()
    enforce(server, policy("p", "false"), "Warn")
    answer = server.ask("POST", CONFIG_MAPS, config_map())
    assert answer.status == 201
    assert answer.warnings == [
        "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': "
        'failed expression: false"'
    ]


def test_a_deletion_and_a_refused_request_have_warnings_too() -> None:
    server = World()
    server.create(CONFIG_MAPS, config_map("old"))
    enforce(server, policy("p", "request.operation == 'X'"), "Warn")
    assert server.ask("DELETE", f"{CONFIG_MAPS}/old").warnings
    enforce(server, policy("q", "false"))
    answer = server.ask("POST", CONFIG_MAPS, config_map())
    assert answer.status == 422
    assert len(answer.warnings) == 1


@pytest.mark.parametrize(
    ("reason", "code"),
    [("Invalid", 422), ("Forbidden", 403), ("Unauthorized", 401), ("RequestEntityTooLarge", 413)],
)
def test_the_reason_gives_the_code(reason: str, code: int) -> None:
    validations = [{"expression": "false", "reason": reason, "message": "no"}]
    server = World()
    answer = server.ask("POST", POLICIES, policy("p", validations=validations))
    if reason == "Unauthorized":
        assert answer.status == 422
        return
    server.create(BINDINGS, binding())
    answer = server.ask("POST", CONFIG_MAPS, config_map())
    assert (answer.status, answer.body["reason"]) == (code, reason)


def test_the_first_policy_in_the_order_of_names_answers() -> None:
    server = World()
    for name in ("zebra", "ape"):
        enforce(server, policy(name, validations=[{"expression": "false", "message": name}]))
    assert denied(server.ask("POST", CONFIG_MAPS, config_map()), "ape", "ape")


def test_policies_are_not_asked_about_policies() -> None:
    everything = rules("*", group="*", apiVersions=["*"])
    server = enforcing("false", matchConstraints=everything)
    assert server.ask("POST", CONFIG_MAPS, config_map()).status == 422
    assert server.ask("POST", POLICIES, policy("q", "true")).status == 201
    assert server.ask("DELETE", f"{BINDINGS}/p").status == 200
    assert server.ask("POST", CONFIG_MAPS, config_map()).status == 201


def test_reviews_are_answered_whatever_policies_say() -> None:
    everything = rules("*", group="*", apiVersions=["*"])
    server = enforcing("false", matchConstraints=everything)
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    spec = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    assert server.ask("POST", path, {"spec": spec}).status == 201


def test_a_deletion_has_only_the_old_object() -> None:
    server = World()
    for name in ("a", "b"):
        server.create(CONFIG_MAPS, config_map(name))
    expression = (
        "request.operation != 'DELETE' || (object == null && oldObject.metadata.name == 'a')"
    )
    enforce(server, policy("p", expression))
    assert server.ask("DELETE", f"{CONFIG_MAPS}/a").status == 200
    assert server.ask("DELETE", f"{CONFIG_MAPS}/b").status == 422


def test_every_object_of_a_collection_is_asked_about() -> None:
    server = World()
    for name in ("a", "b"):
        server.create(CONFIG_MAPS, config_map(name))
    enforce(server, policy("p", "oldObject.metadata.name == 'a'"))
    assert server.ask("DELETE", CONFIG_MAPS).status == 422
    assert server.ask("GET", f"{CONFIG_MAPS}/a").status == 404
    assert server.ask("GET", f"{CONFIG_MAPS}/b").status == 200


def test_options_of_a_create() -> None:
    server = enforcing(
        "request.options == {'kind': 'CreateOptions', 'apiVersion': 'meta.k8s.io/v1'}"
    )
    assert server.ask("POST", CONFIG_MAPS, config_map()).status == 201
    assert server.ask("POST", CONFIG_MAPS, config_map("d"), query="fieldManager=me").status == 422
    server = enforcing("request.options.fieldManager == 'me' && request.options.dryRun == ['All']")
    query = "fieldManager=me&dryRun=All"
    assert server.ask("POST", CONFIG_MAPS, config_map(), query=query).status == 201


def test_options_of_other_operations() -> None:
    server = World()
    server.create(CONFIG_MAPS, config_map())
    kinds = "{'UPDATE': 'UpdateOptions', 'DELETE': 'DeleteOptions'}"
    enforce(server, policy("p", f"request.options.kind == {kinds}[request.operation]"))
    merge = "application/merge-patch+json"
    patch = server.ask("PATCH", f"{CONFIG_MAPS}/c", {"data": {"a": "1"}}, content_type=merge)
    assert patch.status == 200
    enforce(server, policy("q", "request.options.gracePeriodSeconds == 7"))
    assert server.ask("DELETE", f"{CONFIG_MAPS}/c", query="gracePeriodSeconds=6").status == 422
    assert server.ask("DELETE", f"{CONFIG_MAPS}/c", query="gracePeriodSeconds=7").status == 200


def test_a_dry_run_is_refused_too() -> None:
    server = enforcing("request.dryRun == false")
    answer = server.ask("POST", CONFIG_MAPS, config_map(), query="dryRun=All")
    assert denied(answer, "failed expression: request.dryRun == false")


def test_a_generated_name_is_the_name_of_the_request() -> None:
    server = enforcing("request.name.startsWith('a-') && request.name == object.metadata.name")
    body = {"metadata": {"generateName": "a-"}}
    assert server.ask("POST", CONFIG_MAPS, body).status == 201


def test_a_namespace_is_in_itself() -> None:
    expression = "request.namespace == 'team' && request.name == 'team' && namespaceObject == null"
    server = enforcing(expression, matchConstraints=rules("namespaces"))
    assert server.ask("POST", "/api/v1/namespaces", world.namespace("team")).status == 201


def test_the_namespace_of_an_object_can_be_read() -> None:
    server = World()
    server.create("/api/v1/namespaces", world.namespace("team", tier="gold"))
    enforce(server, policy("p", "namespaceObject.metadata.?labels.tier.orValue('') == 'gold'"))
    team = "/api/v1/namespaces/team/configmaps"
    assert server.ask("POST", team, config_map()).status == 201
    assert server.ask("POST", CONFIG_MAPS, config_map()).status == 422


def test_the_user_is_asked_about() -> None:
    user = User("bob", frozenset({"g"}), "7", (("k.example.com/x", ("v",)),))
    server = World()
    world.grant(server, user, {"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps"]})
    expression = (
        "request.userInfo.username == 'bob' && request.userInfo.uid == '7' && "
        "request.userInfo.groups == ['g'] && request.userInfo.extra == {'k.example.com/x': ['v']}"
    )
    enforce(server, policy("p", expression))
    assert server.ask("POST", CONFIG_MAPS, config_map(), user=user).status == 201
    assert server.ask("POST", CONFIG_MAPS, config_map("d")).status == 422


ALLOWED_BY = {
    "authorizer.requestResource.check('create').allowed()": True,
    "authorizer.requestResource.check('delete').allowed()": False,
    "authorizer.group('').resource('configmaps').namespace('default').name('x').check('get')"
    ".allowed()": False,
    "authorizer.path('/healthz').check('get').allowed()": True,
    "authorizer.serviceAccount('default', 'default').group('').resource('pods').check('get')"
    ".errored()": False,
}


@pytest.mark.parametrize(("expression", "expected"), ALLOWED_BY.items())
def test_the_authorizer_decides_for_the_user(expression: str, expected: bool) -> None:
    server = World()
    create = {"verbs": ["create"], "apiGroups": [""], "resources": ["configmaps"]}
    healthy = {"verbs": ["get"], "nonResourceURLs": ["/healthz"]}
    world.grant(server, ALICE, create, healthy)
    enforce(server, policy("p", f"{expression} == {str(expected).lower()}"))
    assert server.ask("POST", CONFIG_MAPS, config_map(), user=ALICE).status == 201


def test_the_node_of_a_driver_that_may_write_its_own_slices_only() -> None:
    """The policy that Kubernetes recommends for DRA drivers."""
    server = World()
    user = "request.userInfo.username == 'system:serviceaccount:driver:plugin'"
    made: dict[str, Any] = {
        "matchConstraints": rules(
            "resourceslices", group="resource.k8s.io", apiVersions=["v1beta1", "v1"]
        ),
        "matchConditions": [{"name": "restricted", "expression": user}],
        "variables": [
            {
                "name": "userNodeName",
                "expression": "request.userInfo.extra"
                "[?'authentication.kubernetes.io/node-name'][0].orValue('')",
            },
            {
                "name": "objectNodeName",
                "expression": "(request.operation == 'DELETE' ? oldObject : object)"
                ".spec.?nodeName.orValue('')",
            },
        ],
        "validations": [
            {"expression": "variables.userNodeName != ''", "message": "no node"},
            {
                "expression": "variables.userNodeName == variables.objectNodeName",
                "messageExpression": "'on ' + variables.userNodeName + ', not ' "
                "+ variables.objectNodeName",
            },
        ],
    }
    enforce(server, policy("p", **made))
    bound = User(
        "system:serviceaccount:driver:plugin",
        frozenset({"system:serviceaccounts"}),
        extra=(("authentication.kubernetes.io/node-name", ("n1",)),),
    )
    token = (("authentication.kubernetes.io/credential-id", ("JTI=1",)),)
    anywhere = User(bound.name, bound.groups, extra=token)
    slices = {"verbs": ["*"], "apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"]}
    world.grant(server, bound, slices)
    path = "/apis/resource.k8s.io/v1/resourceslices"
    own, other = world.resource_slice("s1", "n1"), world.resource_slice("s2", "n2")
    assert denied(server.ask("POST", path, own, user=anywhere), "no node")
    assert denied(server.ask("POST", path, other, user=bound), "on n1, not n2")
    assert server.ask("POST", path, own, user=bound).status == 201
    server.create(path, other)
    assert denied(server.ask("DELETE", f"{path}/s2", user=bound), "on n1, not n2")
    assert server.ask("DELETE", f"{path}/s1", user=bound).status == 200
