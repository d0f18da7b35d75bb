"""Policies with their expressions compiled, and the decisions that they give for one request.

Follows apiserver, admission/plugin/policy/validating/validator.go.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from dray.api.types.admission import PolicyValidation, ValidatingAdmissionPolicySpec
from dray.cel import policy
from dray.cel.policy import (
    CompiledExpression,
    Evaluation,
    Evaluator,
    NamedExpression,
    OutOfBudget,
    PolicyInput,
    Scope,
)

IGNORE: Final = "Ignore"
MAX_MESSAGE_BYTES: Final = 5 * 1024
DEFAULT_REASON: Final = "Invalid"
REQUEST, AUTHORIZER, NAMESPACE = "request", "authorizer", "namespaceObject"
_COSTLY: Final = (REQUEST, AUTHORIZER, NAMESPACE)


class Denial(NamedTuple):
    """A validation that failed, or an expression that could not be evaluated."""

    message: str
    reason: str = DEFAULT_REASON
    position: int = 0
    """Of the validation."""


class Verdict(NamedTuple):
    """The judgement of a policy about a request; annotations are for the audit log.

    `errors` are those of annotations: they deny a request whatever a binding does with denials.
    """

    denials: Sequence[Denial] = ()
    annotations: Sequence[tuple[str, str]] = ()
    errors: Sequence[Denial] = ()


NOTHING: Final = Verdict()


@dataclass(frozen=True)
class CompiledPolicy:
    """The expressions of one policy."""

    ignores_errors: bool
    validations: Sequence[PolicyValidation]
    variables: dict[str, CompiledExpression]
    conditions: Sequence[CompiledExpression]
    expressions: Sequence[CompiledExpression]
    messages: Sequence[CompiledExpression | None]
    annotations: Sequence[tuple[str, CompiledExpression]]
    reads: frozenset[str]
    """The variables that expressions name, of those that cost something to provide."""

    @functools.cached_property
    def has_no_messages(self) -> bool:
        return not any(self.messages)

    @classmethod
    def of(cls, spec: ValidatingAdmissionPolicySpec) -> CompiledPolicy:
        variables, scope = policy.compile_variables(
            [NamedExpression(variable.name, variable.expression) for variable in spec.variables],
            Scope(has_params=spec.param_kind is not None, variables={}),
        )
        full = scope.environment()
        unauthorized = replace(scope, has_authorizer=False).environment()
        return cls(
            ignores_errors=spec.failure_policy == IGNORE,
            validations=spec.validations,
            variables=variables,
            conditions=[
                policy.compile_expression(condition.expression, full, policy.BOOL)
                for condition in spec.match_conditions
            ],
            expressions=[
                policy.compile_expression(validation.expression, full, policy.BOOL)
                for validation in spec.validations
            ],
            messages=[
                policy.compile_expression(
                    validation.message_expression, unauthorized, policy.STRING
                )
                if validation.message_expression
                else None
                for validation in spec.validations
            ],
            annotations=[
                (
                    annotation.key,
                    policy.compile_expression(
                        annotation.value_expression.strip(), full, policy.STRING_OR_NULL
                    ),
                )
                for annotation in spec.audit_annotations
            ],
            reads=frozenset(
                name for name in _COSTLY if any(_names(name, text) for text in spec.expressions())
            ),
        )

    def decide(self, given: PolicyInput, matched_as: Callable[[], Mapping[str, Any]]) -> Verdict:
        """Evaluate the policy for a request with one parameter object.

        Match conditions see no namespace and `matched_as`, the request as its client made it.
        """
        try:
            if self.conditions and not self._applies(
                given._replace(request=matched_as(), namespace_object=None)
            ):
                return NOTHING
            denials = self._denials(given)
            if not self.annotations:
                return Verdict(denials) if denials else NOTHING
            return Verdict(denials, *self._annotations(given))
        except (OutOfBudget, _ConditionsFailed) as error:
            return NOTHING if self.ignores_errors else Verdict([Denial(str(error))])

    def _applies(self, given: PolicyInput) -> bool:
        """Return whether all match conditions hold. Raises _ConditionsFailed, OutOfBudget."""
        evaluator = Evaluator(given, self.variables, policy.MATCH_CONDITIONS_BUDGET)
        failures: dict[str, None] = {}
        for condition in self.conditions:
            value, error = evaluator.evaluate(condition)
            if error:
                failures[error] = None
            elif value is False:
                return False
        if not failures:
            return True
        if self.ignores_errors:
            return False
        texts = list(failures)
        raise _ConditionsFailed(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")

    def _denials(self, given: PolicyInput) -> Sequence[Denial]:
        """Return the validations that fail. Raises OutOfBudget."""
        evaluator = Evaluator(given, self.variables, policy.EVALUATION_BUDGET)
        results = [evaluator.evaluate(expression) for expression in self.expressions]
        if self.has_no_messages and all(value is True for value, _ in results):
            return ()
        return list(self._described(results, self._messages(given, evaluator.budget)))

    def _described(
        self, results: Iterable[Evaluation], messages: list[Evaluation | None] | str
    ) -> Iterator[Denial]:
        """Yield the denials of these results, with their messages or why there are none."""
        for index, (validation, (value, error)) in enumerate(
            zip(self.validations, results, strict=True)
        ):
            if not error and isinstance(messages, str):
                error = f"failed messageExpression: {messages}"
            if error:
                if not self.ignores_errors:
                    yield Denial(error, position=index)
            elif value is not True:
                text = None if isinstance(messages, str) else messages[index]
                reason = validation.reason or DEFAULT_REASON
                yield Denial(_message(validation, text), reason, index)

    def _messages(self, given: PolicyInput, budget: int) -> list[Evaluation | None] | str:
        """Return the messages of the validations, or why no more could be evaluated."""
        if self.has_no_messages:
            return [None] * len(self.messages)
        evaluator = Evaluator(given._replace(authorizer=None), self.variables, budget)
        try:
            return [
                evaluator.evaluate(message) if message is not None else None
                for message in self.messages
            ]
        except OutOfBudget as error:
            return str(error)

    def _annotations(
        self, given: PolicyInput
    ) -> tuple[Sequence[tuple[str, str]], Sequence[Denial]]:
        """Return keys with their values, and errors. Raises OutOfBudget."""
        evaluator = Evaluator(
            given._replace(authorizer=None), self.variables, policy.EVALUATION_BUDGET
        )
        found, failures = [], []
        for key, expression in self.annotations:
            value, error = evaluator.evaluate(expression)
            if error and not self.ignores_errors:
                failures.append(Denial(error))
            if isinstance(value, str) and value.strip():
                found.append((key, value.strip()))
        return found, failures


def _names(variable: str, expression: str) -> bool:
    """Return whether an expression may read a variable: a field of the same name is another."""
    # `x.request` is a field, but `.request` alone is the variable.
    return re.search(rf"(?<![\w)\]}}\"'`]\.)\b{variable}\b", expression) is not None


class _ConditionsFailed(Exception):
    """Match conditions that cannot be evaluated."""


def _message(validation: PolicyValidation, evaluated: Evaluation | None) -> str:
    """Return the message of a denial: the evaluated one, the fixed one, or the expression."""
    text = ""
    if evaluated is not None and isinstance(evaluated.value, str):
        text = evaluated.value.strip()
        if len(text.encode()) > MAX_MESSAGE_BYTES or "\n" in text:
            text = ""
    return (
        text or validation.message.strip() or f"failed expression: {validation.expression.strip()}"
    )
