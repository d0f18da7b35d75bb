"""Survey all nodes once: the funnel of every request, and the first shortfall of each node.

Of equivalent nodes, the first is evaluated. Nodes with equally many devices after every filter have
one profile; a few nodes of each profile are kept, so that suggestions need not be tried on the
whole cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model import rejections
from dray.allocator.problem.node_problem import NodeRequest
from dray.allocator.problem.resolution import ResolvedClaim
from dray.api.ids import PoolId
from dray.api.semantics import pools
from dray.explain.survey import equivalence
from dray.explain.survey.equivalence import EquivalenceClass, EquivalentNode
from dray.explain.survey.filters import DeviceFilter, NodeFilters
from dray.explain.survey.funnel import Funnel, FunnelBuilder, NodeFunnel

EXAMPLES_KEPT = 3
REPRESENTATIVES_KEPT = 64
_PROFILES_KEPT = 1024

RequestKey = tuple[int, str]
"""The position of a claim and the name of its request."""

Profile = tuple[tuple[int, ...], ...]


class NodeShortfall(NamedTuple):
    """The first request that a node cannot serve, and the filter that leaves too few devices.

    Without a filter, the node has no usable device at all.
    """

    claim: int
    request: str
    filter: DeviceFilter | None
    depth: int


class UnusablePool(msgspec.Struct, frozen=True):
    """A pool that is not used: its slices are being updated, or contradict each other."""

    pool: PoolId
    invalid_reason: str
    """Empty for an incomplete pool."""
    slices: int
    expected_slices: int
    nodes: int


class UnservedRequests(NamedTuple):
    """A node, and the requests that it cannot serve even by themselves."""

    node: str
    blocked: frozenset[RequestKey]


class Survey(NamedTuple):
    funnels: tuple[Funnel, ...]
    evaluated_nodes: list[str]
    """The nodes whose inventory could be built."""
    groups: list[EquivalenceClass]
    """The same nodes in equivalence classes."""
    shortfalls: dict[NodeShortfall, list[str]]
    """The first few nodes of each shortfall."""
    counts: Counter[NodeShortfall]
    undecided_nodes: list[str]
    """Nodes that could serve each request by itself; a search decides about all together."""
    unusable: tuple[UnusablePool, ...]
    representatives: tuple[UnservedRequests, ...]
    """The nodes that suggestions are tried on, those closest to success first."""

    def undecided_groups(self) -> list[EquivalenceClass]:
        undecided = set(self.undecided_nodes)
        return [group for group in self.groups if group[0].node in undecided]


def survey_nodes(
    cluster: ClusterInventory, nodes: Sequence[str], claims: Sequence[ResolvedClaim]
) -> Survey:
    surveyor = _Surveyor(cluster, claims)
    results: dict[str, tuple[EquivalentNode, _NodeResult]] = {}
    paths = equivalence.paths_read(claims, cluster.features)
    for group in equivalence.group_nodes(cluster, nodes, paths):
        result = surveyor.examine(group)
        if result is not None:
            results.update((member.node, (member, result)) for member in group)
    for node in nodes:
        if node in results:
            surveyor.record(*results[node])
    return surveyor.survey()


class _Candidate(NamedTuple):
    rank: tuple[int, int, int]
    unserved: UnservedRequests


class _NodeResult(NamedTuple):
    """The result for every node of an equivalence class."""

    node_funnels: Sequence[tuple[RequestKey, NodeFunnel]]
    shortfall: NodeShortfall | None
    """The first one."""
    blocked: frozenset[RequestKey]
    names_matter: bool
    """Whether equivalent nodes differ in something that is counted by name: holders, pools."""
    first: EquivalentNode


class _Surveyor:
    def __init__(self, cluster: ClusterInventory, claims: Sequence[ResolvedClaim]) -> None:
        self._cluster = cluster
        self._claims = claims
        self._builders: dict[RequestKey, FunnelBuilder] = {}
        self._evaluated_nodes: list[str] = []
        self._groups: list[EquivalenceClass] = []
        self._examples: dict[NodeShortfall, list[str]] = {}
        self._counts: Counter[NodeShortfall] = Counter()
        self._undecided_nodes: list[str] = []
        self._unusable: Counter[tuple[PoolId, str]] = Counter()
        self._profiles: dict[Profile, list[_Candidate]] = {}

    def examine(self, group: EquivalenceClass) -> _NodeResult | None:
        """Evaluate the nodes of an equivalence class; return None if a slice is invalid."""
        try:
            inventory = self._inventory(group[0].node)
        except rejections.AllocationError:
            return None
        self._groups.append(group)
        node_filters = NodeFilters(inventory, self._claims, self._cluster.selectors)
        requests, nodes = node_filters.requests, len(group)
        by_request = [self._add_to_funnels(node_filters, request, nodes) for request in requests]
        shortfalls = []
        for request, of_request in zip(requests, by_request, strict=True):
            shortfall = _shortfall(inventory, request, [funnel for _, funnel in of_request])
            if shortfall is not None:
                shortfalls.append(shortfall)
        node_funnels = [entry for of_request in by_request for entry in of_request]
        is_held = any(node_funnel.lost_to_holders for _, node_funnel in node_funnels)
        names_matter = is_held or not all(pool.is_usable for pool in inventory.pools)
        blocked = frozenset((short.claim, _parent(short.request)) for short in shortfalls)
        first = shortfalls[0] if shortfalls else None
        return _NodeResult(node_funnels, first, blocked, names_matter, group[0])

    def record(self, member: EquivalentNode, result: _NodeResult) -> None:
        """Record the result of one node; called in the order of the cluster."""
        node = member.node
        self._evaluated_nodes.append(node)
        if result.names_matter:
            self._record_names(member, result)
        if result.shortfall is None:
            self._undecided_nodes.append(node)
        else:
            self._counts[result.shortfall] += 1
            examples = self._examples.setdefault(result.shortfall, [])
            if len(examples) < EXAMPLES_KEPT:
                examples.append(node)
        self._record_profile(node, result)

    def survey(self) -> Survey:
        funnels = tuple(builder.finish() for builder in self._builders.values())
        counted_pools = self._unusable.items()
        unusable = tuple(self._describe_pool(*pool, nodes) for pool, nodes in counted_pools)
        return Survey(
            funnels,
            self._evaluated_nodes,
            self._groups,
            self._examples,
            self._counts,
            self._undecided_nodes,
            unusable,
            self._representatives(),
        )

    def _inventory(self, node: str) -> NodeInventory:
        return self._cluster.inventory(self._cluster.nodes[node])

    def _add_to_funnels(
        self, node_filters: NodeFilters, request: NodeRequest, nodes: int
    ) -> list[tuple[RequestKey, NodeFunnel]]:
        node_funnels = []
        for alternative in request.alternatives:
            key = alternative.resolved.key
            builder = self._builders.get(key)
            if builder is None:
                builder = self._builders[key] = FunnelBuilder(alternative)
            node_funnels.append((key, builder.add(node_filters, alternative, nodes)))
        return node_funnels

    def _record_names(self, member: EquivalentNode, result: _NodeResult) -> None:
        if member is result.first:
            self._record_pools(self._inventory(member.node))
        for key, node_funnel in result.node_funnels:
            builder = self._builders[key]
            for number, devices in node_funnel.lost_to_holders.items():
                if member is result.first:
                    inventory = self._inventory(member.node)
                    holders = builder.holders(number, inventory, devices)
                else:
                    holders = equivalence.holders(self._cluster, devices, result.first, member)
                builder.add_holders(number, holders)

    def _record_pools(self, inventory: NodeInventory) -> None:
        for pool in inventory.pools:
            if not pool.is_usable:
                self._unusable[pool.id, pool.invalid_reason] += 1

    def _record_profile(self, node: str, result: _NodeResult) -> None:
        node_funnels = [node_funnel for _, node_funnel in result.node_funnels]
        profile = tuple(node_funnel.left for node_funnel in node_funnels)
        undecided = self._profiles.get(profile)
        if undecided is None:
            if len(self._profiles) >= _PROFILES_KEPT:
                return
            undecided = self._profiles[profile] = []
        if len(undecided) < EXAMPLES_KEPT:
            depth = sum(node_funnel.depth for node_funnel in node_funnels)
            left = sum(node_funnel.left[-1] for node_funnel in node_funnels)
            rank = (len(result.blocked), -depth, -left)
            undecided.append(_Candidate(rank, UnservedRequests(node, result.blocked)))

    def _representatives(self) -> tuple[UnservedRequests, ...]:
        """Return one node of each profile, the closest first; then a second and a third of each."""
        ranked = sorted(
            (
                (round_number, candidate)
                for undecided in self._profiles.values()
                for round_number, candidate in enumerate(undecided)
            ),
            key=lambda ranked_node: (ranked_node[0], ranked_node[1].rank),
        )
        return tuple(candidate.unserved for _, candidate in ranked[:REPRESENTATIVES_KEPT])

    def _describe_pool(self, pool: PoolId, invalid_reason: str, nodes: int) -> UnusablePool:
        current = pools.current_slices(list(self._cluster.pools()[pool].slices.values()))
        expected = current[0].spec.pool.resource_slice_count
        return UnusablePool(pool, invalid_reason, len(current), expected, nodes)


def _shortfall(
    inventory: NodeInventory, request: NodeRequest, node_funnels: Sequence[NodeFunnel]
) -> NodeShortfall | None:
    """Return why a node cannot serve a request, or None; of alternatives, the closest."""
    if any(node_funnel.blocked is None for node_funnel in node_funnels):
        return None
    if not inventory.devices:
        return NodeShortfall(request.claim, request.name, None, -1)
    if not node_funnels:
        return None
    number, furthest = max(enumerate(node_funnels), key=lambda numbered: numbered[1].depth)
    name = str(request.alternatives[number].parsed.name)
    return NodeShortfall(request.claim, name, furthest.blocked, furthest.depth)


def _parent(request: str) -> str:
    return request.partition("/")[0]
