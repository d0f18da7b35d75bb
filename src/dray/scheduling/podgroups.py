"""PodGroups: pods that are placed together or not at all, and claims that they share.

Pods are placed one after the other, each counting with those before it. If too few get a node that
way, other nodes are tried for the earlier ones, and the pod that found none goes first. With the
feature gate DrayGangSearch, all nodes and devices are tried instead (`gangs`).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dray.api.ids import ClaimKey, ObjectKey
from dray.api.types.dra import AllocationResult
from dray.api.types.pods import Pod
from dray.api.types.workloads import PodGroup
from dray.scheduling import pod_index, wake_events
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.claims.pod_demand import DemandResolver, PodDemand
from dray.scheduling.gangs import topology
from dray.scheduling.gangs.effort import SearchEnded
from dray.scheduling.gangs.gang_search import GangSearch
from dray.scheduling.node_choice import NodeChooser, NoNode
from dray.scheduling.state import SchedulingState
from dray.scheduling.steps import SearchOutcome, Step, Steps
from dray.scheduling.unschedulable import Unschedulable

ShouldStop = Callable[[], bool]


class Gang(NamedTuple):
    """A PodGroup that is placed as a whole."""

    group: PodGroup
    waiting: Sequence[Pod]
    """The pods that have no node yet."""
    needed: int
    """The number of them that must get one."""
    scheduled: int

    @property
    def key(self) -> ObjectKey:
        return self.group.metadata.key

    @property
    def lets_others_go_alone(self) -> bool:
        """Return whether enough pods have nodes, and the others do not depend on where."""
        return not (self.needed or topology.keys_of(self.group))

    def too_few(self, placed: int) -> str:
        """Return kube-scheduler's message for a group if only `placed` more pods fit."""
        minimum, scheduled = self.needed + self.scheduled, self.scheduled + placed
        return f"minCount ({minimum}) cannot be satisfied: {scheduled} scheduled, 0 remaining"


class GangPlacement(NamedTuple):
    """The assignments of a gang, and why its other pods have none. The former are reserved."""

    assignments: Sequence[NodeAssignment]
    unplaced: Mapping[ObjectKey, Unschedulable]


def gang_of(pod: Pod, state: SchedulingState) -> Gang | Unschedulable | None:
    """Return the gang that the pod is placed with, or what that waits for; None without one."""
    key = pod_index.group_key(pod)
    if key is None or not state.features.generic_workload:
        return None
    group = state.groups.get(key)
    if group is None:
        message = f'waiting for pods\'s pod group "{key.name}" to appear in scheduling queue'
        return _wait(key, message)
    policy = group.spec.scheduling_policy.gang
    if policy is None:
        return None
    members = state.pods.in_group(key)
    waiting = [member for member in members if _waits(member, state)]
    scheduled = sum(map(state.is_placed, members))
    if len(waiting) + scheduled < policy.min_count:
        return _wait(key, "waiting for minCount pods from a gang to appear in scheduling queue")
    waiting.sort(key=lambda member: member.metadata.creation_timestamp or "")
    return Gang(group, waiting, max(policy.min_count - scheduled, 0), scheduled)


def _waits(pod: Pod, state: SchedulingState) -> bool:
    is_free_to_go = state.is_pending(pod) and not pod.spec.scheduling_gates
    return is_free_to_go and not state.is_placed(pod)


def _wait(key: ObjectKey, message: str) -> Unschedulable:
    events = frozenset({wake_events.group_changes(key)})
    return Unschedulable(group_message=message, wake_events=events, is_transient=True)


class GangPlacer:
    """Places whole gangs."""

    def __init__(
        self,
        state: SchedulingState,
        chooser: NodeChooser,
        demands: DemandResolver,
        search: GangSearch | None,
    ) -> None:
        self._state, self._chooser, self._demands = state, chooser, demands
        self._search = search

    def place(
        self, gang: Gang, now: datetime.datetime, should_stop: ShouldStop
    ) -> Steps[GangPlacement | Unschedulable]:
        """Return and reserve nodes for enough pods of the gang, or return why there are none.

        `should_stop` limits the search after the first attempt; it is called at its start too.
        """
        attempt = _Attempt(self._state, self._chooser, self._demands, now)
        return (yield from self.place_attempt(gang, attempt, should_stop))

    def trial(
        self,
        gang: Gang,
        now: datetime.datetime,
        should_stop: ShouldStop,
        *,
        was_ended: bool = False,
    ) -> GangTrial:
        """Return what places only as many pods of a gang as it needs.

        `was_ended` says whether a search was ended before.
        """
        attempt = _Attempt(self._state, self._chooser, self._demands, now, gang.needed)
        return GangTrial(self, self._state, gang, attempt, should_stop, was_ended)

    def place_attempt(
        self, gang: Gang, attempt: _Attempt, should_stop: ShouldStop
    ) -> Steps[GangPlacement | Unschedulable]:
        """Place a gang in an attempt that holds nothing yet."""
        try:
            if self._search is None:
                result = yield from self._place(gang, attempt, should_stop)
            else:
                result = yield from self._find(gang, attempt, self._search, should_stop)
        except BaseException:
            # Also when the caller abandons the steps: nothing of the gang may stay reserved.
            attempt.release_all()
            raise
        return result

    def _place(
        self, gang: Gang, attempt: _Attempt, should_stop: ShouldStop
    ) -> Steps[GangPlacement | Unschedulable]:
        unplaced = yield from attempt.place_greedily(gang.waiting)
        if len(attempt.assignments) >= gang.needed:
            return GangPlacement(attempt.assignments, unplaced)
        result = _not_enough(gang, len(attempt.assignments), unplaced)
        attempt.release_all()
        if not (yield from self._backtrack(gang, attempt, should_stop)):
            return msgspec.structs.replace(result, is_ended=should_stop())
        return (yield from self.with_others(gang, attempt))

    def with_others(self, gang: Gang, attempt: _Attempt) -> Steps[GangPlacement]:
        """Return the placement with nodes for more pods than are needed, where they fit."""
        placed = attempt.placed()
        others = [pod for pod in gang.waiting if pod.metadata.key not in placed]
        unplaced = yield from attempt.place_greedily(others)
        return GangPlacement(attempt.assignments, unplaced)

    def _find(
        self, gang: Gang, attempt: _Attempt, search: GangSearch, should_stop: ShouldStop
    ) -> Steps[GangPlacement | Unschedulable]:
        """Place the pods one after the other, or else as the complete search finds it."""
        keys = topology.keys_of(gang.group)
        unplaced = yield from attempt.place_greedily(gang.waiting)
        if len(attempt.assignments) >= gang.needed and not keys:
            return GangPlacement(attempt.assignments, unplaced)
        result = _not_enough(gang, len(attempt.assignments), unplaced)
        if keys:
            result = _not_together(result, gang, keys)
        attempt.release_all()
        placed = [pod for pod in self._state.pods.in_group(gang.key) if self._state.is_placed(pod)]
        try:
            placements = yield from search.place(
                gang.waiting, gang.needed, keys, placed, attempt.now, should_stop
            )
        except SearchEnded:
            ended = f"{result.group_message}; the search was ended after {search.trials} trials"
            return msgspec.structs.replace(result, group_message=ended, is_ended=True)
        if placements is None:
            return result
        for assignment in placements.assignments():
            attempt.reserve(assignment)
        if keys:
            # Others may have a node outside of the domain, which is not for them.
            left_out = {pod.metadata.key for pod in gang.waiting} - attempt.placed()
            return GangPlacement(attempt.assignments, dict.fromkeys(left_out, result))
        return (yield from self.with_others(gang, attempt))

    def _backtrack(self, gang: Gang, attempt: _Attempt, should_stop: ShouldStop) -> Steps[bool]:
        """Place as many pods as needed, in any order and on any nodes."""
        pods = list(gang.waiting)
        if should_stop():
            return False
        for _ in gang.waiting:
            stuck = yield from attempt.place_all(pods[: gang.needed], should_stop)
            if stuck is None:
                return True
            if should_stop():
                return False
            # The pod that found no node is the hardest to place: it goes first next time.
            pods.insert(0, pods.pop(stuck))
        return False


class GangTrial:
    """Places as many pods of a gang as it needs, again and again, while the state changes."""

    def __init__(
        self,
        placer: GangPlacer,
        state: SchedulingState,
        gang: Gang,
        attempt: _Attempt,
        should_stop: ShouldStop,
        was_ended: bool,
    ) -> None:
        self._placer, self._state, self._gang = placer, state, gang
        self._attempt, self._should_stop = attempt, should_stop
        self._was_ended = was_ended

    @property
    def was_ended(self) -> bool:
        """Return whether a search was ended before it was known whether the gang fits."""
        return self._was_ended

    @property
    def assignments(self) -> Sequence[NodeAssignment]:
        """Return what the pods have got. It is reserved in the state."""
        return self._attempt.assignments

    @property
    def is_plain(self) -> bool:
        """Return whether each pod can be placed again without regard to where the others are."""
        demands = (self._attempt.demand(pod) for pod in self._gang.waiting)
        return not topology.keys_of(self._gang.group) and not any(
            self._state.affinity.checks_for(demand.pod, demand.requirements)
            for demand in demands
            if not isinstance(demand, Unschedulable)
        )

    @property
    def is_ready(self) -> bool:
        """Return whether enough of the pods have all that a decision about them needs."""
        demands = map(self._attempt.demand, self._gang.waiting)
        ready = sum(not isinstance(demand, Unschedulable) for demand in demands)
        return ready >= self._gang.needed

    def place(self) -> Steps[bool]:
        """Place the pods, where they had something before too. Returns whether they fit."""
        self.clear()
        result = yield from self._placer.place_attempt(self._gang, self._attempt, self._should_stop)
        if isinstance(result, GangPlacement):
            return True
        self._was_ended |= result.is_ended
        return False

    def move(self, moved: Collection[NodeAssignment]) -> Steps[bool]:
        """Place some of the pods again. Without room for all, they have nothing afterwards."""
        self._attempt.release(moved)
        try:
            unplaced = yield from self._attempt.place_greedily([one.pod for one in moved])
        except BaseException:
            self.clear()
            raise
        if unplaced:
            uids = {one.pod.metadata.uid for one in moved}
            found = [one for one in self.assignments if one.pod.metadata.uid in uids]
            self._attempt.release(found)
        return not unplaced

    def put_back(self, assignments: Iterable[NodeAssignment]) -> None:
        """Give pods what they had before."""
        for assignment in assignments:
            self._attempt.reserve(assignment)

    def clear(self) -> None:
        """Take everything from the pods."""
        self._attempt.release_all()

    def completed(self) -> Steps[GangPlacement]:
        """Return what was placed last, with nodes for more pods where they fit."""
        self._attempt.limit = None
        try:
            return (yield from self._placer.with_others(self._gang, self._attempt))
        except BaseException:
            self.clear()
            raise


class _Attempt:
    """Assignments of pods of one gang, reserved in the state; no more than `limit`."""

    def __init__(
        self,
        state: SchedulingState,
        chooser: NodeChooser,
        demands: DemandResolver,
        now: datetime.datetime,
        limit: int | None = None,
    ) -> None:
        self._state, self._chooser, self._demands = state, chooser, demands
        self.now, self.limit = now, limit
        self.assignments: list[NodeAssignment] = []

    def placed(self) -> set[ObjectKey]:
        return {assignment.pod.metadata.key for assignment in self.assignments}

    def place_greedily(self, pods: Sequence[Pod]) -> Steps[Mapping[ObjectKey, Unschedulable]]:
        """Give every pod the best node that is left. Returns why the others have none."""
        unplaced: dict[ObjectKey, Unschedulable] = {}
        for pod in pods:
            if len(self.assignments) == self.limit:
                break
            demand = self.demand(pod)
            if isinstance(demand, Unschedulable):
                unplaced[pod.metadata.key] = demand
                continue
            choice = yield from self._chooser.choose(demand)
            if isinstance(choice, NoNode):
                unplaced[pod.metadata.key] = choice.result
            else:
                self.reserve(choice)
        return unplaced

    def place_all(self, pods: Sequence[Pod], should_stop: ShouldStop) -> Steps[int | None]:
        """Place all of the pods by backtracking. Returns None, or the furthest pod that failed."""
        furthest = 0
        stack: list[_Fits] = []
        while len(self.assignments) < len(pods):
            if len(stack) == len(self.assignments):
                stack.append(self._fits(pods[len(stack)]))
            assignment = yield from _next(stack[-1])
            if assignment is not None:
                self.reserve(assignment)
                continue
            furthest = max(furthest, len(self.assignments))
            stack.pop()
            if not self.assignments or should_stop():
                self.release_all()
                return furthest
            self._state.release(self.assignments.pop())
        return None

    def release_all(self) -> None:
        while self.assignments:
            self._state.release(self.assignments.pop())

    def release(self, assignments: Iterable[NodeAssignment]) -> None:
        """Take from some pods what they have."""
        uids = {assignment.pod.metadata.uid for assignment in assignments}
        for assignment in self.assignments:
            if assignment.pod.metadata.uid in uids:
                self._state.release(assignment)
        self.assignments = [one for one in self.assignments if one.pod.metadata.uid not in uids]

    def reserve(self, assignment: NodeAssignment) -> None:
        self._state.reserve(assignment)
        self.assignments.append(assignment)

    def _fits(self, pod: Pod) -> _Fits:
        demand = self.demand(pod)
        if not isinstance(demand, Unschedulable):
            yield from self._chooser.all_fits(demand)

    def demand(self, pod: Pod) -> PodDemand | Unschedulable:
        """Return the pod's demand; claims that it shares with earlier pods are allocated."""
        shared: dict[ClaimKey, AllocationResult] = {
            assigned.claim.key: assigned.allocation
            for assignment in self.assignments
            for assigned in assignment.fit.claims
            if assigned.allocation is not None
        }
        return self._demands.demand_of(pod, self._state.group_of(pod), self.now, shared)


_Fits = Generator[Step | NodeAssignment, SearchOutcome | None, None]


def _next(fits: _Fits) -> Steps[NodeAssignment | None]:
    """Return the next assignment; None after the last one."""
    outcome: SearchOutcome | None = None
    while True:
        try:
            step = fits.send(outcome)
        except StopIteration:
            return None
        if isinstance(step, NodeAssignment):
            return step
        outcome = yield step


def _not_enough(
    gang: Gang, placed: int, unplaced: Mapping[ObjectKey, Unschedulable]
) -> Unschedulable:
    events = {wake_events.group_changes(gang.key)}
    for result in unplaced.values():
        events |= result.wake_events
    return Unschedulable(
        group_message=gang.too_few(placed),
        wake_events=frozenset(events),
        claims=next((result.claims for result in unplaced.values() if result.claims), ()),
        is_transient=any(result.is_transient for result in unplaced.values()),
    )


def _not_together(result: Unschedulable, gang: Gang, keys: Sequence[str]) -> Unschedulable:
    """Return the result for a gang whose pods have to be on nodes with equal labels."""
    # Also pods for which there is room outside of a domain wait for room inside.
    events = {wake_events.NODES, wake_events.DEVICES, wake_events.POD_REMOVED}
    minimum = gang.needed + gang.scheduled
    return msgspec.structs.replace(
        result,
        group_message=f"minCount ({minimum}) cannot be satisfied on nodes with equal labels "
        + ", ".join(keys),
        wake_events=result.wake_events | events,
    )
