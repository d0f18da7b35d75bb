"""The macros: calls that the parser replaces by other trees before anything is checked.

What they expand to is cel-go's (parser/macro.go, ext/comprehensions.go, ext/bindings.go,
ext/lists.go, cel/library.go): the cost estimate counts every node of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from dray.cel.syntax.factory import Factory
from dray.cel.syntax.nodes import (
    Comprehension,
    Constant,
    FunctionCall,
    Identifier,
    ListLiteral,
    Node,
    Select,
)

ACCUMULATOR = "@result"
UNUSED = "#unused"
_SORT_INPUT = "@__sortBy_input__"
_FORMER_ACCUMULATOR = "__result__"

_SIMPLE_NAME = "argument must be a simple name"
_NO_IDENTIFIER = "argument is not an identifier"


class MacroError(Exception):
    """The call is a macro's, its arguments are not; `str()` is cel-go's text."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position


def expand(
    nodes: Factory, position: int, function: str, target: Node | None, arguments: Sequence[Node]
) -> Node | None:
    """Return the expansion of a call at `position`, or None if it is not a macro."""
    if target is None:
        if function == "has" and len(arguments) == 1:
            return _has(nodes, position, arguments[0])
        return None
    if function not in _MEMBER_MACROS:
        return None
    argument_counts, expander = _MEMBER_MACROS[function]
    if len(arguments) not in argument_counts:
        return None
    return expander(_Expansion(nodes, position, target), arguments)


class _Expansion:
    """One macro call on `target`; every node made for it stands at the call's `(`."""

    def __init__(self, nodes: Factory, position: int, target: Node) -> None:
        self.nodes = nodes
        self.position = position
        self.target = target

    def literal(self, value: Constant) -> Node:
        return self.nodes.literal(self.position, value)

    def name(self, name: str) -> Node:
        return self.nodes.identifier(self.position, name)

    def accumulator(self) -> Node:
        return self.name(ACCUMULATOR)

    def call(self, function: str, *arguments: Node, target: Node | None = None) -> Node:
        return self.nodes.call(self.position, function, *arguments, target=target)

    def new_list(self, *elements: Node) -> Node:
        return self.nodes.list(self.position, *elements)

    def guard(self, step: Node, predicate: Sequence[Node]) -> Node:
        """Return `step`, or a condition that keeps the accumulator if the predicate is false."""
        if not predicate:
            return step
        return self.call("_?_:_", *predicate, step, self.accumulator())

    def fold(
        self,
        variables: list[str],
        init: Node,
        condition: Node,
        step: Node,
        result: Node | None = None,
    ) -> Node:
        return Comprehension(
            self.nodes.next_id(),
            self.position,
            self.target,
            variables[0],
            variables[1] if len(variables) == 2 else None,
            ACCUMULATOR,
            init,
            condition,
            step,
            result or self.accumulator(),
        )

    def bind(self, name: str, init: Node, result: Node) -> Node:
        """Build a fold over nothing, so that the accumulator is a name for `init` in `result`."""
        return Comprehension(
            self.nodes.next_id(),
            self.position,
            self.new_list(),
            UNUSED,
            None,
            name,
            init,
            self.literal(False),
            self.name(name),
            result,
        )


Expander: TypeAlias = Callable[[_Expansion, Sequence[Node]], Node | None]


def _has(nodes: Factory, position: int, argument: Node) -> Node:
    if not isinstance(argument, Select):
        raise MacroError(argument.position, "invalid argument to has() macro")
    return nodes.select(position, argument.operand, argument.field, test_only=True)


def _name_of(argument: Node, complaint: str) -> str:
    if not isinstance(argument, Identifier):
        raise MacroError(argument.position, complaint)
    return argument.name


def _loop_variables(arguments: Sequence[Node], complaint: str) -> list[str]:
    """Return one or two names that hide neither each other nor the accumulator."""
    names = [_name_of(argument, complaint) for argument in arguments]
    if len(set(names)) < len(names):
        raise MacroError(arguments[1].position, f"duplicate variable name: {names[0]}")
    for name, argument in zip(names, arguments, strict=True):
        if name in (ACCUMULATOR, _FORMER_ACCUMULATOR):
            message = "iteration variable overwrites accumulator variable"
            raise MacroError(argument.position, message)
    return names


def _all(expansion: _Expansion, arguments: Sequence[Node]) -> Node:
    *names, predicate = arguments
    variables = _loop_variables(names, _SIMPLE_NAME)
    condition = expansion.call("@not_strictly_false", expansion.accumulator())
    step = expansion.call("_&&_", expansion.accumulator(), predicate)
    return expansion.fold(variables, expansion.literal(True), condition, step)


def _exists(expansion: _Expansion, arguments: Sequence[Node]) -> Node:
    *names, predicate = arguments
    variables = _loop_variables(names, _SIMPLE_NAME)
    negated = expansion.call("!_", expansion.accumulator())
    condition = expansion.call("@not_strictly_false", negated)
    step = expansion.call("_||_", expansion.accumulator(), predicate)
    return expansion.fold(variables, expansion.literal(False), condition, step)


def _exists_one(expansion: _Expansion, arguments: Sequence[Node]) -> Node:
    *names, predicate = arguments
    variables = _loop_variables(names, _SIMPLE_NAME)
    counted = expansion.call("_+_", expansion.accumulator(), expansion.literal(1))
    step = expansion.guard(counted, [predicate])
    result = expansion.call("_==_", expansion.accumulator(), expansion.literal(1))
    return expansion.fold(variables, expansion.literal(0), expansion.literal(True), step, result)


def _append(
    expansion: _Expansion, variables: list[str], element: Node, predicate: Sequence[Node]
) -> Node:
    step = expansion.call("_+_", expansion.accumulator(), expansion.new_list(element))
    return expansion.fold(
        variables, expansion.new_list(), expansion.literal(True), expansion.guard(step, predicate)
    )


def _map(expansion: _Expansion, arguments: Sequence[Node]) -> Node:
    name, *predicate, element = arguments
    variables = _loop_variables([name], _NO_IDENTIFIER)
    return _append(expansion, variables, element, predicate)


def _filter(expansion: _Expansion, arguments: Sequence[Node]) -> Node:
    name, predicate = arguments
    variables = _loop_variables([name], _NO_IDENTIFIER)
    return _append(expansion, variables, name, [predicate])


def _transform_list(expansion: _Expansion, arguments: Sequence[Node]) -> Node:
    first, second, *predicate, element = arguments
    variables = _loop_variables([first, second], _SIMPLE_NAME)
    return _append(expansion, variables, element, predicate)


def _insert(
    expansion: _Expansion, variables: list[str], inserted: list[Node], predicate: Sequence[Node]
) -> Node:
    step = expansion.call("cel.@mapInsert", expansion.accumulator(), *inserted)
    init = expansion.nodes.map(expansion.position)
    return expansion.fold(
        variables, init, expansion.literal(True), expansion.guard(step, predicate)
    )


def _transform_map(expansion: _Expansion, arguments: Sequence[Node]) -> Node:
    first, second, *predicate, value = arguments
    variables = _loop_variables([first, second], _SIMPLE_NAME)
    inserted = [expansion.name(variables[0]), value]
    return _insert(expansion, variables, inserted, predicate)


def _transform_map_entry(expansion: _Expansion, arguments: Sequence[Node]) -> Node:
    first, second, *predicate, entries = arguments
    variables = _loop_variables([first, second], _SIMPLE_NAME)
    return _insert(expansion, variables, [entries], predicate)


def _optional_map(expansion: _Expansion, arguments: Sequence[Node]) -> Node:
    name = _name_of(arguments[0], "optMap() variable name must be a simple identifier")
    mapped = _bind_value(expansion, name, arguments[1])
    return _when_present(expansion, expansion.call("optional.of", mapped))


def _optional_flat_map(expansion: _Expansion, arguments: Sequence[Node]) -> Node:
    name = _name_of(arguments[0], "optFlatMap() variable name must be a simple identifier")
    return _when_present(expansion, _bind_value(expansion, name, arguments[1]))


def _bind_value(expansion: _Expansion, name: str, result: Node) -> Node:
    value = expansion.call("value", target=expansion.nodes.copy(expansion.target))
    return expansion.bind(name, value, result)


def _when_present(expansion: _Expansion, mapped: Node) -> Node:
    present = expansion.call("hasValue", target=expansion.target)
    return expansion.call("_?_:_", present, mapped, expansion.call("optional.none"))


def _bind(expansion: _Expansion, arguments: Sequence[Node]) -> Node | None:
    target = expansion.target
    if not isinstance(target, Identifier) or target.name != "cel":
        return None
    complaint = "cel.bind() variable names must be simple identifiers"
    return expansion.bind(_name_of(arguments[0], complaint), arguments[1], arguments[2])


def _sort_by(expansion: _Expansion, arguments: Sequence[Node]) -> Node:
    target = expansion.target
    if not isinstance(target, ListLiteral | Select | Identifier | Comprehension | FunctionCall):
        message = (
            "sortBy can only be applied to a list, identifier, comprehension, call or select "
            "expression"
        )
        raise MacroError(target.position, message)
    over_input = _Expansion(expansion.nodes, expansion.position, expansion.name(_SORT_INPUT))
    keys = _map(over_input, arguments)
    ordered = expansion.call("@sortByAssociatedKeys", keys, target=expansion.name(_SORT_INPUT))
    return expansion.bind(_SORT_INPUT, target, ordered)


# The numbers of arguments and the expansion of each.
_MEMBER_MACROS: dict[str, tuple[tuple[int, ...], Expander]] = {
    "all": ((2, 3), _all),
    "exists": ((2, 3), _exists),
    "exists_one": ((2, 3), _exists_one),
    "existsOne": ((3,), _exists_one),
    "map": ((2, 3), _map),
    "filter": ((2,), _filter),
    "transformList": ((3, 4), _transform_list),
    "transformMap": ((3, 4), _transform_map),
    "transformMapEntry": ((3, 4), _transform_map_entry),
    "optMap": ((2,), _optional_map),
    "optFlatMap": ((2,), _optional_flat_map),
    "bind": ((3,), _bind),
    "sortBy": ((2,), _sort_by),
}
