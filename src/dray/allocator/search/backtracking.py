"""The search: a loop over positions and checks, with no knowledge of any single concept.

Upstream's answer is the first complete combination in its visiting order
(incubating/allocator_incubating.go allocateOne). Branches that cannot hold an answer are left out,
which never changes the answer: a dead end jumps back to the picks that caused it, devices that are
alike are tried once, and candidates are narrowed as a set before they are tried one by one. Where
some device could make upstream fail, nothing is left out, for the failure is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dray.allocator.model import rejections
from dray.allocator.model.candidates import Candidate, Check, Slot
from dray.allocator.model.trail import Trail
from dray.allocator.problem.node_problem import NodeAlternative, NodeProblem, NodeRequest
from dray.allocator.search import check_sequence, infeasibility
from dray.allocator.search.device_order import Order
from dray.allocator.search.results import Pick, Solution
from dray.api.types.dra import ALLOCATION_RESULTS_MAX_SIZE

_ANY = -1
_POSITIONS_BEFORE_PROOF = 64
"""How many positions to try before counting whether there can be a solution at all."""


class Position(NamedTuple):
    """A decision to make: which option of a request, or which device for a slot."""

    step: int
    plan: NodeAlternative | None = None
    """None where an option has to be chosen."""
    ordinal: int = 0
    allowed: int = _ANY
    """Within a request devices are combined, not permuted: only later ones may follow."""


class _Frame:
    """A position on the stack, its alternatives, and the lower frames its dead ends are due to."""

    __slots__ = ("alternatives", "conflicts", "depth", "mark", "pick")

    def __init__(self, depth: int, mark: int) -> None:
        self.depth = depth
        self.mark = mark
        self.conflicts = 0
        self.pick: Pick | None = None
        self.alternatives: Iterator[Position] = iter(())


class Search:
    """One attempt to satisfy all claims of a pod on one node."""

    def __init__(
        self,
        problem: NodeProblem,
        *,
        order: Order | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> None:
        self.problem = problem
        self._inventory = problem.inventory
        self._steps = problem.steps
        self._checks = check_sequence.CheckSequence(problem)
        self._prunes = not problem.may_fail
        self._order = order
        self._should_stop = should_stop
        self._trail = Trail()
        self._frames: list[_Frame] = []
        self._chosen: list[NodeAlternative] = [step.plans[0] for step in problem.steps]
        self._choices: dict[int, int] = {}
        """Depths at which options of prioritized requests were chosen, by step."""
        self._equivalence_keys: dict[int, Hashable] = {}
        self._positions = 0
        self._looks_ahead = False
        self._usable: Mapping[NodeAlternative, int] = {}
        """Devices that can still be of use, where that is known to be fewer than are accepted."""
        self._furthest = -1
        self.refusal: rejections.RequestRejection | None = None
        """What stopped the furthest attempt, after a search without solution."""

    def run(self) -> Solution | None:
        """The first solution, or None; raises Failure. Leaves no trace either way."""
        single = self.problem.single
        try:
            return self._run() if single is None else self._pick_for(single)
        finally:
            self._trail.unwind(0)

    def _pick_for(self, plan: NodeAlternative) -> Solution | None:
        """One device for one request, the most frequent question, needs no stack."""
        self._stop_in_time()
        slot, applying = plan.slots[0], self._checks.of(plan)
        candidates = plan.accepted | plan.failing
        if self._prunes:
            candidates = _narrowed(applying, slot, candidates, 1)
        for device in self._ordered(plan, candidates):
            if self._take(0, slot, device, applying) is None:
                return Solution((Pick(plan, device),), (plan,))
        self.refusal = self._refusal(0, slot, plan, plan.accepted)
        return None

    def _stop_in_time(self) -> None:
        if self._should_stop is not None and self._should_stop():
            raise rejections.SearchTimeout("filter operation aborted: context deadline exceeded")

    def _run(self) -> Solution | None:
        frames = self._frames
        position: Position | None = self._enter(0)
        while position is not None:
            if position.step == len(self._steps):
                picks = [frame.pick for frame in frames if frame.pick]
                return Solution(picks, tuple(self._chosen))
            self._push(position)
            if (
                self._prunes
                and self._positions == _POSITIONS_BEFORE_PROOF
                and self._is_impossible()
            ):
                return None
            position = self._advance()
        return None

    def _is_impossible(self) -> bool:
        """Stop to think: prove that there is no solution, or which devices can be part of one."""
        proof = infeasibility.find_infeasibility(self.problem)
        if proof is not None:
            self.refusal = proof
            return True
        self._usable = infeasibility.usable_devices(self.problem)
        self._looks_ahead = True
        return False

    def _advance(self) -> Position | None:
        """The next alternative of the highest frame that has one."""
        frames = self._frames
        while frames:
            frame = frames[-1]
            self._trail.unwind(frame.mark)
            frame.pick = None
            position = next(frame.alternatives, None)
            if position is not None:
                return position
            self._jump_back(frame.conflicts)
        return None

    def _jump_back(self, conflicts: int) -> None:
        """Give up the highest frame and all between it and the latest one that it is due to."""
        target = conflicts.bit_length() - 1
        del self._frames[target + 1 :]
        if self._frames:
            self._frames[target].conflicts |= conflicts ^ (1 << target)

    def _push(self, position: Position) -> None:
        self._stop_in_time()
        self._positions += 1
        frame = _Frame(len(self._frames), self._trail.mark())
        if position.plan is None:
            self._choices[position.step] = frame.depth
            frame.alternatives = self._options(position.step)
        elif position.plan.wanted is not None:
            frame.alternatives = self._wanted(frame, position, position.plan)
        else:
            frame.alternatives = self._devices(frame, position, position.plan)
        self._frames.append(frame)

    def _enter(self, step: int) -> Position:
        """The first decision from a request on."""
        if step == len(self._steps) or self._steps[step].is_prioritized:
            return Position(step)
        return self._begin(step, self._steps[step].plans[0])

    def _begin(self, step: int, plan: NodeAlternative) -> Position:
        self._chosen[step] = plan
        if plan.count == 0 and plan.wanted is None:
            return self._enter(step + 1)
        return Position(step, plan)

    def _after(self, position: Position, plan: NodeAlternative, later: int) -> Position:
        if position.ordinal + 1 < plan.count:
            return Position(position.step, plan, position.ordinal + 1, later)
        return self._enter(position.step + 1)

    def _options(self, step: int) -> Iterator[Position]:
        for plan in self._steps[step].plans:
            yield self._begin(step, plan)

    def _devices(
        self, frame: _Frame, position: Position, plan: NodeAlternative
    ) -> Iterator[Position]:
        """Every candidate for a slot that passes all checks."""
        if self._choices and self._exceeds_limit(frame, position, plan):
            return
        slot = plan.slots[position.ordinal]
        applying = self._checks.of(plan)
        candidates = (self._usable.get(plan, plan.accepted) | plan.failing) & position.allowed
        if self._prunes:
            candidates = _narrowed(applying, slot, candidates, plan.count - position.ordinal)
        later = candidates
        tried: set[Hashable] = set()
        for device in self._ordered(plan, candidates):
            later ^= device.bit
            if tried and self._interchange_key(device) in tried:
                continue
            if self._take(frame.mark, slot, device, applying) is not None:
                continue
            frame.pick = Pick(plan, device)
            if self._looks_ahead and self._blocks_later_requests(frame, position, later):
                self._trail.unwind(frame.mark)
                frame.pick = None
            else:
                yield self._after(position, plan, later)
            if self._prunes:
                tried.add(self._interchange_key(device))
        self._record_conflicts(frame, position, plan, plan.accepted)

    def _wanted(
        self, frame: _Frame, position: Position, plan: NodeAlternative
    ) -> Iterator[Position]:
        """allocationMode All: the one device that comes next, or nothing."""
        wanted = plan.wanted or ()
        if wanted and self._choices and self._exceeds_limit(frame, position, plan):
            return
        for device in wanted[position.ordinal : position.ordinal + 1]:
            if not plan.accepted & device.bit:
                break
            slot = plan.slots[position.ordinal]
            verdict = self._take(frame.mark, slot, device, self._checks.of(plan))
            if verdict is None:
                frame.pick = Pick(plan, device)
                yield self._after(position, plan, _ANY)
            elif verdict.check is rejections.CheckName.CONSTRAINTS:
                raise _cannot_have_all(plan, device)
        self._record_conflicts(frame, position, plan, plan.selected)

    def _take(
        self, mark: int, slot: Slot, device: Candidate, applying: Iterable[Check]
    ) -> rejections.DeviceRejection | None:
        """Claim the device with every check, or say why not and go back to the mark."""
        for check in applying:
            if not check.applies_to & device.bit:
                continue
            verdict = check.take(slot, device, self._trail)
            if verdict is not None:
                self._trail.unwind(mark)
                return verdict
        return None

    def _ordered(self, plan: NodeAlternative, candidates: int) -> Iterable[Candidate]:
        members = self._inventory.members(candidates)
        return members if self._order is None else self._order(self._inventory, plan, members)

    def _exceeds_limit(self, frame: _Frame, position: Position, plan: NodeAlternative) -> bool:
        """Whether the options chosen so far leave no room; then only other options can help."""
        if position.ordinal:
            return False
        steps = [step for step in range(position.step + 1) if self._steps[step].claim == plan.claim]
        needed = sum(self._chosen[step].count for step in steps)
        if needed <= ALLOCATION_RESULTS_MAX_SIZE:
            return False
        for step in steps:
            if self._steps[step].is_prioritized:
                frame.conflicts |= 1 << self._choices[step]
        return True

    def _record_conflicts(
        self, frame: _Frame, position: Position, plan: NodeAlternative, candidates: int
    ) -> None:
        """Note which lower frames may be the reason that there are no more alternatives."""
        if frame.depth > self._furthest and plan.slots:
            self._furthest = frame.depth
            remaining = candidates & plan.accepted & position.allowed
            slot = plan.slots[position.ordinal]
            self.refusal = self._refusal(frame.mark, slot, plan, remaining)
        if not self._prunes:
            frame.conflicts = (1 << frame.depth) - 1
            return
        if position.ordinal:
            frame.conflicts |= 1 << (frame.depth - 1)
        if self._steps[position.step].is_prioritized:
            frame.conflicts |= 1 << self._choices[position.step]
        frame.conflicts |= self._causes(frame, plan, candidates)

    def _causes(self, frame: _Frame, plan: NodeAlternative, candidates: int) -> int:
        """The lower frames whose picks may keep candidates away from an option."""
        causes = 0
        for lower in self._frames[: frame.depth if plan.slots else 0]:
            if lower.pick is not None and any(
                check.can_conflict(
                    plan.slots[0], candidates, lower.pick.plan.option, lower.pick.device
                )
                for check in self._checks.of(plan)
            ):
                causes |= 1 << lower.depth
        return causes

    def _blocks_later_requests(self, frame: _Frame, position: Position, allowed: int) -> bool:
        """Whether later requests cannot be served after the picks so far; notes due to which."""
        steps = self._steps[position.step + 1 :]
        for step in steps:
            if all(self._is_starved(plan) for plan in step.plans):
                for plan in step.plans:
                    frame.conflicts |= self._causes(frame, plan, plan.accepted)
                return True
        if self._exceeds_remaining(position, allowed, steps):
            frame.conflicts |= (1 << frame.depth) - 1
            return True
        return False

    def _exceeds_remaining(
        self, position: Position, allowed: int, steps: Sequence[NodeRequest]
    ) -> bool:
        """Whether what is left of a request and all later ones need more devices than there are."""
        current = self._chosen[position.step]
        needed, devices = current.count - position.ordinal - 1, allowed
        for step in steps:
            needed += min([plan.count for plan in step.plans])
            for plan in step.plans:
                devices |= self._usable.get(plan, plan.accepted)
        plans = [current, *[plan for step in steps for plan in step.plans]]
        if devices & self._inventory.shareable or any(plan.option.admin_access for plan in plans):
            return False
        return self._checks.max_takeable(devices) < needed

    def _is_starved(self, plan: NodeAlternative) -> bool:
        if plan.wanted is not None or not plan.slots:
            return False
        candidates = self._usable.get(plan, plan.accepted)
        return not _narrowed(self._checks.of(plan), plan.slots[0], candidates, plan.count)

    def _refusal(
        self, mark: int, slot: Slot, plan: NodeAlternative, candidates: int
    ) -> rejections.NoCombination:
        """Why the first device that could have come next does not, if possible a free one."""
        last = None
        candidates = candidates & ~self._inventory.taken or candidates
        for device in self._inventory.members(candidates & -candidates):
            last = self._take(mark, slot, device, self._checks.of(plan))
            self._trail.unwind(mark)
        return rejections.NoCombination(plan.claim, str(plan.option.name), last)

    def _interchange_key(self, device: Candidate) -> Hashable:
        """Equal for devices of which one leads to a solution only if the other does."""
        look = self._equivalence_keys.get(device.index)
        if look is None:
            look = self._equivalence_keys[device.index] = self.problem.equivalence_key(device)
        return look, self._checks.traces(device)


def _narrowed(applying: Iterable[Check], slot: Slot, candidates: int, wanted: int) -> int:
    for check in applying:
        candidates = check.filter_candidates(slot, candidates, wanted)
    return candidates if candidates.bit_count() >= wanted else 0


def _cannot_have_all(plan: NodeAlternative, device: Candidate) -> rejections.AllocationError:
    return rejections.AllocationError(
        f"cannot add device {device.id} because a claim constraint would not be satisfied",
        claim=plan.claim,
        request=f"request {plan.option.own_name}",
    )
