"""Compatibility groups of partitions."""

from __future__ import annotations

import msgspec
import pytest

from dray.allocator.checks.compatibility_groups import Intersection
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model import rejections
from dray.api import features
from tests import builders
from tests.unit.allocator import allocating

GATES = msgspec.structs.replace(features.DEFAULT, device_compatibility_groups=True)


def grouped(**groups: list[str]) -> ClusterInventory:
    devices = [
        builders.device(name, consumes={"set": {"lanes": "1"}}, groups=item)
        for name, item in groups.items()
    ]
    return builders.cluster_inventory(
        builders.resource_slice(*devices, slices=2),
        builders.resource_slice(name="sets", slices=2, counters={"set": {"lanes": "8"}}),
        features=GATES,
    )


def test_groups_have_to_stay_in_common() -> None:
    cluster = grouped(a=["mig", "mps"], b=["mps"], c=["mig"], d=["mig"])
    claim = builders.claim(builders.request(count=3))
    assert allocating.devices(cluster, claim) == ["a", "c", "d"]


def test_no_groups_go_only_with_no_groups() -> None:
    cluster = grouped(a=[], b=["mig"], c=[])
    assert allocating.devices(cluster, builders.claim(builders.request(count=2))) == ["a", "c"]


def test_devices_that_are_allocated_count() -> None:
    cluster = grouped(a=["mig"], b=["mps"], c=["mig"])
    builders.hold(cluster, "other", "c")
    assert allocating.devices(cluster, builders.claim(builders.request())) == ["a"]
    builders.hold(cluster, "more", "a")
    reason = allocating.rejection(cluster, builders.claim(builders.request()))
    assert isinstance(reason, rejections.NoCombination)
    assert isinstance(reason.last, rejections.GroupsIncompatible)
    assert (reason.last.groups, reason.last.present) == (("mps",), ("mig",))


def test_without_the_gate_a_pool_with_groups_is_incomplete() -> None:
    cluster = grouped(a=["mig"])
    cluster.use_features(features.DEFAULT)
    claim = builders.claim(builders.request(mode="All"))
    assert "is currently being updated" in allocating.error_text(cluster, claim)


@pytest.mark.parametrize(
    ("members", "candidate", "admitted"),
    [
        ([], {"a"}, True),
        ([set()], set(), True),
        ([set()], {"a"}, False),
        ([{"a"}], set(), False),
        ([{"a", "b"}, {"b"}], {"a"}, False),
        ([{"a", "b"}, {"b"}], {"b", "c"}, True),
    ],
)
def test_an_intersection_admits_what_intersects_it(
    members: list[set[str]], candidate: set[str], admitted: bool
) -> None:
    present = Intersection()
    for item in members:
        present = present.add(frozenset(item))
    assert present.admits(frozenset(candidate)) is admitted
