"""Tolerations of taints, for nodes and for devices (ToleratesTaint of both API groups)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

__all__ = ["is_tolerated", "tolerates"]


class _Taint(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


class _Toleration(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


def tolerates(toleration: _Toleration, taint: _Taint) -> bool:
    """Return whether one toleration matches one taint.

    An empty key or effect matches every key or effect. An operator that the API does not know
    matches nothing.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def is_tolerated(taint: _Taint, tolerations: Iterable[_Toleration]) -> bool:
    """Return whether any of the tolerations matches the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)
