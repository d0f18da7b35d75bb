"""Type variables: what they stand for, and which type fits where.

One `Inference` lives as long as one check. The rules are those of cel-go (checker/types.go and
checker/mapping.go): a variable keeps the most general type it was matched with, and `dyn` fits
everywhere. What grows beyond any sensible expression is given up with `TypeTooComplex`, so that
neither time nor stack can run out.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dray.cel import types
from dray.cel.types import Kind, Type

# The recursion below is bounded by MAX_DEPTH, all work of one check by MAX_STEPS.
MAX_DEPTH = 300
MAX_WEIGHT = 1000
MAX_STEPS = 300_000

_WILDCARDS = frozenset({Kind.DYN, Kind.ANY, Kind.ERROR})
_FLEXIBLE = _WILDCARDS | {Kind.PARAMETER, Kind.NULL}
_CONTAINERS = frozenset({Kind.LIST, Kind.MAP, Kind.OPTIONAL, Kind.OPAQUE})
_NULLABLE = frozenset(
    {Kind.NULL, Kind.OPTIONAL, Kind.OPAQUE, Kind.OBJECT, Kind.DURATION, Kind.TIMESTAMP}
)


class TypeTooComplex(Exception):
    """A type is nested too deeply or written out too long."""


def is_dyn(type: Type) -> bool:
    return type.kind is Kind.DYN or type.kind is Kind.ANY


def may_fit(actual: Sequence[Type], expected: Sequence[Type]) -> bool:
    """Return False only if types do not fit: a quick test that rules out most overloads."""
    if len(actual) != len(expected):
        return False
    for one, two in zip(actual, expected, strict=True):
        if one.kind is not two.kind and not (one.kind in _FLEXIBLE or two.kind in _FLEXIBLE):
            return False
    return True


@functools.cache
def parameter_names(signature: tuple[Type, ...]) -> tuple[str, ...]:
    """Return the type parameters of a signature, each once."""
    names: dict[str, None] = {}
    for type in signature:
        if type.kind is Kind.PARAMETER:
            names[type.name] = None
        names.update(dict.fromkeys(parameter_names(type.parameters)))
    return tuple(names)


def _variable(number: int) -> Type:
    return types.parameter(f"_var{number}")


@functools.lru_cache(maxsize=1 << 9)
def _instantiated(signature: tuple[Type, ...], first: int) -> tuple[Type, ...]:
    """Return a signature with new variables, the first of which has the number `first`."""
    # Variables are numbered from 0 in every expression, and most use the same few functions.
    names = parameter_names(signature)
    fresh = {name: _variable(number) for number, name in enumerate(names, first)}
    return tuple([_replace(type, fresh) for type in signature])


class Spent(NamedTuple):
    """Counts of variables made and of steps taken."""

    variables: int
    steps: int


class Inference:
    """The bindings of type variables found so far."""

    def __init__(self) -> None:
        self._bindings: dict[str, Type] = {}
        self._undo: list[tuple[str, Type | None]] = []
        self._variables = 0
        self._steps = 0
        self._depth = 0

    def new_variable(self) -> Type:
        self._variables += 1
        return _variable(self._variables - 1)

    def instantiate(self, signature: tuple[Type, ...]) -> tuple[Type, ...]:
        """Return the signature with a fresh variable for each of its type parameters."""
        names = parameter_names(signature)
        if not names:
            return signature
        first = self._variables
        self._variables += len(names)
        return _instantiated(signature, first)

    def pass_over(self, signature: tuple[Type, ...]) -> None:
        """Count the variables that `instantiate` would have made: messages show their numbers."""
        self._variables += len(parameter_names(signature))

    @property
    def spent(self) -> Spent:
        """The variables and steps so far."""
        return Spent(self._variables, self._steps)

    def count(self, spent: Spent) -> None:
        """Count what was spent elsewhere as if it had been here. Raises TypeTooComplex."""
        self._variables += spent.variables
        self._steps += spent.steps
        if self._steps > MAX_STEPS:
            raise TypeTooComplex

    def substitute(self, type: Type) -> Type:
        """Return the type with its bound variables replaced; free ones stay."""
        return self._substituted(type, {}, free_as_dyn=False) if type.is_open else type

    def close(self, open_types: Iterable[Type]) -> list[Type]:
        """Return the types with all variables replaced, free ones by `dyn`."""
        closed: dict[int, Type] = {}
        return [self._substituted(type, closed, free_as_dyn=True) for type in open_types]

    def _substituted(self, type: Type, closed: dict[int, Type], *, free_as_dyn: bool) -> Type:
        if not type.is_open:
            return type
        # Types share their parts; by identity each part is replaced once, not once per use.
        if id(type) in closed:
            return closed[id(type)]
        self._enter()
        if type.kind is Kind.PARAMETER:
            result = types.DYN if free_as_dyn else type
            if bound := self._bindings.get(type.name):
                result = self._substituted(bound, closed, free_as_dyn=free_as_dyn)
        else:
            inner = []
            for parameter in type.parameters:
                inner.append(self._substituted(parameter, closed, free_as_dyn=free_as_dyn))
            result = limited(Type(type.kind, type.name, tuple(inner)))
        self._depth -= 1
        closed[id(type)] = result
        return result

    def is_assignable(self, target: Type, source: Type) -> bool:
        """Return whether the two fit; bindings this needs are kept only if they do."""
        return self.are_assignable((target,), (source,))

    def are_assignable(self, targets: Sequence[Type], sources: Sequence[Type]) -> bool:
        if len(targets) != len(sources):
            return False
        # The log covers this call alone: bindings of earlier calls are final.
        self._undo.clear()
        for target, source in zip(targets, sources, strict=True):
            if not self._fits(target, source):
                self._roll_back()
                return False
        return True

    def _enter(self) -> None:
        self._steps += 1
        self._depth += 1
        if self._steps > MAX_STEPS or self._depth > MAX_DEPTH:
            raise TypeTooComplex

    def _bind(self, name: str, type: Type) -> None:
        self._undo.append((name, self._bindings.get(name)))
        self._bindings[name] = type

    def _roll_back(self) -> None:
        for name, previous in reversed(self._undo):
            if previous is None:
                del self._bindings[name]
            else:
                self._bindings[name] = previous

    def _fits(self, first: Type, second: Type) -> bool:
        """Implement cel-go's internalIsAssignable: symmetric but for the order of binding."""
        if first is second:
            return True
        self._enter()
        if first.kind is Kind.PARAMETER or second.kind is Kind.PARAMETER:
            result = self._fit_variable(first, second)
        elif first.kind in _WILDCARDS or second.kind in _WILDCARDS:
            result = True
        elif first.kind is Kind.NULL:
            result = second.kind in _NULLABLE
        elif second.kind is Kind.NULL:
            result = first.kind in _NULLABLE
        elif first.kind is Kind.TYPE:
            result = second.kind is Kind.TYPE
        else:
            result = first.kind is second.kind and first.name == second.name
            if result and first.kind in _CONTAINERS:
                result = len(first.parameters) == len(second.parameters)
                for one, two in zip(first.parameters, second.parameters, strict=False):
                    result = result and self._fits(one, two)
        self._depth -= 1
        return result

    def _fit_variable(self, first: Type, second: Type) -> bool:
        if second.kind is Kind.PARAMETER:
            # cel-go tries the second variable first, and the first one only if the second was
            # free (checker/types.go, internalIsAssignable). The order shows in later messages.
            was_bound = second.name in self._bindings
            if self._bind_to(second, first):
                return True
            if was_bound:
                return False
        return first.kind is Kind.PARAMETER and self._bind_to(first, second)

    def _bind_to(self, variable: Type, type: Type) -> bool:
        """Bind a variable to a type. Returns False if that is impossible."""
        if variable == type:
            return True
        bound = self._bindings.get(variable.name)
        if bound is None:
            # Occurs check: a variable inside its own type would make the type infinite.
            if self._occurs(variable, type):
                return False
            self._bind(variable.name, type)
            return True
        if bound == type:
            return True
        if not self._fits(type, bound):
            return False
        # A later, more general type replaces the binding: a list of int and dyn is a list of dyn.
        general = most_general(type, bound)
        if not self._occurs(variable, general):
            self._bind(variable.name, general)
        return True

    def _occurs(self, variable: Type, within: Type) -> bool:
        if not within.is_open:
            return False
        if variable == within:
            return True
        self._enter()
        result = False
        if within.kind is Kind.PARAMETER:
            bound = self._bindings.get(within.name)
            result = bound is not None and self._occurs(variable, bound)
        else:
            for inner in within.parameters:
                result = result or self._occurs(variable, inner)
        self._depth -= 1
        return result


def limited(type: Type) -> Type:
    """Return the type. Raises TypeTooComplex if it is too deep or too large."""
    if type.depth > MAX_DEPTH or type.weight > MAX_WEIGHT:
        raise TypeTooComplex
    return type


def most_general(first: Type, second: Type) -> Type:
    """Return the less specific of two types known to fit."""
    return first if _is_equal_or_less_specific(first, second) else second


def _is_equal_or_less_specific(first: Type, second: Type) -> bool:
    if is_dyn(first) or first.kind is Kind.PARAMETER:
        return True
    if is_dyn(second) or second.kind is Kind.PARAMETER or first.kind is not second.kind:
        return False
    if first.kind is Kind.TYPE:
        return True
    if first.name != second.name or len(first.parameters) != len(second.parameters):
        return False
    for one, two in zip(first.parameters, second.parameters, strict=True):
        if not _is_equal_or_less_specific(one, two):
            return False
    return True


def _replace(type: Type, replacements: Mapping[str, Type]) -> Type:
    if not type.is_open:
        return type
    if type.kind is Kind.PARAMETER:
        return replacements[type.name]
    inner = tuple([_replace(parameter, replacements) for parameter in type.parameters])
    return Type(type.kind, type.name, inner)
