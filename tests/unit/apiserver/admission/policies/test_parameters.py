"""Parameters are objects of any kind, found by name or by labels."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.apiserver import world
from tests.unit.apiserver.admission.policies.objects import (
    CONFIG_MAPS,
    config_map,
    enforce,
    policy,
    rules,
)
from tests.unit.apiserver.world import World

KIND = {"apiVersion": "v1", "kind": "ConfigMap"}
LIMIT = "params == null || size(object.data) <= int(params.data.max)"
NONE_FOUND = (
    "failed to configure binding: no params found for policy binding with `Deny` "
    "parameterNotFoundAction"
)


def limited(server: World, *, by: str = LIMIT, kind: Any = KIND, **reference: Any) -> None:
    ref = {"parameterNotFoundAction": "Deny", **reference}
    made = policy(
        "p", by, paramKind=kind, matchConstraints=rules("configmaps", operations=["CREATE"])
    )
    enforce(server, made, paramRef=ref)


def why(server: World, path: str = CONFIG_MAPS, **data: str) -> str:
    """Return why a config map is refused, or nothing."""
    answer = server.ask("POST", path, config_map(**data))
    return str(answer.message).rpartition("denied request: ")[2] if answer.status != 201 else ""


def test_by_name_in_the_namespace_of_the_request() -> None:
    server = World()
    server.create(CONFIG_MAPS, config_map("limit", max="1"))
    server.create("/api/v1/namespaces", world.namespace("team"))
    limited(server, name="limit")
    assert why(server, a="1", b="2") == f"failed expression: {LIMIT}"
    assert why(server, a="1") == ""
    assert why(server, "/api/v1/namespaces/team/configmaps", a="1") == NONE_FOUND


def test_by_name_in_a_namespace() -> None:
    server = World()
    server.create("/api/v1/namespaces", world.namespace("team"))
    server.create("/api/v1/namespaces/team/configmaps", config_map("limit", max="1"))
    limited(server, name="limit", namespace="team")
    assert why(server, a="1", b="2") == f"failed expression: {LIMIT}"


def test_none_are_found_and_that_is_allowed() -> None:
    server = World()
    limited(server, name="limit", parameterNotFoundAction="Allow")
    assert why(server, a="1", b="2") == ""


def test_every_parameter_that_labels_select_counts() -> None:
    server = World()
    for name, maximum in (("one", "1"), ("two", "2"), ("other", "0")):
        labels = {"use": "no" if name == "other" else "yes"}
        body = {**config_map(name, max=maximum)}
        body["metadata"] = {"name": name, "labels": labels}
        server.create(CONFIG_MAPS, body)
    limited(server, selector={"matchLabels": {"use": "yes"}})
    assert why(server, a="1", b="2") == f"failed expression: {LIMIT}"
    assert why(server, a="1") == ""


def test_a_policy_without_the_reference_has_null() -> None:
    server = World()
    enforce(server, policy("p", "params != null", paramKind=KIND))
    assert why(server) == "failed expression: params != null"


def test_parameters_are_in_the_version_of_the_policy() -> None:
    server = World()
    body = {"metadata": {"name": "limit"}, "spec": world.claim("x")["spec"]}
    server.create("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", body)
    kind = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim"}
    by = (
        "params.apiVersion == 'resource.k8s.io/v1beta1' && params.kind == 'ResourceClaim' && "
        "params.spec.devices.requests[0].deviceClassName == 'gpu.example.com'"
    )
    limited(server, by=by, kind=kind, name="limit")
    assert why(server) == ""


@pytest.mark.parametrize(
    ("kind", "reference", "problem"),
    [
        (
            {"apiVersion": "example.com/v1", "kind": "Limit"},
            {"name": "x"},
            "failed to configure policy: failed to find resource referenced by paramKind: "
            "'example.com/v1, Kind=Limit'",
        ),
        (
            {"apiVersion": "v1", "kind": "Node"},
            {"name": "x", "namespace": "default"},
            "failed to configure binding: paramRef.namespace must not be provided for a "
            "cluster-scoped `paramKind`",
        ),
    ],
)
def test_a_wrong_configuration_denies(kind: Any, reference: Any, problem: str) -> None:
    server = World()
    limited(server, kind=kind, **reference)
    assert why(server) == problem


def test_a_wrong_configuration_may_be_ignored() -> None:
    server = World()
    kind = {"apiVersion": "example.com/v1", "kind": "Limit"}
    enforce(
        server,
        policy("p", "false", paramKind=kind, failurePolicy="Ignore"),
        paramRef={"name": "x", "parameterNotFoundAction": "Deny"},
    )
    assert why(server) == ""


def test_objects_of_the_cluster_need_a_namespace_for_their_parameters() -> None:
    server = World()
    made = policy("p", "true", paramKind=KIND, matchConstraints=rules("nodes"))
    enforce(server, made, paramRef={"name": "limit", "parameterNotFoundAction": "Deny"})
    answer = server.ask("POST", "/api/v1/nodes", world.node("n"))
    assert str(answer.message).endswith(
        "denied request: failed to configure binding: cannot use namespaced paramRef in policy "
        "binding that matches cluster-scoped resources"
    )
