"""Constants of an expression, folded before it runs (cel-go interpreter/decorators.go).

Literals of constants, conversions of constants and names of types are constants, free of cost while
the expression runs. An error among them, and a constant that cannot be an index, make the program
impossible: that is neither a compilation error nor one of evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from dray.cel.checking.checker import Checked
from dray.cel.checking.environment import Environment
from dray.cel.runtime import operations, regexes
from dray.cel.runtime.values import EvaluationError, UInt
from dray.cel.syntax import factory
from dray.cel.syntax.factory import children_first
from dray.cel.syntax.nodes import (
    FunctionCall,
    Identifier,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
)
from dray.cel.types import Kind

_CONVERSIONS = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
_INDEXES = frozenset({"_[_]", "_[?_]", "_?._"})
_REGEX_FUNCTIONS = frozenset({"matches", "find", "findAll"})
_SET_ELEMENTS = frozenset({bool, int, UInt, float, str})


class InstantiationFailed(Exception):
    """The expression is valid and no program can be made of it; `str()` is cel-go's text."""


@dataclass(slots=True)
class Folded:
    """Constants by node id; `memberships` are the tests `x in [constants]` that cost nothing."""

    constants: dict[int, Any] = field(default_factory=dict)
    memberships: set[int] = field(default_factory=set)


def fold(checked: Checked, environment: Environment) -> Folded:
    """Return the constants of an expression. Raises InstantiationFailed."""
    folding = _Folding(checked, environment)
    for node in children_first(checked.root):
        folding.visit(node)
    return folding.folded


class _Folding:
    def __init__(self, checked: Checked, environment: Environment) -> None:
        self.folded = Folded()
        self._constants = self.folded.constants
        self._checked = checked
        self._environment = environment
        self._visits: dict[type[Node], Callable[[Any], None]] = {
            Literal: self._literal,
            Identifier: self._type_name,
            Select: self._type_name,
            ListLiteral: self._list,
            MapLiteral: self._map,
            FunctionCall: self._call,
        }

    def visit(self, node: Node) -> None:
        if visit := self._visits.get(type(node)):
            visit(node)

    def _are_constant(self, nodes: Iterable[Node]) -> bool:
        return all(node.id in self._constants for node in nodes)

    def _literal(self, node: Literal) -> None:
        self._constants[node.id] = node.value

    def _type_name(self, node: Node) -> None:
        reference = self._checked.references.get(node.id)
        if reference is None or self._checked.types[node.id].kind is not Kind.TYPE:
            return
        if reference.constant is not None:
            self._constants[node.id] = reference.constant
        elif reference.name in self._environment.type_names:
            raise InstantiationFailed(f"reference to undefined type: {reference.name}")

    def _list(self, node: ListLiteral) -> None:
        if not node.optional_indices and self._are_constant(node.elements):
            self._constants[node.id] = tuple(
                [self._constants[element.id] for element in node.elements]
            )

    def _map(self, node: MapLiteral) -> None:
        if not self._are_constant(factory.children(node)):
            return
        if any(entry.optional for entry in node.entries):
            return
        collected: dict[Any, Any] = {}
        for entry in node.entries:
            key, value = self._constants[entry.key.id], self._constants[entry.value.id]
            operations.put(collected, key, value)
        self._constants[node.id] = collected

    def _call(self, node: FunctionCall) -> None:
        reference = self._checked.references.get(node.id)
        name = reference.name if reference else node.function
        if name in _CONVERSIONS:
            self._conversion(node, name)
        elif name in _INDEXES:
            self._index(node.arguments[1])
        elif name in _REGEX_FUNCTIONS and node.arguments:
            self._pattern(node.arguments[0] if node.target else node.arguments[-1])
        elif name == "@in" and reference and reference.overload_ids == ("in_list",):
            self._membership(node)

    def _conversion(self, node: FunctionCall, function: str) -> None:
        if len(node.arguments) != 1 or not self._are_constant(node.arguments):
            return
        value = self._constants[node.arguments[0].id]
        try:
            self._constants[node.id] = self._environment.functions[function].dispatch(value)
        except EvaluationError as problem:
            raise InstantiationFailed(str(problem)) from None

    def _index(self, index: Node) -> None:
        if index.id in self._constants:
            problem = operations.invalid_key(self._constants[index.id])
            if problem is not None:
                raise InstantiationFailed(problem)

    def _pattern(self, pattern: Node) -> None:
        value = self._constants.get(pattern.id)
        if isinstance(value, str):
            try:
                regexes.compile(value)
            except EvaluationError as problem:
                raise InstantiationFailed(str(problem)) from None

    def _membership(self, node: FunctionCall) -> None:
        candidates = self._constants.get(node.arguments[1].id)
        if candidates is None:
            return
        if not candidates:
            self._constants[node.id] = False
        elif all(candidate.__class__ in _SET_ELEMENTS for candidate in candidates):
            self.folded.memberships.add(node.id)
