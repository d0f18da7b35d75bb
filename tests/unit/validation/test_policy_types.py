"""Expressions that cannot fit the matched kinds are warned about."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.types.admission import ValidatingAdmissionPolicySpec
from dray.validation import policy_types

DEPLOYMENTS = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "operations": ["*"],
    "resources": ["deployments"],
}


def warned(*validations: Any, rule: dict[str, Any] | None = None, **spec: Any) -> dict[str, str]:
    document = {
        "matchConstraints": {"resourceRules": [{**DEPLOYMENTS, **(rule or {})}]},
        "validations": [
            {"expression": validation} if isinstance(validation, str) else validation
            for validation in validations
        ],
        **spec,
    }
    found = policy_types.warnings(msgspec.convert(document, ValidatingAdmissionPolicySpec))
    return {warning.field_ref: warning.warning for warning in found}


@pytest.mark.parametrize(
    "expression",
    [
        "object.spec.replicas > 3",
        "object.metadata.namespace == 'x' && object.metadata.__namespace__ == 'x'",
        "object.metadata.creationTimestamp < timestamp('2026-01-01T00:00:00Z')",
        "object.spec.template.spec.containers.all(c, c.image.startsWith('x'))",
        "object.spec.template.spec.containers.all(c, c.resources.limits['cpu'] == 1)",
        "object.spec.strategy.rollingUpdate.maxSurge == '25%'",
        "object.metadata.labels['a'] == 'b' || oldObject.metadata.labels.all(k, k != 'x')",
        "has(object.spec.paused) && !object.spec.paused",
    ],
)
def test_what_fits(expression: str) -> None:
    assert warned(expression) == {}


def test_a_field_that_does_not_exist() -> None:
    assert warned("true", "object.spec.replica > 1") == {
        "spec.validations[1].expression": (
            "apps/v1, Kind=Deployment: compilation failed: ERROR: <input>:1:12: undefined field "
            "'replica'\n | object.spec.replica > 1\n | ...........^\n"
        )
    }


def test_messages_variables_and_parameters_are_checked_too() -> None:
    found = warned(
        {"expression": "variables.count == 'x'", "messageExpression": "object.spec.name"},
        "params.data.max == 3",
        variables=[{"name": "count", "expression": "object.spec.replicas"}],
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
    )
    assert list(found) == [
        "spec.validations[0].expression",
        "spec.validations[0].messageExpression",
        "spec.validations[1].expression",
    ]
    assert "applied to '(int, string)'" in found["spec.validations[0].expression"]


def test_every_matched_kind_is_told() -> None:
    rule = {"resources": ["deployments", "daemonsets", "deployments/scale", "unknown"]}
    found = warned("object.spec.updateStrategy.type == 'x' && object.spec.replicas == 1", rule=rule)
    daemons, deployments = found["spec.validations[0].expression"].split("\n\n")
    assert daemons.startswith("apps/v1, Kind=DaemonSet: ")
    assert "undefined field 'replicas'" in daemons
    assert deployments.startswith("apps/v1, Kind=Deployment: ")
    assert "undefined field 'updateStrategy'" in deployments


@pytest.mark.parametrize("name", ["apiGroups", "apiVersions", "resources"])
def test_a_wildcard_is_not_checked(name: str) -> None:
    assert warned("object.nothing == 1", rule={name: ["*"]}) == {}


def test_unknown_parameters_have_no_type() -> None:
    assert warned("params.x == 1", paramKind={"apiVersion": "example.com/v1", "kind": "X"}) == {}
