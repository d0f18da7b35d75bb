"""Requests of pods, and the free room of nodes whose GPUs can be shared.

CPU is in thousandths of a core, memory in MiB, and each GPU has `WHOLE` parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

WHOLE = 1000
"""The parts of one GPU."""


class PodRequest(NamedTuple):
    """The request of a pod: `part` of each of its `gpus`; several GPUs are whole ones."""

    cpu: int
    memory: int
    gpus: int = 0
    part: int = 0
    models: frozenset[str] = frozenset()
    """The models that it accepts; empty if it accepts all."""

    @property
    def parts(self) -> int:
        """Return the parts of all its GPUs together."""
        return self.gpus * self.part

    @property
    def is_fraction(self) -> bool:
        """Return whether it shares its GPU with other pods."""
        return self.gpus == 1 and self.part < WHOLE

    @property
    def kind(self) -> int:
        """Return its number of GPUs, and -1 for a part of one: pods of one kind are alike."""
        return -1 if self.is_fraction else self.gpus


class NodeRoom:
    """The free room of one node."""

    __slots__ = (
        "cache", "cpu", "cpu_capacity", "free_parts", "gpus", "index", "kinds", "largest",
        "memory", "memory_capacity", "model", "name", "whole",
    )  # fmt: skip

    def __init__(
        self, index: int, name: str, *, cpu: int, memory: int, gpus: int, model: str = ""
    ) -> None:
        self.index, self.name, self.model = index, name, model
        self.cpu = self.cpu_capacity = cpu
        self.memory = self.memory_capacity = memory
        self.gpus = [WHOLE] * gpus
        """The free parts of each GPU."""
        self.kinds: Counter[int] = Counter()
        """How many pods of each kind hold GPUs here."""
        self.cache: dict[Any, Any] = {}
        """What a policy has computed about this room; emptied with every change."""
        self._count()

    def fits(self, request: PodRequest) -> bool:
        """Return whether there is room for a pod."""
        if request.cpu > self.cpu or request.memory > self.memory:
            return False
        if not request.gpus:
            return True
        if request.models and self.model not in request.models:
            return False
        if request.part < WHOLE:
            return request.part <= self.largest
        return request.gpus <= self.whole

    def take(self, request: PodRequest, gpus: Iterable[int]) -> None:
        """Give room to a pod: CPU, memory, and its part of these GPUs."""
        self._change(request, gpus, -1)
        if request.gpus:
            self.kinds[request.kind] += 1

    def release(self, request: PodRequest, gpus: Iterable[int]) -> None:
        """Free the room of a pod that leaves."""
        self._change(request, gpus, 1)
        if request.gpus:
            self.kinds[request.kind] -= 1
            if not self.kinds[request.kind]:
                del self.kinds[request.kind]

    def _change(self, request: PodRequest, gpus: Iterable[int], sign: int) -> None:
        self.cpu += sign * request.cpu
        self.memory += sign * request.memory
        for gpu in gpus:
            self.gpus[gpu] += sign * request.part
        self._count()
        self.cache.clear()

    def _count(self) -> None:
        self.free_parts = sum(self.gpus)
        self.whole = self.gpus.count(WHOLE)
        self.largest = max(self.gpus, default=0)


def first_whole(gpus: Sequence[int], count: int) -> list[int]:
    """Return the first `count` GPUs that are free as a whole."""
    return [index for index, free in enumerate(gpus) if free == WHOLE][:count]
