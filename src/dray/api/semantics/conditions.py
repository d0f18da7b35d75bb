"""Status conditions: find one by its type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

__all__ = ["find_condition", "is_condition_true"]


class _Condition(Protocol):
    @property
    def type(self) -> str: ...
    @property
    def status(self) -> str: ...


ConditionT = TypeVar("ConditionT", bound=_Condition)


def find_condition(conditions: Iterable[ConditionT], type_: str) -> ConditionT | None:
    """Return the condition of a type, or None."""
    for condition in conditions:
        if condition.type == type_:
            return condition
    return None


def is_condition_true(conditions: Iterable[_Condition], type_: str) -> bool:
    """Return whether there is a condition of the type with status True."""
    condition = find_condition(conditions, type_)
    return condition is not None and condition.status == "True"
