"""Remembered answers against fresh ones, on the scenarios of `dray bench allocate --family`."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from dray.allocator import placement, scenarios
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model.rejections import AllocationError
from dray.api.ids import ClaimKey
from dray.api.types.dra import AllocationResult, ResourceClaim, ResourceSlice
from dray.bench.families import catalog
from dray.bench.families.catalog import Scale
from tests import rounds
from tests.properties import clusters

STEPS = 12


class World:
    """A live fleet with the slices and nodes of a scenario; claims come and go."""

    def __init__(self, name: str, dice: random.Random) -> None:
        self.dice = dice
        made = catalog.make(name, dice.randrange(rounds.MAX_SEED), Scale(nodes=5, claims=12))
        self.scenario = scenarios.convert(made)
        self.slices = {found.metadata.name: found for found in self.scenario.slices}
        self.held: dict[ClaimKey, AllocationResult] = {
            claim.key: claim.status.allocation
            for claim in self.scenario.claims
            if claim.status.allocation is not None
        }
        self.questions = self.scenario.waiting()
        self.live = self.scenario.inventory()
        self.asked = clusters.allocator_on(self.live)

    def place(self) -> None:
        claim = self.dice.choice(self.questions)
        try:
            result = self.asked.first_fit([claim], self.dice.randrange(5))
        except AllocationError:
            return
        if isinstance(result, placement.Fit):
            key = ClaimKey("shop", f"placed-{self.dice.random()}")
            (self.held[key],) = result.allocations
            self.live.record_allocation(key, self.held[key])

    def release(self) -> None:
        if self.held:
            key = self.dice.choice(list(self.held))
            del self.held[key]
            self.live.release(key)

    def publish(self) -> None:
        """Publish a slice with a device less, or the one of the scenario again."""
        first: ResourceSlice = self.dice.choice(self.scenario.slices)
        spec = first.spec
        if self.slices[first.metadata.name] is first and len(spec.devices) > 1:
            spec = msgspec.structs.replace(spec, devices=spec.devices[1:])
        published = msgspec.structs.replace(first, spec=spec)
        if spec is first.spec:
            published = first
        self.slices[first.metadata.name] = published
        self.live.put_slice(published)

    def fresh(self) -> ClusterInventory:
        """A fleet that has seen nothing but the present."""
        scenario = msgspec.structs.replace(
            self.scenario, slices=list(self.slices.values()), claims=()
        )
        cluster = scenario.inventory()
        for key, allocation in self.held.items():
            cluster.record_allocation(key, allocation)
        return cluster


@pytest.mark.random
@pytest.mark.parametrize("name", catalog.NAMES)
@pytest.mark.parametrize("seed", rounds.seeds(3, long=100))
def test_remembered_answers_are_those_of_a_fleet_without_memory(name: str, seed: int) -> None:
    dice = random.Random(seed)
    world = World(name, dice)
    for _ in range(STEPS):
        dice.choice((world.release, world.publish, *[world.place] * 5))()
        claim = dice.choice(world.questions)
        fresh = clusters.allocator_on(world.fresh())
        assert _first(world.asked, claim) == _first(fresh, claim)
        node = dice.choice(world.scenario.nodes).metadata.name
        assert _on(world.asked, claim, node) == _on(fresh, claim, node)


def _first(asked: placement.Allocator, claim: ResourceClaim) -> Any:
    try:
        result = asked.first_fit([claim])
    except AllocationError as failure:
        return failure.text([claim])
    return _described(result, claim)


def _on(asked: placement.Allocator, claim: ResourceClaim, node: str) -> Any:
    try:
        return _described(asked.allocate_on([claim], node), claim)
    except AllocationError as failure:
        return failure.text([claim])


def _described(result: placement.FitResult, claim: ResourceClaim) -> Any:
    if isinstance(result, placement.NoFit):
        return result.failure.text([claim]) if result.failure else None
    # Whole results: also what of a class, a node selector or a condition is copied into them.
    return result.node, result.allocations
