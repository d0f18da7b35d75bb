"""Role-based access control."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.http_messages import User
from dray.api.types.rbac import ClusterRole, PolicyRule, Role, RoleBinding
from dray.apiserver.access import bootstrap_policy, rbac, rule_coverage
from dray.apiserver.access.rbac import Attributes, Policy

ALICE = User("alice", frozenset({"team", "system:authenticated"}))


def rule(**fields: Any) -> dict[str, Any]:
    return {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], **fields}


def make(kind: Any, name: str, namespace: str = "", **fields: Any) -> Any:
    metadata = {"name": name, "namespace": namespace}
    return msgspec.convert({"metadata": metadata, **fields}, kind)


def bound(subject: dict[str, str], rules: list[dict[str, Any]], namespace: str = "") -> Policy:
    made = Policy()
    made.put(make(ClusterRole, "r", rules=rules))
    reference = {"kind": "ClusterRole", "name": "r"}
    made.put(make(RoleBinding, "b", namespace, roleRef=reference, subjects=[subject]))
    return made


GET_PODS = Attributes("get", "", "pods", namespace="ns", name="p")


@pytest.mark.parametrize(
    ("changes", "allowed"),
    [
        pytest.param({}, True, id="exact"),
        pytest.param({"verbs": ["list"]}, False, id="other-verb"),
        pytest.param({"verbs": ["*"]}, True, id="any-verb"),
        pytest.param({"apiGroups": ["apps"]}, False, id="other-group"),
        pytest.param({"resources": ["*"]}, True, id="any-resource"),
        pytest.param({"resources": ["pods/log"]}, False, id="subresource-only"),
        pytest.param({"resourceNames": ["q"]}, False, id="other-name"),
        pytest.param({"resourceNames": ["p"]}, True, id="this-name"),
    ],
)
def test_rule(changes: dict[str, Any], allowed: bool) -> None:
    made = bound({"kind": "User", "name": "alice"}, [rule(**changes)])
    assert made.allows(ALICE, GET_PODS) is allowed


@pytest.mark.parametrize(
    ("subject", "user", "allowed"),
    [
        ({"kind": "User", "name": "alice"}, ALICE, True),
        ({"kind": "User", "name": "bob"}, ALICE, False),
        ({"kind": "Group", "name": "team"}, ALICE, True),
        (
            {"kind": "ServiceAccount", "name": "sa", "namespace": "ns"},
            User("system:serviceaccount:ns:sa"),
            True,
        ),
    ],
)
def test_subject(subject: dict[str, str], user: User, allowed: bool) -> None:
    assert bound(subject, [rule()]).allows(user, GET_PODS) is allowed


def test_a_binding_in_a_namespace_grants_nothing_elsewhere() -> None:
    made = bound({"kind": "User", "name": "alice"}, [rule()], namespace="ns")
    assert made.allows(ALICE, GET_PODS)
    assert not made.allows(ALICE, Attributes("get", "", "pods", namespace="other", name="p"))
    assert not made.allows(ALICE, Attributes("get", "", "pods"))


def test_an_answer_is_forgotten_when_a_role_changes() -> None:
    made = bound({"kind": "User", "name": "alice"}, [rule()])
    assert made.allows(ALICE, GET_PODS)
    made.remove("ClusterRole", "r")
    assert not made.allows(ALICE, GET_PODS)


def test_an_answer_about_one_name_is_not_given_about_another() -> None:
    subject = {"kind": "User", "name": "alice"}
    policy = bound(subject, [rule(resourceNames=["p"]), rule(resources=["nodes"])])
    assert policy.allows(ALICE, GET_PODS)
    assert not policy.allows(ALICE, msgspec.structs.replace(GET_PODS, name="q"))
    assert not policy.allows(ALICE, msgspec.structs.replace(GET_PODS, name=""))
    for name in ("p", "q", ""):
        assert policy.allows(ALICE, msgspec.structs.replace(GET_PODS, resource="nodes", name=name))


def test_subresource_wildcard() -> None:
    made = bound({"kind": "User", "name": "alice"}, [rule(resources=["*/status"])])
    assert made.allows(ALICE, Attributes("get", "", "pods", "status"))
    assert not made.allows(ALICE, Attributes("get", "", "pods"))


def test_paths() -> None:
    urls = {"verbs": ["get"], "nonResourceURLs": ["/api", "/openapi/*"]}
    made = bound({"kind": "User", "name": "alice"}, [urls])
    assert made.allows(ALICE, Attributes("get", path="/openapi/v3"))
    assert not made.allows(ALICE, Attributes("get", path="/metrics"))


def test_role_of_a_namespace() -> None:
    made = Policy()
    made.put(make(Role, "r", "ns", rules=[rule()]))
    reference = {"kind": "Role", "name": "r"}
    subject = {"kind": "User", "name": "alice"}
    made.put(make(RoleBinding, "b", "ns", roleRef=reference, subjects=[subject]))
    assert made.allows(ALICE, GET_PODS)


def test_what_would_escalate_is_named() -> None:
    owned = [PolicyRule(verbs=("get",), api_groups=("",), resources=("pods",))]
    wanted = [PolicyRule(verbs=("get", "delete"), api_groups=("",), resources=("pods",))]
    assert rule_coverage.uncovered(owned, wanted) == [
        PolicyRule(verbs=("delete",), api_groups=("",), resources=("pods",))
    ]
    everything = [PolicyRule(verbs=("*",), api_groups=("*",), resources=("*",))]
    assert rule_coverage.uncovered(everything, wanted) == []


def started() -> Policy:
    made = Policy()
    types: dict[str, Any] = {
        "ClusterRole": ClusterRole,
        "ClusterRoleBinding": RoleBinding,
        "Role": Role,
        "RoleBinding": RoleBinding,
    }
    for document in bootstrap_policy.objects():
        made.put(msgspec.convert(document, types[document["kind"]]))
    return made


@pytest.mark.parametrize(
    ("user", "attributes", "allowed"),
    [
        (User("root", frozenset({"system:masters"})), Attributes("delete", "x", "y"), True),
        (ALICE, Attributes("get", path="/apis/x"), True),
        (ALICE, GET_PODS, False),
        (User("system:anonymous", frozenset({"system:unauthenticated"})), GET_PODS, False),
        (
            User("system:anonymous", frozenset({"system:unauthenticated"})),
            Attributes("get", path="/version"),
            True,
        ),
        (User("system:kube-scheduler"), Attributes("create", "", "pods", "binding", "ns"), True),
        (User("system:kube-scheduler"), Attributes("get", "", "secrets", "", "ns", "s"), False),
        (User("dray:fleet"), Attributes("create", "", "nodes"), True),
        (User("dray:exporter"), Attributes("watch", "", "pods"), True),
        (User("dray:exporter"), Attributes("update", "", "pods"), False),
        (User("dray:exporter"), Attributes("list", "", "secrets"), False),
        (User("dray:fleet"), Attributes("get", "", "secrets", "", "kube-system", "s"), False),
        (User("dray:fleet"), Attributes("get", "", "configmaps", "", "kube-system", "c"), True),
        (User("dray:fleet"), Attributes("get", "", "configmaps", "", "default", "c"), False),
    ],
)
def test_policy_of_a_new_cluster(user: User, attributes: Attributes, allowed: bool) -> None:
    assert started().allows(user, attributes) is allowed


def test_view_gets_its_rules_by_aggregation() -> None:
    made = started()
    reference = {"kind": "ClusterRole", "name": "view"}
    subject = {"kind": "User", "name": "alice"}
    made.put(make(RoleBinding, "b", "ns", roleRef=reference, subjects=[subject]))
    assert made.allows(ALICE, GET_PODS)
    assert not made.allows(ALICE, Attributes("get", "", "secrets", "", "ns", "s"))
    assert not made.allows(ALICE, Attributes("delete", "", "pods", "", "ns", "p"))


def test_rules_in_many_namespaces_are_cached_once() -> None:
    policy = bound({"kind": "User", "name": "alice"}, [rule()])
    for number in range(3000):
        assert policy.rules(ALICE, f"absent-{number}") == policy.rules(ALICE, "")
    assert len(policy._rules) == 1


def test_the_caches_of_rules_and_decisions_are_bounded() -> None:
    policy = bound({"kind": "User", "name": "alice"}, [rule()], "ns")
    for number in range(rbac.MAX_CACHED + 10):
        user = User(f"user-{number}")
        assert not policy.allows(user, GET_PODS)
    assert len(policy._rules) <= rbac.MAX_CACHED_RULES
    assert len(policy._decisions) <= rbac.MAX_CACHED


def test_a_decision_about_a_long_text_is_not_kept() -> None:
    policy = bound({"kind": "User", "name": "alice"}, [rule()])
    path = "/" + "x" * rbac.MAX_CACHED_TEXT
    assert not policy.allows(ALICE, Attributes("get", path=path))
    assert not policy._decisions
