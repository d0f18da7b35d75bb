"""The search without a step back: most searches find their solution on the way down.

Takes the first candidate that passes all checks, for one position after the other, in the order of
the search (`backtracking`). If every position finds one, that is the first solution of the search,
and neither stack nor reasons for dead ends are needed. Where one does not, the search decides.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model.candidates import Candidate, Check, Slot
from dray.allocator.model.trail import Trail
from dray.allocator.problem import eligibility
from dray.allocator.problem.node_problem import NodeAlternative, NodeProblem, NodeRequest
from dray.allocator.search import check_sequence
from dray.allocator.search.device_order import Order
from dray.allocator.search.results import Pick, Solution
from dray.api.types.dra import ALLOCATION_RESULTS_MAX_SIZE

_FIRST_FEW = 2


class DescentOutcome(enum.Enum):
    """The outcomes of a descent that has found no solution."""

    IMPOSSIBLE = enum.auto()
    """There is none: no alternative of the first request has a candidate."""
    UNDECIDED = enum.auto()
    """A search may find one with other picks."""


def descend(
    problem: NodeProblem, order: Order | None, should_stop: Callable[[], bool] | None
) -> Solution | DescentOutcome:
    """Return the first solution of the search if it needs no step back.

    The state of the checks is the same afterwards. Raises AllocationError where the search would.
    """
    check_sequence.raise_if_out_of_time(should_stop)
    single = problem.single_alternative
    if single is not None and not single.is_constrained:
        if order is None and single.looks_first():
            device = _at_first_sight(problem, single)
            if device is not None:
                return Solution((Pick(single, device),), (single,))
        if _is_unchecked(problem, single):
            return _first_free(problem, single, order)
    return _Descent(problem, order, should_stop).run()


def _is_unchecked(problem: NodeProblem, alternative: NodeAlternative) -> bool:
    """Return whether a candidate only has to be free: nothing else depends on what is in use."""
    return not (alternative.failing or alternative.eligible & _special(problem.inventory))


def _special(inventory: NodeInventory) -> int:
    """Return the devices for which it is not enough to be free, or not necessary."""
    return inventory.shareable | inventory.shared | inventory.partitions


def _at_first_sight(problem: NodeProblem, alternative: NodeAlternative) -> Candidate | None:
    """Return the first free device if it is among the first few, without a look at the others.

    Where no two nodes are alike, most of the time goes into devices that nobody asks for again.
    """
    inventory = problem.inventory
    free = inventory.everything & ~inventory.taken
    if alternative.parsed.admin_access or free & _special(inventory):
        return None
    for device in itertools.islice(inventory.members(free), _FIRST_FEW):
        is_eligible = eligibility.is_eligible(alternative.resolved, inventory, device)
        if is_eligible:
            return device
        if is_eligible is None:
            break
    return None


def _first_free(
    problem: NodeProblem, alternative: NodeAlternative, order: Order | None
) -> Solution | DescentOutcome:
    inventory = problem.inventory
    free = alternative.eligible
    if not alternative.parsed.admin_access:
        free &= ~inventory.taken
    if not free:
        return DescentOutcome.IMPOSSIBLE
    if order is None:
        device = inventory.devices[(free & -free).bit_length() - 1]
    else:
        device = next(iter(order(inventory, alternative, inventory.members(free))))
    return Solution((Pick(alternative, device),), (alternative,))


class _Descent:
    __slots__ = (
        "_checks",
        "_chosen",
        "_has_choices",
        "_order",
        "_picks",
        "_problem",
        "_should_stop",
        "_trail",
    )

    def __init__(
        self, problem: NodeProblem, order: Order | None, should_stop: Callable[[], bool] | None
    ) -> None:
        self._problem = problem
        self._order = order
        self._should_stop = should_stop
        self._has_choices = any(request.is_prioritized for request in problem.requests)
        self._checks = check_sequence.CheckSequence(problem)
        self._trail = Trail()
        self._picks: list[Pick] = []
        self._chosen: list[NodeAlternative] = []

    def run(self) -> Solution | DescentOutcome:
        try:
            for request in self._problem.requests:
                outcome = self._choose(request)
                if outcome is not None:
                    return outcome
            return Solution(self._picks, tuple(self._chosen))
        finally:
            self._trail.unwind(0)

    def _choose(self, request: NodeRequest) -> DescentOutcome | None:
        """Take devices for the first alternative that has a candidate; None if all are found."""
        for alternative in request.alternatives:
            if self._has_choices and self._exceeds_limit(alternative):
                return DescentOutcome.UNDECIDED
            before = len(self._picks)
            if self._take_all(alternative):
                self._chosen.append(alternative)
                return None
            # Without a candidate for its first device, no search could use the alternative. A later
            # device may be missing only because of an earlier one.
            if len(self._picks) > before or alternative.all_mode_devices is not None:
                return DescentOutcome.UNDECIDED
        return (
            DescentOutcome.UNDECIDED if self._picks or self._chosen else DescentOutcome.IMPOSSIBLE
        )

    def _exceeds_limit(self, alternative: NodeAlternative) -> bool:
        of_claim = [chosen.count for chosen in self._chosen if chosen.claim == alternative.claim]
        return sum(of_claim) + alternative.count > ALLOCATION_RESULTS_MAX_SIZE

    def _take_all(self, alternative: NodeAlternative) -> bool:
        """Take devices for all slots; return False at the first one that finds none."""
        checks = self._checks.of(alternative)
        if alternative.all_mode_devices is not None:
            return self._take_exactly(alternative, alternative.all_mode_devices, checks)
        candidates = alternative.eligible | alternative.failing
        # What a filter leaves out cannot be a part of a solution. But upstream visits it, and may
        # come to an error there.
        filters = not (alternative.failing or alternative.parsed.derived)
        for slot in alternative.slots:
            check_sequence.raise_if_out_of_time(self._should_stop)
            needed = alternative.count - slot.ordinal
            if not filters:
                devices = self._ordered(alternative, candidates)
            elif needed > 1:
                candidates = check_sequence.filtered(checks, slot, candidates, needed)
                devices = self._ordered(alternative, candidates)
            else:
                devices = self._ordered_and_filtered(alternative, candidates, slot, checks)
            for device in devices:
                candidates ^= device.bit
                if self._take(slot, alternative, device, checks):
                    break
            else:
                return False
        return True

    def _ordered_and_filtered(
        self, alternative: NodeAlternative, candidates: int, slot: Slot, checks: Sequence[Check]
    ) -> Iterator[Candidate]:
        """Yield candidates for the last slot of an alternative: the first few may be enough."""
        if self._order is not None:
            candidates = check_sequence.filtered(checks, slot, candidates, 1)
            yield from self._ordered(alternative, candidates)
            return
        candidates = checks[0].filter_candidates(slot, candidates, 1)
        size = 1
        while candidates:
            lowest = (1 << (candidates & -candidates).bit_length() + size) - 1
            chunk = check_sequence.filtered(checks[1:], slot, candidates & lowest, 1)
            yield from self._problem.inventory.members(chunk)
            candidates &= ~lowest
            size *= 4

    def _take_exactly(
        self, alternative: NodeAlternative, needed: Sequence[Candidate], checks: Iterable[Check]
    ) -> bool:
        return bool(needed) and all(
            alternative.eligible & device.bit and self._take(slot, alternative, device, checks)
            for slot, device in zip(alternative.slots, needed, strict=True)
        )

    def _take(
        self, slot: Slot, alternative: NodeAlternative, device: Candidate, checks: Iterable[Check]
    ) -> bool:
        mark = self._trail.mark()
        for check in checks:
            if check.applies_to & device.bit and check.take(slot, device, self._trail) is not None:
                self._trail.unwind(mark)
                return False
        self._picks.append(Pick(alternative, device))
        return True

    def _ordered(self, alternative: NodeAlternative, candidates: int) -> Iterable[Candidate]:
        members = self._problem.inventory.members(candidates)
        if self._order is None:
            return members
        return self._order(self._problem.inventory, alternative, members)
