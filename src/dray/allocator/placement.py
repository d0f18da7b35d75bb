"""Which node: remembers each node's answer to a question until that node changes.

The pods of one Deployment ask the same question, so answers are kept per signature. A no stands
until the node is loosened (`fleet`): taking devices never makes room. A yes stands as long as the
node's inventory and what claims hold of it stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dray.allocator.inventory.cluster_inventory import EVERY_NODE, ClusterInventory, NodeEntry
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model import rejections, requests
from dray.allocator.model.rejections import AllocationError, Rejection
from dray.allocator.model.requests import Signature
from dray.allocator.problem import node_problem, resolution
from dray.allocator.problem.node_problem import NodeProblem
from dray.allocator.problem.resolution import ResolvedClaim, ResolvedRequest
from dray.allocator.search import infeasibility, results
from dray.allocator.search.backtracking import Search
from dray.allocator.search.device_order import Order
from dray.api.types.dra import ALLOCATION_RESULTS_MAX_SIZE, AllocationResult, ResourceClaim

_SIGNATURES_LIMIT = 4096
_PROBLEMS_LIMIT = 4096
_ANSWERS_LIMIT = 1 << 17


class NoFit(NamedTuple):
    """The claims do not fit on a node."""

    reason: Rejection
    failure: AllocationError | None = None
    """What upstream says where it gives up on a node with an error."""


class Fit(NamedTuple):
    """The claims fit on a node: one allocation for each, to be written or dropped by the caller."""

    node: str
    allocations: Sequence[AllocationResult]


FitResult = Fit | NoFit


class _CachedResult(NamedTuple):
    """An answer and the state of the node that it was given for."""

    inventory: NodeInventory
    version: int
    answer: FitResult


class _SignatureCache:
    """What is known about one question."""

    __slots__ = ("answers", "claims", "cursor", "open", "problems", "refusal", "skips_full_nodes")

    def __init__(self, claims: Sequence[ResolvedClaim], fleet: ClusterInventory) -> None:
        self.claims = claims
        self.skips_full_nodes = _needs_free_device(claims)
        """A node without a free device can only say no."""
        self.open = fleet.existing_nodes
        """The nodes that have not said no since they were last loosened."""
        self.cursor = fleet.relaxed_nodes.end()
        self.refusal = NoFit(rejections.NoDevices())
        """Why the claims did not fit on the last node that was asked."""
        self.problems: dict[int, NodeProblem] = {}
        self.answers: dict[int, _CachedResult] = {}

    def catch_up(self, fleet: ClusterInventory) -> None:
        end = fleet.relaxed_nodes.end()
        if self.cursor != end:
            changed = fleet.relaxed_nodes.since(self.cursor)
            self.open = fleet.existing_nodes if changed == EVERY_NODE else self.open | changed
            self.cursor = end


class Allocator:
    """Answers questions about one fleet."""

    def __init__(
        self,
        fleet: ClusterInventory,
        *,
        new_share_id: Callable[[], str],
        order: Order | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> None:
        self._fleet = fleet
        self._new_share_id = new_share_id
        self._order = order
        self._should_stop = should_stop
        self._epoch = fleet.epoch
        self._records: dict[Signature, _SignatureCache] = {}
        self._problems = 0
        self._answers = 0

    def allocate_on(self, claims: Sequence[ResourceClaim], node: str) -> FitResult:
        """Whether the claims fit on a node; raises Failure if they cannot be allocated at all."""
        record = self._record(claims)
        entry = self._fleet.nodes[node]
        inventory = self._fleet.inventory(entry)
        known = record.answers.get(entry.index)
        if known and known.inventory is inventory and known.version == inventory.version:
            return known.answer
        attempt = self._attempt(record, entry, inventory)
        answer = self._fit(attempt) or _refused(attempt)
        if self._answers >= _ANSWERS_LIMIT:
            self._forget_answers()
        record.answers[entry.index] = _CachedResult(inventory, inventory.version, answer)
        self._answers += 1
        return answer

    def first_fit(self, claims: Sequence[ResourceClaim], start: int = 0) -> FitResult:
        """The first node on which the claims fit, in order from the `start`-th node on.

        Where there is none, why the last node that was asked says no. Raises Failure as soon as a
        node shows that the claims cannot be allocated at all.
        """
        fleet = self._fleet
        record = self._record(claims)
        record.catch_up(fleet)
        nodes = fleet.existing_nodes & record.open
        if record.skips_full_nodes:
            nodes &= fleet.nodes_with_free_devices
        later = nodes >> start << start if start else nodes
        fit = self._first_fit(record, later)
        if fit is None and nodes != later:
            fit = self._first_fit(record, nodes ^ later)
        return fit or record.refusal

    def _first_fit(self, record: _SignatureCache, nodes: int) -> Fit | None:
        fleet = self._fleet
        attempt: Search | None = None
        while nodes:
            bit = nodes & -nodes
            entry = fleet.by_index[bit.bit_length() - 1]
            assert entry is not None, "a node that is present has an entry"
            inventory = fleet.inventory(entry)
            if record.skips_full_nodes and not inventory.everything & ~inventory.taken:
                fleet.nodes_with_free_devices ^= bit
            else:
                attempt = self._attempt(record, entry, inventory)
                fit = self._fit(attempt)
                if fit is not None:
                    return fit
            nodes ^= bit
            record.open ^= bit
        if attempt is not None:
            record.refusal = _refused(attempt)
        return None

    def problem(self, claims: Sequence[ResourceClaim], node: str) -> NodeProblem:
        """The claims on a node as the checks see them, for whoever wants every verdict."""
        entry = self._fleet.nodes[node]
        return self._problem(self._record(claims), entry, self._fleet.inventory(entry))

    def _attempt(
        self, record: _SignatureCache, entry: NodeEntry, inventory: NodeInventory
    ) -> Search:
        problem = self._problem(record, entry, inventory)
        return Search(problem, order=self._order, should_stop=self._should_stop)

    def _fit(self, attempt: Search) -> Fit | None:
        solution = attempt.run()
        if solution is None:
            return None
        problem = attempt.problem
        allocations = results.build(problem, solution, self._new_share_id)
        return Fit(problem.inventory.node.metadata.name, allocations)

    def _record(self, claims: Sequence[ResourceClaim]) -> _SignatureCache:
        if self._epoch != self._fleet.epoch or len(self._records) >= _SIGNATURES_LIMIT:
            self._records.clear()
            self._epoch = self._fleet.epoch
            self._problems = self._answers = 0
        key = requests.signature(claims)
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = self._new_record(claims)
        return record

    def _new_record(self, claims: Sequence[ResourceClaim]) -> _SignatureCache:
        fleet = self._fleet
        parsed = [requests.parse_claim(claim.spec.devices) for claim in claims]
        resolved = resolution.resolve(parsed, fleet.classes, fleet.selectors, fleet.features)
        return _SignatureCache(resolved, fleet)

    def _problem(
        self, record: _SignatureCache, entry: NodeEntry, inventory: NodeInventory
    ) -> NodeProblem:
        problem = record.problems.get(entry.index)
        if problem is None or problem.inventory is not inventory:
            problem = node_problem.build(inventory, record.claims, self._fleet.selectors)
            if self._problems >= _PROBLEMS_LIMIT:
                self._forget_problems()
            record.problems[entry.index] = problem
            self._problems += 1
        return problem

    def _forget_problems(self) -> None:
        for record in self._records.values():
            record.problems.clear()
        self._problems = 0

    def _forget_answers(self) -> None:
        for record in self._records.values():
            record.answers.clear()
        self._answers = 0


def _refused(attempt: Search) -> NoFit:
    problem = attempt.problem
    failure = None
    if any(pool.invalid_reason for pool in problem.inventory.pools):
        failure = AllocationError("invalid resource pools were encountered", on_node_only=True)
    reason = infeasibility.find_infeasibility(problem) or attempt.refusal or rejections.NoDevices()
    return NoFit(reason, failure)


def _needs_free_device(claims: Sequence[ResolvedClaim]) -> bool:
    """Whether a node without a free device says no, and not that something is wrong."""
    if not any(claim.requests for claim in claims):
        return False
    return all(
        claim.failure is None
        and all(_takes_free_devices(request) for request in claim.requests)
        and claim.least_devices() <= ALLOCATION_RESULTS_MAX_SIZE
        for claim in claims
    )


def _takes_free_devices(request: ResolvedRequest) -> bool:
    return request.failure is None and all(
        resolved.failure is None
        and resolved.option.count > 0
        and not resolved.option.is_all
        and not resolved.option.admin_access
        for resolved in request.options
    )
