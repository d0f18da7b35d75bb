"""Nodes of the syntax tree. The parser makes them, macros included; nothing else does.

`id` is unique within a tree: types and overloads found by the checker are kept in maps by id.
`position` counts code points from the start of the text and points where cel-go points: at the
operator, the `(` of a call, the `.` of a select, the `[` of an index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from dray.cel.runtime.values import UInt

Constant: TypeAlias = bool | int | UInt | float | str | bytes | None


@dataclass(slots=True)
class Node:
    id: int
    position: int


@dataclass(slots=True)
class Literal(Node):
    value: Constant


@dataclass(slots=True)
class Identifier(Node):
    name: str


@dataclass(slots=True)
class Select(Node):
    """`operand.field`; with `test_only`, what the macro `has(operand.field)` became."""

    operand: Node
    field: str
    test_only: bool = False


@dataclass(slots=True)
class FunctionCall(Node):
    """`function(arguments)` or `target.function(arguments)`.

    Operators have cel-go's names: `_+_`, `_?_:_`, `@in`, `_[_]`, `_?._`.
    """

    function: str
    target: Node | None
    arguments: tuple[Node, ...]


@dataclass(slots=True)
class ListLiteral(Node):
    elements: tuple[Node, ...]
    optional_indices: frozenset[int] = frozenset()


@dataclass(slots=True)
class MapEntry:
    id: int
    position: int
    key: Node
    value: Node
    optional: bool = False


@dataclass(slots=True)
class MapLiteral(Node):
    entries: tuple[MapEntry, ...]


@dataclass(slots=True)
class FieldEntry:
    id: int
    position: int
    field: str
    value: Node
    optional: bool = False


@dataclass(slots=True)
class StructLiteral(Node):
    """`Name{field: value}`: parsed for its error only, a selector knows no messages to build."""

    type_name: str
    fields: tuple[FieldEntry, ...]


@dataclass(slots=True)
class Comprehension(Node):
    """A fold: from `init`, one `step` per element while `condition` holds, then `result`."""

    range: Node
    variable: str
    second_variable: str | None
    accumulator: str
    init: Node
    condition: Node
    step: Node
    result: Node
