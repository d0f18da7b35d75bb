"""PodGroups: pods that are placed together or not at all, and claims that they share.

Pods are placed one after the other, each counting with those before it. Where that leaves too few
with a node, other nodes are tried for the earlier ones, and the pod that found none goes first.
"""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import NamedTuple

from dray.api import errors, http_messages, kinds
from dray.api.formats import gotime
from dray.api.ids import ClaimKey, ObjectKey
from dray.api.semantics import pod_claims
from dray.api.types.dra import AllocationResult
from dray.api.types.pods import Pod
from dray.api.types.workloads import PodGroup
from dray.client.api_client import Client
from dray.scheduler import queue
from dray.scheduler.binder import Binder, NodeAssignment
from dray.scheduler.claims.device_fit import PodDemand
from dray.scheduler.cluster_state import GROUP, SchedulerState
from dray.scheduler.node_choice import NodeChooser
from dray.scheduler.unschedulable import Unschedulable

log = logging.getLogger(__name__)

SEARCH_SECONDS = 5.0
INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"

Shared = Mapping[ClaimKey, AllocationResult]
MakeDemand = Callable[[Pod, Shared], PodDemand | Unschedulable]


class Gang(NamedTuple):
    """A group that is placed as a whole."""

    group: PodGroup
    waiting: Sequence[Pod]
    """The pods that have no node yet."""
    needed: int
    """How many of them must get one."""
    scheduled: int

    @property
    def key(self) -> ObjectKey:
        return self.group.metadata.key

    def too_few(self, placed: int) -> str:
        minimum, scheduled = self.needed + self.scheduled, self.scheduled + placed
        return f"minCount ({minimum}) cannot be satisfied: {scheduled} scheduled, 0 remaining"


class Placed(NamedTuple):
    """Where pods of a group go; those that are not among them found no place."""

    choices: Sequence[NodeAssignment]
    refusals: Mapping[ObjectKey, Unschedulable]


def gang_of(pod: Pod, state: SchedulerState) -> Gang | Unschedulable | None:
    """The gang that the pod has to be placed with, or what that waits for; None without one."""
    name = pod_claims.group_name(pod)
    if not name or state.groups is None:
        return None
    key = ObjectKey(pod.metadata.namespace, name)
    group = state.groups.get(name, pod.metadata.namespace)
    if group is None:
        quoted = f'waiting for pods\'s pod group "{name}" to appear in scheduling queue'
        return _wait(key, quoted)
    policy = group.spec.scheduling_policy.gang
    if policy is None:
        return None
    members = state.pods.find(GROUP, key)
    waiting = [each for each in members if state.is_ours(each) and not _is_placed(each, state)]
    scheduled = sum(_is_placed(each, state) for each in members)
    if len(waiting) + scheduled < policy.min_count:
        return _wait(key, "waiting for minCount pods from a gang to appear in scheduling queue")
    waiting.sort(key=lambda each: each.metadata.creation_timestamp or "")
    return Gang(group, waiting, max(policy.min_count - scheduled, 0), scheduled)


def _is_placed(pod: Pod, state: SchedulerState) -> bool:
    return bool(pod.spec.node_name or state.nodes.node_of(pod.metadata.uid))


def _wait(key: ObjectKey, message: str) -> Unschedulable:
    causes = frozenset({queue.group_changes(key)})
    return Unschedulable(of_group=message, causes=causes, is_passing=True)


class GroupPlacement:
    """Finds places for a whole group; what it finds is reserved."""

    def __init__(
        self, state: SchedulerState, chooser: NodeChooser, binder: Binder, demand: MakeDemand
    ) -> None:
        self._state, self._chooser, self._binder = state, chooser, binder
        self._demand = demand

    async def place(self, gang: Gang) -> Placed | Unschedulable:
        """Places for enough pods of the group, or why there are none."""
        greedy = await self._greedily(gang.waiting)
        if len(greedy.choices) >= gang.needed:
            return greedy
        self.release(*greedy.choices)
        found = await self._by_backtracking(gang)
        if found is None:
            return _refusal(gang, greedy)
        placed = {choice.pod.metadata.uid for choice in found}
        others = [pod for pod in gang.waiting if pod.metadata.uid not in placed]
        more = await self._greedily(others, found)
        return Placed([*found, *more.choices], more.refusals)

    async def _greedily(self, pods: Sequence[Pod], before: Sequence[NodeAssignment] = ()) -> Placed:
        choices: list[NodeAssignment] = []
        refusals: dict[ObjectKey, Unschedulable] = {}
        for pod in pods:
            demand = self._demand(pod, _shared([*before, *choices]))
            answer: NodeAssignment | Unschedulable
            answer = (
                demand if isinstance(demand, Unschedulable) else await self._chooser.choose(demand)
            )
            if isinstance(answer, Unschedulable):
                refusals[_key(pod)] = answer
            else:
                self._binder.reserve(answer)
                choices.append(answer)
        return Placed(choices, refusals)

    async def _by_backtracking(self, gang: Gang) -> list[NodeAssignment] | None:
        """Places for as many pods as needed, whatever pods come first and wherever they go."""
        pods = list(gang.waiting)
        deadline = time.perf_counter() + SEARCH_SECONDS
        for _ in pods:
            search = _Search(self, pods[: gang.needed], deadline)
            found = await search.run()
            if found is not None:
                return found
            if time.perf_counter() > deadline:
                return None
            stuck = pods.pop(search.furthest)
            pods.insert(0, stuck)
        return None

    async def alternatives(
        self, pod: Pod, before: Sequence[NodeAssignment]
    ) -> AsyncIterator[NodeAssignment]:
        """Every place for a pod beside those chosen before, the best first."""
        demand = self._demand(pod, _shared(before))
        if not isinstance(demand, Unschedulable):
            async for choice in self._chooser.all_fits(demand):
                yield choice

    def reserve(self, choice: NodeAssignment) -> None:
        self._binder.reserve(choice)

    def release(self, *choices: NodeAssignment) -> None:
        for choice in reversed(choices):
            self._binder.release(choice)


class _Search:
    """One attempt with the pods in one order: a stack of pods and the places left for each."""

    def __init__(self, places: GroupPlacement, pods: Sequence[Pod], deadline: float) -> None:
        self._places, self._pods, self._deadline = places, pods, deadline
        self.furthest = 0
        """The pod at which the best attempt ended."""

    async def run(self) -> list[NodeAssignment] | None:
        choices: list[NodeAssignment] = []
        stack: list[AsyncIterator[NodeAssignment]] = []
        while True:
            if len(choices) == len(self._pods):
                return choices
            if len(stack) == len(choices):
                pod = self._pods[len(choices)]
                stack.append(self._places.alternatives(pod, tuple(choices)))
            choice = await anext(stack[-1], None)
            if choice is not None:
                self._places.reserve(choice)
                choices.append(choice)
                continue
            self.furthest = max(self.furthest, len(choices))
            stack.pop()
            if not choices or time.perf_counter() > self._deadline:
                break
            self._places.release(choices.pop())
        self._places.release(*choices)
        return None


def _shared(choices: Sequence[NodeAssignment]) -> dict[ClaimKey, AllocationResult]:
    """What claims are about to get, for pods of the group that use the same claims."""
    return {
        pod_claims.key_of(grant.claim): grant.allocation
        for choice in choices
        for grant in choice.fitting.grants
        if grant.allocation is not None
    }


def _refusal(gang: Gang, greedy: Placed) -> Unschedulable:
    causes = {queue.group_changes(gang.key)}
    for refusal in greedy.refusals.values():
        causes |= refusal.causes
    return Unschedulable(
        of_group=gang.too_few(len(greedy.choices)),
        causes=frozenset(causes),
        claims=next((each.claims for each in greedy.refusals.values() if each.claims), ()),
        is_passing=any(each.is_passing for each in greedy.refusals.values()),
    )


def _key(pod: Pod) -> ObjectKey:
    return pod.metadata.key


async def note_scheduled(
    client: Client, group: PodGroup, now: Callable[[], datetime.datetime], message: str = ""
) -> None:
    """Note in the group's status whether it was scheduled; a success is never taken back."""
    known = next(
        (each for each in group.status.conditions if each.type == INITIALLY_SCHEDULED), None
    )
    status = "False" if message else "True"
    if known is not None and (
        known.status == "True" or (known.status, known.message) == (status, message)
    ):
        return
    condition = {
        "type": INITIALLY_SCHEDULED,
        "status": status,
        "reason": "Unschedulable" if message else "Scheduled",
        "message": message,
        "observedGeneration": group.metadata.generation,
        "lastTransitionTime": gotime.write(now()),
    }
    try:
        await client.patch(
            kinds.POD_GROUP,
            group.metadata.name,
            {"metadata": {"uid": group.metadata.uid}, "status": {"conditions": [condition]}},
            group.metadata.namespace,
            subresource="status",
            patch_type=http_messages.STRATEGIC_MERGE_PATCH,
        )
    except errors.StatusError as error:
        log.warning("status of PodGroup %s: %s", group.metadata.name, error)
