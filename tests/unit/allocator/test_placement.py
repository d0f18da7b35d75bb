"""Answers are remembered until what they depend on changes."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from dray.allocator import placement
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model.rejections import AllocationError
from dray.allocator.placement import Fit, NoFit
from dray.allocator.problem.node_problem import NodeProblem
from dray.allocator.search import first_descent
from dray.api.ids import ClaimKey
from dray.api.types.dra import (
    AllocationResult,
    DeviceClass,
    DeviceClassConfiguration,
    DeviceClassSpec,
    OpaqueDeviceConfiguration,
    ResourceSlice,
)
from dray.api.types.meta import ObjectMeta
from tests import builders
from tests.unit.allocator import allocating

CLAIM = builders.claim(builders.request())


class Searches:
    """Counts the searches of a test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.nodes: list[str] = []
        descend = first_descent.descend

        def counted(problem: NodeProblem, *more: Any) -> object:
            self.nodes.append(problem.inventory.node.metadata.name)
            return descend(problem, *more)

        monkeypatch.setattr(first_descent, "descend", counted)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> Searches:
    return Searches(monkeypatch)


def allocation_of(result: Fit | NoFit) -> AllocationResult:
    assert isinstance(result, Fit)
    return result.allocations[0]


def test_the_first_node_in_order_that_fits_is_taken() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice("n1", 0), builders.gpu_slice("n2", 1))
    result = allocating.allocator_on(cluster).first_fit([CLAIM])
    assert isinstance(result, Fit)
    assert result.node == "n2"


def test_the_search_may_start_at_any_node_and_comes_round() -> None:
    cluster = builders.cluster_inventory(
        *[builders.gpu_slice(f"n{number}", 1) for number in range(4)]
    )
    asked = allocating.allocator_on(cluster)
    nodes = []
    for start in (2, 3, 0, 2):
        result = asked.first_fit([CLAIM], start)
        assert isinstance(result, Fit)
        nodes.append(result.node)
    assert nodes == ["n2", "n3", "n0", "n2"]
    builders.hold(cluster, "a", "gpu-0", pool="n2")
    builders.hold(cluster, "b", "gpu-0", pool="n3")
    last = asked.first_fit([CLAIM], 2)
    assert isinstance(last, Fit)
    assert last.node == "n0"


def test_an_answer_is_given_again_without_a_search(searches: Searches) -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice("n1"), builders.gpu_slice("n2"))
    asked = allocating.allocator_on(cluster)
    first = asked.allocate_on([CLAIM], "n1")
    assert asked.allocate_on([builders.claim(builders.request(), name="twin")], "n1") is first
    asked.allocate_on([CLAIM], "n2")
    assert searches.nodes == ["n1", "n2"]


def test_only_the_node_that_changed_is_asked_again(searches: Searches) -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice("n1"), builders.gpu_slice("n2"))
    asked = allocating.allocator_on(cluster)
    for node in ("n1", "n2"):
        asked.allocate_on([CLAIM], node)
    builders.hold(cluster, "other", "gpu-0", pool="n1")
    for node in ("n1", "n2"):
        asked.allocate_on([CLAIM], node)
    assert searches.nodes == ["n1", "n2", "n1"]


def test_a_no_stands_while_devices_are_only_taken(searches: Searches) -> None:
    slices = [builders.gpu_slice(f"n{number}", 2, memory="20Gi") for number in range(3)]
    cluster = builders.cluster_inventory(*slices, builders.gpu_slice("n9", 2))
    asked = allocating.allocator_on(cluster)
    big = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0'
    claim = builders.claim(builders.request("gpu", big))
    cluster.record_allocation(ClaimKey("", "a"), allocation_of(asked.first_fit([claim])))
    builders.hold(cluster, "other", "gpu-0", pool="n0")
    cluster.record_allocation(ClaimKey("", "b"), allocation_of(asked.first_fit([claim])))
    assert searches.nodes == ["n0", "n1", "n2", "n9", "n9"]


def test_a_released_device_opens_its_node_again(searches: Searches) -> None:
    cluster = builders.cluster_inventory(
        *[builders.gpu_slice(f"n{number}", 1) for number in range(3)]
    )
    asked = allocating.allocator_on(cluster)
    for number in range(3):
        cluster.record_allocation(
            ClaimKey("", f"c{number}"), allocation_of(asked.first_fit([CLAIM]))
        )
    assert isinstance(asked.first_fit([CLAIM]), NoFit)
    searches.nodes.clear()
    cluster.release(ClaimKey("", "c1"))
    result = asked.first_fit([CLAIM])
    assert isinstance(result, Fit)
    assert result.node == "n1"
    assert searches.nodes == ["n1"]


def test_full_nodes_are_not_asked_by_questions_that_need_a_free_device(searches: Searches) -> None:
    cluster = builders.cluster_inventory(
        *[builders.gpu_slice(f"n{number}", 1) for number in range(3)]
    )
    asked = allocating.allocator_on(cluster)
    for number in range(2):
        cluster.record_allocation(
            ClaimKey("", f"c{number}"), allocation_of(asked.first_fit([CLAIM]))
        )
    searches.nodes.clear()
    other = builders.claim(builders.request("other", "true"))
    assert isinstance(asked.first_fit([other]), Fit)
    assert searches.nodes == ["n2"]


def test_what_is_wrong_with_a_claim_shows_on_full_nodes_too() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=1))
    builders.hold(cluster, "other", "gpu-0")
    asked = allocating.allocator_on(cluster)
    claims = [builders.claim(builders.request(cls="no-such-class"))]
    with pytest.raises(AllocationError) as found:
        asked.first_fit(claims)
    assert found.value.text(claims) == (
        "claim default/train, request gpu: could not retrieve device class no-such-class: "
        'deviceclass.resource.k8s.io "no-such-class" not found'
    )


def test_a_failure_on_one_node_only_does_not_stop_the_others() -> None:
    twice = builders.resource_slice(builders.gpu("x"), builders.gpu("x"), node="n1")
    cluster = builders.cluster_inventory(twice, builders.gpu_slice("n2"))
    result = allocating.allocator_on(cluster).first_fit([CLAIM])
    assert isinstance(result, Fit)
    assert result.node == "n2"


def test_a_changed_class_makes_everything_be_asked_again() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice())
    asked = allocating.allocator_on(cluster)
    assert isinstance(asked.allocate_on([CLAIM], "n1"), Fit)
    cluster.put_class(builders.device_class("gpu", "false"))
    assert isinstance(asked.allocate_on([CLAIM], "n1"), NoFit)


def test_the_parameters_of_a_class_may_change_from_1_to_true() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice())
    asked = allocating.allocator_on(cluster)
    for value in (1, True, 1.0):
        opaque = OpaqueDeviceConfiguration("a.example.com", {"k": value})
        spec = DeviceClassSpec(config=(DeviceClassConfiguration(opaque),))
        cluster.put_class(DeviceClass(ObjectMeta(name="gpu"), spec))
        (given,) = allocation_of(asked.allocate_on([CLAIM], "n1")).devices.config
        assert given.opaque is not None
        assert repr(given.opaque.parameters) == repr({"k": value})


def test_each_claim_with_admin_access_gets_a_share_of_its_own() -> None:
    cluster = builders.cluster_inventory(
        builders.resource_slice(builders.device("gpu-0", shareable=True))
    )
    numbers = itertools.count()
    asked = placement.Allocator(cluster, new_share_id=lambda: f"share-{next(numbers)}")
    shares = []
    for name in "abc":
        claim = builders.claim(builders.request(admin=True), name=name)
        allocation = allocation_of(asked.allocate_on([claim], "n1"))
        cluster.record_allocation(claim.key, allocation)
        shares.append(allocation.devices.results[0].share_id)
    assert len(set(shares)) == 3


def alike(*nodes: str, **fields: object) -> list[ResourceSlice]:
    """Return slices for nodes with the very same devices."""
    first = builders.gpu_slice(nodes[0], 2, **fields)
    return [
        msgspec.structs.replace(
            published, spec=msgspec.structs.replace(published.spec, devices=first.spec.devices)
        )
        for published in (builders.gpu_slice(node, 0) for node in nodes)
    ]


def place_all(cluster: ClusterInventory, claims: int) -> list[tuple[str, str, str]]:
    """Place claims one after the other, each on the next node; return where they are."""
    asked, found = allocating.allocator_on(cluster), []
    for number in range(claims):
        result = asked.first_fit([CLAIM], number)
        allocation = allocation_of(result)
        (device,) = allocation.devices.results
        assert isinstance(result, Fit)
        found.append((result.node, device.pool, device.device))
        cluster.record_allocation(ClaimKey("shop", f"c{number}"), allocation)
    return found


def test_alike_nodes_are_searched_once_for_each_state(searches: Searches) -> None:
    nodes = [f"n{number}" for number in range(4)]
    found = place_all(builders.cluster_inventory(*alike(*nodes)), 8)
    assert found == [(node, node, f"gpu-{number}") for number in range(2) for node in nodes]
    # The first node of its kind is not known to have others like it.
    assert searches.nodes == ["n0", "n1", "n0", "n1"]


def test_what_was_found_on_an_alike_node_names_this_one() -> None:
    nodes = ["n0", "n1", "n2"]
    cluster = builders.cluster_inventory(*alike(*nodes))
    asked = allocating.allocator_on(cluster)
    of_nodes = [allocation_of(asked.allocate_on([CLAIM], node)) for node in nodes]
    for node, allocation in zip(nodes, of_nodes, strict=True):
        own = allocating.allocator_on(builders.cluster_inventory(builders.gpu_slice(node, 2)))
        assert allocation == allocation_of(own.allocate_on([CLAIM], node))


def test_a_class_of_nodes_that_changes_its_features_is_searched_again(searches: Searches) -> None:
    nodes = ["n0", "n1", "n2"]
    cluster = builders.cluster_inventory(*alike(*nodes))
    place_all(cluster, 3)
    cluster.use_features(msgspec.structs.replace(cluster.features, admin_access=False))
    place_all(cluster, 3)
    assert searches.nodes == ["n0", "n1", "n0", "n1"]
