"""Expressions that fail, cost too much, or say something for the client and the audit log."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.types.admission import ValidatingAdmissionPolicySpec
from dray.api.types.meta import JsonObject
from dray.apiserver.admission.policies.compiled_policies import CompiledPolicy, Denial, Verdict
from dray.cel.policy import PolicyInput

OUT_OF_BUDGET = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
NUMBERS = "[1,2,3,4,5,6,7,8,9,10]"


def nested(levels: int) -> str:
    """Return an expression that costs about ten times as much with every level."""
    expression = "x0 >= 0"
    for level in range(levels):
        expression = f"{NUMBERS}.all(x{level}, {expression})"
    return expression


COSTLY = nested(6)
"""Costs more than one expression may: its limit is a tenth of the budget."""
LIMIT_EXCEEDED = (
    f"expression '{COSTLY}' resulted in error: operation cancelled: actual cost limit exceeded"
)


def decide(*expressions: str, given: JsonObject | None = None, **spec: Any) -> Verdict:
    validations = [{"expression": expression} for expression in expressions]
    document = {"failurePolicy": "Fail", "validations": validations, **spec}
    compiled = CompiledPolicy.of(msgspec.convert(document, ValidatingAdmissionPolicySpec))
    request = {"operation": "CREATE"}
    return compiled.decide(PolicyInput(object=given or {}, request=request), lambda: request)


def messages(verdict: Verdict) -> list[str]:
    return [denial.message for denial in verdict.denials]


def test_every_validation_that_fails_is_told() -> None:
    verdict = decide("true", "false", "1 == 2")
    assert verdict.denials == [
        Denial("failed expression: false", position=1),
        Denial("failed expression: 1 == 2", position=2),
    ]


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("object.a == 1", "expression 'object.a == 1' resulted in error: no such key: a"),
        ("1 / 0 == 1", "expression '1 / 0 == 1' resulted in error: division by zero"),
        (
            "variables.v",
            "expression 'variables.v' resulted in error: composited variable \"v\" fails to "
            "evaluate: no such key: a",
        ),
    ],
)
def test_an_error_denies_unless_it_is_ignored(expression: str, error: str) -> None:
    variables = [{"name": "v", "expression": "object.a == 1"}]
    assert messages(decide(expression, variables=variables)) == [error]
    ignored = decide(expression, "false", variables=variables, failurePolicy="Ignore")
    assert messages(ignored) == ["failed expression: false"]


def test_one_expression_has_a_limit_and_all_together_have_a_budget() -> None:
    assert messages(decide("false", COSTLY)) == ["failed expression: false", LIMIT_EXCEEDED]
    assert messages(decide("false", *[COSTLY] * 10)) == [OUT_OF_BUDGET]
    assert decide("false", *[COSTLY] * 10, failurePolicy="Ignore") == Verdict()


def test_the_message_of_an_expression_comes_first() -> None:
    def message(**more: str) -> str:
        validations = [{"expression": "false", **more}]
        return messages(decide(given={"n": 3}, validations=validations))[0]

    assert message(messageExpression="'has ' + string(object.n)") == "has 3"
    assert message(messageExpression="string(object.x)", message=" fixed ") == "fixed"
    assert message(messageExpression="'a\\nb'") == "failed expression: false"
    assert message(messageExpression="' '", message="fixed") == "fixed"
    # A policy that was stored by another version may have one that compiles no more.
    assert message(messageExpression="nothing") == "failed expression: false"


def conditions(*expressions: str) -> list[JsonObject]:
    return [{"name": f"c{i}", "expression": text} for i, text in enumerate(expressions)]


@pytest.mark.parametrize(
    ("expressions", "failure_policy", "expected"),
    [
        (("true", "false", "object.x"), "Fail", []),
        (("object.x == 1", "false"), "Fail", []),
        (("true", "true"), "Fail", ["failed expression: false"]),
        (
            ("true", "object.x == 1"),
            "Fail",
            ["expression 'object.x == 1' resulted in error: no such key: x"],
        ),
        (
            ("object.x == 1", "object.y == 1", "object.x == 1"),
            "Fail",
            [
                "[expression 'object.x == 1' resulted in error: no such key: x, "
                "expression 'object.y == 1' resulted in error: no such key: y]"
            ],
        ),
        (("object.x == 1",), "Ignore", []),
        (("namespaceObject == null", "variables.v"), "Fail", ["failed expression: false"]),
        ((COSTLY,), "Fail", [LIMIT_EXCEEDED]),
        ((COSTLY,) * 3, "Fail", [OUT_OF_BUDGET]),
        ((COSTLY,) * 3, "Ignore", []),
    ],
)
def test_match_conditions(
    expressions: tuple[str, ...], failure_policy: str, expected: list[str]
) -> None:
    verdict = decide(
        "false",
        matchConditions=conditions(*expressions),
        variables=[{"name": "v", "expression": "true"}],
        failurePolicy=failure_policy,
    )
    assert messages(verdict) == expected


def test_annotations_are_texts() -> None:
    annotations = [
        {"key": "a", "valueExpression": "' ' + object.name + ' '"},
        {"key": "b", "valueExpression": "null"},
        {"key": "c", "valueExpression": "' '"},
    ]
    verdict = decide("true", given={"name": "n"}, auditAnnotations=annotations)
    assert verdict == Verdict((), [("a", "n")], [])


def test_an_annotation_that_fails_denies_besides_the_others() -> None:
    annotations = [
        {"key": "a", "valueExpression": "string(object.x)"},
        {"key": "b", "valueExpression": "'text'"},
    ]
    error = "expression 'string(object.x)' resulted in error: no such key: x"
    assert decide("false", auditAnnotations=annotations) == Verdict(
        [Denial("failed expression: false")], [("b", "text")], [Denial(error)]
    )
    ignored = decide("true", auditAnnotations=annotations, failurePolicy="Ignore")
    assert ignored == Verdict((), [("b", "text")], [])


@pytest.mark.parametrize(
    ("expression", "reads"),
    [
        ("request.name == 'a'", {"request"}),
        (".request.name == 'a'", {"request"}),
        ("object.name==request.name", {"request"}),
        ("object.spec.requests.size() < 10", set()),
        ("object.request == 1 || object['a'].request == 1", set()),
        ("authorizer.requestResource.check('get').allowed()", {"authorizer"}),
        ("has(namespaceObject.metadata.labels)", {"namespaceObject"}),
    ],
)
def test_what_is_costly_is_made_only_for_expressions_that_read_it(
    expression: str, reads: set[str]
) -> None:
    spec = {"validations": [{"expression": expression}]}
    compiled = CompiledPolicy.of(msgspec.convert(spec, ValidatingAdmissionPolicySpec))
    assert compiled.reads == reads
