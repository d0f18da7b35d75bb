"""Run-time support of the counted code: the cost so far, and errors as values.

Costs are those of cel-go's tracker (interpreter/runtimecost.go). It charges a step even where the
step's operands are errors; so here an error is a value that is passed on, as in cel-go, and only
the caller of the whole expression raises it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dray.cel.functions.overloads import Cost
from dray.cel.runtime import operations, values
from dray.cel.runtime.values import MISSING, NONE, CostExceeded, EvaluationError, Optional


class Meter:
    """The cost of one evaluation."""

    __slots__ = ("cost", "limit")

    def __init__(self, limit: int) -> None:
        self.cost = 0
        self.limit = limit

    def charge(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self.limit:
            raise CostExceeded

    def call(self, function: Callable[..., Any], cost: Cost | None, *arguments: Any) -> Any:
        """Call a function and charge it.

        Returns its result, or the first error among its arguments.
        """
        for argument in arguments:
            if argument.__class__ is EvaluationError:
                result: Any = argument
                break
        else:
            try:
                result = function(*arguments)
            except EvaluationError as error:
                result = error
        self.charge(1 if cost is None else cost(arguments, result))
        return result

    def resolve(self, start: Any) -> Resolution:
        return Resolution(self, start)


class Resolution:
    """A chain of selections on its way: where it is, or the error it ended with."""

    __slots__ = ("_is_optional", "_meter", "_value")

    def __init__(self, meter: Meter, start: Any) -> None:
        self._meter = meter
        self._is_optional = start.__class__ is Optional
        self._value = operations.unwrap(start)

    @property
    def is_open(self) -> bool:
        """Whether a further key matters."""
        return self._value is not MISSING and not is_error(self._value)

    def qualify(self, key: Any, is_optional: bool = False) -> None:
        value = self._value
        if value.__class__ is dict and key.__class__ is str and not is_optional:
            # Nearly every step: into an object, to a field that is there.
            found = value.get(key, MISSING)
            if found is not MISSING:
                self._value = found
                self._meter.charge(1)
                return
        if self.is_open:
            self._is_optional = self._is_optional or is_optional
            advance = operations.probe if self._is_optional else operations.qualify
            self._advance(advance, key)

    def test(self, key: Any) -> None:
        """Take the last step of `has()`: whether the entry exists."""
        if self.is_open:
            self._advance(operations.probe if self._is_optional else operations.is_present, key)

    def _advance(self, advance: Callable[[Any, Any], Any], key: Any) -> None:
        """Take one step; an optional step is charged only if the entry exists."""
        self._value = key if is_error(key) else attempt(advance, self._value, key)
        if not self._is_optional or self.is_open:
            self._meter.charge(1)

    def result(self, cost: int) -> Any:
        self._meter.charge(cost)
        if is_error(self._value):
            return self._value
        return operations.wrap(self._value, self._is_optional)

    def test_result(self) -> Any:
        if is_error(self._value):
            return self._value
        return self._value is not MISSING if self._is_optional else self._value


def is_error(value: Any) -> bool:
    return isinstance(value, EvaluationError)


def first_error(arguments: Sequence[Any]) -> EvaluationError | None:
    for argument in arguments:
        if isinstance(argument, EvaluationError):
            return argument
    return None


def attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return a function's result, or the error it raises."""
    try:
        return function(*arguments)
    except EvaluationError as error:
        return error


def as_error(value: Any) -> EvaluationError:
    """Return the error that an operand of a logical operator stands for if it is not a bool."""
    return value if isinstance(value, EvaluationError) else values.no_such_overload()


def contains(candidates: Sequence[Any], value: Any) -> Any:
    return value if is_error(value) else values.contains(candidates, value)


def or_error(optional: Any) -> EvaluationError | None:
    """Return why a value cannot be an operand of `or` and `orValue`, or None if it can."""
    return None if optional.__class__ is Optional else as_error(optional)


def value_of(optional: Any) -> Any:
    return MISSING if optional is NONE else optional.value
