"""Rules for admission policies and their bindings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.validation import objects

RULE: dict[str, Any] = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["pods"],
    "scope": "*",
}
SELECTORS = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}


def policy(**spec: Any) -> Any:
    document = {
        "failurePolicy": "Fail",
        "matchConstraints": {**SELECTORS, "resourceRules": [RULE]},
        "validations": [{"expression": "true"}],
        **spec,
    }
    metadata = {"name": "p", "resourceVersion": "1"}
    return objects.decode(
        {"kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": document},
        "admissionregistration.k8s.io/v1",
    )


def binding(**spec: Any) -> Any:
    document = {"policyName": "p", "validationActions": ["Deny"], **spec}
    metadata = {"name": "b", "resourceVersion": "1"}
    return objects.decode(
        {"kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata, "spec": document},
        "admissionregistration.k8s.io/v1",
    )


def problems(**spec: Any) -> list[str]:
    return objects.created("ValidatingAdmissionPolicy", policy(**spec))


def rule_problems(**rule: Any) -> list[str]:
    constraints = {**SELECTORS, "resourceRules": [{**RULE, **rule}]}
    found = problems(matchConstraints=constraints)
    prefix = "spec.matchConstraints.resourceRules[0]."
    assert all(problem.startswith(prefix) for problem in found)
    return [problem.removeprefix(prefix) for problem in found]


def binding_problems(**spec: Any) -> list[str]:
    return objects.created("ValidatingAdmissionPolicyBinding", binding(**spec))


def test_a_complete_policy_is_valid() -> None:
    assert not problems(
        paramKind={"apiVersion": "example.com/v1", "kind": "Limit"},
        variables=[
            {"name": "a", "expression": "params.x"},
            {"name": "b", "expression": "variables.a"},
        ],
        matchConditions=[{"name": "example.com/c", "expression": "request.name != params.name"}],
        validations=[
            {
                "expression": "variables.b == 1",
                "message": "no",
                "messageExpression": "'x' + string(variables.a)",
                "reason": "Forbidden",
            }
        ],
        auditAnnotations=[{"key": "k", "valueExpression": "string(object.x)"}],
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"failurePolicy": ""}, ["spec.failurePolicy: Required value"]),
        (
            {"failurePolicy": "Maybe"},
            ['spec.failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"'],
        ),
        ({"matchConstraints": None}, ["spec.matchConstraints: Required value"]),
        (
            {"matchConstraints": SELECTORS},
            ["spec.matchConstraints.resourceRules: Required value"],
        ),
        (
            {"validations": []},
            [
                "spec.validations: Required value: validations or auditAnnotations must contain at "
                "least one item",
                "spec.auditAnnotations: Required value: validations or auditAnnotations must "
                "contain at least one item",
            ],
        ),
        (
            {"paramKind": {"apiVersion": "a/b/c", "kind": ""}},
            [
                'spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion '
                "string: a/b/c",
                "spec.paramKind.kind: Required value",
            ],
        ),
    ],
)
def test_the_spec(spec: dict[str, Any], expected: list[str]) -> None:
    assert problems(**spec) == expected


@pytest.mark.parametrize(
    ("validation", "expected"),
    [
        ({"expression": " "}, ["expression: Required value: expression is not specified"]),
        (
            {"expression": "1"},
            ['expression: Invalid value: "1": must evaluate to bool but got int'],
        ),
        (
            {"expression": "x"},
            [
                'expression: Invalid value: "x": compilation failed: ERROR: <input>:1:1: '
                "undeclared reference to 'x' (in container '')\n | x\n | ^"
            ],
        ),
        (
            {"expression": "true", "messageExpression": "1"},
            ['messageExpression: Invalid value: "1": must evaluate to string but got int'],
        ),
        (
            {"expression": "true", "message": " ", "messageExpression": " "},
            [
                'messageExpression: Invalid value: " ": must be non-empty if specified',
                'message: Invalid value: " ": must be non-empty if specified',
            ],
        ),
        (
            {"expression": "true", "message": "a\nb"},
            ['message: Invalid value: "a\\nb": must not contain line breaks'],
        ),
        (
            {"expression": "true", "reason": "Conflict"},
            [
                'reason: Unsupported value: "Conflict": supported values: "Forbidden", "Invalid", '
                '"RequestEntityTooLarge"'
            ],
        ),
    ],
)
def test_validations(validation: dict[str, Any], expected: list[str]) -> None:
    found = [
        problem.removeprefix("spec.validations[0].")
        for problem in problems(validations=[validation])
    ]
    assert found == expected


def test_a_message_cannot_ask_the_authorizer() -> None:
    text = "authorizer.path('/').check('get').reason()"
    (problem,) = problems(validations=[{"expression": "true", "messageExpression": text}])
    assert "undeclared reference to 'authorizer'" in problem


def test_match_conditions_have_names_and_no_variables() -> None:
    conditions = [
        {"name": "a", "expression": "true"},
        {"name": "a", "expression": ""},
        {"name": "", "expression": "variables.x"},
    ]
    found = problems(matchConditions=conditions, variables=[{"name": "x", "expression": "true"}])
    assert found[:2] == [
        "spec.matchConditions[1].expression: Required value",
        'spec.matchConditions[1].name: Duplicate value: "a"',
    ]
    assert "undeclared reference to 'variables'" in found[2]
    assert found[3] == "spec.matchConditions[2].name: Required value"
    many = [{"name": f"c{number}", "expression": "true"} for number in range(65)]
    assert problems(matchConditions=many) == [
        "spec.matchConditions: Too many: 65: must have at most 64 items"
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("1a", ['spec.variables[0].name: Invalid value: "1a": must be a valid CEL identifier']),
        ("for", ['spec.variables[0].name: Invalid value: "for": must be a valid CEL identifier']),
        ("", ["spec.variables[0].name: Required value: name is not specified"]),
    ],
)
def test_names_of_variables(name: str, expected: list[str]) -> None:
    assert problems(variables=[{"name": name, "expression": "1"}]) == expected


def test_annotations() -> None:
    annotations = [
        {"key": "a b", "valueExpression": "'x'"},
        {"key": "k", "valueExpression": "1"},
        {"key": "k", "valueExpression": " "},
        {"key": "long", "valueExpression": f"'{'x' * 5119}'"},
    ]
    found = problems(auditAnnotations=annotations)
    assert found[0].startswith('spec.auditAnnotations[0].key: Invalid value: "p/a b": name part ')
    assert found[1:] == [
        'spec.auditAnnotations[1].valueExpression: Invalid value: "1": must evaluate to one of '
        "[string null_type] but got int",
        "spec.auditAnnotations[2].valueExpression: Required value: valueExpression is not "
        "specified",
        'spec.auditAnnotations[2].key: Duplicate value: "k"',
        "spec.auditAnnotations[3].valueExpression: Required value: must not exceed 5120 bytes in "
        "length",
    ]
    many = [{"key": f"k{number}", "valueExpression": "'x'"} for number in range(21)]
    (problem,) = problems(auditAnnotations=many)
    assert problem.endswith("must not have more than 20 auditAnnotations")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"operations": []}, ["operations: Required value"]),
        (
            {"operations": ["*", "CREATE"]},
            [
                'operations: Invalid value: ["*","CREATE"]: if \'*\' is present, must not specify '
                "other operations"
            ],
        ),
        (
            {"operations": ["GET"]},
            [
                'operations[0]: Unsupported value: "GET": supported values: "*", "CONNECT", '
                '"CREATE", "DELETE", "UPDATE"'
            ],
        ),
        ({"apiGroups": []}, ["apiGroups: Required value"]),
        ({"apiVersions": [""]}, ["apiVersions[0]: Required value"]),
        (
            {"resources": ["*", "pods"]},
            [
                'resources: Invalid value: ["*","pods"]: if \'*\' is present, must not specify '
                "other resources without subresources"
            ],
        ),
        (
            {"resources": ["pods/*", "pods/status"]},
            [
                "resources[1]: Invalid value: \"pods/status\": if 'pods/*' is present, must not "
                "specify pods/status"
            ],
        ),
        (
            {"scope": "Galaxy"},
            ['scope: Unsupported value: "Galaxy": supported values: "*", "Cluster", "Namespaced"'],
        ),
        (
            {"resourceNames": ["a", "a", "x/y"]},
            [
                'resourceNames[1]: Duplicate value: "a"',
                "resourceNames[2]: Invalid value: \"x/y\": may not contain '/'",
            ],
        ),
    ],
)
def test_rules(rule: dict[str, Any], expected: list[str]) -> None:
    assert rule_problems(**rule) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"policyName": ""}, ["spec.policyName: Required value"]),
        (
            {"validationActions": []},
            ["spec.validationActions: Required value"],
        ),
        (
            {"validationActions": ["Deny", "Warn", "Deny", "Log"]},
            [
                'spec.validationActions[2]: Duplicate value: "Deny"',
                'spec.validationActions[3]: Unsupported value: "Log": supported values: "Audit", '
                '"Deny", "Warn"',
                'spec.validationActions: Invalid value: ["Deny","Warn","Deny","Log"]: must not '
                "contain both Deny and Warn (repeating the same validation failure information in "
                "the API response and headers serves no purpose)",
            ],
        ),
        (
            {"paramRef": {"name": "a", "selector": {}}},
            [
                "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
                "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
                "spec.paramRef.parameterNotFoundAction: Required value",
            ],
        ),
        (
            {"paramRef": {"parameterNotFoundAction": "Ask"}},
            [
                "spec.paramRef: Required value: one of name or selector must be specified",
                'spec.paramRef.parameterNotFoundAction: Unsupported value: "Ask": supported '
                'values: "Deny", "Allow"',
            ],
        ),
    ],
)
def test_bindings(spec: dict[str, Any], expected: list[str]) -> None:
    assert binding_problems(**spec) == expected


def test_match_conditions_that_stay_are_not_checked_again() -> None:
    wrong = [{"name": "a", "expression": "nothing"}]
    old = policy(matchConditions=wrong)
    kept = policy(matchConditions=wrong, validations=[{"expression": "1 == 1"}])
    assert objects.updated("ValidatingAdmissionPolicy", kept, old) == []
    changed = policy(matchConditions=[*wrong, {"name": "b", "expression": "true"}])
    (problem,) = objects.updated("ValidatingAdmissionPolicy", changed, old)
    assert problem.startswith("spec.matchConditions[0].expression: Invalid value")
