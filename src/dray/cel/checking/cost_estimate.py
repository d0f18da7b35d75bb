"""The highest cost of an expression, estimated from its checked tree.

The rules are cel-go's (checker/cost.go): costs add up, loops multiply by the size of their range,
and sizes are followed through literals, calls, local variables and the fields of `device`. What a
single function costs is said where it is declared, in `functions`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from dray.cel.checking.checker import Checked
from dray.cel.checking.environment import Environment
from dray.cel.functions import runtime_costs
from dray.cel.functions.overloads import UNBOUNDED, UNKNOWN, CallEstimate, Operand, Range
from dray.cel.syntax import traversal
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
from dray.cel.syntax.traversal import Visit, Visitors
from dray.cel.types import Kind, Type

ZERO = Range(0, 0)
ONE = Range(1, 1)
LIST_CREATION = Range.exactly(runtime_costs.LIST_CREATION)
MAP_CREATION = Range.exactly(runtime_costs.MAP_CREATION)
_NOTHING_YET = Range(UNBOUNDED, 0)

_SCALARS = frozenset({Kind.BOOL, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.TIMESTAMP, Kind.UINT})
_ADDITIONS = frozenset({"add_string", "add_bytes", "add_list"})
_INDEX_STEPS = {"index_list": "@items", "index_map": "@values"}


def estimate(checked: Checked, environment: Environment) -> Range:
    """Return the least and the most that one evaluation may cost."""
    estimator = _Estimator(checked, environment)
    estimator.run(checked.root)
    return estimator.costs[checked.root.id]


class ValuePath(NamedTuple):
    """The path to a value: a variable, then fields, `@keys`, `@values` or `@items`.

    It behaves as a Go slice: `array` has spare room that paths with a common start share, so
    extending one path may change the last step of another. cel-go's estimates depend on it.
    """

    array: list[str]
    length: int

    def extended(self, step: str) -> ValuePath:
        array = self.array
        if self.length == len(array):
            array = array + [""] * max(len(array), 1)
        array[self.length] = step
        return ValuePath(array, self.length + 1)

    def steps(self) -> list[str]:
        return self.array[: self.length]


class EntrySizes(NamedTuple):
    """The sizes of a container's keys (1 for the indexes of a list) and values."""

    is_list: bool
    key: Range
    value: Range

    def union(self, other: EntrySizes) -> EntrySizes:
        return EntrySizes(self.is_list, self.key.union(other.key), self.value.union(other.value))


class LocalVariable(NamedTuple):
    path: ValuePath
    size: Range | None
    entries: EntrySizes | None = None


class _Estimator:
    """One run over a tree; visits are generators as in the checker."""

    def __init__(self, checked: Checked, environment: Environment) -> None:
        self.costs: dict[int, Range] = {}
        self._checked = checked
        self._environment = environment
        self._paths: dict[int, ValuePath] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, EntrySizes] = {}
        self._locals: dict[str, list[LocalVariable]] = {}
        self._visitors: Visitors = {
            Literal: self._literal,
            Identifier: self._name,
            Select: self._select,
            FunctionCall: self._call,
            ListLiteral: self._list,
            MapLiteral: self._map,
            Comprehension: self._comprehension,
        }

    def run(self, root: Node) -> None:
        traversal.walk(root, self._visitors)

    def _literal(self, node: Literal) -> None:
        self.costs[node.id] = ZERO

    def _name(self, node: Node) -> None:
        """Record an identifier, or a selection that is a qualified name."""
        name = self._checked.references[node.id].name
        local = self._local(name)
        self._paths[node.id] = local.path if local else ValuePath([name], 1)
        self.costs[node.id] = ONE

    def _select(self, node: Select) -> Visit:
        if node.id in self._checked.references:
            self._name(node)
            return
        yield node.operand
        cost = self.costs[node.operand.id]
        if node.test_only:
            self.costs[node.id] = cost
            return
        if self._type(node.operand).kind in (Kind.MAP, Kind.OBJECT):
            cost = cost.add(ONE)
        self._paths[node.id] = self._path(node.operand).extended(node.field)
        self.costs[node.id] = cost

    def _list(self, node: ListLiteral) -> Visit:
        cost = LIST_CREATION
        value = _NOTHING_YET if node.elements else ZERO
        for element in node.elements:
            yield element
            cost = cost.add(self.costs[element.id])
            value = value.union(self._size_or_unknown(element))
        self._entries[node.id] = EntrySizes(is_list=True, key=ONE, value=value)
        self.costs[node.id] = cost

    def _map(self, node: MapLiteral) -> Visit:
        cost = MAP_CREATION
        key = value = _NOTHING_YET if node.entries else ZERO
        for entry in node.entries:
            yield entry.key
            yield entry.value
            cost = cost.add(self.costs[entry.key.id]).add(self.costs[entry.value.id])
            key = key.union(self._size_or_unknown(entry.key))
            value = value.union(self._size_or_unknown(entry.value))
        self._entries[node.id] = EntrySizes(is_list=False, key=key, value=value)
        self.costs[node.id] = cost

    def _call(self, node: FunctionCall) -> Visit:
        operands: list[Operand] = []
        for argument in node.arguments:
            yield argument
            operands.append(self._operand(argument))
        receiver = self._checked.receiver(node)
        if receiver is not None:
            yield receiver
            operands.insert(0, self._operand(receiver))
        if self._checked.references[node.id].name == "dyn":
            self._copy_sizes(node, node.arguments[0])
            self.costs[node.id] = self.costs[node.arguments[0].id].add(ONE)
        else:
            self.costs[node.id] = self._call_cost(node, operands)

    def _call_cost(self, node: FunctionCall, operands: Sequence[Operand]) -> Range:
        """Return the cost of any possible overload. Records size and path of the result."""
        reference = self._checked.references[node.id]
        cost = _NOTHING_YET
        size: Range | None = None
        for overload_id in reference.overload_ids:
            estimate = self._overload_estimate(node, overload_id, operands)
            cost = cost.union(estimate.cost)
            if estimate.result_size is not None:
                size = estimate.result_size if size is None else size.union(estimate.result_size)
            if step := _INDEX_STEPS.get(overload_id):
                entries = self._entry_sizes(node.arguments[0])
                size = entries.value if entries else None
                self._paths[node.id] = self._path(node.arguments[0]).extended(step)
            if size is None:
                size = self._size(node)
        if size is not None:
            self._sizes[node.id] = size
        return cost

    def _overload_estimate(
        self, node: FunctionCall, overload_id: str, operands: Sequence[Operand]
    ) -> CallEstimate:
        """Return one overload's estimate, with the costs of the operands."""
        paid = [self.costs[operand.node.id] for operand in operands]
        if overload_id in ("logical_and", "logical_or"):
            return CallEstimate(Range(paid[0].low, paid[0].add(paid[1]).high))
        if overload_id == "conditional":
            return self._conditional_estimate(node, operands)
        if overload_id in _ADDITIONS:
            self._join_entry_sizes(node, *node.arguments)
        function = self._checked.references[node.id].name
        declared = self._environment.overload(function, overload_id).estimate
        call = declared(operands) if declared else CallEstimate(ONE)
        return call._replace(cost=functools.reduce(Range.add, paid, call.cost))

    def _conditional_estimate(
        self, node: FunctionCall, operands: Sequence[Operand]
    ) -> CallEstimate:
        condition, when_true, when_false = (self.costs[operand.node.id] for operand in operands)
        self._join_entry_sizes(node, operands[1].node, operands[2].node)
        size = operands[1].size_or_unknown.union(operands[2].size_or_unknown)
        return CallEstimate(condition.add(when_true.union(when_false)), size)

    def _join_entry_sizes(self, node: Node, first: Node, second: Node) -> None:
        first_entries, second_entries = self._entry_sizes(first), self._entry_sizes(second)
        if first_entries and second_entries:
            self._entries[node.id] = first_entries.union(second_entries)

    def _comprehension(self, node: Comprehension) -> Visit:
        yield node.range
        yield node.init
        self._declare(node.accumulator, self._same_as(node.init))
        if _is_binding(node):
            yield node.result
            self._forget(node.accumulator)
            self._copy_sizes(node, node.result)
            self.costs[node.id] = self._sum(node.range, node.init, node.result)
        else:
            yield from self._loop(node)

    def _loop(self, node: Comprehension) -> Visit:
        self._declare_iteration(node)
        yield node.condition
        yield node.step
        self._forget(node.variable)
        if node.second_variable is not None:
            self._forget(node.second_variable)
        yield node.result
        self._forget(node.accumulator)
        rounds = self._size_or_unknown(node.range)
        looping = rounds.multiply(self._sum(node.condition, node.step))
        self.costs[node.id] = self._sum(node.range, node.init, node.result).add(looping)
        self._note_result_size(node, rounds)

    def _note_result_size(self, node: Comprehension, rounds: Range) -> None:
        if isinstance(node.init, Literal):
            self._sizes[node.id] = self._size_or_unknown(node.init)
        elif isinstance(node.init, ListLiteral | MapLiteral):
            self._sizes[node.id] = rounds
            if entries := self._entry_sizes(node.step):
                self._entries[node.id] = entries

    def _declare_iteration(self, node: Comprehension) -> None:
        entries = self._entry_sizes(node.range)
        path = self._path(node.range)
        is_list = entries.is_list if entries else self._type(node.range).kind is Kind.LIST
        key_size = entries.key if entries else None
        value_size = entries.value if entries else None
        keys, values = ("@indices", "@items") if is_list else ("@keys", "@values")
        if node.second_variable is not None:
            self._declare(node.variable, LocalVariable(path.extended(keys), key_size))
            self._declare(node.second_variable, LocalVariable(path.extended(values), value_size))
        elif is_list:
            self._declare(node.variable, LocalVariable(path.extended(values), value_size))
        else:
            self._declare(node.variable, LocalVariable(path.extended(keys), key_size))

    def _declare(self, name: str, variable: LocalVariable) -> None:
        self._locals.setdefault(name, []).append(variable)

    def _forget(self, name: str) -> None:
        self._locals[name].pop()

    def _local(self, name: str) -> LocalVariable | None:
        scopes = self._locals.get(name)
        return scopes[-1] if scopes else None

    def _local_of(self, node: Node) -> LocalVariable | None:
        return self._local(node.name) if isinstance(node, Identifier) else None

    def _same_as(self, node: Node) -> LocalVariable:
        return LocalVariable(self._path(node), self._size(node), self._entry_sizes(node))

    def _sum(self, *nodes: Node) -> Range:
        return functools.reduce(Range.add, [self.costs[node.id] for node in nodes])

    def _type(self, node: Node) -> Type:
        return self._checked.types[node.id]

    def _operand(self, node: Node) -> Operand:
        type = self._type(node)
        element = None
        if type.parameters:
            steps = [*self._path(node).steps(), "@items"]
            element = Operand(node, type.parameters[0], self._environment.size_at(steps))
        return Operand(node, type, self._size(node), element)

    def _path(self, node: Node) -> ValuePath:
        if local := self._local_of(node):
            return local.path
        return self._paths.get(node.id, ValuePath([], 0))

    def _size_or_unknown(self, node: Node) -> Range:
        size = self._size(node)
        return UNKNOWN if size is None else size

    def _size(self, node: Node) -> Range | None:
        """Return the size of a value if anything bounds it, else None."""
        if computed := self._sizes.get(node.id):
            return computed
        if (written := _written_size(node)) is not None:
            return Range.exactly(written)
        declared = self._environment.size_at(self._path(node).steps())
        if declared is not None:
            self._sizes[node.id] = declared
            return declared
        if _is_scalar(self._type(node)):
            return ONE
        local = self._local_of(node)
        return local.size if local else None

    def _entry_sizes(self, node: Node) -> EntrySizes | None:
        if sizes := self._entries.get(node.id):
            return sizes
        local = self._local_of(node)
        return local.entries if local else None

    def _copy_sizes(self, node: Node, source: Node) -> None:
        size = self._size(source)
        if size is not None:
            self._sizes[node.id] = size
        entries = self._entry_sizes(source)
        if entries is not None:
            self._entries[node.id] = entries


def _is_binding(node: Comprehension) -> bool:
    """Return whether this is what `cel.bind` became: a loop over nothing."""
    return (
        isinstance(node.range, ListLiteral)
        and not node.range.elements
        and isinstance(node.condition, Literal)
        and node.condition.value is False
    )


def _written_size(node: Node) -> int | None:
    if isinstance(node, Literal):
        return len(node.value) if isinstance(node.value, str | bytes) else 1
    if isinstance(node, ListLiteral):
        return len(node.elements)
    return len(node.entries) if isinstance(node, MapLiteral) else None


def _is_scalar(type: Type) -> bool:
    while type.kind is Kind.OPTIONAL:
        type = type.parameters[0]
    return type.kind in _SCALARS
