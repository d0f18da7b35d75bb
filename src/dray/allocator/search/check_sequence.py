"""The checks of a search, in upstream's order.

Only the rules that can matter for a problem take part. Explanations use the same checks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from dray.allocator.checks.capacity import Capacity
from dray.allocator.checks.compatibility_groups import Groups
from dray.allocator.checks.counters import CounterCheck
from dray.allocator.checks.usage import UsageCheck
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model.candidates import Candidate, Check, Slot
from dray.allocator.model.rejections import CheckName, DeviceRejection, SearchTimeout
from dray.allocator.model.trail import Trail
from dray.allocator.problem import eligibility
from dray.allocator.problem.node_problem import NodeAlternative, NodeProblem


class EvaluationErrorCheck(Check):
    """Raises the error of a device on which a selector or a capacity cannot be evaluated."""

    name = CheckName.REQUEST_SELECTORS
    __slots__ = ("_alternative", "_problem", "applies_to")

    def __init__(self, problem: NodeProblem, alternative: NodeAlternative) -> None:
        self._problem = problem
        self._alternative = alternative
        self.applies_to = alternative.failing

    def take(self, slot: Slot, device: Candidate, trail: Trail) -> DeviceRejection | None:
        raise eligibility.failure(self._alternative.resolved, self._problem.inventory, device)


class CheckSequence:
    """The checks of one search, with the state that its picks change."""

    __slots__ = ("_by_alternative", "_capacity", "_counters", "_groups", "_problem", "_usage")

    def __init__(self, problem: NodeProblem) -> None:
        inventory = problem.inventory
        self._problem = problem
        self._by_alternative: dict[NodeAlternative, Sequence[Check]] = {}
        self._usage = UsageCheck(inventory.taken, len(problem.claims), inventory.holders_of)
        self._capacity = _capacity(problem) if inventory.shareable | inventory.shared else []
        self._groups = _groups(inventory) if inventory.partitions else []
        self._counters = _counters(inventory) if inventory.partitions else []

    def of(self, alternative: NodeAlternative) -> Sequence[Check]:
        """Return the checks for one alternative, in order."""
        cached = self._by_alternative.get(alternative)
        if cached is None:
            cached = self._by_alternative[alternative] = self._in_order(alternative)
        return cached

    def _in_order(self, alternative: NodeAlternative) -> Sequence[Check]:
        first: list[Check] = [self._usage]
        if alternative.failing:
            first.append(EvaluationErrorCheck(self._problem, alternative))
        last: list[Check] = []
        if alternative.is_constrained and self._problem.constraints is not None:
            last.append(self._problem.constraints)
        if alternative.all_mode_devices is None:
            return [*first, *self._capacity, *self._groups, *self._counters, *last]
        # allocationMode All: upstream checks capacity after constraints, allocateDevice in
        # https://github.com/kubernetes/kubernetes/blob/release-1.37/staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go
        return [*first, *self._groups, *self._counters, *last, *self._capacity]

    def max_takeable(self, devices: int) -> int:
        """Return an upper bound of how many free devices can be taken together, each once."""
        free = devices & ~self._usage.picked & ~self._problem.inventory.taken
        by_counters = [counters.max_takeable(free) for counters in self._counters]
        return min([free.bit_count(), *by_counters])

    def state_keys(self, device: Candidate) -> Hashable:
        """Return what the picks so far mean for a device."""
        checks: list[Check] = [self._usage, *self._capacity, *self._groups, *self._counters]
        return tuple([check.state_key(device) for check in checks])


def filtered(applying: Iterable[Check], slot: Slot, candidates: int, needed: int) -> int:
    """Return the candidates that the checks would not reject now; 0 if fewer than `needed`."""
    for check in applying:
        candidates = check.filter_candidates(slot, candidates, needed)
    return candidates if candidates.bit_count() >= needed else 0


def raise_if_out_of_time(should_stop: Callable[[], bool] | None) -> None:
    """Raise SearchTimeout if a search should stop."""
    if should_stop is not None and should_stop():
        raise SearchTimeout("filter operation aborted: context deadline exceeded")


def _capacity(problem: NodeProblem) -> list[Check]:
    inventory = problem.inventory
    if not inventory.features.consumable_capacity:
        return []
    return [
        Capacity(
            inventory.devices,
            inventory.device_holders,
            problem.demand,
            shareable=inventory.shareable,
            shared=inventory.shared,
        )
    ]


def _groups(inventory: NodeInventory) -> list[Check]:
    if not inventory.features.device_compatibility_groups:
        return []
    return [
        Groups(
            [node_pool.present_groups for node_pool in inventory.node_pools],
            partitions=inventory.partitions,
            shared=inventory.shared,
            holders_on=inventory.holders_on,
        )
    ]


def _counters(inventory: NodeInventory) -> list[CounterCheck]:
    if not inventory.features.partitionable_devices:
        return []
    return [
        CounterCheck(
            inventory.devices,
            [node_pool.counters for node_pool in inventory.node_pools],
            partitions=inventory.partitions,
            shareable=inventory.shareable,
            shared=inventory.shared,
            holders_on=inventory.holders_on,
        )
    ]
