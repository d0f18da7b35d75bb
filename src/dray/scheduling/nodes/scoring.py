"""Which of the fitting nodes: scores as kube-scheduler's, and nodes kept in order of their score.

A `Ranking` belongs to one question (the needs of a pod and what its claims ask for). Every node is
either a candidate in it or has reasons against it. It is brought up to date by the logs of what
changed, so the next pod that asks the same costs one node, not all of them.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.types.dra import AllocationResult, ResourceClaim
from dray.scheduling.nodes import node_fit, pod_requirements
from dray.scheduling.nodes.node_fit import FilterReason, Nodes, NodeState, Reasons
from dray.scheduling.nodes.pod_requirements import PodRequirements

HIGHEST = 100
ALTERNATIVES_LIMIT = 8
"""FirstAvailableDeviceRequestMaxSize."""
_STEP = 128
"""Nodes to look at before others get a turn."""

# The weights of the plugins in apis/config/v1/default_plugins.go.
TAINTS_WEIGHT, AFFINITY_WEIGHT, ALTERNATIVES_WEIGHT = 3, 2, 2

Rate = Callable[[NodeState, PodRequirements], float]


def least_allocated(state: NodeState, wanted: PodRequirements) -> float:
    """Where most is left: noderesources, leastResourceScorer."""
    free = _free_portions(state, wanted)
    return sum(free) // len(free) if free else 0


def most_allocated(state: NodeState, wanted: PodRequirements) -> float:
    """Where least is left and the pod still fits."""
    free = _free_portions(state, wanted)
    return HIGHEST - sum(free) // len(free) if free else 0


def _free_portions(state: NodeState, wanted: PodRequirements) -> list[int]:
    asked = (
        ("cpu", state.scored_cpu + wanted.charge.scored_cpu),
        ("memory", state.scored_memory + wanted.charge.scored_memory),
    )
    portions = []
    for name, used in asked:
        capacity = state.allocatable.get(name, 0)
        if capacity:
            portions.append(max(capacity - used, 0) * HIGHEST // capacity)
    return portions


def preference(state: NodeState, wanted: PodRequirements) -> float:
    """What the pod prefers and what the node would rather not have."""
    assert state.node is not None
    score = 0.0
    if wanted.preference is not None:
        matched = wanted.preference(state.node.metadata.labels, state.name)
        score += AFFINITY_WEIGHT * min(matched, HIGHEST)
    taints = state.node.spec.taints
    unwelcome = wanted.untolerated(taints, pod_requirements.PREFER_NO_SCHEDULE) if taints else 0
    return score + TAINTS_WEIGHT * HIGHEST // (unwelcome + 1)


def devices_in_use(fleet: ClusterInventory, state: NodeState) -> float:
    """How much of the node's devices claims hold, from 0 to `HIGHEST`."""
    inventory = fleet.inventory(fleet.nodes[state.name])
    there = inventory.everything.bit_count()
    held = (inventory.taken | inventory.shared).bit_count()
    return held * HIGHEST / there if there else 0


def rate_for(policy: str | None, fleet: ClusterInventory) -> Rate:
    """How to score nodes where a policy is chosen, or as upstream does."""
    if policy is None:
        return lambda state, wanted: preference(state, wanted) + least_allocated(state, wanted)
    if policy == "spread":
        return lambda state, wanted: (
            preference(state, wanted)
            + least_allocated(state, wanted)
            + (HIGHEST - devices_in_use(fleet, state))
        )
    return lambda state, wanted: (
        preference(state, wanted) + most_allocated(state, wanted) + devices_in_use(fleet, state)
    )


def alternatives(pairs: Iterable[tuple[ResourceClaim, AllocationResult]]) -> int:
    """How early in their lists the alternatives of an allocation come.

    As plugins/dynamicresources, computeScore.
    """
    score = 0
    for claim, allocation in pairs:
        chosen = {result.request for result in allocation.devices.results if "/" in result.request}
        for request in claim.spec.devices.requests:
            for place, alternative in enumerate(request.first_available):
                if f"{request.name}/{alternative.name}" in chosen:
                    score += ALTERNATIVES_LIMIT - place
    return score


def have_alternatives(claims: Iterable[ResourceClaim]) -> bool:
    return any(
        request.first_available for claim in claims for request in claim.spec.devices.requests
    )


def enough_to_compare(nodes: int) -> int:
    """How many fitting nodes to compare (schedule_one.go numFeasibleNodesToFind)."""
    if nodes < 100:
        return nodes
    return max(nodes * max(50 - nodes // 125, 5) // 100, 100)


class Ranking:
    """The nodes for one question: candidates, best first, and the others with the reasons."""

    def __init__(
        self,
        nodes: Nodes,
        fleet: ClusterInventory,
        wanted: PodRequirements,
        rate: Rate,
        is_delegated: node_fit.IsDelegated,
        among: Sequence[NodeState] | None = None,
        neighbours: Callable[[NodeState], Reasons] | None = None,
    ) -> None:
        self._nodes, self._fleet, self._wanted = nodes, fleet, wanted
        self._rate, self._is_delegated, self._neighbours = rate, is_delegated, neighbours
        self._among = None if among is None else {state.index for state in among}
        self._heap: list[tuple[float, int]] = []
        self._scores: dict[int, float] = {}
        """The candidates; an entry of the heap with another score is out of date."""
        self._reasons: dict[int, Reasons] = {}
        self._seen_changes = self._seen_loosened = -1

    def catch_up(self) -> Iterator[None]:
        """Look again at the nodes that changed; yields where that takes long."""
        changed = self._changed()
        if not changed:
            return
        if changed < 0:
            self._forget()
            indexes: Iterable[int] = self._everywhere()
        else:
            indexes = _members(changed)
        for number, index in enumerate(indexes, 1):
            self._look_at(index)
            if number % _STEP == 0:
                yield
        if len(self._heap) > 4 * len(self._scores) + _STEP:
            self._heap = [(score, index) for index, score in self._scores.items()]
            heapq.heapify(self._heap)

    def best(self) -> NodeState | None:
        """The best candidate, which stays one."""
        heap = self._heap
        while heap:
            score, index = heap[0]
            if self._scores.get(index) == score:
                return self._nodes.at(index)
            heapq.heappop(heap)
        return None

    def take(self) -> NodeState | None:
        """The best candidate, which is none until `put_back`."""
        state = self.best()
        if state is not None:
            del self._scores[state.index]
        return state

    def put_back(self, states: Iterable[NodeState]) -> None:
        for state in states:
            self._rank(state)

    def score(self, state: NodeState) -> float:
        return self._rate(state, self._wanted)

    def refuse(self, state: NodeState, reasons: Reasons) -> None:
        """The node is no candidate until something changes there."""
        self._scores.pop(state.index, None)
        self._reasons[state.index] = reasons

    def reasons(self) -> Counter[FilterReason]:
        """Why nodes are no candidates, and how many are not."""
        counted: Counter[FilterReason] = Counter()
        for reasons in self._reasons.values():
            counted.update(reasons)
        return counted

    def refused(self) -> Iterator[tuple[NodeState, Reasons]]:
        for index, reasons in self._reasons.items():
            state = self._nodes.at(index)
            if state is not None:
                yield state, reasons

    def _changed(self) -> int:
        nodes, fleet = self._nodes.changes, self._fleet.relaxed_nodes
        if self._seen_changes < 0:
            changed = -1
        else:
            changed = nodes.since(self._seen_changes) | fleet.since(self._seen_loosened)
        self._seen_changes, self._seen_loosened = nodes.end(), fleet.end()
        return changed

    def _everywhere(self) -> list[int]:
        if self._among is not None:
            return sorted(self._among)
        return [state.index for state in self._nodes]

    def _forget(self) -> None:
        self._heap.clear()
        self._scores.clear()
        self._reasons.clear()

    def _look_at(self, index: int) -> None:
        self._scores.pop(index, None)
        self._reasons.pop(index, None)
        state = self._nodes.at(index)
        if state is None or (self._among is not None and index not in self._among):
            return
        reasons = node_fit.reasons_against(state, self._wanted, self._is_delegated)
        if not reasons and self._neighbours is not None:
            reasons = self._neighbours(state)
        if reasons:
            self._reasons[index] = reasons
        else:
            self._rank(state)

    def _rank(self, state: NodeState) -> None:
        score = -self._rate(state, self._wanted)
        self._scores[state.index] = score
        heapq.heappush(self._heap, (score, state.index))


def _members(indexes: int) -> Iterator[int]:
    while indexes:
        bit = indexes & -indexes
        indexes ^= bit
        yield bit.bit_length() - 1
