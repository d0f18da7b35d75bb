"""Expressions of policies: their environment, variables, results and costs."""

from __future__ import annotations

from typing import Any

import pytest

from dray.cel import policy, types
from dray.cel.functions.kubernetes.authorizers import (
    AuthorizationResult,
    AuthorizerValue,
    CheckedAction,
    ServiceAccountName,
)
from dray.cel.policy import Evaluator, NamedExpression, OutOfBudget, PolicyInput, Scope

REQUEST = {"operation": "CREATE", "name": "n"}


def evaluate(
    text: str, *variables: NamedExpression, budget: int = 10_000_000, **given: Any
) -> tuple[Any, str]:
    compiled, scope = policy.compile_variables(variables, Scope(has_params=True))
    expression = policy.compile_expression(text, scope.environment(), policy.ANYTHING)
    values = PolicyInput(request=REQUEST, **given)
    return tuple(Evaluator(values, compiled, budget).evaluate(expression))


def compile_error(text: str, *result_types: types.Type, **scope: Any) -> str:
    environment = Scope(**scope).environment()
    return policy.compile_expression(text, environment, result_types).error


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("object.a + 1", 4),
        ("oldObject == null", True),
        ("request.operation + request.name", "CREATEn"),
        ("params.max", 7),
        ("namespaceObject == null", True),
        ("has(object.a) && !has(object.b)", True),
        ("object.?b.orValue(9)", 9),
    ],
)
def test_values(text: str, expected: Any) -> None:
    assert evaluate(text, object={"a": 3}, params={"max": 7}) == (expected, "")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("request.nothing == 1", "undefined field 'nothing'"),
        ("request.operation == 1", "applied to '(string, int)'"),
        ("namespaceObject.metadata.selfLink == ''", "undefined field 'selfLink'"),
        ("variables.x", "undeclared reference to 'variables'"),
        ("params.x", "undeclared reference to 'params'"),
    ],
)
def test_the_request_and_the_namespace_have_types(text: str, problem: str) -> None:
    error = compile_error(text)
    assert error.startswith("compilation failed: ERROR: <input>:1:")
    assert problem in error


def test_an_expression_without_authorizer() -> None:
    text = "authorizer.path('/').check('get').allowed()"
    assert compile_error(text) == ""
    assert "undeclared reference to 'authorizer'" in compile_error(text, has_authorizer=False)


def test_the_result_has_the_right_type() -> None:
    assert compile_error("1", types.BOOL) == "must evaluate to bool but got int"
    assert compile_error("object.x", types.BOOL) == "must evaluate to bool but got dyn"
    assert (
        compile_error("1", types.STRING, types.NULL)
        == "must evaluate to one of [string null_type] but got int"
    )


def test_variables_use_those_before_them_and_keep_their_types() -> None:
    first = NamedExpression("first", "[1, 2]")
    second = NamedExpression("second", "variables.first.map(n, n * 2)")
    assert evaluate("variables.second", first, second) == ([2, 4], "")
    _, scope = policy.compile_variables([first, second], Scope())
    wrong = policy.compile_expression("variables.second == 'x'", scope.environment(), ())
    assert "applied to '(list(int), string)'" in wrong.error


def test_a_variable_is_evaluated_once_and_only_if_it_is_read() -> None:
    asked: list[CheckedAction] = []

    def authorize(_: ServiceAccountName | None, action: CheckedAction) -> AuthorizationResult:
        asked.append(action)
        return AuthorizationResult(True)

    checked = NamedExpression("may", "authorizer.path('/x').check('get').allowed()")
    broken = NamedExpression("broken", "object.nothing")
    given: dict[str, Any] = {"authorizer": AuthorizerValue(authorize), "object": {}}
    assert evaluate("true", checked, broken, **given) == (True, "")
    assert asked == []
    assert evaluate("variables.may && variables.may", checked, broken, **given) == (True, "")
    assert asked == [CheckedAction("get", path="/x")]
    assert evaluate("variables.broken == 1", checked, broken, **given)[1] == (
        "expression 'variables.broken == 1' resulted in error: composited variable \"broken\" "
        "fails to evaluate: no such key: nothing"
    )


def test_the_cost_of_a_variable_is_charged() -> None:
    numbers = NamedExpression("numbers", "[1, 2, 3].map(n, n * 2)")
    text = "variables.numbers == [2, 4, 6]"
    assert evaluate(text, numbers, budget=1_000) == (True, "")
    with pytest.raises(OutOfBudget):
        evaluate(text, numbers, budget=20)


CHECKS = {
    "authorizer.path('/a').check('get')": CheckedAction("get", path="/a"),
    "authorizer.group('g').resource('r').check('v')": CheckedAction("v", group="g", resource="r"),
    "authorizer.group('g').resource('r').subresource('s').namespace('ns').name('n').check('v')": (
        CheckedAction("v", "", "g", "r", "s", "ns", "n")
    ),
    "authorizer.group('').resource('r').fieldSelector('a=b').labelSelector('c=d').check('list')": (
        CheckedAction("list", resource="r", field_selector="a=b", label_selector="c=d")
    ),
    "authorizer.requestResource.check('v')": CheckedAction("v", resource="mine"),
}


@pytest.mark.parametrize(("text", "action"), CHECKS.items())
def test_checks(text: str, action: CheckedAction) -> None:
    asked = []

    def authorize(account: ServiceAccountName | None, about: CheckedAction) -> AuthorizationResult:
        asked.append((account, about))
        return AuthorizationResult(False, "because")

    given: dict[str, Any] = {
        "authorizer": AuthorizerValue(authorize),
        "request_action": CheckedAction(resource="mine"),
    }
    assert evaluate(f"{text}.allowed()", **given) == (False, "")
    assert evaluate(f"{text}.reason()", **given) == ("because", "")
    assert evaluate(f"{text}.errored() || {text}.error() != ''", **given) == (False, "")
    assert set(asked) == {(None, action)}


def test_a_service_account_is_asked_about_instead_of_the_user() -> None:
    def authorize(account: ServiceAccountName | None, _: CheckedAction) -> AuthorizationResult:
        return AuthorizationResult(account == ("team", "robot"))

    text = "authorizer.serviceAccount('team', 'robot').path('/').check('get').allowed()"
    given: dict[str, Any] = {"authorizer": AuthorizerValue(authorize)}
    assert evaluate(text, **given) == (True, "")
    wrong = "authorizer.serviceAccount('Team', 'robot').path('/').check('get').allowed()"
    assert "Invalid service account namespace" in evaluate(wrong, **given)[1]


def test_an_authorizer_that_is_not_there_is_an_error() -> None:
    for name in ("authorizer.path('/')", "authorizer.requestResource"):
        text = f"{name}.check('get').allowed()"
        missing = name.removesuffix(".path('/')")
        assert evaluate(text)[1] == (
            f"expression '{text}' resulted in error: no such attribute(s): {missing}"
        )
        assert evaluate(f"true || {text}") == (True, "")
