"""What both forms of compiled code share: variables, functions, and what is known of a tree.

Every visit is a step (see trampoline) that writes lines and gives the name which holds the value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dray.cel import types
from dray.cel.checking.checker import Checked
from dray.cel.checking.constant_folding import Folded
from dray.cel.checking.environment import Environment
from dray.cel.code.source import Writer
from dray.cel.functions import dispatching
from dray.cel.functions.overloads import Function, Overload
from dray.cel.runtime import operations, values
from dray.cel.syntax import traversal
from dray.cel.syntax.nodes import Call, Comprehension, Identifier, Node, Select
from dray.cel.syntax.traversal import Step
from dray.cel.types import Kind, Type

UNSET = object()
"""What a variable holds before its value is found."""

_HELPERS = {"__builtins__": {}, "UNSET": UNSET, "as_value": operations.as_value}

MAYBE_OPTIONAL = frozenset({Kind.OPTIONAL, Kind.DYN, Kind.ANY, Kind.PARAMETER})


class Qualifier(NamedTuple):
    """One step of a chain of selections."""

    key: Node | str
    is_optional: bool
    is_test: bool = False


class SelectionChain(NamedTuple):
    """Selections, each made from the result of the one before."""

    root: Node
    qualifiers: list[Qualifier]


class CompilationPlan(NamedTuple):
    """An expression ready for code to be made of it."""

    checked: Checked
    environment: Environment
    folded: Folded

    def is_constant(self, node: Node) -> bool:
        return node.id in self.folded.constants

    def constant(self, node: Node) -> Any:
        return self.folded.constants[node.id]

    def type(self, node: Node) -> Type:
        return self.checked.types[node.id]

    def is_variable(self, node: Node) -> bool:
        """Whether a node names a variable; a selection does where the name has dots."""
        if self.is_constant(node) or not isinstance(node, Identifier | Select):
            return False
        return isinstance(node, Identifier) or self._is_name(node)

    def _is_name(self, node: Select) -> bool:
        return not node.test_only and node.id in self.checked.references

    def operands(self, call: Call) -> list[Node]:
        """The receiver, if there is one, and the arguments."""
        receiver = self.checked.receiver(call)
        return list(call.arguments) if receiver is None else [receiver, *call.arguments]

    def function(self, call: Call) -> Function:
        return self.environment.functions[self.checked.references[call.id].name]

    def overload(self, call: Call) -> Overload | None:
        """The overload that is meant, where the static types leave only one."""
        name, overload_ids, _ = self.checked.references[call.id]
        return self.environment.overload(name, overload_ids[0]) if len(overload_ids) == 1 else None

    def implementation(self, call: Call) -> Callable[..., Any]:
        """What takes operands of any type and refuses those that do not fit."""
        overload = self.overload(call)
        function = self.function(call)
        return dispatching.guarded(function, overload) if overload else function.dispatch

    def qualifier(self, node: Node) -> Qualifier | None:
        """The last step of a chain of selections; None for any other node."""
        if self.is_constant(node):
            return None
        if isinstance(node, Select):
            return None if self._is_name(node) else Qualifier(node.field, False, node.test_only)
        if isinstance(node, Call) and node.target is None:
            if node.function == "_[_]":
                return Qualifier(node.arguments[1], False)
            if node.function in ("_[?_]", "_?._"):
                return Qualifier(node.arguments[1], True)
        return None

    def text_key(self, qualifier: Qualifier) -> str | None:
        """The key of a step that is not optional, where it is a constant string."""
        if qualifier.is_optional:
            return None
        if isinstance(qualifier.key, str):
            return qualifier.key
        constant = self.folded.constants.get(qualifier.key.id)
        return constant if isinstance(constant, str) else None

    def chain(self, node: Node) -> SelectionChain:
        """A node as selections from the first value that is none itself."""
        qualifiers: list[Qualifier] = []
        while qualifier := self.qualifier(node):
            qualifiers.append(qualifier)
            node = node.operand if isinstance(node, Select) else _container(node)
        return SelectionChain(node, qualifiers[::-1])

    def terms(self, node: Call) -> list[Node]:
        """The operands of a chain of one operator, which the parser balanced into a tree."""
        terms: list[Node] = []
        pending: list[Node] = [node]
        while pending:
            term = pending.pop()
            if isinstance(term, Call) and term.function == node.function:
                pending += reversed(term.arguments)
            else:
                terms.append(term)
        return terms

    def result_type(self, node: Call) -> Type | None:
        """The type that all overloads of a call return; None if they differ or leave it open."""
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
    assert isinstance(node, Call)
    return node.arguments[0]


class _Variable(NamedTuple):
    """The Python name of a variable; with `find`, of the cell for what `find` will find."""

    name: str
    find: str | None = None


class Emitter(ABC):
    """Writes the functions of one expression. `visible` are the parameters of each of them."""

    def __init__(self, plan: CompilationPlan, helpers: dict[str, Any], *parameters: str) -> None:
        self.plan = plan
        self.writer = Writer({**_HELPERS, **helpers})
        self._scopes: dict[str, list[_Variable]] = {}
        self._visible: list[str] = list(parameters)

    def compile(self) -> Callable[..., Any]:
        """A function of the parameters and the environment's variables, in their order."""
        for variable in self.plan.environment.variables:
            self.declare(variable, self.writer.name("v"))
        name = self.writer.begin_function(self._visible)
        traversal.run(self.returned(self.plan.checked.root))
        self.writer.end_function()
        return self.writer.build(name)

    @abstractmethod
    def value(self, node: Node) -> Step[str]:
        """Writes what finds the value of a node; gives the name that holds it."""

    def returned(self, node: Node) -> Step[None]:
        """Ends the function with the value of a node."""
        value = yield self.value(node)
        self.writer.line(f"return {value}")

    def values(self, nodes: Sequence[Node]) -> Step[list[str]]:
        names = []
        for node in nodes:
            names.append((yield self.value(node)))
        return names

    def nested(self, node: Node) -> Step[str]:
        """A node inside a block: in a function of its own where blocks nest deep."""
        if not self.writer.is_deep:
            value: str = yield self.value(node)
            return value
        name = self.begin_function()
        yield self.returned(node)
        self.writer.end_function()
        return self.call_function(name)

    def begin_function(self, *parameters: str) -> str:
        return self.writer.begin_function([*self._visible, *parameters])

    def function_call(self, name: str, *arguments: str) -> str:
        return f"{name}({', '.join([*self._visible, *arguments])})"

    def call_function(self, name: str, *arguments: str) -> str:
        return self.writer.assign(self.function_call(name, *arguments), may_fail=True)

    def declare(self, variable: str, name: str, find: str | None = None) -> None:
        self._scopes.setdefault(variable, []).append(_Variable(name, find))
        self._visible.append(name)

    def forget(self, variable: str) -> None:
        self._scopes[variable].pop()
        self._visible.pop()

    def is_local(self, node: Node) -> bool:
        """Whether a name means a variable of the expression itself."""
        name = self.plan.checked.references[node.id].name
        if name.startswith("."):
            return False
        is_declared = name in self.plan.environment.variables
        return len(self._scopes[name]) > 1 if is_declared else True

    def whole_variable(self, node: Node) -> str:
        """A variable as a value of its own, not the start of a selection."""
        value = self.variable(node)
        if self.is_local(node) or self.plan.type(node).kind is not Kind.OBJECT:
            return value
        return self.writer.assign(f"as_value({value})")

    def chain_start(self, chain: SelectionChain) -> Step[str]:
        if self.plan.is_variable(chain.root):
            return self.variable(chain.root)
        return (yield from self.value(chain.root))

    def variable(self, node: Node) -> str:
        name = self.plan.checked.references[node.id].name
        scopes = self._scopes[name.removeprefix(".")]
        variable = scopes[0] if name.startswith(".") else scopes[-1]
        if variable.find is None:
            return variable.name
        value = self.writer.assign(f"{variable.name}[0]", may_fail=True)
        self.writer.line(f"if {value} is UNSET: {value} = {variable.name}[0] = {variable.find}")
        return value

    def begin_loop(self, node: Comprehension, items: str) -> None:
        """Starts a loop over `items` and declares its variables."""
        variables = [node.variable, *([node.second_variable] if node.second_variable else ())]
        names = [self.writer.name("v") for _ in variables]
        for variable, name in zip(variables, names, strict=True):
            self.declare(variable, name)
        self.writer.line(f"for {', '.join(names)} in {items}:", may_fail=True)
        self.writer.indent()

    def end_loop(self, node: Comprehension) -> None:
        self.writer.dedent()
        if node.second_variable is not None:
            self.forget(node.second_variable)
        self.forget(node.variable)

    def sure_type(self, node: Node) -> Type | None:
        """The type that a value certainly has.

        Its static type is no proof: a value of type dyn may pass for another type on its way
        through a type parameter. Literals, results of functions and what is declared of the
        environment's variables are certain.
        """
        if self.plan.is_constant(node):
            return values.type_of(self.plan.constant(node))
        chain = self.plan.chain(node)
        if not chain.qualifiers and isinstance(node, Call):
            return self.plan.result_type(node)
        if chain.qualifiers and chain.qualifiers[-1].is_test:
            return types.BOOL
        if not self.plan.is_variable(chain.root) or self.is_local(chain.root):
            return None
        static = self.plan.type(node)
        return None if static.kind in MAYBE_OPTIONAL else static

    def is_surely(self, node: Node, kind: Kind) -> bool:
        sure = self.sure_type(node)
        return sure is not None and sure.kind is kind
