"""A checked expression with its constants folded: the input of both code generators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dray.cel import types
from dray.cel.checking import constant_folding
from dray.cel.checking.checker import Checked
from dray.cel.checking.constant_folding import Folded
from dray.cel.checking.environment import Environment
from dray.cel.functions import dispatching
from dray.cel.functions.overloads import Function, Overload
from dray.cel.syntax.nodes import FunctionCall, Identifier, Node, Select
from dray.cel.types import Kind, Type


class Qualifier(NamedTuple):
    """One step of a chain of selections."""

    key: Node | str
    is_optional: bool
    is_test: bool = False


class SelectionChain(NamedTuple):
    """Selections, each made from the result of the one before."""

    root: Node
    qualifiers: tuple[Qualifier, ...]


@dataclass(frozen=True, slots=True)
class CompilationPlan:
    """An expression ready for code to be made of it."""

    checked: Checked
    environment: Environment
    folded: Folded
    _chains: dict[int, SelectionChain] = field(default_factory=dict)

    def is_constant(self, node: Node) -> bool:
        return node.id in self.folded.constants

    def constant(self, node: Node) -> Any:
        return self.folded.constants[node.id]

    def type(self, node: Node) -> Type:
        return self.checked.types[node.id]

    def is_variable(self, node: Node) -> bool:
        """Return whether a node names a variable; a selection does where the name has dots."""
        if self.is_constant(node) or not isinstance(node, Identifier | Select):
            return False
        return isinstance(node, Identifier) or self._is_name(node)

    def _is_name(self, node: Select) -> bool:
        return not node.test_only and node.id in self.checked.references

    def operands(self, call: FunctionCall) -> list[Node]:
        """Return the receiver, if there is one, and the arguments."""
        receiver = self.checked.receiver(call)
        return list(call.arguments) if receiver is None else [receiver, *call.arguments]

    def function(self, call: FunctionCall) -> Function:
        return self.environment.functions[self.checked.references[call.id].name]

    def overload(self, call: FunctionCall) -> Overload | None:
        """Return the overload of a call, or None if the static types leave several."""
        name, overload_ids, _ = self.checked.references[call.id]
        return self.environment.overload(name, overload_ids[0]) if len(overload_ids) == 1 else None

    def implementation(self, call: FunctionCall) -> Callable[..., Any]:
        """Return a function that takes operands of any type and rejects those that do not fit."""
        overload = self.overload(call)
        function = self.function(call)
        return dispatching.guarded(function, overload) if overload else function.dispatch

    def qualifier(self, node: Node) -> Qualifier | None:
        """Return the last step of a chain of selections; None for any other node."""
        if self.is_constant(node):
            return None
        if isinstance(node, Select):
            return None if self._is_name(node) else Qualifier(node.field, False, node.test_only)
        if isinstance(node, FunctionCall) and node.target is None:
            if node.function == "_[_]":
                return Qualifier(node.arguments[1], False)
            if node.function in ("_[?_]", "_?._"):
                return Qualifier(node.arguments[1], True)
        return None

    def text_key(self, qualifier: Qualifier) -> str | None:
        """Return the key of a step that is not optional if it is a constant string, else None."""
        if qualifier.is_optional:
            return None
        if isinstance(qualifier.key, str):
            return qualifier.key
        constant = self.folded.constants.get(qualifier.key.id)
        return constant if isinstance(constant, str) else None

    def chain(self, node: Node) -> SelectionChain:
        """Split a node into selections and the first value that is not a selection."""
        # The same few nodes are asked about again and again.
        found = self._chains.get(node.id)
        if found is None:
            found = self._chains[node.id] = self._find_chain(node)
        return found

    def _find_chain(self, node: Node) -> SelectionChain:
        qualifiers: list[Qualifier] = []
        while qualifier := self.qualifier(node):
            qualifiers.append(qualifier)
            node = node.operand if isinstance(node, Select) else _container(node)
        return SelectionChain(node, tuple(reversed(qualifiers)))

    def terms(self, node: FunctionCall) -> list[Node]:
        """Return the operands of a chain of one operator, which the parser balanced into a tree."""
        terms: list[Node] = []
        pending: list[Node] = [node]
        while pending:
            term = pending.pop()
            if isinstance(term, FunctionCall) and term.function == node.function:
                pending += reversed(term.arguments)
            else:
                terms.append(term)
        return terms

    def result_type(self, node: FunctionCall) -> Type | None:
        """Return the type that all overloads of a call return.

        None if they differ or leave it open.
        """
        reference = self.checked.references.get(node.id)
        if reference is None:
            return None
        if reference.name in ("_&&_", "_||_"):
            return types.BOOL
        overloads = self.environment.functions[reference.name].overloads
        results = {
            overload.result for overload in overloads if overload.id in reference.overload_ids
        }
        result = results.pop() if len(results) == 1 else None
        return None if result is None or result.is_open or result.kind is Kind.DYN else result


def _container(node: Node) -> Node:
    assert isinstance(node, FunctionCall)
    return node.arguments[0]


def plan(checked: Checked, environment: Environment) -> CompilationPlan:
    """Fold the constants of an expression. Raises InstantiationFailed if one has no value."""
    return CompilationPlan(checked, environment, constant_folding.fold(checked, environment))
