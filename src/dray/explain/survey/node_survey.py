"""Goes over all nodes once: the funnel of every request, and what stands in the way on each node.

Of nodes that are alike, the first is looked at. Nodes that fare alike (as many devices left after
every gate) are one profile; a few nodes of each are kept, so that what is tried later need not be
tried on the whole fleet.
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

StepKey = tuple[int, str]
"""The position of a claim and the name of its request."""

Profile = tuple[tuple[int, ...], ...]


class NodeShortfall(NamedTuple):
    """The first request that a node cannot serve, and the gate at which it fails there.

    Without gate, the node offers no usable device at all.
    """

    claim: int
    request: str
    filter: DeviceFilter | None
    depth: int


class UnusablePool(msgspec.Struct, frozen=True):
    """A pool whose devices are left alone: its slices are being updated, or contradict."""

    pool: PoolId
    invalid_reason: str
    """Empty for a pool of which not all slices are there."""
    slices: int
    expected_slices: int
    nodes: int


class UnservedRequests(NamedTuple):
    """A node, and which requests it cannot serve whatever else is asked for."""

    node: str
    blocked: frozenset[StepKey]


class Survey(NamedTuple):
    funnels: tuple[Funnel, ...]
    sound: list[str]
    """The nodes that could be looked at."""
    groups: list[EquivalenceClass]
    """The same, those together that look alike to the claims."""
    obstacles: dict[NodeShortfall, list[str]]
    """A few nodes for each, the first ones."""
    counts: Counter[NodeShortfall]
    open_nodes: list[str]
    """Nodes that could serve each request if it were alone."""
    unusable: tuple[UnusablePool, ...]
    representatives: tuple[UnservedRequests, ...]
    """Those that come closest first."""

    def open_groups(self) -> list[EquivalenceClass]:
        known = set(self.open_nodes)
        return [group for group in self.groups if group[0].node in known]


def survey_nodes(
    fleet: ClusterInventory, nodes: Sequence[str], claims: Sequence[ResolvedClaim]
) -> Survey:
    surveyor = _Surveyor(fleet, claims)
    findings: dict[str, tuple[EquivalentNode, _Finding]] = {}
    for group in equivalence.group_nodes(
        fleet, nodes, equivalence.paths_read(claims, fleet.features)
    ):
        finding = surveyor.look(group)
        if finding is not None:
            findings.update((member.node, (member, finding)) for member in group)
    for node in nodes:
        if node in findings:
            surveyor.note(*findings[node])
    return surveyor.survey()


class _Candidate(NamedTuple):
    rank: tuple[int, int, int]
    standing: UnservedRequests


class _Finding(NamedTuple):
    """What there is to say about each node of a group."""

    passages: Sequence[tuple[StepKey, NodeFunnel]]
    obstacle: NodeShortfall | None
    """The first one."""
    blocked: frozenset[StepKey]
    names_matter: bool
    """Whether nodes that are alike still differ in something that is counted by name."""
    first: EquivalentNode


class _Surveyor:
    def __init__(self, fleet: ClusterInventory, claims: Sequence[ResolvedClaim]) -> None:
        self._fleet = fleet
        self._claims = claims
        self._measurements: dict[StepKey, FunnelBuilder] = {}
        self._sound: list[str] = []
        self._groups: list[EquivalenceClass] = []
        self._examples: dict[NodeShortfall, list[str]] = {}
        self._counts: Counter[NodeShortfall] = Counter()
        self._open: list[str] = []
        self._unusable: Counter[tuple[PoolId, str]] = Counter()
        self._profiles: dict[Profile, list[_Candidate]] = {}

    def look(self, group: EquivalenceClass) -> _Finding | None:
        """What becomes of the nodes of a group; None if they cannot be looked at."""
        try:
            inventory = self._inventory(group[0].node)
        except rejections.AllocationError:
            return None
        self._groups.append(group)
        panel = NodeFilters(inventory, self._claims, self._fleet.selectors)
        of_steps = [self._measure(panel, step, len(group)) for step in panel.steps]
        obstacles = [
            found
            for step, of_step in zip(panel.steps, of_steps, strict=True)
            if (found := _obstacle(inventory, step, [each for _, each in of_step])) is not None
        ]
        passages = [each for of_step in of_steps for each in of_step]
        names_matter = any(passage.held for _, passage in passages) or not all(
            pool.is_usable for pool in inventory.pools
        )
        blocked = frozenset((obstacle.claim, _parent(obstacle.request)) for obstacle in obstacles)
        first = obstacles[0] if obstacles else None
        return _Finding(passages, first, blocked, names_matter, group[0])

    def note(self, member: EquivalentNode, finding: _Finding) -> None:
        """Take down what concerns a node by itself; in the order of the fleet."""
        node = member.node
        self._sound.append(node)
        if finding.names_matter:
            self._note_names(member, finding)
        if finding.obstacle is None:
            self._open.append(node)
        else:
            self._counts[finding.obstacle] += 1
            examples = self._examples.setdefault(finding.obstacle, [])
            if len(examples) < EXAMPLES_KEPT:
                examples.append(node)
        self._note_profile(node, finding)

    def survey(self) -> Survey:
        funnels = tuple(measurement.finish() for measurement in self._measurements.values())
        unusable = tuple(self._described(*pool, nodes) for pool, nodes in self._unusable.items())
        return Survey(
            funnels,
            self._sound,
            self._groups,
            self._examples,
            self._counts,
            self._open,
            unusable,
            self._representatives(),
        )

    def _inventory(self, node: str) -> NodeInventory:
        return self._fleet.inventory(self._fleet.nodes[node])

    def _measure(
        self, panel: NodeFilters, step: NodeRequest, nodes: int
    ) -> list[tuple[StepKey, NodeFunnel]]:
        passages = []
        for plan in step.plans:
            key = (plan.claim, str(plan.option.name))
            measurement = self._measurements.get(key)
            if measurement is None:
                measurement = self._measurements[key] = FunnelBuilder(plan)
            passages.append((key, measurement.add(panel, plan, nodes)))
        return passages

    def _note_names(self, member: EquivalentNode, finding: _Finding) -> None:
        if member is finding.first:
            self._note_pools(self._inventory(member.node))
        for key, passage in finding.passages:
            measurement = self._measurements[key]
            for number, devices in passage.held.items():
                if member is finding.first:
                    inventory = self._inventory(member.node)
                    holders = measurement.holders(number, inventory, devices)
                else:
                    holders = equivalence.holders(self._fleet, devices, finding.first, member)
                measurement.add_holders(number, holders)

    def _note_pools(self, inventory: NodeInventory) -> None:
        for pool in inventory.pools:
            if not pool.is_usable:
                self._unusable[pool.id, pool.invalid_reason] += 1

    def _note_profile(self, node: str, finding: _Finding) -> None:
        passages = [passage for _, passage in finding.passages]
        profile = tuple(passage.left for passage in passages)
        known = self._profiles.get(profile)
        if known is None:
            if len(self._profiles) >= _PROFILES_KEPT:
                return
            known = self._profiles[profile] = []
        if len(known) < EXAMPLES_KEPT:
            depth = sum(passage.depth for passage in passages)
            left = sum(passage.left[-1] for passage in passages)
            rank = (len(finding.blocked), -depth, -left)
            known.append(_Candidate(rank, UnservedRequests(node, finding.blocked)))

    def _representatives(self) -> tuple[UnservedRequests, ...]:
        """One node of each profile, the closest first; then a second and a third of each."""
        ranked = sorted(
            (
                (turn, candidate)
                for known in self._profiles.values()
                for turn, candidate in enumerate(known)
            ),
            key=lambda each: (each[0], each[1].rank),
        )
        return tuple(candidate.standing for _, candidate in ranked[:REPRESENTATIVES_KEPT])

    def _described(self, pool: PoolId, invalid_reason: str, nodes: int) -> UnusablePool:
        current = pools.current_slices(list(self._fleet.pools()[pool].slices.values()))
        expected = current[0].spec.pool.resource_slice_count
        return UnusablePool(pool, invalid_reason, len(current), expected, nodes)


def _obstacle(
    inventory: NodeInventory, step: NodeRequest, passages: Sequence[NodeFunnel]
) -> NodeShortfall | None:
    """Why a node cannot serve a request; of several options, the one that comes furthest."""
    if any(passage.blocked is None for passage in passages):
        return None
    if not inventory.devices:
        return NodeShortfall(step.claim, step.name, None, -1)
    if not passages:
        return None
    number, furthest = max(enumerate(passages), key=lambda each: each[1].depth)
    name = str(step.plans[number].option.name)
    return NodeShortfall(step.claim, name, furthest.blocked, furthest.depth)


def _parent(request: str) -> str:
    return request.partition("/")[0]
