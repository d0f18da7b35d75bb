"""Static types: which overloads every call may mean, and what is wrong with an expression.

The algorithm and its messages are cel-go's (checker/checker.go, checker/env.go). The tree is left
as it was parsed; what cel-go rewrites in it is answered by `Checked`: a selection may be a
qualified name, and the target of a call may be the first part of a function's name.

Visits are generators, see `traversal`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dray.cel import types
from dray.cel.checking import inference, validators
from dray.cel.checking.environment import Environment
from dray.cel.checking.inference import Inference, Spent
from dray.cel.functions.overloads import Function
from dray.cel.issues import CompilationFailed, Issue
from dray.cel.runtime.values import UInt
from dray.cel.syntax import traversal
from dray.cel.syntax.nodes import (
    Comprehension,
    FunctionCall,
    Identifier,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
)
from dray.cel.syntax.traversal import Visit, Visitors
from dray.cel.types import Kind, Type


class NameReference(NamedTuple):
    """The meaning of a name.

    For an identifier or a qualified name, `name` is the variable or type; it starts with a dot
    where a local variable hides the global one that is meant. `constant` is the type that a type
    name stands for, None for variables and for types that cannot be used as values.
    For a call, `name` is the function and `overload_ids` the overloads that may be meant.
    """

    name: str
    overload_ids: tuple[str, ...] = ()
    constant: Type | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """A valid expression: its tree, and by node id the types and what names mean."""

    text: str
    root: Node
    types: Mapping[int, Type]
    references: Mapping[int, NameReference]

    @property
    def result_type(self) -> Type:
        return self.types[self.root.id]

    def receiver(self, call: FunctionCall) -> Node | None:
        """Return the receiver of a member call, or None if the target is part of the name."""
        is_member = self.references[call.id].name == call.function
        return call.target if is_member else None


def check(text: str, root: Node, environment: Environment) -> Checked:
    """Check the types of every node. Raises CompilationFailed with all errors."""
    checker = _Checker(environment)
    try:
        node_types = checker.run(root)
    except inference.TypeTooComplex:
        checker.issues.append(Issue(None, "expression has a type that is too complex"))
    issues = checker.issues or validators.validate(root, node_types, environment)
    if issues:
        raise CompilationFailed(text, issues)
    return Checked(text, root, node_types, checker.references)


_LOGICAL = frozenset({"_&&_", "_||_"})
_LITERAL_TYPES: dict[type, Type] = {
    type(None): types.NULL,
    bool: types.BOOL,
    int: types.INT,
    UInt: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
}


class _Match(NamedTuple):
    """The overloads that the types of arguments allow; the result is `dyn` if they disagree."""

    overload_ids: tuple[str, ...]
    result: Type | None


def _match(
    inferred: Inference, function: Function, is_member: bool, argument_types: Sequence[Type]
) -> _Match:
    overload_ids: list[str] = []
    result: Type | None = None
    for overload in function.overloads:
        if overload.member is not is_member:
            continue
        signature = (overload.result, *overload.arguments)
        # The variables are numbered as if the overload had been tried: messages show them.
        if not inference.may_fit(argument_types, overload.arguments):
            inferred.pass_over(signature)
            continue
        declared, *expected = inferred.instantiate(signature)
        if not inferred.are_assignable(argument_types, expected):
            continue
        overload_ids.append(overload.id)
        returned = inferred.substitute(declared)
        if result is None:
            result = returned
        elif not inference.is_dyn(result) and returned != result:
            result = types.DYN
    return _Match(tuple(overload_ids), result)


@functools.lru_cache(maxsize=1 << 9)
def _match_closed(
    function: Function, is_member: bool, argument_types: tuple[Type, ...]
) -> tuple[_Match, Spent]:
    """Return the match of types without variables, which is the same in every expression."""
    inferred = Inference()
    return _match(inferred, function, is_member, argument_types), inferred.spent


class _Checker:
    """One run over a tree. Errors do not stop it: what is wrong gets the error type."""

    def __init__(self, environment: Environment) -> None:
        self.issues: list[Issue] = []
        self.references: dict[int, NameReference] = {}
        self._environment = environment
        self._inference = Inference()
        self._types: dict[int, Type] = {}
        self._locals: dict[str, list[Type]] = {}
        self._visitors: Visitors = {
            Literal: self._literal,
            Identifier: self._identifier,
            Select: self._select,
            FunctionCall: self._call,
            ListLiteral: self._list,
            MapLiteral: self._map,
            StructLiteral: self._struct,
            Comprehension: self._comprehension,
        }

    def run(self, root: Node) -> dict[int, Type]:
        traversal.walk(root, self._visitors)
        return dict(zip(self._types, self._inference.close(self._types.values()), strict=True))

    def _report(self, position: int, message: str) -> None:
        self.issues.append(Issue(position, message))

    def _report_undeclared(self, node: Node, name: str) -> None:
        self._set_type(node, types.ERROR)
        self._report(node.position, f"undeclared reference to '{name}' (in container '')")

    def _report_mismatch(self, node: Node, expected: Type, actual: Type) -> None:
        names = types.display_name(expected), types.display_name(actual)
        self._report(node.position, "expected type '{}' but found '{}'".format(*names))

    def _set_type(self, node: Node, type: Type) -> None:
        self._types[node.id] = inference.limited(type)

    def _type(self, node: Node) -> Type:
        return self._types[node.id]

    def _substituted_type(self, node: Node) -> Type:
        return self._inference.substitute(self._types[node.id])

    def _assert_type(self, node: Node, expected: Type) -> None:
        actual = self._type(node)
        if not self._inference.is_assignable(expected, actual):
            self._report_mismatch(node, expected, actual)

    def _literal(self, node: Literal) -> None:
        self._set_type(node, _LITERAL_TYPES[type(node.value)])

    def _identifier(self, node: Identifier) -> None:
        is_global = node.name.startswith(".")
        hiding = self._locals.get(node.name.removeprefix("."))
        if hiding and not is_global:
            self._set_type(node, hiding[-1])
            self.references[node.id] = NameReference(node.name)
        elif not self._resolve_global(node, node.name, is_hidden=bool(hiding)):
            self._report_undeclared(node, node.name)

    def _resolve_global(self, node: Node, name: str, *, is_hidden: bool) -> bool:
        name = name.removeprefix(".")
        written = f".{name}" if is_hidden else name
        if variable := self._environment.variables.get(name):
            self._set_type(node, variable)
            self.references[node.id] = NameReference(written)
        elif type_name := self._environment.type_names.get(name):
            self._set_type(node, types.type_of(type_name.type))
            self.references[node.id] = NameReference(written, constant=type_name.value)
        else:
            return False
        return True

    def _select(self, node: Select) -> Visit:
        if not node.test_only and self._resolve_qualified(node):
            return
        yield node.operand
        selected = self._field_type(node, node.operand, node.field)
        self._set_type(node, types.BOOL if node.test_only else selected)

    def _resolve_qualified(self, node: Select) -> bool:
        name = _qualified_name(node)
        if name is None:
            return False
        root = name.removeprefix(".").split(".", 1)[0]
        hiding = bool(self._locals.get(root))
        if hiding and not name.startswith("."):
            return False
        return self._resolve_global(node, name, is_hidden=hiding)

    def _optional_select(self, node: FunctionCall) -> Visit:
        operand, field = node.arguments
        assert isinstance(field, Literal)
        yield from node.arguments
        self._set_type(node, self._field_type(node, operand, str(field.value), optional=True))
        self.references[node.id] = NameReference(node.function, ("select_optional_field",))

    def _field_type(self, node: Node, operand: Node, field: str, *, optional: bool = False) -> Type:
        """Return the type of a field; selecting from an optional gives an optional."""
        target = self._substituted_type(operand)
        if target.kind is Kind.OPTIONAL:
            target = target.parameters[0]
            optional = True
        selected = self._inference.substitute(self._plain_field_type(node, target, field))
        return types.optional_of(selected) if optional else selected

    def _plain_field_type(self, node: Node, target: Type, field: str) -> Type:
        if target.kind is Kind.MAP:
            return target.parameters[1]
        if target.kind is Kind.OBJECT:
            return self._object_field_type(node.position, target.name, field)
        if target.kind is Kind.PARAMETER:
            self._inference.is_assignable(types.DYN, target)
        elif not inference.is_dyn(target) and target.kind is not Kind.ERROR:
            name = types.display_name(target)
            self._report(node.position, f"type '{name}' does not support field selection")
        return types.DYN

    def _object_field_type(self, position: int, type_name: str, field: str) -> Type:
        fields = self._environment.objects.get(type_name)
        if fields is None:
            self._report(position, f"unexpected failed resolution of '{type_name}'")
            return types.ERROR
        type = fields.get(field)
        if type is None:
            self._report(position, f"undefined field '{field}'")
            return types.ERROR
        return type

    def _call(self, node: FunctionCall) -> Visit:
        if node.function == "_?._":
            yield from self._optional_select(node)
            return
        yield from node.arguments
        functions = self._environment.functions
        target = node.target
        if target is not None:
            # `optional.of(x)` may be a function of that name or a call on a variable `optional`:
            # cel-go looks for the function first, and does not check the target then.
            prefix = _qualified_name(target)
            namespaced = prefix and functions.get(f"{prefix}.{node.function}".removeprefix("."))
            if namespaced:
                self._resolve_call(node, namespaced, None)
                return
            yield target
        function = functions.get(node.function.removeprefix("."))
        if function is None:
            self._report_undeclared(node, node.function)
        else:
            self._resolve_call(node, function, target)

    def _resolve_call(self, node: FunctionCall, function: Function, target: Node | None) -> None:
        operands = node.arguments if target is None else (target, *node.arguments)
        if function.name in _LOGICAL:
            self._resolve_logical(node, function)
            return
        argument_types = tuple([self._type(operand) for operand in operands])
        is_member = target is not None
        overload_ids, result = self._matching(function, is_member, argument_types)
        if result is None:
            self._set_type(node, types.ERROR)
            self._report_no_overload(node, function.name, argument_types, is_member=is_member)
        else:
            self._set_type(node, result)
            self.references[node.id] = NameReference(function.name, overload_ids)

    def _resolve_logical(self, node: FunctionCall, function: Function) -> None:
        result = types.BOOL
        for operand in node.arguments:
            actual = self._type(operand)
            if not self._inference.is_assignable(actual, types.BOOL):
                self._report_mismatch(operand, types.BOOL, actual)
                result = types.ERROR
        self._set_type(node, result)
        self.references[node.id] = NameReference(function.name, (function.overloads[0].id,))

    def _matching(
        self, function: Function, is_member: bool, argument_types: tuple[Type, ...]
    ) -> _Match:
        if not any(type.is_open for type in argument_types):
            match, spent = _match_closed(function, is_member, argument_types)
            # The variables of an open result belong to this expression alone.
            if match.result is None or not match.result.is_open:
                self._inference.count(spent)
                return match
        return _match(self._inference, function, is_member, argument_types)

    def _report_no_overload(
        self, node: Node, function: str, argument_types: Sequence[Type], *, is_member: bool
    ) -> None:
        names = [types.display_name(type) for type in self._inference.close(argument_types)]
        receiver = f"{names.pop(0)}." if is_member else ""
        signature = f"{receiver}({', '.join(names)})"
        message = f"found no matching overload for '{function}' applied to '{signature}'"
        self._report(node.position, message)

    def _list(self, node: ListLiteral) -> Visit:
        joined: Type | None = None
        for index, element in enumerate(node.elements):
            yield element
            element_type = self._entry_type(element, optional=index in node.optional_indices)
            joined = self._join(joined, element_type)
        self._set_type(node, types.list_of(joined or self._inference.new_variable()))

    def _map(self, node: MapLiteral) -> Visit:
        keys: Type | None = None
        values: Type | None = None
        for entry in node.entries:
            yield entry.key
            keys = self._join(keys, self._type(entry.key))
            yield entry.value
            values = self._join(values, self._entry_type(entry.value, optional=entry.optional))
        keys = keys or self._inference.new_variable()
        values = values or self._inference.new_variable()
        self._set_type(node, types.map_of(keys, values))

    def _entry_type(self, value: Node, *, optional: bool) -> Type:
        """Return the type an entry adds to its container; an optional entry adds its content."""
        type = self._type(value)
        if not optional:
            return type
        if type.kind is Kind.OPTIONAL:
            return type.parameters[0]
        if not inference.is_dyn(type):
            self._report_mismatch(value, types.optional_of(type), type)
        return type

    def _join(self, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        if self._inference.is_assignable(previous, current):
            return inference.most_general(previous, current)
        return types.DYN

    def _struct(self, node: StructLiteral) -> Visit:
        """Report an error: no message can be built here, whatever its name."""
        type_name = self._environment.type_names.get(node.type_name.removeprefix("."))
        if type_name is None:
            self._report_undeclared(node, node.type_name)
            return
        name = type_name.type.name
        self._report(node.position, f"'{name}' is not a message type")
        self._set_type(node, types.ERROR)
        for field in node.fields:
            yield field.value
            self._object_field_type(field.position, name, field.field)

    def _comprehension(self, node: Comprehension) -> Visit:
        yield node.range
        yield node.init
        accumulated = self._type(node.init)
        first, second = self._iteration_types(node)
        self._declare(node.accumulator, accumulated)
        self._declare(node.variable, first)
        if node.second_variable is not None:
            self._declare(node.second_variable, second)
        yield node.condition
        self._assert_type(node.condition, types.BOOL)
        yield node.step
        self._assert_type(node.step, accumulated)
        if node.second_variable is not None:
            self._forget(node.second_variable)
        self._forget(node.variable)
        # The result sees the accumulator, no longer the loop variables.
        yield node.result
        self._forget(node.accumulator)
        self._set_type(node, self._substituted_type(node.result))

    def _declare(self, variable: str, type: Type) -> None:
        self._locals.setdefault(variable, []).append(type)

    def _forget(self, variable: str) -> None:
        self._locals[variable].pop()

    def _iteration_types(self, node: Comprehension) -> tuple[Type, Type]:
        """Return the types of the first and, if there is one, the second variable."""
        ranged = self._substituted_type(node.range)
        if ranged.kind is Kind.LIST:
            element = ranged.parameters[0]
            return (element if node.second_variable is None else types.INT), element
        if ranged.kind is Kind.MAP:
            key, value = ranged.parameters
            return key, value
        if ranged.kind in (Kind.DYN, Kind.ERROR, Kind.PARAMETER):
            self._inference.is_assignable(types.DYN, ranged)
            return types.DYN, types.DYN
        message = (
            f"expression of type '{types.display_name(ranged)}' cannot be range of a comprehension"
            " (must be list, map, or dynamic)"
        )
        self._report(node.range.position, message)
        return types.ERROR, types.ERROR


def _qualified_name(node: Node) -> str | None:
    """Return `a.b.c` if the node consists of names only, else None."""
    fields: list[str] = []
    while isinstance(node, Select) and not node.test_only:
        fields.append(node.field)
        node = node.operand
    if not isinstance(node, Identifier):
        return None
    return ".".join([node.name, *reversed(fields)])
