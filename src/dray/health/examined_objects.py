"""The objects that checks examine, wherever they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from dray.api.ids import PoolId
from dray.api.types.dra import Device

T = TypeVar("T")


class ExaminedObjects(Protocol):
    """Objects by type, and the kinds that could not be read."""

    @property
    def unread(self) -> Mapping[str, str]:
        """Return the kinds that could not be read, with the server's message."""

    @property
    def partly_read(self) -> Mapping[str, str]:
        """Return the kinds that could be read in some namespaces only."""

    def of(self, type_: type[T]) -> Sequence[T]:
        """Return all objects of a type."""

    def devices(self) -> Iterator[tuple[PoolId, Device]]:
        """Yield every device of each pool's newest generation."""
