"""Policies and bindings match requests by resource, operation, scope, name and labels."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.types.meta import JsonObject
from tests.unit.apiserver import world
from tests.unit.apiserver.admission.policies.objects import (
    CONFIG_MAPS,
    config_map,
    enforce,
    enforcing,
    policy,
    rules,
)
from tests.unit.apiserver.world import Answer, World


def asked(constraints: JsonObject, body: JsonObject | None = None, path: str = CONFIG_MAPS) -> int:
    """Return the code of a create on a server with a policy that denies what it matches."""
    server = enforcing("false", matchConstraints=constraints)
    return server.ask("POST", path, body or config_map()).status


@pytest.mark.parametrize(
    ("constraints", "is_matched"),
    [
        (rules("configmaps"), True),
        (rules("*"), True),
        (rules("*/*"), True),
        (rules("configmaps/*"), True),
        (rules("configmaps/status"), False),
        (rules("secrets", "configmaps"), True),
        (rules("secrets"), False),
        (rules("configmaps", group="*"), True),
        (rules("configmaps", group="apps"), False),
        (rules("configmaps", apiVersions=["v2"]), False),
        (rules("configmaps", operations=["UPDATE", "DELETE"]), False),
        (rules("configmaps", operations=["CREATE"]), True),
        (rules("configmaps", scope="Namespaced"), True),
        (rules("configmaps", scope="Cluster"), False),
        (rules("configmaps", resourceNames=["c"]), True),
        (rules("configmaps", resourceNames=["d"]), False),
    ],
)
def test_rules(constraints: JsonObject, is_matched: bool) -> None:
    assert asked(constraints) == (422 if is_matched else 201)


def test_an_excluded_resource_is_not_matched() -> None:
    excluded = rules("configmaps", resourceNames=["c"])["resourceRules"]
    constraints = {**rules("*"), "excludeResourceRules": excluded}
    assert asked(constraints) == 201
    assert asked(constraints, config_map("d")) == 422


def test_the_labels_of_the_object_count_old_or_new() -> None:
    selector = {"matchLabels": {"app": "web"}}
    server = World()
    server.create(CONFIG_MAPS, {"metadata": {"name": "c", "labels": {"app": "web"}}})
    enforce(
        server, policy("p", "false", matchConstraints={**rules("*"), "objectSelector": selector})
    )
    assert server.ask("POST", CONFIG_MAPS, config_map("d")).status == 201
    assert server.ask("PUT", f"{CONFIG_MAPS}/c", config_map()).status == 422
    assert server.ask("DELETE", f"{CONFIG_MAPS}/c").status == 422


@pytest.mark.parametrize(("labels", "code"), [({"tier": "gold"}, 422), ({}, 201)])
def test_the_labels_of_the_namespace_count(labels: dict[str, str], code: int) -> None:
    server = World()
    server.create("/api/v1/namespaces", world.namespace("team", **labels))
    constraints = {**rules("*"), "namespaceSelector": {"matchLabels": {"tier": "gold"}}}
    enforce(server, policy("p", "false", matchConstraints=constraints))
    assert server.ask("POST", "/api/v1/namespaces/team/configmaps", config_map()).status == code
    # A namespace is selected by its own labels, as they are written.
    assert server.ask("POST", "/api/v1/namespaces", world.namespace("new", **labels)).status == code
    assert server.ask("DELETE", "/api/v1/namespaces/team").status == (422 if code == 422 else 200)


def test_objects_of_the_cluster_are_in_every_namespace() -> None:
    constraints = {**rules("nodes"), "namespaceSelector": {"matchLabels": {"tier": "gold"}}}
    assert asked(constraints, world.node("n"), "/api/v1/nodes") == 422


def claimed(server: World, version: str) -> Answer:
    claim = world.claim("c")
    if version == "v1beta1":
        (request,) = claim["spec"]["devices"]["requests"]
        request.update(request.pop("exactly"))
    path = f"/apis/resource.k8s.io/{version}/namespaces/default/resourceclaims"
    return server.ask("POST", path, claim)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_an_equivalent_version_is_matched_in_the_version_of_the_rule(version: str) -> None:
    expression = (
        "has(object.spec.devices.requests[0].exactly) && object.apiVersion == 'resource.k8s.io/v1'"
        " && request.resource.version == 'v1' && request.kind.version == 'v1'"
        f" && request.requestResource.version == '{version}'"
        f" && request.requestKind.version == '{version}'"
    )
    constraints = rules("resourceclaims", group="resource.k8s.io")
    assert claimed(enforcing(expression, matchConstraints=constraints), version).status == 201
    server = enforcing(f"!({expression})", matchConstraints=constraints)
    assert claimed(server, version).status == 422


def test_match_conditions_see_the_resource_of_the_client() -> None:
    condition = {"name": "beta", "expression": "request.resource.version == 'v1beta1'"}
    constraints = rules("resourceclaims", group="resource.k8s.io")
    server = enforcing("false", matchConstraints=constraints, matchConditions=[condition])
    assert claimed(server, "v1").status == 201
    assert claimed(server, "v1beta1").status == 422


def test_an_exact_rule_matches_no_other_version() -> None:
    constraints = {**rules("resourceclaims", group="resource.k8s.io"), "matchPolicy": "Exact"}
    server = enforcing("false", matchConstraints=constraints)
    assert claimed(server, "v1").status == 422
    assert claimed(server, "v1beta1").status == 201


@pytest.mark.parametrize("group", ["", "events.k8s.io"])
def test_events_of_both_groups_are_equivalent(group: str) -> None:
    server = enforcing("false", matchConstraints=rules("events", group=group))
    core = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
    }
    assert server.ask("POST", "/api/v1/namespaces/default/events", core).status == 422
    new = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "c.example.com/x",
        "reportingInstance": "i",
        "action": "a",
        "reason": "r",
        "type": "Normal",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
    }
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    assert server.ask("POST", path, new).status == 422


@pytest.mark.parametrize(
    ("match", "code"),
    [
        (rules("configmaps"), 422),
        (rules("secrets"), 201),
        ({"namespaceSelector": {"matchLabels": {"x": "y"}}}, 201),
        ({"objectSelector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}}, 422),
    ],
)
def test_a_binding_matches_less_than_its_policy(match: dict[str, Any], code: int) -> None:
    server = World()
    enforce(server, policy("p", "false", matchConstraints=rules("*")), matchResources=match)
    assert server.ask("POST", CONFIG_MAPS, config_map()).status == code
