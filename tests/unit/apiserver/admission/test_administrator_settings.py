"""Who may write the settings of administrators, and what may be in them."""

from __future__ import annotations

import json

import pytest

from dray.api.http_messages import MERGE_PATCH, User
from dray.api.types.meta import JsonObject
from tests.unit.apiserver.world import ADMIN, World

ANNOTATION = "dray.dev/host-user-id"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
NAMESPACES = "/api/v1/namespaces"
CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
BOB = User("bob", frozenset({"system:authenticated"}))
SERIAL = {"one": json.dumps({"serial": "0A:ff"})}


def rule(verbs: list[str], *resources: str) -> JsonObject:
    return {"verbs": verbs, "apiGroups": [""], "resources": list(resources)}


def world_of(*rules: JsonObject) -> World:
    """Return a world in which Bob may write namespaces and config maps, and more."""
    world = World()
    verbs = ["create", "update", "patch", "delete", "deletecollection"]
    every = [rule(verbs, "namespaces", "namespaces/status", "configmaps"), *rules]
    world.create(f"{RBAC}/clusterroles", {"metadata": {"name": "bob"}, "rules": every})
    subject = {"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "bob"}, "subjects": [subject], "roleRef": role}
    world.create(f"{RBAC}/clusterrolebindings", binding)
    return world


def namespace(value: str = "1234") -> JsonObject:
    return {"metadata": {"name": "team", "annotations": {ANNOTATION: value}}}


def annotated(value: str | None) -> JsonObject:
    return {"metadata": {"annotations": {ANNOTATION: value}}}


def test_who_may_write_namespaces_may_not_choose_their_user() -> None:
    world = world_of()
    answer = world.ask("POST", NAMESPACES, namespace(), user=BOB)
    assert answer.status == 403
    assert 'cannot escalate resource "namespaces"' in answer.message
    world.create(NAMESPACES, namespace())
    for value in ("4321", None):
        for subresource in ("", "/status"):
            path = f"{NAMESPACES}/team{subresource}"
            answer = world.ask("PATCH", path, annotated(value), user=BOB, content_type=MERGE_PATCH)
            assert answer.status == 403, answer.body
    assert world.get(f"{NAMESPACES}/team")["metadata"]["annotations"] == {ANNOTATION: "1234"}


def test_other_changes_of_such_a_namespace_need_no_more_rights() -> None:
    world = world_of()
    world.create(NAMESPACES, namespace())
    labels = {"metadata": {"labels": {"a": "b"}}}
    answer = world.ask("PATCH", f"{NAMESPACES}/team", labels, user=BOB, content_type=MERGE_PATCH)
    assert answer.status == 200, answer.body
    assert world.ask("DELETE", f"{NAMESPACES}/team", user=BOB).status == 200


def test_with_the_right_to_escalate_the_user_can_be_chosen() -> None:
    world = world_of(rule(["escalate"], "namespaces"))
    assert world.ask("POST", NAMESPACES, namespace(), user=BOB).status == 201


@pytest.mark.parametrize(
    "value",
    ["", "0", "999", "65534", "65535", "2147483647", "4294967295", "-1", "+1000", "1_000", "01000",
     "1000 ", "1e4", "0x1000", "\u0661\u0662\u0663\u0664", "9" * 5000, "root"],
)  # fmt: skip
def test_what_is_no_number_of_an_ordinary_user_is_refused(value: str) -> None:
    answer = World().ask("POST", NAMESPACES, namespace(value), user=ADMIN)
    assert answer.status == 422
    assert answer.causes[0]["field"] == f"metadata.annotations[{ANNOTATION}]"


def revoked(data: JsonObject) -> JsonObject:
    return {"metadata": {"name": "dray-revoked"}, "data": data}


def test_who_may_write_config_maps_may_not_revoke_credentials() -> None:
    world = world_of()
    assert world.ask("POST", CONFIG_MAPS, revoked(SERIAL), user=BOB).status == 403
    world.create(CONFIG_MAPS, revoked(SERIAL))
    path = f"{CONFIG_MAPS}/dray-revoked"
    for method, body in (
        ("DELETE", None),
        ("PUT", revoked({})),
        ("PUT", revoked(SERIAL | {"b": "x"})),
    ):
        answer = world.ask(method, path, body, user=BOB)
        assert answer.status in (403, 422), answer.body
    assert world.ask("DELETE", CONFIG_MAPS, user=BOB).status == 403
    assert world.get(path)["data"] == SERIAL


def test_with_the_right_to_revoke_credentials_can_be_revoked() -> None:
    world = world_of(rule(["revoke"], "users"))
    assert world.ask("POST", CONFIG_MAPS, revoked(SERIAL), user=BOB).status == 201
    assert world.ask("DELETE", f"{CONFIG_MAPS}/dray-revoked", user=BOB).status == 200


def test_the_same_name_elsewhere_is_an_ordinary_config_map() -> None:
    path = "/api/v1/namespaces/default/configmaps"
    assert world_of().ask("POST", path, revoked({"a": "b"}), user=BOB).status == 201


@pytest.mark.parametrize(
    "value",
    [
        "nonsense",
        "[]",
        "{}",
        '{"serial": "xyz"}',
        '{"serial": "1", "user": "a", "before": "2026-01-01T00:00:00Z"}',
        '{"user": "alice"}',
        '{"before": "2026-01-01T00:00:00Z"}',
        '{"user": "alice", "before": "yesterday"}',
        '{"user": "alice", "before": "2026-01-01T00:00:00Z", "after": "x"}',
        "[" * 10_000,
    ],
)
def test_what_revokes_nothing_is_refused(value: str) -> None:
    answer = World().ask("POST", CONFIG_MAPS, revoked({"key": value}))
    assert answer.status == 422
    assert answer.causes[0]["field"] == "data[key]"
