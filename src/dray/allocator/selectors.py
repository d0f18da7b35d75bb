"""Class and request selectors, answered once per distinct device shape.

A compiled expression knows what it reads. Devices that agree on that have one answer, kept here for
the whole fleet. Answers have three values: yes, no, and the error that evaluation gives.
"""

from __future__ import annotations

from collections.abc import Hashable

from dray.allocator import attributes, verdicts
from dray.allocator.attributes import Value
from dray.allocator.candidates import Candidate, Matches
from dray.allocator.inventory import Inventory
from dray.api.features import Features
from dray.cel import device as cel
from dray.cel.values import CostExceeded, EvaluationError

_SHAPES_LIMIT = 1 << 16


class Selector:
    """One expression and its answers so far."""

    __slots__ = ("_answers", "_compiled")

    def __init__(self, compiled: cel.Selector) -> None:
        self._compiled = compiled
        self._answers: dict[Hashable, bool | str] = {}

    def matches(self, inventory: Inventory) -> Matches:
        if self._compiled.error is not None:
            return Matches(0, inventory.everything)
        accepted = failing = 0
        for shape, members in inventory.kinds(self._compiled.reads, self._shape):
            answer = self._answers.get(shape)
            if answer is None:
                answer = self._evaluate(shape, next(inventory.members(members)))
            if answer is True:
                accepted |= members
            elif answer is not False:
                failing |= members
        return Matches(accepted, failing)

    def answer(self, candidate: Candidate) -> bool | str:
        """Whether the device matches, or the error that evaluating the expression gives."""
        shape = self._shape(candidate)
        answer = self._answers.get(shape)
        return self._evaluate(shape, candidate) if answer is None else answer

    def failure_on(self, candidate: Candidate) -> str:
        """What upstream says after naming the selector."""
        error = self._compiled.error
        if error is not None:
            return f": CEL compile error: {error.detail}"
        return f" on device {candidate.id}: CEL runtime error: {self.answer(candidate)}"

    def _shape(self, candidate: Candidate) -> Hashable:
        return self._compiled.shape(_view(candidate))

    def _evaluate(self, shape: Hashable, candidate: Candidate) -> bool | str:
        try:
            answer: bool | str = self._compiled.matches(_view(candidate))
        except (EvaluationError, CostExceeded) as error:
            answer = str(error)
        if len(self._answers) >= _SHAPES_LIMIT:
            self._answers.clear()
        self._answers[shape] = answer
        return answer


class DerivedAttribute:
    """One expression that gives an attribute, and its values so far."""

    __slots__ = ("_compiled", "_to_value", "_values")

    def __init__(self, compiled: cel.DerivedAttribute, compares_lists: bool) -> None:
        self._compiled = compiled
        self._to_value = attributes.set_value if compares_lists else attributes.scalar_value
        self._values: dict[Hashable, Value | verdicts.Failure] = {}

    def value(self, candidate: Candidate, name: str) -> Value:
        """The value as constraints compare it; raises Failure in upstream's words."""
        if self._compiled.error is not None:
            detail = self._compiled.error.detail
            raise verdicts.Failure(f"compile derived attribute {name} failed: {detail}")
        try:
            return self._to_value(self._compiled.evaluate(_view(candidate)))
        except (EvaluationError, CostExceeded) as error:
            raise verdicts.Failure(
                f"evaluate derived attribute {name} on device {candidate.id} failed: {error}"
            ) from None


class Selectors:
    """The expressions in use, compiled for the gates that are on."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._selectors: dict[str, Selector] = {}
        self._derived: dict[str, DerivedAttribute] = {}

    def selector(self, expression: str) -> Selector:
        known = self._selectors.get(expression)
        if known is None:
            known = self._selectors[expression] = Selector(
                cel.compile_selector(
                    expression,
                    stored=True,
                    consumable_capacity=self._features.consumable_capacity,
                    list_type_attributes=self._features.list_type_attributes,
                )
            )
        return known

    def derived(self, expression: str) -> DerivedAttribute:
        known = self._derived.get(expression)
        if known is None:
            compares_lists = self._features.list_type_attributes
            known = self._derived[expression] = DerivedAttribute(
                cel.compile_derived_attribute(
                    expression,
                    stored=True,
                    consumable_capacity=self._features.consumable_capacity,
                    list_type_attributes=compares_lists,
                ),
                compares_lists,
            )
        return known


def _view(candidate: Candidate) -> cel.DeviceView:
    return cel.view(candidate.id.driver, candidate.device)
