"""The checks of a search, in upstream's order: one line for each DRA concept.

Only the concepts that can matter for the problem at hand take part. The explain engine asks the
same checks.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from dray.allocator.checks.capacity import Capacity
from dray.allocator.checks.compatibility_groups import Groups
from dray.allocator.checks.counters import Counters
from dray.allocator.checks.usage import Usage
from dray.allocator.inventory.node_inventory import Inventory
from dray.allocator.model import rejections
from dray.allocator.model.candidates import Candidate, Check, Slot
from dray.allocator.model.requests import Option
from dray.allocator.model.trail import Trail
from dray.allocator.problem import eligibility
from dray.allocator.problem.node_problem import Plan, Problem


class Failing:
    """Fails on the devices on which a selector or a capacity of one option fails."""

    name = rejections.Check.REQUEST_SELECTORS
    __slots__ = ("_plan", "_problem", "concerns")

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self._problem = problem
        self._plan = plan
        self.concerns = plan.failing

    def take(self, slot: Slot, device: Candidate, trail: Trail) -> rejections.DeviceVerdict | None:
        raise eligibility.failure(self._plan.resolved, self._problem.inventory, device)

    def narrow(self, slot: Slot, candidates: int, wanted: int) -> int:
        return candidates

    def interferes(self, slot: Slot, candidates: int, other: Option, picked: Candidate) -> bool:
        return False

    def trace(self, device: Candidate) -> Hashable:
        return None


class Checks:
    """The state that one search works on."""

    __slots__ = ("_by_plan", "_capacity", "_counters", "_groups", "_problem", "_usage")

    def __init__(self, problem: Problem) -> None:
        inventory = problem.inventory
        self._problem = problem
        self._by_plan: dict[Plan, Sequence[Check]] = {}
        self._usage = Usage(inventory.taken, len(problem.claims), inventory.holders_of)
        self._capacity = _capacity(problem) if inventory.shareable | inventory.shared else []
        self._groups = _groups(inventory) if inventory.partitions else []
        self._counters = _counters(inventory) if inventory.partitions else []

    def of(self, plan: Plan) -> Sequence[Check]:
        """The checks for one option, in order."""
        known = self._by_plan.get(plan)
        if known is None:
            known = self._by_plan[plan] = self._in_order(plan)
        return known

    def _in_order(self, plan: Plan) -> Sequence[Check]:
        first: list[Check] = [self._usage]
        if plan.failing:
            first.append(Failing(self._problem, plan))
        last: list[Check] = []
        if plan.is_constrained and self._problem.constraints is not None:
            last.append(self._problem.constraints)
        if plan.wanted is None:
            return [*first, *self._capacity, *self._groups, *self._counters, *last]
        # Upstream looks at the capacity of "all" devices last (allocateDevice).
        return [*first, *self._groups, *self._counters, *last, *self._capacity]

    def most(self, devices: int) -> int:
        """An upper bound of how many of some free devices can be taken together, each once."""
        free = devices & ~self._usage.picked & ~self._problem.inventory.taken
        return min([free.bit_count(), *[counters.most(free) for counters in self._counters]])

    def traces(self, device: Candidate) -> Hashable:
        """What the picks so far mean for a device."""
        touched: list[Check] = [self._usage, *self._capacity, *self._groups, *self._counters]
        return tuple([check.trace(device) for check in touched])


def _capacity(problem: Problem) -> list[Check]:
    inventory = problem.inventory
    if not inventory.features.consumable_capacity:
        return []
    shares = inventory.shareable | inventory.shared
    return [Capacity(inventory.devices, shares, inventory.holding_of, problem.demand)]


def _groups(inventory: Inventory) -> list[Check]:
    if not inventory.features.device_compatibility_groups:
        return []
    return [
        Groups(
            [section.present_groups for section in inventory.sections],
            partitions=inventory.partitions,
            shared=inventory.shared,
            holders_on=inventory.holders_on,
        )
    ]


def _counters(inventory: Inventory) -> list[Counters]:
    if not inventory.features.partitionable_devices:
        return []
    return [
        Counters(
            inventory.devices,
            [section.ledger for section in inventory.sections],
            partitions=inventory.partitions,
            shared=inventory.shared,
            holders_on=inventory.holders_on,
        )
    ]
