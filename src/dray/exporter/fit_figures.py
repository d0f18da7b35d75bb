"""Numbers of pods that still fit and ask for devices of a class: one, or as many as most claims.

Nodes that changed are counted again. Where nodes share devices, one count depends on the others;
then all are counted, and as seldom as their time allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from dray.api.types.dra import ResourceClaim
from dray.exporter.work_budget import WorkBudget
from dray.scheduling import fit_counts, pod_copies
from dray.scheduling.fit_counts import NodeCounter, NodeFitCount
from dray.scheduling.state import SchedulingState

COUNT_SECONDS = 1.0
"""The time that one count of all nodes may take; then it says how many pods fit at least."""
_COUNTED_AT_ONCE = 50


class FitKey(NamedTuple):
    """The request: a class, and the number of devices."""

    device_class: str
    devices: int


@dataclass(slots=True)
class _Fits:
    counter: NodeCounter
    on_node: dict[str, int] = field(default_factory=dict)
    dependent: set[str] = field(default_factory=set)
    """The nodes whose count depends on others."""
    dirty: dict[str, None] = field(default_factory=dict)
    total: int = 0
    """Without the nodes that depend on others; with them where there are any."""
    is_total_dirty: bool = False
    is_every_node_dirty: bool = True


class FitFigures:
    """Keeps the numbers for a state. Callers say what has changed."""

    def __init__(self, state: SchedulingState, budget: WorkBudget) -> None:
        self._state, self._budget = state, budget
        self._fits: dict[FitKey, _Fits] = {}
        self._asked: dict[str, Counter[int]] = {}
        """By class, how many claims ask for how many devices."""

    @property
    def is_current(self) -> bool:
        return self._keys() == self._fits.keys() and not any(
            fits.dirty or fits.is_total_dirty or fits.is_every_node_dirty
            for fits in self._fits.values()
        )

    def node_changed(self, name: str) -> None:
        for fits in self._fits.values():
            fits.dirty[name] = None

    def shared_devices_changed(self) -> None:
        """Note a change of devices that several nodes can use."""
        for fits in self._fits.values():
            fits.is_every_node_dirty = True

    def everything_changed(self) -> None:
        """Note a change of what concerns all devices: classes, taint rules."""
        self._fits.clear()

    def claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        for claim, sign in ((old, -1), (new, 1)):
            for name, devices in _asked_by(claim) if claim is not None else ():
                self._asked.setdefault(name, Counter())[devices] += sign

    def figures(self) -> dict[FitKey, int]:
        return {key: fits.total for key, fits in self._fits.items()}

    def update(self) -> Iterator[None]:
        """Take over the changes; yields now and then, so that others can run."""
        wanted = self._keys()
        for key in self._fits.keys() - wanted:
            del self._fits[key]
        for key in wanted - self._fits.keys():
            self._fits[key] = _Fits(NodeCounter(self._state, pod_copies.of_class(*key)))
        for key, fits in list(self._fits.items()):
            yield from self._update(key, fits)

    def _keys(self) -> set[FitKey]:
        keys = set()
        for name in self._state.inventory.classes:
            keys.add(FitKey(name, 1))
            asked = self._asked.get(name)
            if asked:
                devices, claims = max(asked.items(), key=lambda item: (item[1], -item[0]))
                if claims > 0:
                    keys.add(FitKey(name, devices))
        return keys

    def _update(self, key: FitKey, fits: _Fits) -> Iterator[None]:
        is_new = not (fits.on_node or fits.dependent)
        if fits.is_every_node_dirty and (is_new or self._budget.is_open):
            fits.dirty |= dict.fromkeys(node.name for node in self._state.nodes)
            fits.is_every_node_dirty, fits.is_total_dirty = False, True
        while fits.dirty:
            with self._budget.spending():
                for name in list(fits.dirty)[:_COUNTED_AT_ONCE]:
                    del fits.dirty[name]
                    self._count_node(fits, name)
            yield
        if fits.dependent and fits.is_total_dirty and self._budget.is_open:
            end = self._budget.time() + COUNT_SECONDS

            def should_stop() -> bool:
                return self._budget.time() > end

            with self._budget.spending():
                counted = fit_counts.count(self._state, pod_copies.of_class(*key), should_stop)
            fits.total, fits.is_total_dirty = counted.pods, False
        elif not fits.dependent:
            fits.total, fits.is_total_dirty = sum(fits.on_node.values()), False

    def _count_node(self, fits: _Fits, name: str) -> None:
        node = self._state.nodes.get(name)
        counted = fits.counter.alone_on(node) if node is not None else NodeFitCount(0)
        fits.is_total_dirty = True
        if counted is None:
            fits.dependent.add(name)
            return
        fits.dependent.discard(name)
        if counted.pods:
            fits.on_node[name] = counted.pods
        else:
            fits.on_node.pop(name, None)


def _asked_by(claim: ResourceClaim) -> Iterator[tuple[str, int]]:
    for request in claim.spec.devices.requests:
        exactly = request.exactly
        if exactly is not None and exactly.allocation_mode != "All" and not exactly.admin_access:
            yield exactly.device_class_name, exactly.count or 1
