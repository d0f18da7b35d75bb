"""Making, copying and walking syntax trees, never deeper in Python calls than a few frames."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from dray.cel.syntax.nodes import (
    Comprehension,
    Constant,
    FieldEntry,
    FunctionCall,
    Identifier,
    ListLiteral,
    Literal,
    MapEntry,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
)

MAX_NODES = 20_000
"""A text of the size that Kubernetes accepts needs fewer, unless macros copy their targets."""


class TooManyNodes(Exception):
    """A tree grew out of hand: every `optMap` doubles what it is called on."""


class Factory:
    """Makes nodes, each with an id of its own."""

    def __init__(self) -> None:
        self._last_id = 0

    def next_id(self) -> int:
        self._last_id += 1
        if self._last_id > MAX_NODES:
            raise TooManyNodes(f"expression expands to more than {MAX_NODES} nodes")
        return self._last_id

    def literal(self, position: int, value: Constant) -> Literal:
        return Literal(self.next_id(), position, value)

    def identifier(self, position: int, name: str) -> Identifier:
        return Identifier(self.next_id(), position, name)

    def select(self, position: int, operand: Node, field: str, test_only: bool = False) -> Select:
        return Select(self.next_id(), position, operand, field, test_only)

    def call(
        self, position: int, function: str, *arguments: Node, target: Node | None = None
    ) -> FunctionCall:
        return FunctionCall(self.next_id(), position, function, target, arguments)

    def list(
        self, position: int, *elements: Node, optional: frozenset[int] = frozenset()
    ) -> ListLiteral:
        return ListLiteral(self.next_id(), position, elements, optional)

    def map(self, position: int, *entries: MapEntry) -> MapLiteral:
        return MapLiteral(self.next_id(), position, entries)

    def entry(self, position: int, key: Node, value: Node, optional: bool) -> MapEntry:
        return MapEntry(self.next_id(), position, key, value, optional)

    def struct(self, position: int, type_name: str, *fields: FieldEntry) -> StructLiteral:
        return StructLiteral(self.next_id(), position, type_name, fields)

    def field(self, position: int, name: str, value: Node, optional: bool) -> FieldEntry:
        return FieldEntry(self.next_id(), position, name, value, optional)

    def copy(self, root: Node) -> Node:
        """Return a copy of a tree with new ids."""
        copies: dict[int, Node] = {}
        for node in children_first(root):
            copies[node.id] = self._copy_one(node, copies)
        return copies[root.id]

    def _copy_one(self, node: Node, copies: dict[int, Node]) -> Node:
        at = node.position
        match node:
            case Literal():
                return self.literal(at, node.value)
            case Identifier():
                return self.identifier(at, node.name)
            case Select():
                return self.select(at, copies[node.operand.id], node.field, node.test_only)
            case FunctionCall():
                target = copies[node.target.id] if node.target else None
                arguments = (copies[argument.id] for argument in node.arguments)
                return self.call(at, node.function, *arguments, target=target)
            case ListLiteral():
                elements = (copies[element.id] for element in node.elements)
                return self.list(at, *elements, optional=node.optional_indices)
            case MapLiteral():
                return self.map(at, *(self._copy_entry(entry, copies) for entry in node.entries))
            case StructLiteral():
                fields = (self._copy_field(field, copies) for field in node.fields)
                return self.struct(at, node.type_name, *fields)
            case Comprehension():
                return self._copy_comprehension(node, copies)
        raise AssertionError(f"unknown node {node!r}")

    def _copy_entry(self, entry: MapEntry, copies: dict[int, Node]) -> MapEntry:
        key, value = copies[entry.key.id], copies[entry.value.id]
        return self.entry(entry.position, key, value, entry.optional)

    def _copy_field(self, field: FieldEntry, copies: dict[int, Node]) -> FieldEntry:
        return self.field(field.position, field.field, copies[field.value.id], field.optional)

    def _copy_comprehension(self, node: Comprehension, copies: dict[int, Node]) -> Comprehension:
        return dataclasses.replace(
            node,
            id=self.next_id(),
            range=copies[node.range.id],
            init=copies[node.init.id],
            condition=copies[node.condition.id],
            step=copies[node.step.id],
            result=copies[node.result.id],
        )


def children(node: Node) -> list[Node]:
    """Return the trees directly below a node, in the order of the text."""
    match node:
        case Literal() | Identifier():
            return []
        case FunctionCall():
            return [*([node.target] if node.target else ()), *node.arguments]
        case Select():
            return [node.operand]
        case ListLiteral():
            return list(node.elements)
        case MapLiteral():
            return [child for entry in node.entries for child in (entry.key, entry.value)]
        case StructLiteral():
            return [field.value for field in node.fields]
        case Comprehension():
            return [node.range, node.init, node.condition, node.step, node.result]
    raise AssertionError(f"unknown node {node!r}")


def children_first(root: Node) -> Iterator[Node]:
    """Yield every node of a tree after all nodes below it."""
    order: list[Node] = []
    pending = [root]
    while pending:
        node = pending.pop()
        order.append(node)
        pending += children(node)
    return reversed(order)
