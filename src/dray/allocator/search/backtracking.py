"""Backtracking search over positions and checks; no single DRA rule is known here.

The result is the first complete combination in upstream's visiting order
(incubating/allocator_incubating.go allocateOne). Branches without a solution are left out, which
never changes the result: a dead end jumps back to the picks that caused it, interchangeable devices
are tried once, and candidates are filtered as a set before they are tried one by one. Where some
device could make upstream return an error, nothing is left out: the error is the result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dray.allocator.model import rejections
from dray.allocator.model.candidates import Candidate, Check, Slot
from dray.allocator.model.trail import Trail
from dray.allocator.problem.node_problem import NodeAlternative, NodeProblem, NodeRequest
from dray.allocator.search import check_sequence, infeasibility
from dray.allocator.search.device_order import Order
from dray.allocator.search.results import Pick, Solution
from dray.api.types.dra import ALLOCATION_RESULTS_MAX_SIZE

_ANY = -1
# Most searches end within a few positions, and a proof costs them more than it saves. One that is
# still running after 64 may be stuck in a very large tree, where a proof or look-ahead pays.
_POSITIONS_BEFORE_PROOF = 64


class Position(NamedTuple):
    """A decision to make: which alternative of a request, or which device for a slot."""

    request_index: int
    alternative: NodeAlternative | None = None
    """None where an alternative has to be chosen."""
    ordinal: int = 0
    allowed: int = _ANY
    """Within a request devices are combined, not permuted: only later ones may follow."""


class _Frame:
    """A position on the stack, and the positions that may follow it.

    Bit d of `conflicts` is set if the decision of the frame at depth d may be a reason for a dead
    end below this frame. Bits may be set needlessly, never left out.
    """

    __slots__ = ("conflicts", "depth", "mark", "next_positions", "pick")

    def __init__(self, depth: int, mark: int) -> None:
        self.depth = depth
        self.mark = mark
        self.conflicts = 0
        self.pick: Pick | None = None
        self.next_positions: Iterator[Position] = iter(())


class _Explored(NamedTuple):
    """The devices that led to no solution for a request, and the depth of its frame."""

    devices: int
    depth: int


class Search:
    """One attempt to satisfy all claims of a pod on one node.

    `alike` are requests, by position, that are the only one of a claim with the spec of the claim
    before: two such claims are not tried with their devices swapped.
    """

    def __init__(
        self,
        problem: NodeProblem,
        *,
        order: Order | None = None,
        should_stop: Callable[[], bool] | None = None,
        alike: Collection[int] = (),
    ) -> None:
        self.problem = problem
        self._inventory = problem.inventory
        self._requests = problem.requests
        self._checks = check_sequence.CheckSequence(problem)
        self._prunes = not problem.may_fail
        # Devices of compatibility groups that fit in one order may not fit in the other.
        is_symmetric = self._prunes and not self._inventory.features.device_compatibility_groups
        self._alike = alike if is_symmetric else ()
        self._explored: dict[int, _Explored] = {}
        """What was tried for the request before one in `_alike`, by its position."""
        self._order = order
        self._should_stop = should_stop
        self._trail = Trail()
        self._frames: list[_Frame] = []
        self._chosen = [request.alternatives[0] for request in problem.requests]
        self._choices: dict[int, int] = {}
        """Depths at which alternatives of prioritized requests were chosen, by request."""
        self._equivalence_keys: dict[int, Hashable] = {}
        self._positions = 0
        self._looks_ahead = False
        self._finds_all = False
        """Whether solutions are told apart by devices that are interchangeable for these claims."""
        self._usable: Mapping[NodeAlternative, int] = {}
        """Devices that can be part of a solution, where these are fewer than the eligible ones."""
        self._furthest = -1
        self.rejection: rejections.RequestRejection | None = None
        """After a search without solution: what stopped the deepest attempt."""

    def run(self) -> Solution | None:
        """Return the first solution, or None. Raises AllocationError where upstream would.

        The state of the checks is the same afterwards, whatever the outcome.
        """
        try:
            return self._run(self._enter(0))
        finally:
            self._trail.unwind(0)

    def solutions(self) -> Iterator[Solution]:
        """Yield every solution in the order of the search, first that of `run`.

        Devices that are equal for all claims stand for each other. The holders of devices have to
        be the same whenever the next solution is asked for. Raises AllocationError as `run`.
        """
        self._finds_all = True
        # Claims that are alike here need not be for those who use them.
        self._alike = ()
        try:
            solution = self._run(self._enter(0))
            while solution is not None:
                yield solution
                # Every decision is a part of this solution: another one of any may give the next.
                for frame in self._frames:
                    frame.conflicts = (1 << frame.depth) - 1
                solution = self._run(self._advance())
        finally:
            self._trail.unwind(0)

    def _run(self, position: Position | None) -> Solution | None:
        frames = self._frames
        while position is not None:
            if position.request_index == len(self._requests):
                picks = [frame.pick for frame in frames if frame.pick]
                return Solution(picks, tuple(self._chosen))
            self._push(position)
            is_long = self._prunes and self._positions == _POSITIONS_BEFORE_PROOF
            if is_long and self._is_impossible():
                return None
            position = self._advance()
        return None

    def _is_impossible(self) -> bool:
        """Return whether counting shows that there is no solution; if not, turn on look-ahead."""
        proof = infeasibility.find_infeasibility(self.problem)
        if proof is not None:
            self.rejection = proof
            return True
        self._usable = infeasibility.usable_devices(self.problem)
        self._looks_ahead = True
        return False

    def _advance(self) -> Position | None:
        """Return the next position of the highest frame that has one, or None."""
        frames = self._frames
        while frames:
            frame = frames[-1]
            self._trail.unwind(frame.mark)
            frame.pick = None
            position = next(frame.next_positions, None)
            if position is not None:
                return position
            self._jump_back(frame.conflicts)
        return None

    def _jump_back(self, conflicts: int) -> None:
        """Drop the highest frame and all others above the latest one in `conflicts`."""
        # Conflict-directed backjumping. Frames above the target are no reason for the dead end, so
        # any other decision there would end in it again: no solution is lost. The target takes over
        # the other reasons, for when it runs out of candidates, one of them has to change.
        target = conflicts.bit_length() - 1
        del self._frames[target + 1 :]
        if self._frames:
            self._frames[target].conflicts |= conflicts ^ (1 << target)

    def _push(self, position: Position) -> None:
        check_sequence.raise_if_out_of_time(self._should_stop)
        self._positions += 1
        frame = _Frame(len(self._frames), self._trail.mark())
        if position.alternative is None:
            self._choices[position.request_index] = frame.depth
            if position.request_index in self._alike:
                frame.conflicts = 1 << self._choices[position.request_index - 1]
            frame.next_positions = self._alternatives(position.request_index)
        elif position.alternative.all_mode_devices is not None:
            frame.next_positions = self._all_mode_devices(frame, position, position.alternative)
        else:
            frame.next_positions = self._devices(frame, position, position.alternative)
        self._frames.append(frame)

    def _enter(self, request_index: int) -> Position:
        """Return the first position of a request, or of the next one that needs a decision."""
        if request_index == len(self._requests) or self._requests[request_index].is_prioritized:
            return Position(request_index)
        return self._begin(request_index, self._requests[request_index].alternatives[0])

    def _begin(self, request_index: int, alternative: NodeAlternative) -> Position:
        self._chosen[request_index] = alternative
        if alternative.count == 0 and alternative.all_mode_devices is None:
            return self._enter(request_index + 1)
        return Position(
            request_index, alternative, allowed=self._allowed(request_index, alternative)
        )

    def _allowed(self, request_index: int, alternative: NodeAlternative) -> int:
        """Return the devices to try, without those that failed for a request that is alike."""
        if request_index not in self._alike:
            return _ANY
        explored = self._explored.get(request_index - 1)
        if explored is None:
            return _ANY
        former = self._requests[request_index - 1].alternatives
        is_same = former.index(self._chosen[request_index - 1]) == self._requests[
            request_index
        ].alternatives.index(alternative)
        return ~explored.devices if is_same and alternative.count == 1 else _ANY

    def _after(self, position: Position, alternative: NodeAlternative, later: int) -> Position:
        if position.ordinal + 1 < alternative.count:
            return Position(position.request_index, alternative, position.ordinal + 1, later)
        return self._enter(position.request_index + 1)

    def _alternatives(self, request_index: int) -> Iterator[Position]:
        first = 0
        if request_index in self._alike:
            former = self._requests[request_index - 1].alternatives
            first = former.index(self._chosen[request_index - 1])
        for alternative in self._requests[request_index].alternatives[first:]:
            yield self._begin(request_index, alternative)

    def _devices(
        self, frame: _Frame, position: Position, alternative: NodeAlternative
    ) -> Iterator[Position]:
        """Take each candidate that passes all checks; yield the position after it."""
        if self._choices and self._exceeds_limit(frame, position, alternative):
            return
        slot = alternative.slots[position.ordinal]
        applying = self._checks.of(alternative)
        candidates = (
            self._usable.get(alternative, alternative.eligible) | alternative.failing
        ) & position.allowed
        if self._prunes:
            candidates = check_sequence.filtered(
                applying, slot, candidates, alternative.count - position.ordinal
            )
        later = candidates
        explored = 0
        # If one device has not led to a solution, an interchangeable one will not either: swapping
        # the two in that solution would have given one with the first device.
        tried: set[Hashable] = set()
        for device in self._ordered(alternative, candidates):
            later ^= device.bit
            if tried and self._interchange_key(device) in tried:
                explored |= device.bit
                continue
            if self._take(frame.mark, slot, device, applying) is not None:
                continue
            frame.pick = Pick(alternative, device)
            if self._alike:
                self._explored[position.request_index] = _Explored(explored, frame.depth)
            explored |= device.bit
            if self._looks_ahead and self._blocks_later_requests(frame, position, later):
                self._trail.unwind(frame.mark)
                frame.pick = None
            else:
                yield self._after(position, alternative, later)
            if self._prunes:
                tried.add(self._interchange_key(device))
        rejected = alternative.eligible & position.allowed
        self._record_conflicts(frame, position, alternative, alternative.eligible, rejected)

    def _all_mode_devices(
        self, frame: _Frame, position: Position, alternative: NodeAlternative
    ) -> Iterator[Position]:
        """Take the next device of allocationMode All; yield the position after it."""
        needed = alternative.all_mode_devices or ()
        if needed and self._choices and self._exceeds_limit(frame, position, alternative):
            return
        # There is no choice: all devices are needed, so each position has one candidate. The range
        # is empty if no device matches at all.
        rejected = 0
        for device in needed[position.ordinal : position.ordinal + 1]:
            rejected = alternative.eligible & device.bit
            if not rejected:
                break
            slot = alternative.slots[position.ordinal]
            rejection = self._take(frame.mark, slot, device, self._checks.of(alternative))
            if rejection is None:
                frame.pick = Pick(alternative, device)
                yield self._after(position, alternative, _ANY)
            elif rejection.check is rejections.CheckName.CONSTRAINTS:
                # Upstream returns an error and tries no other alternative, allocateDevice in
                # https://github.com/kubernetes/kubernetes/blob/release-1.37/staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go
                raise _cannot_have_all(alternative, device)
        # Only this device explains the dead end. Upstream does not look at the other ones any more,
        # so an attribute that cannot be derived on them must not end the allocation either.
        self._record_conflicts(frame, position, alternative, alternative.selected, rejected)

    def _take(
        self, mark: int, slot: Slot, device: Candidate, applying: Iterable[Check]
    ) -> rejections.DeviceRejection | None:
        """Take the device in every check; return the first rejection after unwinding to `mark`."""
        for check in applying:
            if not check.applies_to & device.bit:
                continue
            rejection = check.take(slot, device, self._trail)
            if rejection is not None:
                self._trail.unwind(mark)
                return rejection
        return None

    def _ordered(self, alternative: NodeAlternative, candidates: int) -> Iterable[Candidate]:
        members = self._inventory.members(candidates)
        if self._order is None:
            return members
        return self._order(self._inventory, alternative, members)

    def _exceeds_limit(
        self, frame: _Frame, position: Position, alternative: NodeAlternative
    ) -> bool:
        """Return whether the chosen alternatives need more devices than a claim may have."""
        # The sum depends on alternatives and not on devices, so it is checked once for each
        # request, and only another choice of alternatives can help.
        if position.ordinal:
            return False
        requests = [
            request_index
            for request_index in range(position.request_index + 1)
            if self._requests[request_index].claim == alternative.claim
        ]
        needed = sum(self._chosen[request_index].count for request_index in requests)
        if needed <= ALLOCATION_RESULTS_MAX_SIZE:
            return False
        for request_index in requests:
            if self._requests[request_index].is_prioritized:
                frame.conflicts |= 1 << self._choices[request_index]
        return True

    def _record_conflicts(
        self,
        frame: _Frame,
        position: Position,
        alternative: NodeAlternative,
        candidates: int,
        rejected: int,
    ) -> None:
        """Record which lower frames may be the reason that no candidate is left.

        `rejected` are the devices that the search has tried here.
        """
        if frame.depth > self._furthest and alternative.slots:
            self._furthest = frame.depth
            slot = alternative.slots[position.ordinal]
            self.rejection = self._rejection(frame.mark, slot, alternative, rejected)
        if not self._prunes:
            # All lower frames: backtrack step by step. A jump could pass over a device on which
            # upstream returns an error.
            frame.conflicts = (1 << frame.depth) - 1
            return
        # The previous device of the request decides which ones may follow (`Position.allowed`).
        if position.ordinal:
            frame.conflicts |= 1 << (frame.depth - 1)
        elif position.allowed != _ANY:
            frame.conflicts |= 1 << self._explored[position.request_index - 1].depth
        if self._requests[position.request_index].is_prioritized:
            frame.conflicts |= 1 << self._choices[position.request_index]
        frame.conflicts |= self._causes(frame, alternative, candidates)

    def _causes(self, frame: _Frame, alternative: NodeAlternative, candidates: int) -> int:
        """Return the lower frames whose picks may keep candidates away from an alternative."""
        causes = 0
        for lower in self._frames[: frame.depth if alternative.slots else 0]:
            if lower.pick is None:
                continue
            slot, (other, picked) = alternative.slots[0], lower.pick
            if any(
                check.can_conflict(slot, candidates, other.parsed, picked)
                for check in self._checks.of(alternative)
            ):
                causes |= 1 << lower.depth
        return causes

    def _blocks_later_requests(self, frame: _Frame, position: Position, allowed: int) -> bool:
        """Return whether the picks so far leave too little for later requests; record conflicts."""
        requests = self._requests[position.request_index + 1 :]
        for request in requests:
            if all(self._is_starved(alternative) for alternative in request.alternatives):
                for alternative in request.alternatives:
                    frame.conflicts |= self._causes(frame, alternative, alternative.eligible)
                return True
        if self._exceeds_remaining(position, allowed, requests):
            # A count over all picks does not tell which of them are too many.
            frame.conflicts |= (1 << frame.depth) - 1
            return True
        return False

    def _exceeds_remaining(
        self, position: Position, allowed: int, requests: Sequence[NodeRequest]
    ) -> bool:
        """Return whether this request and all later ones need more devices than are left."""
        current = self._chosen[position.request_index]
        needed, devices = current.count - position.ordinal - 1, allowed
        for request in requests:
            needed += min([alternative.count for alternative in request.alternatives])
            for alternative in request.alternatives:
                devices |= self._usable.get(alternative, alternative.eligible)
        later = [alternative for request in requests for alternative in request.alternatives]
        # The count holds for devices that are used once. Shareable ones, and any device under
        # admin access, may be used again.
        if devices & self._inventory.shareable or any(
            alternative.parsed.admin_access for alternative in (current, *later)
        ):
            return False
        return self._checks.max_takeable(devices) < needed

    def _is_starved(self, alternative: NodeAlternative) -> bool:
        if alternative.all_mode_devices is not None or not alternative.slots:
            return False
        candidates = self._usable.get(alternative, alternative.eligible)
        applying, slot = self._checks.of(alternative), alternative.slots[0]
        return not check_sequence.filtered(applying, slot, candidates, alternative.count)

    def _rejection(
        self, mark: int, slot: Slot, alternative: NodeAlternative, candidates: int
    ) -> rejections.NoCombination:
        """Return the rejection with the reason against the first candidate, best a free one."""
        last = None
        candidates = candidates & ~self._inventory.taken or candidates
        for device in self._inventory.members(candidates & -candidates):
            last = self._take(mark, slot, device, self._checks.of(alternative))
            self._trail.unwind(mark)
        return rejections.NoCombination(alternative.claim, str(alternative.parsed.name), last)

    def _interchange_key(self, device: Candidate) -> Hashable:
        """Return a key that is equal for interchangeable devices.

        No check can tell such devices apart, neither by what they are nor by the picks so far.
        """
        key = self._equivalence_keys.get(device.index)
        if key is None:
            key = self.problem.equivalence_key(device)
            if self._finds_all:
                key = key, _content(device)
            self._equivalence_keys[device.index] = key
        return key, self._checks.state_keys(device)


def _content(device: Candidate) -> Hashable:
    """Return a key that is equal for devices that differ in nothing but their names."""
    nameless = msgspec.structs.replace(device.device, name="")
    return device.pool_index, device.resource_slice.metadata.name, msgspec.json.encode(nameless)


def _cannot_have_all(alternative: NodeAlternative, device: Candidate) -> rejections.AllocationError:
    return rejections.AllocationError(
        f"cannot add device {device.id} because a claim constraint would not be satisfied",
        claim=alternative.claim,
        request=f"request {alternative.parsed.own_name}",
    )
