"""The common part of both code generators: variables, functions, loops.

Every visit is a step (see `traversal`) that writes lines and returns the Python name of the value.
Steps are generators because expressions nest deeper than Python's call stack.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from dray.cel import types
from dray.cel.code.compilation_plan import CompilationPlan, SelectionChain
from dray.cel.code.source import SourceWriter
from dray.cel.runtime import operations, values
from dray.cel.syntax import macros, traversal
from dray.cel.syntax.nodes import Comprehension, FunctionCall, Node
from dray.cel.syntax.traversal import Step
from dray.cel.types import Kind, Type

UNSET = object()
"""The content of a lazy variable's cell before its value is computed."""

# No builtins: generated code reaches the names in this table and nothing else.
_HELPERS = {"__builtins__": {}, "UNSET": UNSET, "as_value": operations.as_value}

MAYBE_OPTIONAL = frozenset({Kind.OPTIONAL, Kind.DYN, Kind.ANY, Kind.PARAMETER})


class _Variable(NamedTuple):
    """The Python name of a variable; with `find`, of the cell for what `find` will find."""

    name: str
    find: str | None = None


class Emitter(ABC):
    """Writes the functions of one expression. `visible` are the parameters of each of them."""

    def __init__(self, plan: CompilationPlan, helpers: dict[str, Any], *parameters: str) -> None:
        self.plan = plan
        self.writer = SourceWriter({**_HELPERS, **helpers})
        self._scopes: dict[str, list[_Variable]] = {}
        self._visible: list[str] = list(parameters)

    def compile(self) -> Callable[..., Any]:
        """Compile to a function of the parameters and of the environment's variables."""
        for variable in self.plan.environment.variables:
            self.declare(variable, self.writer.name("v"))
        name = self.writer.begin_function(self._visible)
        traversal.run(self.returned(self.plan.checked.root))
        self.writer.end_function()
        return self.writer.build(name)

    @abstractmethod
    def value(self, node: Node) -> Step[str]:
        """Write the code of a node; returns the Python name of its value."""

    def returned(self, node: Node) -> Step[None]:
        """Write the code of a node and end the function with its value."""
        value = yield self.value(node)
        self.writer.line(f"return {value}")

    def values(self, nodes: Sequence[Node]) -> Step[list[str]]:
        names = []
        for node in nodes:
            names.append((yield self.value(node)))
        return names

    def nested(self, node: Node) -> Step[str]:
        """Write a node inside a block, in a function of its own if blocks nest too deep."""
        # CPython limits how deep blocks of one function nest; a new function starts at zero.
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
        # Scopes are a stack per name: an inner variable hides the outer one of the same name.
        self._scopes.setdefault(variable, []).append(_Variable(name, find))
        self._visible.append(name)

    def forget(self, variable: str) -> None:
        self._scopes[variable].pop()
        self._visible.pop()

    def is_local(self, node: Node) -> bool:
        """Return whether a name means a variable of the expression itself."""
        name = self.plan.checked.references[node.id].name
        if name.startswith("."):
            return False
        # A variable of the environment is the bottom of its stack, whatever hides it lies above.
        is_declared = name in self.plan.environment.variables
        return len(self._scopes[name]) > 1 if is_declared else True

    def whole_variable(self, node: Node) -> str:
        """Write a variable that is used as a value, not as the start of a selection."""
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
        # A leading dot means the variable of the environment, even if a local one hides it.
        variable = scopes[0] if name.startswith(".") else scopes[-1]
        if variable.find is None:
            return variable.name
        # The cell is a list of one item, so that functions can share and fill it.
        value = self.writer.assign(f"{variable.name}[0]", may_fail=True)
        self.writer.line(f"if {value} is UNSET: {value} = {variable.name}[0] = {variable.find}")
        return value

    def comprehension(self, node: Comprehension) -> Step[str]:
        """Write a loop as a function of its range, or the binding that `cel.bind` expands to."""
        if node.variable == macros.UNUSED:
            return (yield from self._binding(node))
        collection = yield self.value(node.range)
        name = self.begin_function("collection")
        yield from self._loop(node)
        self.writer.end_function()
        return self.call_function(name, collection)

    @abstractmethod
    def _binding(self, node: Comprehension) -> Step[str]:
        """Write a comprehension without a loop: a name for a value, then its result."""

    @abstractmethod
    def _loop(self, node: Comprehension) -> Step[None]:
        """Write the body of a loop's function, whose last parameter is `collection`."""

    @contextlib.contextmanager
    def loop(self, node: Comprehension, items: str) -> Iterator[None]:
        """Write a loop over `items`; inside, its variables are declared."""
        variables = [node.variable, *([node.second_variable] if node.second_variable else ())]
        names = [self.writer.name("v") for _ in variables]
        for variable, name in zip(variables, names, strict=True):
            self.declare(variable, name)
        with self.writer.block(f"for {', '.join(names)} in {items}:", may_fail=True):
            yield
        for variable in reversed(variables):
            self.forget(variable)

    def sure_type(self, node: Node) -> Type | None:
        """Return the type that a value certainly has, or None.

        Its static type does not prove it: a value of type dyn may pass for another type on its way
        through a type parameter. Literals, results of functions and what is declared of the
        environment's variables are certain.
        """
        if self.plan.is_constant(node):
            return values.type_of(self.plan.constant(node))
        chain = self.plan.chain(node)
        if not chain.qualifiers and isinstance(node, FunctionCall):
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
