"""The live input, kept in step by small updates."""

from __future__ import annotations

import pytest

from dray.allocator.inventory.cluster_inventory import EVERY_NODE, AllocatedState, ChangeLog
from dray.api.ids import ClaimKey, DeviceId, SharedDeviceId
from tests import builders
from tests.unit.allocator import allocating

CLAIM = builders.claim(builders.request())


@pytest.mark.parametrize("entries", [0, 5, 64, 200, 70_000])
def test_a_reader_of_the_log_sees_what_came_after_it(entries: int) -> None:
    log = ChangeLog()
    log.add(7)
    cursor = log.end()
    for number in range(entries):
        log.add(number % 5)
    expected = (1 << min(entries, 5)) - 1
    assert log.since(cursor) in (expected, EVERY_NODE)
    assert log.since(log.end()) == 0


def test_the_log_knows_changes_that_concern_every_node() -> None:
    log = ChangeLog()
    log.add(1)
    log.add(EVERY_NODE)
    assert log.since(0) == EVERY_NODE


def test_a_slice_that_says_the_same_changes_nothing() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice())
    before = cluster.inventory(cluster.nodes["n1"])
    cluster.put_slice(builders.gpu_slice())
    assert cluster.inventory(cluster.nodes["n1"]) is before
    cluster.put_slice(builders.gpu_slice(count=5))
    assert cluster.inventory(cluster.nodes["n1"]) is not before


def test_a_changed_slice_leaves_other_nodes_alone() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice("n1"), builders.gpu_slice("n2"))
    other = cluster.inventory(cluster.nodes["n2"])
    cluster.put_slice(builders.gpu_slice("n1", count=1))
    assert cluster.inventory(cluster.nodes["n2"]) is other


def test_a_slice_may_move_to_another_node() -> None:
    cluster = builders.cluster_inventory(
        builders.resource_slice(builders.gpu("g"), node="n1", pool="p", name="s"),
        nodes=[builders.node("n2")],
    )
    cluster.put_slice(builders.resource_slice(builders.gpu("g"), node="n2", pool="p", name="s"))
    allocating.rejection(cluster, CLAIM, node="n1")
    assert allocating.devices(cluster, CLAIM, node="n2") == ["g"]


def test_a_dropped_slice_takes_its_devices_along() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice())
    cluster.drop_slice("n1-gpu")
    allocating.rejection(cluster, CLAIM)


def test_slices_may_come_before_their_node() -> None:
    cluster = builders.cluster_inventory()
    cluster.put_slice(builders.gpu_slice("late"))
    assert not cluster.existing_nodes
    cluster.put_node(builders.node("late"))
    assert allocating.devices(cluster, CLAIM, node="late") == ["gpu-0"]


def test_the_number_of_a_node_that_left_is_given_to_the_next() -> None:
    cluster = builders.cluster_inventory(nodes=[builders.node("a"), builders.node("b")])
    cluster.drop_node("a")
    cluster.put_node(builders.node("c"))
    assert [entry.name for entry in cluster.by_index if entry] == ["c", "b"]
    assert cluster.existing_nodes == 0b11


def test_labels_decide_anew_which_slices_a_node_sees() -> None:
    rack = builders.nodes_labelled("rack", "a")
    cluster = builders.cluster_inventory(
        builders.resource_slice(builders.gpu("g"), node_selector=rack),
        nodes=[builders.node("n1")],
    )
    allocating.rejection(cluster, CLAIM)
    cluster.put_node(builders.node("n1", labels={"rack": "a"}))
    assert allocating.devices(cluster, CLAIM) == ["g"]


def test_what_a_claim_holds_is_replaced_not_added() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=2))
    builders.hold(cluster, "other", "gpu-0")
    builders.hold(cluster, "other", "gpu-1")
    assert allocating.devices(cluster, CLAIM) == ["gpu-0"]
    cluster.release(ClaimKey(builders.NAMESPACE, "other"))
    assert cluster.holders_of(DeviceId(builders.DRIVER, "n1", "gpu-1")) == ()


def test_devices_of_a_shared_pool_are_taken_for_every_node() -> None:
    cluster = builders.cluster_inventory(
        builders.resource_slice(builders.gpu("g"), all_nodes=True),
        nodes=[builders.node("n1"), builders.node("n2")],
    )
    assert allocating.devices(cluster, CLAIM, node="n2") == ["g"]
    builders.hold(cluster, "other", "g", pool="n1")
    allocating.rejection(cluster, CLAIM, node="n2")


def test_allocated_state_may_come_without_claims() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=3, shareable=True))
    first, second = (DeviceId(builders.DRIVER, "n1", f"gpu-{number}") for number in (0, 1))
    cluster.record_state(
        AllocatedState([first], [SharedDeviceId(*second, "s")], {second: {"memory": "80Gi"}})
    )
    assert allocating.devices(cluster, CLAIM) == ["gpu-2"]
