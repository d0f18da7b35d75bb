"""Goes over all nodes once: the funnel of every request, and what stands in the way on each node.

Nodes that look alike to the claims (as many devices left after every gate) are one profile; a few
nodes of each are kept, so that what is tried later need not be tried on the whole fleet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from dray.allocator import verdicts
from dray.allocator.fleet import Fleet
from dray.allocator.inventory import Inventory
from dray.allocator.problems import Step
from dray.allocator.resolution import ResolvedClaim
from dray.api.names import PoolId
from dray.explain.funnel import Funnel, Measurement, Passage
from dray.explain.gates import Gate, Panel

EXAMPLES_KEPT = 3
REPRESENTATIVES_KEPT = 64
_PROFILES_KEPT = 1024

StepKey = tuple[int, str]
"""The position of a claim and the name of its request."""

Profile = tuple[tuple[int, ...], ...]


class Obstacle(NamedTuple):
    """The first request that a node cannot serve, and the gate at which it fails there.

    Without gate, the node offers no usable device at all.
    """

    claim: int
    request: str
    gate: Gate | None
    depth: int


class UnusablePool(msgspec.Struct, frozen=True):
    """A pool whose devices are left alone: its slices are being updated, or contradict."""

    pool: PoolId
    invalid_reason: str
    """Empty for a pool of which not all slices are there."""
    slices: int
    expected_slices: int
    nodes: int


class Standing(NamedTuple):
    """A node, and which requests it cannot serve whatever else is asked for."""

    node: str
    blocked: frozenset[StepKey]


class Survey(NamedTuple):
    funnels: tuple[Funnel, ...]
    sound: list[str]
    """The nodes that could be looked at."""
    obstacles: dict[Obstacle, list[str]]
    """A few nodes for each, the first ones."""
    counts: Counter[Obstacle]
    open_nodes: list[str]
    """Nodes that could serve each request if it were alone."""
    unusable: tuple[UnusablePool, ...]
    representatives: tuple[Standing, ...]
    """Those that come closest first."""


def take(fleet: Fleet, nodes: Iterable[str], claims: Sequence[ResolvedClaim]) -> Survey:
    surveyor = _Surveyor(fleet, claims)
    for node in nodes:
        surveyor.visit(node)
    return surveyor.survey()


class _Candidate(NamedTuple):
    rank: tuple[int, int, int]
    standing: Standing


class _Surveyor:
    def __init__(self, fleet: Fleet, claims: Sequence[ResolvedClaim]) -> None:
        self._fleet = fleet
        self._claims = claims
        self._measurements: dict[StepKey, Measurement] = {}
        self._sound: list[str] = []
        self._examples: dict[Obstacle, list[str]] = {}
        self._counts: Counter[Obstacle] = Counter()
        self._open: list[str] = []
        self._unusable: Counter[tuple[PoolId, str]] = Counter()
        self._profiles: dict[Profile, list[_Candidate]] = {}

    def visit(self, node: str) -> None:
        try:
            inventory = self._fleet.inventory(self._fleet.nodes[node])
        except verdicts.Failure:
            return
        self._sound.append(node)
        self._note_pools(inventory)
        panel = Panel(inventory, self._claims, self._fleet.selectors)
        passages = [self._measure(panel, step) for step in panel.steps]
        obstacles = [
            found
            for step, of_step in zip(panel.steps, passages, strict=True)
            if (found := _obstacle(inventory, step, of_step)) is not None
        ]
        if obstacles:
            self._counts[obstacles[0]] += 1
            examples = self._examples.setdefault(obstacles[0], [])
            if len(examples) < EXAMPLES_KEPT:
                examples.append(node)
        else:
            self._open.append(node)
        blocked = frozenset((each.claim, _parent(each.request)) for each in obstacles)
        self._note_profile(Standing(node, blocked), passages)

    def survey(self) -> Survey:
        funnels = tuple(measurement.finish() for measurement in self._measurements.values())
        unusable = tuple(self._described(*pool, nodes) for pool, nodes in self._unusable.items())
        return Survey(
            funnels,
            self._sound,
            self._examples,
            self._counts,
            self._open,
            unusable,
            self._representatives(),
        )

    def _measure(self, panel: Panel, step: Step) -> list[Passage]:
        passages = []
        for plan in step.plans:
            key = (plan.claim, str(plan.option.name))
            measurement = self._measurements.get(key)
            if measurement is None:
                measurement = self._measurements[key] = Measurement(plan)
            passages.append(measurement.add(panel, plan))
        return passages

    def _note_pools(self, inventory: Inventory) -> None:
        for pool in inventory.pools:
            if not pool.is_usable:
                self._unusable[pool.id, pool.invalid_reason] += 1

    def _note_profile(self, standing: Standing, passages: Sequence[Sequence[Passage]]) -> None:
        flat = [passage for of_step in passages for passage in of_step]
        profile = tuple(passage.left for passage in flat)
        known = self._profiles.get(profile)
        if known is None:
            if len(self._profiles) >= _PROFILES_KEPT:
                return
            known = self._profiles[profile] = []
        if len(known) < EXAMPLES_KEPT:
            depth = sum(passage.depth for passage in flat)
            left = sum(passage.left[-1] for passage in flat)
            rank = (len(standing.blocked), -depth, -left)
            known.append(_Candidate(rank, standing))

    def _representatives(self) -> tuple[Standing, ...]:
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
        of_pool = [
            piece.spec.pool
            for piece in self._fleet.slices()
            if PoolId(piece.spec.driver, piece.spec.pool.name) == pool
        ]
        newest = max(each.generation for each in of_pool)
        current = [each for each in of_pool if each.generation == newest]
        expected = current[0].resource_slice_count
        return UnusablePool(pool, invalid_reason, len(current), expected, nodes)


def _obstacle(inventory: Inventory, step: Step, passages: Sequence[Passage]) -> Obstacle | None:
    """Why a node cannot serve a request; of several options, the one that comes furthest."""
    if any(passage.blocked is None for passage in passages):
        return None
    if not inventory.devices:
        return Obstacle(step.claim, step.name, None, -1)
    if not passages:
        return None
    number, furthest = max(enumerate(passages), key=lambda each: each[1].depth)
    name = str(step.plans[number].option.name)
    return Obstacle(step.claim, name, furthest.blocked, furthest.depth)


def _parent(request: str) -> str:
    return request.partition("/")[0]
