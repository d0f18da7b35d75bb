"""Loops in plain code: a function for each, with the range as its last parameter.

The macro of a loop is recognised by its expansion. Errors in its parts are kept or raised as
cel-go's fold does with error values (interpreter/interpretable.go, evalFold).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from dray.cel.code.emitter import Emitter
from dray.cel.runtime import operations, values
from dray.cel.runtime.values import EvaluationError
from dray.cel.syntax.nodes import Comprehension, FunctionCall, ListLiteral, MapLiteral, Node
from dray.cel.syntax.traversal import Step
from dray.cel.types import Kind

HELPERS: dict[str, Any] = {
    "EvaluationError": EvaluationError,
    "no_such_overload": values.no_such_overload,
    "elements": operations.elements,
    "entries": operations.entries,
    "insert": operations.insert,
    "insert_all": operations.insert_all,
}

_Addition: TypeAlias = Callable[[FunctionCall, str], Step[None]]


class LoopingEmitter(Emitter):
    def is_bool(self, node: Node) -> bool:
        return self.is_surely(node, Kind.BOOL)

    def term(self, node: Node, error: str, use: str) -> Step[None]:
        """Write one term of a chain and use it; the first error is kept for later."""
        with self.writer.attempt(f"if {error} is None: {error} = error"):
            value = yield from self.tested(node)
            self.writer.line(use.format(value))

    def tested(self, node: Node) -> Step[str]:
        """Write a value that is certainly a bool."""
        value: str = yield self.nested(node)
        if not self.is_bool(node):
            check = f"if {value} is not True and {value} is not False: raise no_such_overload()"
            self.writer.line(check, may_fail=True)
        return value

    def _loop(self, node: Comprehension) -> Step[None]:
        """Write a macro's loop, identified by its expansion."""
        assert isinstance(node.step, FunctionCall)
        if isinstance(node.init, ListLiteral):
            yield from self._collecting_loop(node, node.step, "[]", self._append)
        elif isinstance(node.init, MapLiteral):
            yield from self._collecting_loop(node, node.step, "{}", self._insert)
        elif isinstance(node.result, FunctionCall):
            yield from self._counting_loop(node, node.step)
        else:
            yield from self._quantifying_loop(node, node.step)

    def _collection_loop(self, node: Comprehension) -> AbstractContextManager[None]:
        items = "entries" if node.second_variable else "elements"
        return self.loop(node, f"{items}(collection)")

    def _quantifying_loop(self, node: Comprehension, step: FunctionCall) -> Step[None]:
        """Write all and exists: the first error counts if no element decides."""
        is_all = step.function == "_&&_"
        undecided, decided = ("True", "False") if is_all else ("False", "True")
        error = self.writer.assign("None")
        use = f"if {{}} is {decided}: return {decided}"
        with self._collection_loop(node):
            yield from self.term(step.arguments[1], error, use)
        self.writer.line(f"if {error} is not None: raise {error}")
        self.writer.line(f"return {undecided}")

    def _counting_loop(self, node: Comprehension, step: FunctionCall) -> Step[None]:
        """Write exists_one: the last error of the predicate counts."""
        error, count = self.writer.assign("None"), self.writer.assign("0")
        with self._collection_loop(node):
            yield from self._predicate(step.arguments[0], error, f"{count} += 1")
        self.writer.line(f"if {error} is not None: raise {error}")
        self.writer.line(f"return {count} == 1")

    def _predicate(self, predicate: Node, error: str, action: str) -> Step[None]:
        """Write a test that does the action if it is true; an error replaces the one before."""
        with self.writer.attempt(f"{error} = error"):
            value = yield from self.tested(predicate)
            self.writer.line(f"if {value}: {action}")

    def _collecting_loop(
        self, node: Comprehension, step: FunctionCall, empty: str, add: _Addition
    ) -> Step[None]:
        """Write map, filter and the transformations.

        Without a predicate the first error counts and ends the loop. With one, the last error of
        the predicate counts; without one, the first of anything else.
        """
        result = self.writer.assign(empty)
        if step.function == "_?_:_":
            yield from self._filtering_loop(node, step, result, add)
        else:
            with self._collection_loop(node):
                yield from add(step, result)
        self.writer.line(f"return {result}")

    def _filtering_loop(
        self, node: Comprehension, step: FunctionCall, result: str, add: _Addition
    ) -> Step[None]:
        writer = self.writer
        predicate, addition, _ = step.arguments
        assert isinstance(addition, FunctionCall)
        error, chosen = writer.assign("None"), writer.name("t")
        with self._collection_loop(node):
            # After an error nothing is added, but predicates still run: the last error counts.
            writer.line(f"{chosen} = False")
            yield from self._predicate(predicate, error, f"{chosen} = {error} is None")
            with writer.block(f"if {chosen}:"), writer.attempt(f"{error} = error"):
                yield from add(addition, result)
        writer.line(f"if {error} is not None: raise {error}")

    def _append(self, step: FunctionCall, result: str) -> Step[None]:
        appended = step.arguments[1]
        assert isinstance(appended, ListLiteral)
        element = yield self.nested(appended.elements[0])
        self.writer.line(f"{result}.append({element})")

    def _insert(self, step: FunctionCall, result: str) -> Step[None]:
        names = yield from self.values(step.arguments[1:])
        function = "insert" if len(names) == 2 else "insert_all"
        self.writer.line(f"{function}({result}, {', '.join(names)})", may_fail=True)

    def _binding(self, node: Comprehension) -> Step[str]:
        """Declare a name for a value that is computed when first read, if it can fail."""
        writer = self.writer
        function = self.begin_function()
        value = yield self.value(node.init)
        # cel.bind is lazy: an error in a value that is never read must not show. What cannot fail
        # is computed at once, which saves the cell and the call.
        if writer.may_fail_in_function():
            writer.line(f"return {value}")
            writer.end_function()
            find = self.function_call(function)
            self.declare(node.accumulator, writer.assign("[UNSET]"), find)
        else:
            writer.inline_function()
            self.declare(node.accumulator, writer.assign(value))
        result: str = yield self.value(node.result)
        self.forget(node.accumulator)
        return result
