"""The parts of its variables that an expression reads, which determine its result.

`device.attributes["a.com"].model` reads the path (device, attributes, a.com, model). Where a key is
not constant, or a map is used as a whole, the path ends there and everything below it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from dray.cel.code.compilation_plan import CompilationPlan
from dray.cel.syntax import factory, macros, traversal
from dray.cel.syntax.nodes import (
    Comprehension,
    FunctionCall,
    Identifier,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
)
from dray.cel.syntax.traversal import Visit

Path: TypeAlias = tuple[str, ...]

_NODES = (FunctionCall, Comprehension, Identifier, ListLiteral, Literal, MapLiteral, Select)


def find_reads(plan: CompilationPlan) -> frozenset[Path]:
    """Return the paths that are read, none of them below another."""
    reader = _Reader(plan)
    traversal.walk(plan.checked.root, dict.fromkeys(_NODES, reader.visit))
    return frozenset(_without_inner(reader.paths))


def _without_inner(paths: set[Path]) -> Iterator[Path]:
    for path in paths:
        if not any(path[:length] in paths for length in range(1, len(path))):
            yield path


class _Reader:
    """One run over a tree; `_locals` are the paths that local variables stand for, if any."""

    def __init__(self, plan: CompilationPlan) -> None:
        self.paths: set[Path] = set()
        self._plan = plan
        self._locals: dict[str, list[Path | None]] = {}

    def visit(self, node: Node) -> Visit:
        if self._plan.is_constant(node):
            return
        if isinstance(node, Comprehension):
            yield from self._comprehension(node)
            return
        root, qualifiers = self._plan.chain(node)
        if self._plan.is_variable(root):
            path, _ = self._path(node)
            self.paths |= {path} if path else set()
        elif qualifiers:
            yield root
        elif isinstance(node, FunctionCall):
            yield from self._plan.operands(node)
        else:
            yield from factory.children(node)
        yield from (key for key, *_ in qualifiers if isinstance(key, Node))

    def _comprehension(self, node: Comprehension) -> Visit:
        if node.variable == macros.UNUSED:
            yield from self._binding(node)
            return
        yield node.range
        variables = [node.variable, node.second_variable or node.variable, node.accumulator]
        for variable in variables:
            self._locals.setdefault(variable, []).append(None)
        yield from (node.init, node.condition, node.step, node.result)
        for variable in variables:
            self._locals[variable].pop()

    def _binding(self, node: Comprehension) -> Visit:
        path, is_whole = self._path(node.init)
        if not is_whole:
            path = None
            yield node.init
        self._locals.setdefault(node.accumulator, []).append(path)
        yield node.result
        self._locals[node.accumulator].pop()

    def _path(self, node: Node) -> tuple[Path | None, bool]:
        """Return the path that a chain of selections reads, and whether it has all keys.

        None if it starts at no variable from outside.
        """
        root, qualifiers = self._plan.chain(node)
        if not self._plan.is_variable(root):
            return None, False
        path = self._variable_path(root)
        if path is None:
            return None, False
        for key, *_ in qualifiers:
            constant = self._constant_key(key)
            if constant is None:
                return path, False
            path = (*path, constant)
        return path, True

    def _variable_path(self, node: Node) -> Path | None:
        name = self._plan.checked.references[node.id].name
        hiding = self._locals.get(name)
        return hiding[-1] if hiding else (name.removeprefix("."),)

    def _constant_key(self, key: Node | str) -> str | None:
        value = key if isinstance(key, str) else self._plan.folded.constants.get(key.id)
        return value if isinstance(value, str) else None
