"""Expressions of admission policies: compiled once for each policy, evaluated for each request.

Behaviour and texts are those of apiserver's admission/plugin/cel. A policy's own variables are
evaluated when they are first read, and their cost is charged to the budget of the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from dray.cel import program, types
from dray.cel.checking import environment
from dray.cel.checking.constant_folding import InstantiationFailed
from dray.cel.checking.environment import Environment
from dray.cel.functions.kubernetes.authorizers import (
    AuthorizerValue,
    CheckedAction,
    ResourceCheck,
)
from dray.cel.issues import CompilationFailed
from dray.cel.program import Program
from dray.cel.runtime import values
from dray.cel.runtime.values import EvaluationError
from dray.cel.types import Kind, Type

EVALUATION_BUDGET = 10_000_000
"""What all expressions of a policy may cost for one request."""
MATCH_CONDITIONS_BUDGET = 2_500_000

BOOL = (types.BOOL,)
STRING = (types.STRING,)
STRING_OR_NULL = (types.STRING, types.NULL)
ANYTHING: tuple[Type, ...] = ()


class OutOfBudget(Exception):
    """The expressions of a policy cost more than they may."""

    def __init__(self) -> None:
        super().__init__(
            "validation failed due to running out of cost budget, "
            "no further validation rules will be run"
        )


class NamedExpression(NamedTuple):
    name: str
    expression: str


@dataclass(frozen=True)
class CompiledExpression:
    """An expression with its program, or with the reason why there is none."""

    text: str
    program: Program | None
    error: str = ""
    """In the words of apiserver's cel.Error; empty for a program."""
    is_internal: bool = False
    """Whether apiserver calls it an internal error: a part that is constant cannot be computed."""
    type: Type = types.DYN
    variables: tuple[str, ...] = ()
    """The names of the environment's variables, in the order in which the program takes them."""


@dataclass(frozen=True)
class Scope:
    """The names that the expressions of a policy may use."""

    has_params: bool = False
    has_authorizer: bool = True
    stored: bool = True
    """Whether the expressions are in the store already: those may use everything there is."""
    variables: Mapping[str, Type] | None = None
    """The types of the policy's own variables; None where it has none."""
    objects: Mapping[str, Type] = field(default_factory=dict)
    """Better types than `dyn` for some variables, which only type checking has."""
    structures: Mapping[str, Mapping[str, Type]] = field(default_factory=dict)
    """The fields of these types."""

    def environment(self) -> Environment:
        return environment.policy_environment(
            stored=self.stored,
            has_params=self.has_params,
            has_authorizer=self.has_authorizer,
            variables=self.variables,
            objects=self.objects,
            structures=self.structures,
        )


def compile_expression(
    text: str, scope: Environment, result_types: tuple[Type, ...]
) -> CompiledExpression:
    """Compile an expression whose result must be of one of these types, or any without them."""
    try:
        checked = program.check(text, scope)
    except CompilationFailed as failure:
        return CompiledExpression(text, None, f"compilation failed: {failure}")
    found = checked.result_type
    if result_types and found not in result_types:
        return CompiledExpression(text, None, _type_error(result_types, found))
    try:
        compiled = Program(checked, scope)
    except InstantiationFailed as failure:
        error = f"program instantiation failed: {failure}"
        return CompiledExpression(text, None, error, is_internal=True)
    return CompiledExpression(text, compiled, type=found, variables=tuple(scope.variables))


def _type_error(expected: Sequence[Type], found: Type) -> str:
    if len(expected) == 1:
        return f"must evaluate to {expected[0]} but got {found}"
    return f"must evaluate to one of [{' '.join(map(str, expected))}] but got {found}"


def compile_variables(
    variables: Iterable[NamedExpression], scope: Scope
) -> tuple[dict[str, CompiledExpression], Scope]:
    """Compile variables in their order, each of which may use those before it.

    Returns them, and the scope of the other expressions.
    """
    compiled: dict[str, CompiledExpression] = {}
    fields: dict[str, Type] = {}
    for name, text in variables:
        inner = replace(scope, variables=dict(fields))
        expression = compile_expression(text, inner.environment(), ANYTHING)
        compiled[name] = expression
        fields[name] = field_type(expression.type)
    return compiled, replace(scope, variables=fields)


_KEPT = frozenset(
    {
        *(Kind.ANY, Kind.BOOL, Kind.BYTES, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.NULL),
        *(Kind.STRING, Kind.TIMESTAMP, Kind.UINT),
    }
)


def field_type(type: Type) -> Type:
    """Return the type of a variable as other expressions see it (convertCelTypeToDeclType)."""
    if type.kind in _KEPT:
        return type
    if type.kind is Kind.LIST:
        return types.list_of(field_type(type.parameters[0]))
    if type.kind is Kind.MAP:
        key, value = type.parameters
        return types.map_of(field_type(key), field_type(value))
    return types.DYN


class PolicyInput(NamedTuple):
    """The values of one request; objects are JSON."""

    request: Mapping[str, Any]
    object: Any = None
    old_object: Any = None
    namespace_object: Any = None
    params: Any = None
    authorizer: AuthorizerValue | None = None
    request_action: CheckedAction = CheckedAction()
    """The resource of the request, for `authorizer.requestResource`."""


class Evaluation(NamedTuple):
    """The value of an expression; `error` is its text, empty without one."""

    value: Any
    error: str = ""


class Evaluator:
    """Evaluates expressions of one policy for one request, within one budget."""

    def __init__(
        self, given: PolicyInput, variables: Mapping[str, CompiledExpression], budget: int
    ) -> None:
        self._budget = budget
        self._pending = 0
        self._arguments: dict[tuple[str, ...], list[Any]] = {}
        authorizer: Any = given.authorizer
        request_resource: Any = _NO_REQUEST_RESOURCE
        if given.authorizer is None:
            authorizer = _NO_AUTHORIZER
        else:
            request_resource = ResourceCheck(given.authorizer, given.request_action)
        self._values: dict[str, Any] = {
            "object": given.object,
            "oldObject": given.old_object,
            "namespaceObject": _as_object(given.namespace_object),
            "request": values.Object(given.request),
            "params": given.params,
            "authorizer": authorizer,
            "authorizer.requestResource": request_resource,
            "variables": _LazyVariables(variables, self._variable) if variables else _NO_VARIABLES,
        }

    @property
    def budget(self) -> int:
        return self._budget

    def evaluate(self, expression: CompiledExpression) -> Evaluation:
        """Return the value of an expression. Raises OutOfBudget."""
        if expression.program is None:
            return Evaluation(None, f"compilation error: {expression.error}")
        value, error, cost = self._run(expression)
        spent, self._pending = self._pending + cost, 0
        if spent > self._budget:
            raise OutOfBudget
        self._budget -= spent
        if error is not None:
            return Evaluation(None, f"expression '{expression.text}' resulted in error: {error}")
        return Evaluation(value)

    def _run(self, expression: CompiledExpression) -> program.Measurement:
        assert expression.program is not None
        # Nearly all expressions of a policy have the same variables.
        given = self._arguments.get(expression.variables)
        if given is None:
            given = [self._values[name] for name in expression.variables]
            self._arguments[expression.variables] = given
        try:
            return expression.program.measure(*given)
        except RecursionError:
            return program.Measurement(None, EvaluationError("values nest too deep"), 0)

    def _variable(self, name: str, expression: CompiledExpression) -> Any:
        if expression.program is None:
            raise EvaluationError(
                f'composited variable "{name}" fails to compile: {expression.error}'
            )
        value, error, cost = self._run(expression)
        self._pending += cost
        if error is not None:
            raise EvaluationError(f'composited variable "{name}" fails to evaluate: {error}')
        return value


_NO_AUTHORIZER = EvaluationError("no such attribute(s): authorizer")
_NO_REQUEST_RESOURCE = EvaluationError("no such attribute(s): authorizer.requestResource")
"""Where there is no authorizer, an expression that names it fails when it is evaluated."""


def _as_object(document: Any) -> Any:
    return None if document is None else values.Object(document)


class _LazyVariables(values.Object):
    """The variables of a policy, each evaluated when it is first read."""

    def __init__(
        self,
        expressions: Mapping[str, CompiledExpression],
        evaluate: Callable[[str, CompiledExpression], Any],
    ) -> None:
        super().__init__()
        self._expressions = expressions
        self._evaluate = evaluate
        self._errors: dict[str, EvaluationError] = {}

    def __missing__(self, name: str) -> Any:
        if name not in self._expressions:
            raise KeyError(name)
        if name in self._errors:
            raise self._errors[name]
        try:
            value = self[name] = self._evaluate(name, self._expressions[name])
        except EvaluationError as error:
            self._errors[name] = error
            raise
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._expressions

    def as_map(self) -> dict[str, Any]:
        return {name: self[name] for name in self._expressions}


_NO_VARIABLES = values.Object()
