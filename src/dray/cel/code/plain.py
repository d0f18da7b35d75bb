"""Checked tree to Python function: the plain form, which counts no cost.

An error is a Python exception here. `&&`, `||` and loops catch it where cel-go would carry an error
value on. Nothing has effects, so what cannot change the answer is left out: a loop that collects
ends at its first error, calls on constants are made while compiling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dray.api.formats.quantity import Quantity
from dray.api.formats.semver import Version
from dray.cel import types
from dray.cel.code import loops, selections
from dray.cel.code.compilation_plan import CompilationPlan
from dray.cel.code.loops import LoopingEmitter
from dray.cel.code.selections import SelectingEmitter
from dray.cel.functions.overloads import Overload
from dray.cel.runtime import operations, regexes, values
from dray.cel.runtime.values import CostExceeded, EvaluationError
from dray.cel.syntax.nodes import Comprehension, FunctionCall, ListLiteral, MapLiteral, Node, Select
from dray.cel.syntax.traversal import Step
from dray.cel.types import Kind

_HELPERS: dict[str, Any] = {
    **selections.HELPERS,
    **loops.HELPERS,
    "str": str,
    "int": int,
    "Quantity": Quantity,
    "Version": Version,
    "contains": values.contains,
    "equal": values.equal,
    "is_equal": values.is_equal,
    "append_optional": operations.append_optional,
    "put": operations.put,
    "put_optional": operations.put_optional,
}

_COMPARISONS = {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}
_EQUAL_AS_IN_PYTHON = frozenset({Kind.STRING, Kind.INT, Kind.BOOL, Kind.BYTES, Kind.UINT})
_GUARDED_CLASSES = {str: "str", int: "int"}
_CLASS_NAMES = {
    types.STRING: "str",
    types.INT: "int",
    types.QUANTITY: "Quantity",
    types.SEMVER: "Version",
}


def compile_plain(plan: CompilationPlan) -> Callable[..., Any]:
    """Compile to a function of the environment's variables that raises EvaluationError."""
    return _PlainEmitter(plan, _HELPERS).compile()


class _PlainEmitter(SelectingEmitter, LoopingEmitter):
    def value(self, node: Node) -> Step[str]:
        if self.plan.is_constant(node):
            return self.writer.constant(self.plan.constant(node))
        if self.plan.is_variable(node):
            return self.whole_variable(node)
        if isinstance(node, FunctionCall):
            return (yield from self._call(node))
        if isinstance(node, Select):
            return (yield from self.select(node))
        if isinstance(node, ListLiteral):
            return (yield from self._list(node))
        if isinstance(node, MapLiteral):
            return (yield from self._map(node))
        assert isinstance(node, Comprehension)
        return (yield from self.comprehension(node))

    def returned(self, node: Node) -> Step[None]:
        if isinstance(node, FunctionCall) and not self.plan.is_constant(node):
            if node.function in ("_&&_", "_||_"):
                yield from self._return_logical(node)
                return
            if node.function == "_?_:_":
                yield from self._return_conditional(node)
                return
        yield from super().returned(node)

    # Calls.

    def _call(self, node: FunctionCall) -> Step[str]:
        function = self.plan.checked.references[node.id].name
        if special := self._specials.get(function):
            return (yield from special(self, node))
        if self.plan.qualifier(node):
            return (yield from self.select(node))
        return (yield from self.library_call(node))

    def library_call(self, node: FunctionCall) -> Step[str]:
        operands = self.plan.operands(node)
        names = yield from self.values(operands)
        return self._apply(node, operands, names)

    def _guards(
        self, overload: Overload, operands: Sequence[Node], names: Sequence[str]
    ) -> list[str] | None:
        """Return tests that the operands have the overload's classes where that is uncertain.

        None if no simple test tells.
        """
        guards: list[str] = []
        for operand, name, expected in zip(operands, names, overload.arguments, strict=True):
            sure = self.sure_type(operand)
            if sure is not None and sure == expected:
                continue
            class_name = _CLASS_NAMES.get(expected)
            if class_name is None:
                return None
            guards.append(f"{name}.__class__ is {class_name}")
        return guards

    def _apply(self, node: FunctionCall, operands: Sequence[Node], names: Sequence[str]) -> str:
        """Write a library call, or its result if all operands are constant."""
        if all(map(self.writer.is_constant, names)):
            constant = self._result_of_constants(self.plan.implementation(node), names)
            if constant is not None:
                return constant
        arguments = ", ".join(names)
        call = f"{self.writer.constant(self.plan.implementation(node))}({arguments})"
        overload = self.plan.overload(node)
        guards = self._guards(overload, operands, names) if overload else None
        if overload is not None and guards is not None:
            direct = f"{self.writer.constant(overload.call)}({arguments})"
            call = f"{direct} if {' and '.join(guards)} else {call}" if guards else direct
        return self.writer.assign(call, may_fail=True)

    def _result_of_constants(
        self, function: Callable[..., Any], names: Sequence[str]
    ) -> str | None:
        try:
            return self.writer.constant(function(*map(self.writer.value, names)))
        except EvaluationError as problem:
            return self._fail(str(problem))
        except CostExceeded:
            return None

    def _fail(self, message: str) -> str:
        """Write a `raise` of an error found at compile time."""
        text = self.writer.constant(message)
        self.writer.line(f"raise EvaluationError({text})", may_fail=True)
        return "NONE"

    def _equality(self, node: FunctionCall) -> Step[str]:
        left, right = yield from self.values(node.arguments)
        is_negated = node.function == "_!=_"
        operator = "!=" if is_negated else "=="
        kinds = [sure.kind for sure in map(self.sure_type, node.arguments) if sure]
        if len(kinds) == 2 and kinds[0] is kinds[1] and kinds[0] in _EQUAL_AS_IN_PYTHON:
            return self.writer.assign(f"{left} {operator} {right}")
        expression = f"not is_equal({left}, {right})" if is_negated else f"equal({left}, {right})"
        if guard := self._class_guard(left, right):
            expression = f"{left} {operator} {right} if {guard} else {expression}"
        return self.writer.assign(expression, may_fail=not is_negated)

    def _class_guard(self, left: str, right: str) -> str | None:
        """Return a test that both operands have the class of the constant one, or None."""
        for constant, other in ((right, left), (left, right)):
            if self.writer.is_constant(constant):
                name = _GUARDED_CLASSES.get(self.writer.value(constant).__class__)
                return name and f"{other}.__class__ is {name}"
        return None

    def _comparison(self, node: FunctionCall) -> Step[str]:
        if quantities := self._compared_quantities(node):
            left, right = yield from self.values(quantities)
            operator = _COMPARISONS[node.function]
            return self.writer.assign(f"{left}.nano {operator} {right}.nano")
        names = yield from self.values(node.arguments)
        left, right = names
        comparison = f"{left} {_COMPARISONS[node.function]} {right}"
        if all(self.is_surely(operand, Kind.INT) for operand in node.arguments):
            return self.writer.assign(comparison)
        guard = self._class_guard(left, right)
        if guard is None or all(map(self.writer.is_constant, names)):
            return self._apply(node, node.arguments, names)
        fallback = f"{self.writer.constant(self.plan.implementation(node))}({left}, {right})"
        return self.writer.assign(f"{comparison} if {guard} else {fallback}", may_fail=True)

    def _compared_quantities(self, node: FunctionCall) -> list[Node] | None:
        """Return a and b of `a.compareTo(b) >= 0`, the usual test of a capacity, or None."""
        comparison, zero = node.arguments
        if not isinstance(comparison, FunctionCall) or comparison.function != "compareTo":
            return None
        if not self.plan.is_constant(zero) or self.plan.constant(zero) != 0:
            return None
        quantities = self.plan.operands(comparison)
        are_sure = all(self.sure_type(operand) == types.QUANTITY for operand in quantities)
        return quantities if are_sure else None

    def _negation(self, node: FunctionCall) -> Step[str]:
        if not self.is_bool(node.arguments[0]):
            return (yield from self.library_call(node))
        operand = yield self.value(node.arguments[0])
        return self.writer.assign(f"not {operand}")

    def _membership(self, node: FunctionCall) -> Step[str]:
        if node.id not in self.plan.folded.memberships:
            return (yield from self.library_call(node))
        value = yield self.value(node.arguments[0])
        candidates = self.plan.constant(node.arguments[1])
        # Strings equal nothing but strings, so a hash lookup replaces the comparisons.
        if all(candidate.__class__ is str for candidate in candidates):
            members = self.writer.constant(frozenset(candidates))
            return self.writer.assign(f"{value}.__class__ is str and {value} in {members}")
        return self.writer.assign(f"contains({self.writer.constant(candidates)}, {value})")

    def _matches(self, node: FunctionCall) -> Step[str]:
        """Write a match; a constant pattern is compiled with the expression."""
        operands = self.plan.operands(node)
        names = yield from self.values(operands)
        text, pattern = names
        writer = self.writer
        is_known = writer.is_constant(pattern) and not writer.is_constant(text)
        if not is_known or writer.value(pattern).__class__ is not str:
            return self._apply(node, operands, names)
        # RE2 searches bytes: the text is encoded at each call, the pattern only once.
        is_in = writer.constant(regexes.compile(writer.value(pattern)).is_in)
        expression = f"not not {is_in}({text}.encode())"
        if self.is_surely(operands[0], Kind.STRING):
            return writer.assign(expression)
        fallback = writer.constant(self.plan.implementation(node))
        guarded = f"{expression} if {text}.__class__ is str else {fallback}({text}, {pattern})"
        return writer.assign(guarded, may_fail=True)

    def _same(self, node: FunctionCall) -> Step[str]:
        return (yield from self.value(node.arguments[0]))

    # Logic.

    def _logical(self, node: FunctionCall) -> Step[str]:
        """Write a chain of && or ||; terms are skipped once the result is decided."""
        writer = self.writer
        undecided = "True" if node.function == "_&&_" else "False"
        result = writer.assign(undecided)
        error = writer.assign("None")
        failures = writer.failures
        first, *rest = self.plan.terms(node)
        yield from self.term(first, error, f"{result} = {{}}")
        for term in rest:
            with writer.block(f"if {result} is {undecided}:"):
                yield from self.term(term, error, f"{result} = {{}}")
        if writer.failures > failures:
            writer.line(f"if {error} is not None and {result} is {undecided}: raise {error}")
        return result

    def _return_logical(self, node: FunctionCall) -> Step[None]:
        writer = self.writer
        undecided, decided = ("True", "False") if node.function == "_&&_" else ("False", "True")
        error = writer.assign("None")
        failures = writer.failures
        for term in self.plan.terms(node):
            yield from self.term(term, error, f"if {{}} is {decided}: return {decided}")
        if writer.failures > failures:
            writer.line(f"if {error} is not None: raise {error}")
        writer.line(f"return {undecided}")

    def _conditional(self, node: FunctionCall) -> Step[str]:
        writer = self.writer
        condition, when_true, when_false = node.arguments
        chosen = yield from self.tested(condition)
        result = writer.name("t")
        for start, branch in ((f"if {chosen}:", when_true), ("else:", when_false)):
            with writer.block(start):
                writer.line(f"{result} = {(yield self.nested(branch))}")
        return result

    def _return_conditional(self, node: FunctionCall) -> Step[None]:
        writer = self.writer
        condition, when_true, when_false = node.arguments
        chosen = yield from self.tested(condition)
        with writer.block(f"if {chosen}:"):
            writer.line(f"return {(yield self.nested(when_true))}")
        yield self.returned(when_false)

    # Literals.

    def _list(self, node: ListLiteral) -> Step[str]:
        if not node.optional_indices:
            names = yield from self.values(node.elements)
            return self.writer.assign(f"[{', '.join(names)}]")
        result = self.writer.assign("[]")
        for index, element in enumerate(node.elements):
            value = yield self.value(element)
            if index in node.optional_indices:
                self.writer.line(f"append_optional({result}, {value})", may_fail=True)
            else:
                self.writer.line(f"{result}.append({value})")
        return result

    def _map(self, node: MapLiteral) -> Step[str]:
        result = self.writer.assign("{}")
        for entry in node.entries:
            key, value = yield from self.values((entry.key, entry.value))
            function = "put_optional" if entry.optional else "put"
            self.writer.line(f"{function}({result}, {key}, {value})", may_fail=True)
        return result

    _specials: dict[str, Callable[[_PlainEmitter, FunctionCall], Step[str]]] = {
        "_&&_": _logical,
        "_||_": _logical,
        "_?_:_": _conditional,
        "_==_": _equality,
        "_!=_": _equality,
        "!_": _negation,
        "@in": _membership,
        "dyn": _same,
        "hasValue": SelectingEmitter.has_value,
        "matches": _matches,
        "or": SelectingEmitter.or_optional,
        "orValue": SelectingEmitter.or_value,
        **dict.fromkeys(_COMPARISONS, _comparison),
    }
