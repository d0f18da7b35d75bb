"""Checked tree to Python function: the form that counts what an evaluation costs.

It does what cel-go does, step by step, because every step has its price: an error is a value that
is carried on (see metering), loops run on after one, and nothing is evaluated in advance but what
cel-go evaluates in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

from dray.cel.code import metering
from dray.cel.code.compilation_plan import CompilationPlan, Qualifier
from dray.cel.code.emitter import Emitter
from dray.cel.functions.runtime_costs import LIST_CREATION, MAP_CREATION
from dray.cel.runtime import operations, values
from dray.cel.runtime.values import MISSING, NONE
from dray.cel.syntax.nodes import Comprehension, FunctionCall, ListLiteral, MapLiteral, Node
from dray.cel.syntax.traversal import Step

_HELPERS: dict[str, Any] = {
    "MISSING": MISSING,
    "NONE": NONE,
    "no_such_overload": values.no_such_overload,
    "as_error": metering.as_error,
    "attempt": metering.attempt,
    "contains": metering.contains,
    "first_error": metering.first_error,
    "is_error": metering.is_error,
    "or_error": metering.or_error,
    "value_of": metering.value_of,
    "append_optional": operations.append_optional,
    "elements": operations.elements,
    "entries": operations.entries,
    "insert": operations.insert,
    "insert_all": operations.insert_all,
    "put": operations.put,
    "put_optional": operations.put_optional,
}

_STOPS_EARLY = frozenset({"string_format"})
_REGEX_FUNCTIONS = frozenset({"matches", "find", "findAll"})


def compile_counted(plan: CompilationPlan) -> Callable[..., Any]:
    """Compile to a function of a meter and the variables that returns a value or an error."""
    return _CountingEmitter(plan, _HELPERS, "meter").compile()


class _CountingEmitter(Emitter):
    def value(self, node: Node) -> Step[str]:
        if self.plan.is_constant(node):
            return self.writer.constant(self.plan.constant(node))
        if self.plan.is_variable(node):
            self._charge(1)
            return self.whole_variable(node)
        if self.plan.qualifier(node):
            return (yield from self._select(node, cost=1))
        if isinstance(node, FunctionCall):
            return (yield from self._call(node))
        if isinstance(node, ListLiteral):
            return (yield from self._list(node))
        if isinstance(node, MapLiteral):
            return (yield from self._map(node))
        assert isinstance(node, Comprehension)
        return (yield from self.comprehension(node))

    def _charge(self, cost: int) -> None:
        self.writer.line(f"meter.charge({cost})")

    def _unobserved(self, node: Node) -> Step[str]:
        """Write a branch of `?:` or an index: a variable or selection costs only its steps."""
        if self.plan.is_variable(node):
            return self.whole_variable(node)
        if not self.plan.qualifier(node):
            return (yield from self.nested(node))
        if not self.writer.is_deep:
            return (yield from self._select(node, cost=0))
        function = self.begin_function()
        self.writer.line(f"return {(yield from self._select(node, cost=0))}")
        self.writer.end_function()
        return self.call_function(function)

    # Calls.

    def _call(self, node: FunctionCall) -> Step[str]:
        function = self.plan.checked.references[node.id].name
        if special := self._specials.get(function):
            return (yield from special(self, node))
        if node.id in self.plan.folded.memberships:
            return (yield from self._membership(node))
        operands = self.plan.operands(node)
        if self._stops_early(node, operands):
            return (yield from self._early_stopping_call(node, operands))
        names = yield from self.values(operands)
        return self._charged_call(node, names)

    def _charged_call(self, node: FunctionCall, names: Sequence[str]) -> str:
        overload = self.plan.overload(node)
        cost = overload.cost if overload else self.plan.function(node).dispatch_cost
        constants = map(self.writer.constant, (self.plan.implementation(node), cost))
        return self.writer.assign(f"meter.call({', '.join([*constants, *names])})")

    def _stops_early(self, node: FunctionCall, operands: Sequence[Node]) -> bool:
        """Return whether an error among the operands saves those behind it and the call's own cost.

        See cel-go interpreter/planner.go, planCall: calls with a variable number of arguments.
        """
        if len(operands) != 2:
            return len(operands) > 2
        function = self.plan.function(node)
        if function.name in _REGEX_FUNCTIONS and self.plan.is_constant(operands[1]):
            return True
        overload = self.plan.overload(node)
        return overload.id in _STOPS_EARLY if overload else not function.binds_once

    def _early_stopping_call(self, node: FunctionCall, operands: Sequence[Node]) -> Step[str]:
        writer = self.writer
        result = writer.name("t")
        names: list[str] = []
        with ExitStack() as blocks:
            for operand in operands:
                if names:
                    writer.line(f"if is_error({names[-1]}): {result} = {names[-1]}")
                    blocks.enter_context(writer.block("else:"))
                names.append((yield self.nested(operand)))
            writer.line(f"{result} = {self._charged_call(node, names)}")
        return result

    def _membership(self, node: FunctionCall) -> Step[str]:
        value = yield self.value(node.arguments[0])
        candidates = self.writer.constant(self.plan.constant(node.arguments[1]))
        return self.writer.assign(f"contains({candidates}, {value})")

    def _not_strictly_false(self, node: FunctionCall) -> Step[str]:
        value = yield self.value(node.arguments[0])
        self._charge(1)
        return self.writer.assign(f"{value} is not False")

    # Logic.

    def _logical(self, node: FunctionCall) -> Step[str]:
        writer = self.writer
        undecided, decided = ("True", "False") if node.function == "_&&_" else ("False", "True")
        result = writer.assign(undecided)
        error = writer.assign("None")
        for number, term in enumerate(self.plan.terms(node)):
            with writer.block(f"if {result} is {undecided}:") if number else nullcontext():
                value = yield self.nested(term)
                writer.line(f"if {value} is {decided}: {result} = {decided}")
                with writer.block(f"elif {value} is not {undecided} and {error} is None:"):
                    writer.line(f"{error} = as_error({value})")
        writer.line(f"if {error} is not None and {result} is {undecided}: {result} = {error}")
        return result

    def _conditional(self, node: FunctionCall) -> Step[str]:
        writer = self.writer
        condition, when_true, when_false = node.arguments
        chosen = yield self.nested(condition)
        result = writer.name("t")
        for start, branch in ((f"if {chosen} is True:", when_true), ("else:", when_false)):
            with writer.block(start):
                writer.line(f"{result} = {(yield from self._unobserved(branch))}")
            if branch is when_true:
                writer.line(f"elif {chosen} is not False: {result} = as_error({chosen})")
        return result

    # Selections.

    def _select(self, node: Node, cost: int) -> Step[str]:
        """Write a chain of selections; `cost` is its cost besides its steps."""
        chain = self.plan.chain(node)
        start = yield from self.chain_start(chain)
        resolution = self.writer.assign(f"meter.resolve({start})")
        for qualifier in chain.qualifiers:
            yield from self._qualify(resolution, qualifier)
        if chain.qualifiers[-1].is_test:
            return self.writer.assign(f"{resolution}.test_result()")
        if _is_conditional(chain.root):
            cost = 0
        return self.writer.assign(f"{resolution}.result({cost})")

    def _qualify(self, resolution: str, qualifier: Qualifier) -> Step[None]:
        writer = self.writer
        if isinstance(qualifier.key, str):
            method = "test" if qualifier.is_test else "qualify"
            writer.line(f"{resolution}.{method}({writer.constant(qualifier.key)})")
            return
        with writer.block(f"if {resolution}.is_open:"):
            key = yield from self._unobserved(qualifier.key)
            writer.line(f"{resolution}.qualify({key}, {qualifier.is_optional})")

    # Optionals.

    def _or_value(self, node: FunctionCall) -> Step[str]:
        return (yield from self._alternative(node, "value_of({})", "MISSING"))

    def _or_optional(self, node: FunctionCall) -> Step[str]:
        return (yield from self._alternative(node, "{}", "NONE"))

    def _alternative(self, node: FunctionCall, take: str, nothing: str) -> Step[str]:
        writer = self.writer
        optional, alternative = self.plan.operands(node)
        value = yield self.value(optional)
        result = writer.assign(f"or_error({value})")
        writer.line(f"if {result} is None: {result} = {take.format(value)}")
        with writer.block(f"if {result} is {nothing}:"):
            writer.line(f"{result} = {(yield self.nested(alternative))}")
        return result

    # Literals.

    def _list(self, node: ListLiteral) -> Step[str]:
        writer = self.writer
        result, error = writer.assign("[]"), writer.assign("None")
        for index, element in enumerate(node.elements):
            add = f"append_optional, {result}" if index in node.optional_indices else None
            yield from self._entry([element], error, add or f"{result}.append")
        self._charge(LIST_CREATION)
        return writer.assign(f"{result} if {error} is None else {error}")

    def _map(self, node: MapLiteral) -> Step[str]:
        writer = self.writer
        result, error = writer.assign("{}"), writer.assign("None")
        for entry in node.entries:
            function = "put_optional" if entry.optional else "put"
            yield from self._entry([entry.key, entry.value], error, f"{function}, {result}")
        self._charge(MAP_CREATION)
        return writer.assign(f"{result} if {error} is None else {error}")

    def _entry(self, parts: Sequence[Node], error: str, add: str) -> Step[None]:
        """Write the parts of an entry, up to the first error, and add it."""
        writer = self.writer
        names: list[str] = []
        for part in parts:
            with writer.block(f"if {error} is None:"):
                names.append((yield self.nested(part)))
                writer.line(f"{error} = first_error([{names[-1]}])")
        arguments = ", ".join([add, *names])
        writer.line(f"if {error} is None: {error} = attempt({arguments})")

    # Comprehensions.

    def _loop(self, node: Comprehension) -> Step[None]:
        """Write a loop that returns an error instead of a collection, or runs to the end."""
        writer = self.writer
        writer.line("if is_error(collection): return collection")
        source = "entries" if node.second_variable else "elements"
        writer.line(f"collection = attempt({source}, collection)")
        writer.line("if is_error(collection): return collection")
        accumulator = writer.name("v")
        writer.line(f"{accumulator} = {self._initial(node.init)}")
        self.declare(node.accumulator, accumulator)
        with self.loop(node, "collection"):
            condition = yield self.value(node.condition)
            writer.line(f"if {condition} is False: break")
            yield from self._step(node.step, accumulator)
        writer.line(f"return {(yield self.value(node.result))}")
        self.forget(node.accumulator)

    def _initial(self, init: Node) -> str:
        if isinstance(init, ListLiteral):
            return "[]"
        if isinstance(init, MapLiteral):
            return "{}"
        return self.writer.constant(self.plan.constant(init))

    def _step(self, step: Node, accumulator: str) -> Step[None]:
        assert isinstance(step, FunctionCall)
        if step.function == "_?_:_":
            yield from self._guarded_step(step, accumulator)
        elif step.function == "cel.@mapInsert":
            yield from self._insert(step, accumulator)
        elif step.function == "_+_" and isinstance(step.arguments[1], ListLiteral):
            yield from self._append(step.arguments[1], accumulator)
        else:
            self.writer.line(f"{accumulator} = {(yield self.value(step))}")

    def _guarded_step(self, step: FunctionCall, accumulator: str) -> Step[None]:
        """Write `predicate ? step : accumulator`: an unchanged accumulator costs nothing."""
        writer = self.writer
        predicate, inner, _ = step.arguments
        chosen = yield self.value(predicate)
        with writer.block(f"if {chosen} is True:"):
            yield from self._step(inner, accumulator)
        writer.line(f"elif {chosen} is not False: {accumulator} = as_error({chosen})")

    def _append(self, added: ListLiteral, accumulator: str) -> Step[None]:
        """Write `accumulator + [element]` in place: name, list and sum are charged."""
        writer = self.writer
        self._charge(1)
        element = yield self.nested(added.elements[0])
        self._charge(LIST_CREATION)
        self._charge(1)
        writer.line(f"if is_error({accumulator}): pass")
        writer.line(f"elif is_error({element}): {accumulator} = {element}")
        writer.line(f"else: {accumulator}.append({element})")

    def _insert(self, step: FunctionCall, accumulator: str) -> Step[None]:
        """Write `cel.@mapInsert(accumulator, …)` in place.

        With key and value it stops at an accumulator that is an error, without a price of its own.
        """
        writer = self.writer
        inserted = step.arguments[1:]
        is_entry = len(inserted) == 2
        self._charge(1)
        with writer.block(f"if not is_error({accumulator}):") if is_entry else nullcontext():
            names = yield from self.values(inserted)
            self._charge(1)
            function = "insert" if is_entry else "insert_all"
            failed = writer.assign(f"first_error([{accumulator}, {', '.join(names)}])")
            attempt = f"attempt({function}, {accumulator}, {', '.join(names)})"
            writer.line(f"if {failed} is None: {failed} = {attempt}")
            writer.line(f"if {failed} is not None: {accumulator} = {failed}")

    def _binding(self, node: Comprehension) -> Step[str]:
        """Declare a name for a value that is computed and charged when it is first read."""
        writer = self.writer
        function = self.begin_function()
        yield self.returned(node.init)
        writer.end_function()
        find = self.function_call(function)
        self.declare(node.accumulator, writer.assign("[UNSET]"), find)
        result: str = yield self.value(node.result)
        self.forget(node.accumulator)
        return result

    _specials: dict[str, Callable[[_CountingEmitter, FunctionCall], Step[str]]] = {
        "_&&_": _logical,
        "_||_": _logical,
        "_?_:_": _conditional,
        "@not_strictly_false": _not_strictly_false,
        "or": _or_optional,
        "orValue": _or_value,
    }


def _is_conditional(node: Node) -> bool:
    return isinstance(node, FunctionCall) and node.function == "_?_:_"
