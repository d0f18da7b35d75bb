"""Checks of literals, made when the types are right (cel-go cel/validator.go, ext/formatting.go).

Literal durations, timestamps and patterns must be readable, `format` must suit its template, and
list and map literals must not mix types unless `format` is to print them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dray.cel import types
from dray.cel.checking.environment import Environment
from dray.cel.functions.extensions import string_format
from dray.cel.issues import Issue
from dray.cel.runtime import regexes
from dray.cel.runtime.values import EvaluationError
from dray.cel.syntax import factory
from dray.cel.syntax.nodes import FunctionCall, ListLiteral, Literal, MapLiteral, Node
from dray.cel.types import Kind, Type

_INTEGERS = frozenset({Kind.INT, Kind.UINT})
_NUMBERS_OR_NAMES = frozenset({Kind.DOUBLE, Kind.STRING})
_TEXTUAL = frozenset({Kind.STRING, Kind.BYTES})
_PRINTABLE = (
    _INTEGERS
    | _TEXTUAL
    | {Kind.DOUBLE, Kind.BOOL, Kind.NULL, Kind.TYPE, Kind.DURATION, Kind.TIMESTAMP}
    | {Kind.LIST, Kind.MAP}
)
_KINDS_BY_VERB = {
    "s": _PRINTABLE,
    "d": _INTEGERS,
    "f": _NUMBERS_OR_NAMES,
    "e": _NUMBERS_OR_NAMES,
    "b": _INTEGERS | {Kind.BOOL},
    "x": _INTEGERS | _TEXTUAL,
    "X": _INTEGERS | _TEXTUAL,
    "o": _INTEGERS,
}


def validate(root: Node, node_types: Mapping[int, Type], environment: Environment) -> list[Issue]:
    """Return all errors in literals, in cel-go's order of reporting."""
    validator = _Validator(node_types, environment)
    nodes = list(_descendants(root))
    issues = [
        mixture for node, exempt in nodes if not exempt for mixture in validator.mixtures(node)
    ]
    calls = [node for node, _ in nodes if isinstance(node, FunctionCall)]
    for function in ("duration", "timestamp", "matches"):
        for call in calls:
            if call.function == function:
                issues += validator.unreadable_argument(call)
    for call in calls:
        issues += validator.wrong_format(call)
    return issues


def _descendants(root: Node) -> Iterator[tuple[Node, bool]]:
    """Yield every node with whether it is inside a call of `format`."""
    waiting = [(root, False)]
    while waiting:
        node, is_formatted = waiting.pop()
        yield node, is_formatted
        is_formatted = is_formatted or (
            isinstance(node, FunctionCall) and node.function == "format"
        )
        waiting += [(child, is_formatted) for child in reversed(factory.children(node))]


class _Validator:
    def __init__(self, node_types: Mapping[int, Type], environment: Environment) -> None:
        self._types = node_types
        self._environment = environment

    def mixtures(self, node: Node) -> list[Issue]:
        """Return the entries of list or map literals whose type differs from the first one's."""
        if isinstance(node, ListLiteral):
            elements = [
                (element, index in node.optional_indices)
                for index, element in enumerate(node.elements)
            ]
            return self._mismatches(elements)[:1]
        if isinstance(node, MapLiteral):
            keys = self._mismatches([(entry.key, False) for entry in node.entries])
            return keys + self._mismatches(
                [(entry.value, entry.optional) for entry in node.entries]
            )
        return []

    def _mismatches(self, entries: Sequence[tuple[Node, bool]]) -> list[Issue]:
        issues: list[Issue] = []
        expected: Type | None = None
        for value, is_optional in entries:
            actual = self._types[value.id]
            if is_optional and actual.kind is Kind.OPTIONAL:
                actual = actual.parameters[0]
            expected = expected or actual
            if actual != expected:
                names = types.display_name(expected), types.display_name(actual)
                message = "expected type '{}' but found '{}'".format(*names)
                issues.append(Issue(value.position, message))
        return issues

    def unreadable_argument(self, call: FunctionCall) -> Iterator[Issue]:
        literal = call.arguments[0] if call.arguments else None
        if not isinstance(literal, Literal):
            return
        try:
            self._read(call.function, literal)
        except EvaluationError:
            yield Issue(literal.position, f"invalid {call.function} argument")

    def _read(self, function: str, literal: Literal) -> None:
        """Parse a literal pattern, duration or timestamp. Raises EvaluationError."""
        if function == "matches":
            regexes.compile(str(literal.value))
        else:
            self._environment.functions[function].dispatch(literal.value)

    def wrong_format(self, call: FunctionCall) -> Iterator[Issue]:
        if call.function != "format" or len(call.arguments) != 1:
            return
        template, values = call.target, call.arguments[0]
        if isinstance(template, Literal) and isinstance(values, ListLiteral):
            assert isinstance(template.value, str)
            yield from self._template_problems(call, template.value, values.elements)

    def _template_problems(
        self, call: FunctionCall, template: str, values: Sequence[Node]
    ) -> Iterator[Issue]:
        clauses = [
            part
            for part in string_format.template_parts(template)
            if isinstance(part, string_format.Clause)
        ]
        for index, clause in enumerate(clauses):
            if index >= len(values) and clause.problem != string_format.UNEXPECTED_END:
                yield Issue(call.position, f"index {index} out of range")
                return
            if clause.problem is not None:
                yield Issue(call.position, clause.problem)
                return
            refused = self._first_refused(clause.verb, values[index])
            if refused is not None:
                type_name = self._types[refused.id].name
                yield Issue(refused.position, string_format.refusal(clause.verb, type_name))
                return
        if len(values) > len(clauses):
            yield Issue(
                call.position,
                "too many arguments supplied to string.format"
                f" (expected {len(clauses)}, got {len(values)})",
            )

    def _first_refused(self, verb: str, value: Node) -> Node | None:
        """Return the value, or for `%s` the part of a literal, that the clause does not take."""
        waiting = [value]
        while waiting:
            node = waiting.pop()
            type = self._types[node.id]
            if type.kind is not Kind.DYN and type.kind not in _KINDS_BY_VERB[verb]:
                return node
            if verb == "s" and isinstance(node, ListLiteral | MapLiteral):
                waiting += reversed(factory.children(node))
        return None
