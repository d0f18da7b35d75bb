"""Counts of claims by shape, which stay the same for a while."""

from __future__ import annotations

import random

import pytest

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.scheduling.claims import shape_counts
from dray.scheduling.claims.claim_index import ClaimIndex
from dray.scheduling.claims.shape_counts import ShapeCounts
from tests import builders, rounds


@pytest.mark.parametrize(
    ("count", "rounded"), [(0, 0), (1, 1), (3, 3), (5, 4), (7, 6), (11, 8), (1000, 768)]
)
def test_counts_are_rounded_down(count: int, rounded: int) -> None:
    assert shape_counts.rounded_down(count) == rounded


def test_the_version_tells_of_changes() -> None:
    counts = ShapeCounts()
    versions = []
    for number in range(1, 9):
        counts.add(builders.claim(builders.request("gpu"), name=f"c{number}"))
        versions.append(counts.version)
    assert versions == [1, 2, 3, 4, 4, 5, 5, 6]
    assert list(counts.rounded.values()) == [8]


def test_claims_for_administrators_do_not_count() -> None:
    counts = ShapeCounts()
    counts.add(builders.claim(builders.request("gpu", admin=True)))
    assert (counts.rounded, counts.version) == ({}, 0)


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(5, long=200))
def test_counts_that_follow_claims_are_those_of_a_new_index(seed: int) -> None:
    draw = random.Random(seed)
    index = ClaimIndex(ClusterInventory())
    followed = index.shapes()
    for _ in range(200):
        name, count = f"c{draw.randrange(20)}", draw.randint(1, 3)
        claim = builders.claim(builders.request("gpu", count=count), name=name)
        if draw.random() < 0.6:
            index.put(claim)
        else:
            index.drop(claim.key)
        fresh = ClaimIndex(ClusterInventory())
        for known in index:
            fresh.put(known)
        assert followed.rounded == fresh.shapes().rounded
