"""The allocator: find devices for claims on a node, or on the first node where they fit.

The pods of one Deployment need the same devices, so results are cached by signature and node. A
negative result is valid until the node is relaxed (`ClusterInventory.relaxed_nodes`): other changes
only take devices away. A positive one is valid while the node's inventory and its holders stay as
they are. Devices found on a node are found by their numbers on every node of its class where the
same devices are taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

from dray.allocator.inventory.cluster_inventory import EVERY_NODE, ClusterInventory, NodeEntry
from dray.allocator.inventory.node_classes import NodeClass
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.inventory.selector_failures import SelectorSequence
from dray.allocator.model import rejections, requests
from dray.allocator.model.rejections import AllocationError, Rejection
from dray.allocator.model.requests import Signature
from dray.allocator.problem import node_problem, resolution
from dray.allocator.problem.node_problem import NodeProblem
from dray.allocator.problem.resolution import ResolvedClaim, ResolvedRequest
from dray.allocator.search import check_sequence, first_descent, infeasibility, results
from dray.allocator.search.backtracking import Search
from dray.allocator.search.device_order import Order
from dray.allocator.search.first_descent import DescentOutcome
from dray.allocator.search.results import RememberedResult
from dray.api.types.dra import ALLOCATION_RESULTS_MAX_SIZE, AllocationResult, ResourceClaim

_SIGNATURES_LIMIT = 4096
_PROBLEMS_LIMIT = 4096
_RESULTS_LIMIT = 1 << 17
_SOLUTIONS_LIMIT = 1 << 14


class NoFit(NamedTuple):
    """The claims do not fit on a node."""

    reason: Rejection
    failure: AllocationError | None = None
    """Upstream's error, where it ends the search of a node with one."""


class Fit(NamedTuple):
    """The claims fit on a node: one allocation for each. Nothing is recorded yet."""

    node: str
    allocations: Sequence[AllocationResult]


FitResult = Fit | NoFit


class _CachedResult(NamedTuple):
    """A result and the state of the node that it is valid for."""

    inventory: NodeInventory
    version: int
    result: FitResult


class _Refusal(NamedTuple):
    """A problem that has no solution, and the search that has shown it, if one was necessary."""

    problem: NodeProblem
    search: Search | None


class _SignatureCache:
    """Everything cached for one signature."""

    def __init__(
        self, signature: Signature, claims: Sequence[ResolvedClaim], cluster: ClusterInventory
    ) -> None:
        self.claims = claims
        self.alike = _alike(signature, claims)
        self.selectors = _selectors_of(claims)
        self.skips_full_nodes = _needs_free_device(claims)
        """Whether a node without a free device cannot serve the claims, nor raise an error."""
        self.candidate_nodes = cluster.existing_nodes
        """The nodes without a negative result since they were last relaxed."""
        self.cursor = cluster.relaxed_nodes.end()
        self.last_rejection = NoFit(rejections.NoDevices())
        """Why the claims did not fit on the last node that was searched."""
        self.problems: dict[int, NodeProblem] = {}
        self.results: dict[int, _CachedResult] = {}

    def sync(self, cluster: ClusterInventory) -> None:
        end = cluster.relaxed_nodes.end()
        if self.cursor != end:
            changed = cluster.relaxed_nodes.since(self.cursor)
            self.candidate_nodes = (
                cluster.existing_nodes if changed == EVERY_NODE else self.candidate_nodes | changed
            )
            self.cursor = end


_SolutionKey = tuple[_SignatureCache, NodeClass, int]
"""Claims, a class of nodes, and which of their devices are taken."""


class Allocator:
    """Finds devices for claims in one cluster; does not record what it finds.

    With `of_several_pods`, many claims may have equal specs, and the search makes use of that.
    Answers are the same; the reason why there is no fit may be another one.
    """

    def __init__(
        self,
        cluster: ClusterInventory,
        *,
        new_share_id: Callable[[], str],
        order: Order | None = None,
        should_stop: Callable[[], bool] | None = None,
        of_several_pods: bool = False,
    ) -> None:
        self._cluster = cluster
        self._new_share_id = new_share_id
        self._order = order
        self._should_stop = should_stop
        self._of_several_pods = of_several_pods
        self._epoch = cluster.epoch
        self._caches: dict[Signature, _SignatureCache] = {}
        self._problem_count = 0
        self._result_count = 0
        self._solutions: dict[_SolutionKey, Sequence[RememberedResult]] = {}

    def allocate_on(self, claims: Sequence[ResourceClaim], node: str) -> FitResult:
        """Return whether the claims fit on a node.

        Raises AllocationError if they cannot be evaluated there.
        """
        cache = self._cache(claims)
        entry = self._cluster.nodes[node]
        inventory = self._cluster.inventory(entry)
        cached = cache.results.get(entry.index)
        if cached and cached.inventory is inventory and cached.version == inventory.version:
            return cached.result
        outcome = self._attempt(cache, entry, inventory)
        result = outcome if isinstance(outcome, Fit) else self._no_fit(cache, outcome)
        if not (isinstance(result, Fit) and _watches_shares(result)):
            if self._result_count >= _RESULTS_LIMIT:
                self._drop_results()
            cache.results[entry.index] = _CachedResult(inventory, inventory.version, result)
            self._result_count += 1
        return result

    def alternatives_on(self, claims: Sequence[ResourceClaim], node: str) -> Iterator[Fit]:
        """Yield the ways in which the claims fit on a node, first that of `allocate_on`.

        Ways that differ only by equal devices are one. Devices that are taken after one of them
        have to be released before the next. Raises AllocationError as `allocate_on`.
        """
        cache = self._cache(claims)
        entry = self._cluster.nodes[node]
        inventory = self._cluster.inventory(entry)
        # A problem of its own: between two solutions, its constraints know the devices of one.
        problem = node_problem.build(inventory, cache.claims, self._cluster.selectors)
        search = Search(problem, order=self._order, should_stop=self._should_stop)
        seen: set[Hashable] = set()
        for solution in search.solutions():
            fit = Fit(node, results.build(problem, solution, self._new_share_id))
            key = tuple(map(_devices_of, fit.allocations))
            if key not in seen:
                seen.add(key)
                yield fit
                self._cluster.inventory(entry)

    def first_fit(self, claims: Sequence[ResourceClaim], start: int = 0) -> FitResult:
        """Return the first fit, beginning with the `start`-th node and then from the first one.

        Without a fit, return why the claims do not fit on the last node that was searched. Raises
        AllocationError as soon as the claims cannot be evaluated on a node.
        """
        cluster = self._cluster
        cache = self._cache(claims)
        cache.sync(cluster)
        # Sets of nodes are integers: one operation excludes any number of nodes.
        nodes = cluster.existing_nodes & cache.candidate_nodes
        if cache.skips_full_nodes:
            nodes &= cluster.nodes_with_free_devices
        later = nodes >> start << start if start else nodes
        fit = self._first_fit(cache, later)
        if fit is None and nodes != later:
            fit = self._first_fit(cache, nodes ^ later)
        return fit or cache.last_rejection

    def _first_fit(self, cache: _SignatureCache, nodes: int) -> Fit | None:
        cluster = self._cluster
        refusal: _Refusal | None = None
        while nodes:
            bit = nodes & -nodes
            entry = cluster.by_index[bit.bit_length() - 1]
            assert entry is not None, "a node that is present has an entry"
            inventory = cluster.inventory(entry)
            # A full node is excluded for all signatures at once, until a device is released there.
            if cache.skips_full_nodes and not inventory.everything & ~inventory.taken:
                cluster.nodes_with_free_devices ^= bit
            else:
                outcome = self._attempt(cache, entry, inventory)
                if isinstance(outcome, Fit):
                    return outcome
                refusal = outcome
            nodes ^= bit
            # Not searched again until a change relaxes the node: a Deployment of a thousand pods
            # that do not fit searches every node once.
            cache.candidate_nodes ^= bit
        if refusal is not None:
            cache.last_rejection = self._no_fit(cache, refusal)
        return None

    def selectors_of(self, claims: Sequence[ResourceClaim]) -> Sequence[SelectorSequence]:
        """Return the selectors of every alternative of the claims, without repetitions.

        On nodes where none of them fails (`ClusterInventory.selector_failures`), `allocate_on`
        raises no error of a selector.
        """
        return self._cache(claims).selectors

    def problem(self, claims: Sequence[ResourceClaim], node: str) -> NodeProblem:
        """Return the search problem of the claims on a node, to run checks one by one."""
        entry = self._cluster.nodes[node]
        return self._problem(self._cache(claims), entry, self._cluster.inventory(entry))

    def _attempt(
        self, cache: _SignatureCache, entry: NodeEntry, inventory: NodeInventory
    ) -> Fit | _Refusal:
        key = None
        # What is left of a shared device is not known from the set of those that are taken.
        if inventory.node_class is not None and not inventory.shared and self._order is None:
            key = (cache, inventory.node_class, inventory.taken)
            remembered = self._solutions.get(key)
            if remembered is not None:
                check_sequence.raise_if_out_of_time(self._should_stop)
                alike = results.build_alike(remembered, inventory, self._new_share_id)
                return Fit(entry.name, alike)
        problem = self._problem(cache, entry, inventory)
        found = first_descent.descend(problem, self._order, self._should_stop)
        search: Search | None = None
        if found is DescentOutcome.UNDECIDED:
            search = self._search(cache, problem)
            found = search.run() or DescentOutcome.IMPOSSIBLE
        if isinstance(found, DescentOutcome):
            return _Refusal(problem, search)
        allocations = results.build(problem, found, self._new_share_id)
        if key is not None:
            if len(self._solutions) >= _SOLUTIONS_LIMIT:
                self._solutions.clear()
            self._solutions[key] = results.remember(inventory, found, allocations)
        return Fit(entry.name, allocations)

    def _no_fit(self, cache: _SignatureCache, refusal: _Refusal) -> NoFit:
        problem, search = refusal
        failure = None
        if any(pool.invalid_reason for pool in problem.inventory.pools):
            detail = "invalid resource pools were encountered"
            failure = AllocationError(detail, on_node_only=True)
        # A proof names what is missing; the search only knows where its deepest attempt ended.
        reason: Rejection | None = infeasibility.find_infeasibility(problem)
        if reason is None and search is None:
            search = self._search(cache, problem)
            search.run()
        reason = reason or (search and search.rejection) or rejections.NoDevices()
        return NoFit(reason, failure)

    def _search(self, cache: _SignatureCache, problem: NodeProblem) -> Search:
        alike = cache.alike if self._of_several_pods else ()
        return Search(problem, order=self._order, should_stop=self._should_stop, alike=alike)

    def _cache(self, claims: Sequence[ResourceClaim]) -> _SignatureCache:
        if self._epoch != self._cluster.epoch or len(self._caches) >= _SIGNATURES_LIMIT:
            self._caches.clear()
            self._solutions.clear()
            self._epoch = self._cluster.epoch
            self._problem_count = self._result_count = 0
        # Names are not part of the key: claims from one template share everything cached here.
        key = requests.signature(claims)
        cache = self._caches.get(key)
        if cache is None:
            cache = self._caches[key] = self._new_cache(key, claims)
        return cache

    def _new_cache(self, signature: Signature, claims: Sequence[ResourceClaim]) -> _SignatureCache:
        cluster = self._cluster
        parsed = [requests.parse_claim(claim.spec.devices) for claim in claims]
        resolved = resolution.resolve(parsed, cluster.classes, cluster.selectors, cluster.features)
        return _SignatureCache(signature, resolved, cluster)

    def _problem(
        self, cache: _SignatureCache, entry: NodeEntry, inventory: NodeInventory
    ) -> NodeProblem:
        problem = cache.problems.get(entry.index)
        if problem is None or problem.inventory is not inventory:
            problem = node_problem.build(inventory, cache.claims, self._cluster.selectors)
            if self._problem_count >= _PROBLEMS_LIMIT:
                self._drop_problems()
            cache.problems[entry.index] = problem
            self._problem_count += 1
        return problem

    def _drop_problems(self) -> None:
        for cache in self._caches.values():
            cache.problems.clear()
        self._problem_count = 0

    def _drop_results(self) -> None:
        for cache in self._caches.values():
            cache.results.clear()
        self._result_count = 0


def _watches_shares(fit: Fit) -> bool:
    """Return whether shares are given for admin access.

    Each has an ID of its own, but nothing shows that it was given: the device has room as before.
    """
    return any(
        result.admin_access and result.share_id is not None
        for allocation in fit.allocations
        for result in allocation.devices.results
    )


def _devices_of(allocation: AllocationResult) -> Hashable:
    """Return a key that is equal for allocations of the same devices, whatever the request."""
    taken = Counter(
        (result.device_id, result.admin_access, frozenset(result.consumed_capacity.items()))
        for result in allocation.devices.results
    )
    return frozenset(taken.items())


def _alike(signature: Signature, claims: Sequence[ResolvedClaim]) -> frozenset[int]:
    """Return the only requests of claims that have the same spec as the claim before."""
    found: set[int] = set()
    requests = 0
    for number, claim in enumerate(claims):
        if number and len(claim.requests) == 1 and signature[number] == signature[number - 1]:
            found.add(requests)
        requests += len(claim.requests)
    return frozenset(found)


def _selectors_of(claims: Sequence[ResolvedClaim]) -> list[SelectorSequence]:
    sequences = {
        tuple(located.selector for located in alternative.selectors): None
        for claim in claims
        for alternative in claim.alternatives()
        if alternative.selectors
    }
    return list(sequences)


def _needs_free_device(claims: Sequence[ResolvedClaim]) -> bool:
    """Return whether a node without a free device rejects the claims and raises no error."""
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
        and resolved.parsed.count > 0
        and not resolved.parsed.is_all
        and not resolved.parsed.admin_access
        for resolved in request.alternatives
    )
