"""Scores of nodes as kube-scheduler computes them, and nodes kept in order of their score.

A `Ranking` belongs to one signature: the requirements of a pod and the requests of its claims.
Every node is either a candidate in it or has reasons against it. It is updated from the logs of
changed nodes, so the next pod with the same signature costs one node, not all of them.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from dray.allocator.inventory.cluster_inventory import EVERY_NODE, ClusterInventory
from dray.allocator.inventory.selector_failures import SelectorSequence
from dray.allocator.model.rejections import AllocationError
from dray.api import well_known
from dray.api.types.dra import AllocationResult, ResourceClaim
from dray.scheduling.nodes import node_fit
from dray.scheduling.nodes.node_fit import FilterReason, Nodes, NodeState, Reasons
from dray.scheduling.nodes.pod_requirements import PodRequirements

HIGHEST = 100
ALTERNATIVES_LIMIT = 8
"""FirstAvailableDeviceRequestMaxSize."""
_STEP = 128
"""Nodes to check before the caller may pause."""

# The largest node of the traces for which scores of absolute amounts were published: their unit.
LARGEST_CPU = 128_000
"""In thousandths of a core."""
LARGEST_DEVICES = 8

# The weights of the plugins in apis/config/v1/default_plugins.go.
TAINTS_WEIGHT, AFFINITY_WEIGHT, ALTERNATIVES_WEIGHT = 3, 2, 2

Rate = Callable[[NodeState, PodRequirements], float]


def least_allocated(state: NodeState, requirements: PodRequirements) -> float:
    """Score nodes with more free resources higher (noderesources, leastResourceScorer)."""
    return mean_free_portion(_left_over(state, requirements))


def most_allocated(state: NodeState, requirements: PodRequirements) -> float:
    """Score nodes with less free resources higher."""
    left_over = _left_over(state, requirements)
    return HIGHEST - mean_free_portion(left_over) if any(total for total, _ in left_over) else 0


def mean_free_portion(left_over: Iterable[tuple[int, int]]) -> int:
    """Return the mean of what is left of each resource, from 0 to `HIGHEST`.

    Each resource is its capacity and what is left of it; one without capacity does not count.
    """
    portions = resources = 0
    for total, left in left_over:
        if total:
            resources += 1
            if left > 0:
                portions += left * HIGHEST // total
    return portions // resources if resources else 0


def _left_over(state: NodeState, requirements: PodRequirements) -> Sequence[tuple[int, int]]:
    """Return capacity and rest of CPU and memory with the pod on the node."""
    cpu, memory = state.allocatable.get("cpu", 0), state.allocatable.get("memory", 0)
    usage = requirements.usage
    return (
        (cpu, cpu - state.scored_cpu - usage.scored_cpu),
        (memory, memory - state.scored_memory - usage.scored_memory),
    )


def preference(state: NodeState, requirements: PodRequirements) -> float:
    """Score preferred node affinity, and taints with effect PreferNoSchedule."""
    assert state.node is not None
    score = 0.0
    if requirements.preference is not None:
        matched = requirements.preference(state.node.metadata.labels, state.name)
        score += AFFINITY_WEIGHT * min(matched, HIGHEST)
    taints = state.node.spec.taints
    untolerated = requirements.untolerated(taints, well_known.PREFER_NO_SCHEDULE) if taints else 0
    return score + TAINTS_WEIGHT * HIGHEST // (untolerated + 1)


def by_default(state: NodeState, requirements: PodRequirements) -> float:
    """Score nodes as kube-scheduler does."""
    return preference(state, requirements) + least_allocated(state, requirements)


def least_left_over(cpu: float, devices: float) -> float:
    """Score nodes with less left over higher; CPU and devices are portions of the largest node."""
    return HIGHEST * (1 - (cpu * 0.5 + devices * 0.5))


def cpu_left(state: NodeState, requirements: PodRequirements) -> int:
    """Return the CPU that is left with the pod on the node, in thousandths."""
    (_, left), _ = _left_over(state, requirements)
    return left


def devices_in_use(inventory: ClusterInventory, state: NodeState) -> float:
    """Return the share of the node's devices that claims hold, from 0 to `HIGHEST`."""
    try:
        on_node = inventory.inventory(inventory.nodes[state.name])
    except AllocationError:
        # A slice with an invalid selector: whether a pod can run there is not for the score to say.
        return 0
    total = on_node.everything.bit_count()
    in_use = (on_node.taken | on_node.shared).bit_count()
    return in_use * HIGHEST / total if total else 0


def alternatives(pairs: Iterable[tuple[ResourceClaim, AllocationResult]]) -> int:
    """Score how early in its list each allocated alternative is.

    https://github.com/kubernetes/kubernetes/blob/release-1.37/pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go
    (computeScore)
    """
    score = 0
    for claim, allocation in pairs:
        chosen = {result.request for result in allocation.devices.results if "/" in result.request}
        for request in claim.spec.devices.requests:
            for position, alternative in enumerate(request.first_available):
                if f"{request.name}/{alternative.name}" in chosen:
                    score += ALTERNATIVES_LIMIT - position
    return score


def have_alternatives(claims: Iterable[ResourceClaim]) -> bool:
    return any(
        request.first_available for claim in claims for request in claim.spec.devices.requests
    )


class Ranking:
    """The nodes for one signature: candidates, best first, and the others with the reasons."""

    def __init__(
        self,
        nodes: Nodes,
        inventory: ClusterInventory,
        requirements: PodRequirements,
        rate: Rate,
        is_delegated: node_fit.IsDelegated,
        among: Sequence[NodeState] | None = None,
        affinity: Callable[[NodeState], Reasons] | None = None,
    ) -> None:
        self._nodes, self._inventory, self._requirements = nodes, inventory, requirements
        self._rate, self._is_delegated, self._affinity = rate, is_delegated, affinity
        self._among = None if among is None else {state.index for state in among}
        self.selectors: Sequence[SelectorSequence] | None = None
        """The selectors of the devices that the pods need, once they are known."""
        self._heap: list[tuple[float, str, int]] = []
        """By score, and nodes with equal scores by name."""
        self._scores: dict[int, float] = {}
        """The candidates with their scores. Heap entries with another score are out of date."""
        self._reasons: dict[int, Reasons] = {}
        self._counted_reasons: Counter[FilterReason] = Counter()
        """As many as are in `_reasons`: most attempts that fail differ from the last by no node."""
        self._changes_cursor = self._relaxed_cursor = -1

    def update(self) -> Iterator[None]:
        """Check again the nodes that changed. Yields where the caller may pause."""
        changes, relaxed = self._nodes.changes, self._inventory.relaxed_nodes
        cursors = changes.end(), relaxed.end()
        changed = self._changed()
        if changed < 0:
            self._clear()
            indexes: Iterable[int] = self._all_indexes()
        else:
            indexes = _members(changed)
        for number, index in enumerate(indexes, 1):
            self._check(index)
            if number % _STEP == 0:
                yield
        # Not before the end: an update that is abandoned half-way has to be done again.
        self._changes_cursor, self._relaxed_cursor = cursors
        # Out-of-date entries stay in the heap until they surface; rebuild it before they dominate.
        if len(self._heap) > 4 * len(self._scores) + _STEP:
            self._heap = [*{entry for entry in self._heap if self._is_current(entry)}]
            heapq.heapify(self._heap)

    def best(self) -> NodeState | None:
        """Return the best candidate, which stays one; None without candidates."""
        heap = self._heap
        while heap:
            if self._is_current(heap[0]):
                return self._nodes.at(heap[0][2])
            heapq.heappop(heap)
        return None

    def take(self) -> NodeState | None:
        """Remove and return the best candidate, until `put_back`; None without candidates."""
        state = self.best()
        if state is not None:
            del self._scores[state.index]
        return state

    def put_back(self, states: Iterable[NodeState]) -> None:
        for state in states:
            self._rank(state)

    def candidates(self, among: int = EVERY_NODE) -> list[NodeState]:
        """Return the candidates that are in a set of nodes, in the order of the nodes."""
        indexes = sorted(self._scores) if among == EVERY_NODE else _members(among)
        found = [self._nodes.at(index) for index in indexes if index in self._scores]
        return [state for state in found if state is not None]

    def score(self, state: NodeState) -> float:
        return self._rate(state, self._requirements)

    def reject(self, state: NodeState, reasons: Reasons) -> None:
        """Remove a candidate until something changes on its node."""
        self._scores.pop(state.index, None)
        self._set_reasons(state.index, reasons)

    def reasons(self) -> Counter[FilterReason]:
        """Count the nodes that are no candidates by reason."""
        return +self._counted_reasons

    def rejected_count(self) -> int:
        return len(self._reasons)

    def rejected(self) -> Iterator[tuple[NodeState, Reasons]]:
        """Yield the nodes that are no candidates, with the reasons."""
        for index, reasons in self._reasons.items():
            state = self._nodes.at(index)
            if state is not None:
                yield state, reasons

    def _changed(self) -> int:
        """Return the indexes of changed nodes as a bit set; negative if all may have changed."""
        if self._changes_cursor < 0:
            return -1
        changed = self._nodes.changes.since(self._changes_cursor)
        return changed | self._inventory.relaxed_nodes.since(self._relaxed_cursor)

    def _all_indexes(self) -> list[int]:
        if self._among is not None:
            return sorted(self._among)
        return [state.index for state in self._nodes]

    def _clear(self) -> None:
        self._heap.clear()
        self._scores.clear()
        self._reasons.clear()
        self._counted_reasons.clear()

    def _set_reasons(self, index: int, reasons: Reasons) -> None:
        if (before := self._reasons.pop(index, None)) is not None:
            self._counted_reasons.subtract(before)
        if reasons:
            self._reasons[index] = reasons
            self._counted_reasons.update(reasons)

    def _check(self, index: int) -> None:
        self._scores.pop(index, None)
        self._set_reasons(index, ())
        state = self._nodes.at(index)
        if state is None or (self._among is not None and index not in self._among):
            return
        reasons = node_fit.reasons_against(state, self._requirements, self._is_delegated)
        if not reasons and self._affinity is not None:
            reasons = self._affinity(state)
        if reasons:
            self._set_reasons(index, reasons)
        else:
            self._rank(state)

    def _rank(self, state: NodeState) -> None:
        score = -self._rate(state, self._requirements)
        self._scores[state.index] = score
        heapq.heappush(self._heap, (score, state.order, state.index))

    def _is_current(self, entry: tuple[float, str, int]) -> bool:
        score, order, index = entry
        state = self._nodes.at(index)
        # The index may be that of another node by now.
        return self._scores.get(index) == score and state is not None and state.order == order


def _members(indexes: int) -> Iterator[int]:
    while indexes:
        bit = indexes & -indexes
        indexes ^= bit
        yield bit.bit_length() - 1
