"""Checked tree to Python function: the plain form, which counts no cost.

An error is a Python exception here. `&&`, `||` and loops catch it where cel-go would carry an error
value on. Nothing has effects, so what cannot change the answer is left out: a loop that collects
ends at its first error, calls on constants are made while compiling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dray.api.quantity import Quantity
from dray.api.semver import Version
from dray.cel import macros, regexes, runtime, types, values
from dray.cel.emitter import MAYBE_OPTIONAL, Chain, Emitter, Plan, Qualifier
from dray.cel.functions.overloads import Overload
from dray.cel.syntax import Call, Comprehension, ListLiteral, MapLiteral, Node, Select
from dray.cel.trampoline import Step
from dray.cel.types import Kind
from dray.cel.values import MISSING, NONE, CostExceeded, EvaluationError, Optional

_HELPERS: dict[str, Any] = {
    "str": str,
    "int": int,
    "Quantity": Quantity,
    "Version": Version,
    "KeyError": KeyError,
    "TypeError": TypeError,
    "EvaluationError": EvaluationError,
    "MISSING": MISSING,
    "NONE": NONE,
    "Optional": Optional,
    "contains": values.contains,
    "equal": values.equal,
    "is_equal": values.is_equal,
    "no_such_overload": values.no_such_overload,
    "advance": runtime.advance,
    "append_optional": runtime.append_optional,
    "elements": runtime.elements,
    "entries": runtime.entries,
    "insert": runtime.insert,
    "insert_all": runtime.insert_all,
    "is_present": runtime.is_present,
    "probe": runtime.probe,
    "put": runtime.put,
    "put_optional": runtime.put_optional,
    "qualify": runtime.qualify,
    "qualify_all": runtime.qualify_all,
    "unwrap": runtime.unwrap,
    "wrap": runtime.wrap,
}

SHORTCUT_LENGTH = 3

_COMPARISONS = {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}
_EQUAL_AS_IN_PYTHON = frozenset({Kind.STRING, Kind.INT, Kind.BOOL, Kind.BYTES, Kind.UINT})
_GUARDED_CLASSES = {str: "str", int: "int"}
_CLASS_NAMES = {
    types.STRING: "str",
    types.INT: "int",
    types.QUANTITY: "Quantity",
    types.SEMVER: "Version",
}


def compile_plain(plan: Plan) -> Callable[..., Any]:
    """A function of the environment's variables; raises EvaluationError."""
    return _PlainEmitter(plan, _HELPERS).compile()


class _PlainEmitter(Emitter):
    def value(self, node: Node) -> Step[str]:
        if self.plan.is_constant(node):
            return self.writer.constant(self.plan.constant(node))
        if self.plan.is_variable(node):
            return self.whole_variable(node)
        if isinstance(node, Call):
            return (yield from self._call(node))
        if isinstance(node, Select):
            return (yield from self._select(node))
        if isinstance(node, ListLiteral):
            return (yield from self._list(node))
        if isinstance(node, MapLiteral):
            return (yield from self._map(node))
        assert isinstance(node, Comprehension)
        return (yield from self._comprehension(node))

    def returned(self, node: Node) -> Step[None]:
        if isinstance(node, Call) and not self.plan.is_constant(node):
            if node.function in ("_&&_", "_||_"):
                yield from self._return_logical(node)
                return
            if node.function == "_?_:_":
                yield from self._return_conditional(node)
                return
        yield from super().returned(node)

    def _is_bool(self, node: Node) -> bool:
        return self.is_surely(node, Kind.BOOL)

    # Calls.

    def _call(self, node: Call) -> Step[str]:
        function = self.plan.checked.references[node.id].name
        if special := self._specials.get(function):
            return (yield from special(self, node))
        if self.plan.qualifier(node):
            return (yield from self._select(node))
        return (yield from self._function_call(node))

    def _function_call(self, node: Call) -> Step[str]:
        operands = self.plan.operands(node)
        names = yield from self.values(operands)
        return self._apply(node, operands, names)

    def _guards(
        self, overload: Overload, operands: Sequence[Node], names: Sequence[str]
    ) -> list[str] | None:
        """Tests that the operands have the classes the overload takes, as far as it is uncertain.

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

    def _apply(self, node: Call, operands: Sequence[Node], names: Sequence[str]) -> str:
        """Calls a function of the library: now if its operands are known, directly if it can."""
        if all(map(self.writer.is_constant, names)):
            known = self._result_of_constants(self.plan.implementation(node), names)
            if known is not None:
                return known
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
        """Raises an error that is known already; no value comes of it."""
        text = self.writer.constant(message)
        self.writer.line(f"raise EvaluationError({text})", may_fail=True)
        return "NONE"

    def _equality(self, node: Call) -> Step[str]:
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
        """A test that both operands have the class of the one that is constant."""
        for constant, other in ((right, left), (left, right)):
            if self.writer.is_constant(constant):
                name = _GUARDED_CLASSES.get(self.writer.value(constant).__class__)
                return name and f"{other}.__class__ is {name}"
        return None

    def _comparison(self, node: Call) -> Step[str]:
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

    def _compared_quantities(self, node: Call) -> list[Node] | None:
        """The quantities a and b of `a.compareTo(b) >= 0`, the usual test of a capacity."""
        comparison, zero = node.arguments
        if not isinstance(comparison, Call) or comparison.function != "compareTo":
            return None
        if not self.plan.is_constant(zero) or self.plan.constant(zero) != 0:
            return None
        quantities = self.plan.operands(comparison)
        are_sure = all(self.sure_type(operand) == types.QUANTITY for operand in quantities)
        return quantities if are_sure else None

    def _negation(self, node: Call) -> Step[str]:
        if not self._is_bool(node.arguments[0]):
            return (yield from self._function_call(node))
        operand = yield self.value(node.arguments[0])
        return self.writer.assign(f"not {operand}")

    def _membership(self, node: Call) -> Step[str]:
        if node.id not in self.plan.folded.memberships:
            return (yield from self._function_call(node))
        value = yield self.value(node.arguments[0])
        candidates = self.plan.constant(node.arguments[1])
        if all(candidate.__class__ is str for candidate in candidates):
            known = self.writer.constant(frozenset(candidates))
            return self.writer.assign(f"{value}.__class__ is str and {value} in {known}")
        return self.writer.assign(f"contains({self.writer.constant(candidates)}, {value})")

    def _matches(self, node: Call) -> Step[str]:
        """A constant pattern is compiled with the expression."""
        operands = self.plan.operands(node)
        names = yield from self.values(operands)
        text, pattern = names
        writer = self.writer
        is_known = writer.is_constant(pattern) and not writer.is_constant(text)
        if not is_known or writer.value(pattern).__class__ is not str:
            return self._apply(node, operands, names)
        is_in = writer.constant(regexes.compile(writer.value(pattern)).is_in)
        expression = f"not not {is_in}({text}.encode())"
        if self.is_surely(operands[0], Kind.STRING):
            return writer.assign(expression)
        fallback = writer.constant(self.plan.implementation(node))
        guarded = f"{expression} if {text}.__class__ is str else {fallback}({text}, {pattern})"
        return writer.assign(guarded, may_fail=True)

    def _same(self, node: Call) -> Step[str]:
        return (yield from self.value(node.arguments[0]))

    # Logic.

    def _logical(self, node: Call) -> Step[str]:
        """The answer so far is kept in a name; terms are skipped once it is decided."""
        writer = self.writer
        undecided = "True" if node.function == "_&&_" else "False"
        result = writer.assign(undecided)
        error = writer.assign("None")
        failures = writer.failures
        for number, term in enumerate(self.plan.terms(node)):
            if number:
                writer.line(f"if {result} is {undecided}:")
                writer.indent()
            yield from self._term(term, error, f"{result} = {{}}")
            if number:
                writer.dedent()
        if writer.failures > failures:
            writer.line(f"if {error} is not None and {result} is {undecided}: raise {error}")
        return result

    def _return_logical(self, node: Call) -> Step[None]:
        writer = self.writer
        undecided, decided = ("True", "False") if node.function == "_&&_" else ("False", "True")
        error = writer.assign("None")
        failures = writer.failures
        for term in self.plan.terms(node):
            yield from self._term(term, error, f"if {{}} is {decided}: return {decided}")
        if writer.failures > failures:
            writer.line(f"if {error} is not None: raise {error}")
        writer.line(f"return {undecided}")

    def _term(self, term: Node, error: str, use: str) -> Step[None]:
        """Evaluates one term and uses it; the first error of the chain is kept for later."""
        outside, failures = self.writer.begin_try(), self.writer.failures
        value = yield from self._tested(term)
        self.writer.line(use.format(value))
        keep = [f"if {error} is None: {error} = error"]
        self.writer.end_try(outside, keep if self.writer.failures > failures else [])

    def _tested(self, node: Node) -> Step[str]:
        """A value that is certainly a bool."""
        value: str = yield self.nested(node)
        if not self._is_bool(node):
            check = f"if {value} is not True and {value} is not False: raise no_such_overload()"
            self.writer.line(check, may_fail=True)
        return value

    def _conditional(self, node: Call) -> Step[str]:
        writer = self.writer
        condition, when_true, when_false = node.arguments
        chosen = yield from self._tested(condition)
        result = writer.name("t")
        for start, branch in ((f"if {chosen}:", when_true), ("else:", when_false)):
            writer.line(start)
            writer.indent()
            writer.line(f"{result} = {(yield self.nested(branch))}")
            writer.dedent()
        return result

    def _return_conditional(self, node: Call) -> Step[None]:
        writer = self.writer
        condition, when_true, when_false = node.arguments
        chosen = yield from self._tested(condition)
        writer.line(f"if {chosen}:")
        writer.indent()
        writer.line(f"return {(yield self.nested(when_true))}")
        writer.dedent()
        yield self.returned(when_false)

    # Selections.

    def _select(self, node: Node) -> Step[str]:
        chain = self.plan.chain(node)
        if self.plan.type(chain.root).kind in MAYBE_OPTIONAL:
            return (yield from self._dynamic_chain(chain))
        if not any(qualifier.is_optional for qualifier in chain.qualifiers):
            return (yield from self._plain_chain(chain))
        found = yield from self._optional_chain(chain)
        return found if chain.qualifiers[-1].is_test else self.writer.assign(f"wrap({found})")

    def _key(self, qualifier: Qualifier) -> Step[str]:
        if isinstance(qualifier.key, str):
            return self.writer.constant(qualifier.key)
        return (yield from self.nested(qualifier.key))

    def _plain_chain(self, chain: Chain) -> Step[str]:
        value = yield from self.chain_start(chain)
        qualifiers = chain.qualifiers
        if shortcut := self._shortcut(chain):
            value = self._short_cut(value, shortcut, qualifiers[:SHORTCUT_LENGTH])
            qualifiers = qualifiers[SHORTCUT_LENGTH:]
        for qualifier in qualifiers:
            key = yield from self._key(qualifier)
            value = self._qualified(value, key, qualifier.is_test)
        return value

    def _shortcut(self, chain: Chain) -> str | None:
        """The key under which an object may hold what is deep inside it."""
        if self.plan.type(chain.root).kind is not Kind.OBJECT:
            return None
        keys = [self.plan.text_key(qualifier) for qualifier in chain.qualifiers[:SHORTCUT_LENGTH]]
        known = [key for key in keys if key is not None]
        return runtime.shortcut(*known) if len(known) == SHORTCUT_LENGTH else None

    def _short_cut(self, value: str, shortcut: str, qualifiers: Sequence[Qualifier]) -> str:
        """The value of the first steps, taken at once if the object allows it."""
        writer = self.writer
        found = writer.name("t")
        is_test = qualifiers[-1].is_test
        key = writer.constant(shortcut)
        if is_test:
            writer.line(f"if {key} in {value}: {found} = True")
            writer.line("else:")
        else:
            writer.line(f"try: {found} = {value}[{key}]")
            writer.line("except KeyError:")
        writer.indent()
        for qualifier in qualifiers:
            step = writer.constant(self.plan.text_key(qualifier))
            value = self._qualified(value, step, qualifier.is_test)
        writer.line(f"{found} = {value}")
        writer.dedent()
        return found

    def _qualified(self, value: str, key: str, is_test: bool) -> str:
        writer = self.writer
        if is_test:
            return writer.assign(f"is_present({value}, {key})", may_fail=True)
        if not writer.is_constant(key) or writer.value(key).__class__ is not str:
            return writer.assign(f"qualify({value}, {key})", may_fail=True)
        # Of all values only maps can be subscripted with a string.
        found = writer.name("t")
        writer.line(f"try: {found} = {value}[{key}]")
        writer.line("except (KeyError, TypeError):")
        writer.indent()
        writer.line(f"{found} = qualify({value}, {key})", may_fail=True)
        writer.dedent()
        return found

    def _optional_chain(self, chain: Chain) -> Step[str]:
        """The value found or MISSING; for a test, whether it was found."""
        writer = self.writer
        first = next(i for i, each in enumerate(chain.qualifiers) if each.is_optional)
        plain = Chain(chain.root, chain.qualifiers[:first])
        found = writer.assign((yield from self._plain_chain(plain)))
        for number, qualifier in enumerate(chain.qualifiers[first:]):
            if number:
                writer.line(f"if {found} is not MISSING:")
                writer.indent()
            key = yield from self._key(qualifier)
            writer.line(f"{found} = probe({found}, {key})", may_fail=True)
            if number:
                writer.dedent()
        if chain.qualifiers[-1].is_test:
            return writer.assign(f"{found} is not MISSING")
        return found

    def _dynamic_chain(self, chain: Chain) -> Step[str]:
        """A chain that may start at an optional: that is known when it runs."""
        writer = self.writer
        root = yield from self.chain_start(chain)
        if keys := self._constant_keys(chain):
            return writer.assign(f"qualify_all({root}, {keys})", may_fail=True)
        is_optional = writer.assign(f"{root}.__class__ is Optional")
        found = writer.assign(f"unwrap({root})")
        for qualifier in chain.qualifiers:
            if qualifier.is_optional:
                writer.line(f"{is_optional} = True")
            writer.line(f"if {found} is not MISSING:")
            writer.indent()
            key = yield from self._key(qualifier)
            is_probe = "True" if qualifier.is_test else is_optional
            writer.line(f"{found} = advance({found}, {key}, {is_probe})", may_fail=True)
            writer.dedent()
        if chain.qualifiers[-1].is_test:
            return writer.assign(f"{found} is not MISSING")
        return writer.assign(f"wrap({found}, {is_optional})")

    def _constant_keys(self, chain: Chain) -> str | None:
        """The keys of a chain as one constant, where they all are and none is special."""
        keys: list[Any] = []
        for key, is_optional, is_test in chain.qualifiers:
            if is_optional or is_test:
                return None
            if isinstance(key, str):
                keys.append(key)
            elif self.plan.is_constant(key):
                keys.append(self.plan.constant(key))
            else:
                return None
        return self.writer.constant(tuple(keys))

    # Optionals.

    def _probed(self, node: Node) -> Step[str | None]:
        """The value or MISSING of an optional that need not be made; None if it must be."""
        if not self.plan.qualifier(node):
            return None
        chain = self.plan.chain(node)
        is_static = self.plan.type(chain.root).kind not in MAYBE_OPTIONAL
        if not is_static or not any(qualifier.is_optional for qualifier in chain.qualifiers):
            return None
        return (yield from self._optional_chain(chain))

    def _or_value(self, node: Call) -> Step[str]:
        optional, alternative = self.plan.operands(node)
        result = yield from self._probed(optional)
        if result is None:
            value = yield from self._optional(optional)
            result = self.writer.assign(f"{value}.value if {value} is not NONE else MISSING")
        yield from self._replace_if(f"{result} is MISSING", result, alternative)
        return result

    def _or_optional(self, node: Call) -> Step[str]:
        optional, alternative = self.plan.operands(node)
        result = self.writer.assign((yield from self._optional(optional)))
        yield from self._replace_if(f"{result} is NONE", result, alternative)
        return result

    def _optional(self, node: Node) -> Step[str]:
        value: str = yield self.value(node)
        check = f"if {value}.__class__ is not Optional: raise no_such_overload()"
        self.writer.line(check, may_fail=True)
        return value

    def _replace_if(self, condition: str, name: str, alternative: Node) -> Step[None]:
        self.writer.line(f"if {condition}:")
        self.writer.indent()
        self.writer.line(f"{name} = {(yield self.nested(alternative))}")
        self.writer.dedent()

    def _has_value(self, node: Call) -> Step[str]:
        found = yield from self._probed(self.plan.operands(node)[0])
        if found is None:
            return (yield from self._function_call(node))
        return self.writer.assign(f"{found} is not MISSING")

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

    # Comprehensions: a function each, with the range as its last parameter.

    def _comprehension(self, node: Comprehension) -> Step[str]:
        if node.variable == macros.UNUSED:
            return (yield from self._binding(node))
        collection = yield self.value(node.range)
        name = self.begin_function("collection")
        yield from self._loop(node)
        self.writer.end_function()
        return self.call_function(name, collection)

    def _loop(self, node: Comprehension) -> Step[None]:
        """Writes how a macro runs, told by what it expands to."""
        assert isinstance(node.step, Call)
        if isinstance(node.init, ListLiteral):
            yield from self._collecting_loop(node, node.step, "[]", self._append)
        elif isinstance(node.init, MapLiteral):
            yield from self._collecting_loop(node, node.step, "{}", self._insert)
        elif isinstance(node.result, Call):
            yield from self._counting_loop(node, node.step)
        else:
            yield from self._quantifying_loop(node, node.step)

    def _begin_loop(self, node: Comprehension) -> None:
        items = "entries" if node.second_variable else "elements"
        self.begin_loop(node, f"{items}(collection)")

    def _quantifying_loop(self, node: Comprehension, step: Call) -> Step[None]:
        """all and exists: the first error counts if no element decides."""
        is_all = step.function == "_&&_"
        undecided, decided = ("True", "False") if is_all else ("False", "True")
        error = self.writer.assign("None")
        self._begin_loop(node)
        yield from self._term(step.arguments[1], error, f"if {{}} is {decided}: return {decided}")
        self.end_loop(node)
        self.writer.line(f"if {error} is not None: raise {error}")
        self.writer.line(f"return {undecided}")

    def _counting_loop(self, node: Comprehension, step: Call) -> Step[None]:
        """exists_one: the last error of the predicate counts."""
        error, count = self.writer.assign("None"), self.writer.assign("0")
        self._begin_loop(node)
        yield from self._predicate(step.arguments[0], error, f"{count} += 1")
        self.end_loop(node)
        self.writer.line(f"if {error} is not None: raise {error}")
        self.writer.line(f"return {count} == 1")

    def _predicate(self, predicate: Node, error: str, action: str) -> Step[None]:
        """True does the action; an error replaces the one before."""
        outside, failures = self.writer.begin_try(), self.writer.failures
        value = yield from self._tested(predicate)
        self.writer.line(f"if {value}: {action}")
        is_handled = self.writer.failures > failures
        self.writer.end_try(outside, [f"{error} = error"] if is_handled else [])

    def _collecting_loop(
        self,
        node: Comprehension,
        step: Call,
        empty: str,
        add: Callable[[Call, str], Step[None]],
    ) -> Step[None]:
        """map, filter and the transformations.

        Without a predicate the first error counts and ends the loop. With one, the last error of
        the predicate counts; if there is none, the first of anything else.
        """
        result = self.writer.assign(empty)
        if step.function == "_?_:_":
            yield from self._filtering_loop(node, step, result, add)
        else:
            self._begin_loop(node)
            yield from add(step, result)
            self.end_loop(node)
        self.writer.line(f"return {result}")

    def _filtering_loop(
        self, node: Comprehension, step: Call, result: str, add: Callable[[Call, str], Step[None]]
    ) -> Step[None]:
        writer = self.writer
        predicate, addition, _ = step.arguments
        assert isinstance(addition, Call)
        error, chosen = writer.assign("None"), writer.name("t")
        self._begin_loop(node)
        writer.line(f"{chosen} = False")
        yield from self._predicate(predicate, error, f"{chosen} = {error} is None")
        writer.line(f"if {chosen}:")
        writer.indent()
        outside, failures = writer.begin_try(), writer.failures
        yield from add(addition, result)
        writer.end_try(outside, [f"{error} = error"] if writer.failures > failures else [])
        writer.dedent()
        self.end_loop(node)
        writer.line(f"if {error} is not None: raise {error}")

    def _append(self, step: Call, result: str) -> Step[None]:
        appended = step.arguments[1]
        assert isinstance(appended, ListLiteral)
        element = yield self.nested(appended.elements[0])
        self.writer.line(f"{result}.append({element})")

    def _insert(self, step: Call, result: str) -> Step[None]:
        names = yield from self.values(step.arguments[1:])
        function = "insert" if len(names) == 2 else "insert_all"
        self.writer.line(f"{function}({result}, {', '.join(names)})", may_fail=True)

    def _binding(self, node: Comprehension) -> Step[str]:
        """A name for a value that is found when it is first read; at once if it cannot fail."""
        writer = self.writer
        function = self.begin_function()
        value = yield self.value(node.init)
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

    _specials: dict[str, Callable[[_PlainEmitter, Call], Step[str]]] = {
        "_&&_": _logical,
        "_||_": _logical,
        "_?_:_": _conditional,
        "_==_": _equality,
        "_!=_": _equality,
        "!_": _negation,
        "@in": _membership,
        "dyn": _same,
        "hasValue": _has_value,
        "matches": _matches,
        "or": _or_optional,
        "orValue": _or_value,
        **dict.fromkeys(_COMPARISONS, _comparison),
    }
