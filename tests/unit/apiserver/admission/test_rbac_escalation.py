"""Nobody grants what he does not have."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.types.meta import JsonObject
from tests.unit.apiserver import world
from tests.unit.apiserver.world import ALICE, Answer, World

GROUP = "rbac.authorization.k8s.io"
ROLES = f"/apis/{GROUP}/v1/namespaces/default/roles"
CLUSTER_ROLES = f"/apis/{GROUP}/v1/clusterroles"
BINDINGS = f"/apis/{GROUP}/v1/namespaces/default/rolebindings"

WRITES_POLICY = {
    "verbs": ["create", "update", "get"],
    "apiGroups": [GROUP],
    "resources": ["roles", "clusterroles", "rolebindings", "clusterrolebindings"],
}
READS_PODS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}


def with_alice(*rules: JsonObject) -> World:
    server = World()
    world.grant(server, ALICE, WRITES_POLICY, *rules)
    return server


def make_role(server: World, *rules: JsonObject, path: str = ROLES, **more: Any) -> Answer:
    body = {"metadata": {"name": "r"}, "rules": list(rules), **more}
    return server.ask("POST", path, body, user=ALICE)


def bind(server: World, kind: str, name: str) -> Answer:
    body = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "bob"}],
    }
    return server.ask("POST", BINDINGS, body, user=ALICE)


def test_what_one_has_one_may_grant() -> None:
    server = with_alice(READS_PODS)
    assert make_role(server, {**READS_PODS, "verbs": ["get"]}).status == 201
    assert bind(server, "Role", "r").status == 201


def test_what_one_lacks_one_may_not_grant() -> None:
    answer = make_role(with_alice(), READS_PODS)
    assert answer.status == 403
    assert answer.message == (
        'roles.rbac.authorization.k8s.io "r" is forbidden: user "alice" '
        '(groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently '
        'held:\n{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}'
    )


def test_only_what_is_missing_is_told() -> None:
    wanted = {**READS_PODS, "verbs": ["get", "list", "delete"]}
    answer = make_role(with_alice(READS_PODS), wanted)
    assert answer.message.endswith('{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}')


def test_a_binding_grants_what_its_role_does() -> None:
    server = with_alice()
    assert bind(server, "ClusterRole", "view").status == 403
    answer = bind(server, "ClusterRole", "nothing-yet")
    assert (answer.status, answer.message) == (
        404,
        'clusterroles.rbac.authorization.k8s.io "nothing-yet" not found',
    )


@pytest.mark.parametrize(
    ("verb", "resource"),
    [("escalate", "roles"), ("bind", "clusterroles")],
    ids=["escalate", "bind"],
)
def test_those_who_are_trusted_may(verb: str, resource: str) -> None:
    server = with_alice({"verbs": [verb], "apiGroups": [GROUP], "resources": [resource]})
    answer = (
        make_role(server, READS_PODS) if verb == "escalate" else bind(server, "ClusterRole", "view")
    )
    assert answer.status == 201, answer.body


def test_a_role_that_gathers_others_needs_everything() -> None:
    gathering = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    server = with_alice()
    answer = make_role(server, path=CLUSTER_ROLES, aggregationRule=gathering)
    assert answer.message.endswith("must have cluster-admin privileges to use the aggregationRule")


def test_a_role_does_not_grow_by_an_update() -> None:
    server = with_alice(READS_PODS)
    made = make_role(server, READS_PODS).body
    made["rules"][0]["verbs"].append("delete")
    assert server.ask("PUT", f"{ROLES}/r", made, user=ALICE).status == 403


def test_the_garbage_collector_is_not_in_the_way() -> None:
    server = with_alice()
    server.create(ROLES, {"metadata": {"name": "r"}, "rules": [READS_PODS]})
    role = server.get(f"{ROLES}/r")
    role["metadata"]["finalizers"] = ["example.com/wait"]
    answer = server.ask("PUT", f"{ROLES}/r", role, user=ALICE)
    assert answer.status == 200, answer.body


def test_masters_may_do_anything() -> None:
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    World().create(CLUSTER_ROLES, {"metadata": {"name": "r"}, "rules": [everything]})
