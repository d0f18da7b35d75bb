"""The live input, kept in step by small updates."""

from __future__ import annotations

import pytest

from dray.allocator.inventory.cluster_inventory import EVERY_NODE, AllocatedState, ChangeLog
from dray.api.ids import ClaimKey, DeviceId, SharedDeviceId
from tests import builders
from tests.unit.allocator import asking

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
    fleet = builders.fleet(builders.gpu_slice())
    before = fleet.inventory(fleet.nodes["n1"])
    fleet.put_slice(builders.gpu_slice())
    assert fleet.inventory(fleet.nodes["n1"]) is before
    fleet.put_slice(builders.gpu_slice(count=5))
    assert fleet.inventory(fleet.nodes["n1"]) is not before


def test_a_changed_slice_leaves_other_nodes_alone() -> None:
    fleet = builders.fleet(builders.gpu_slice("n1"), builders.gpu_slice("n2"))
    other = fleet.inventory(fleet.nodes["n2"])
    fleet.put_slice(builders.gpu_slice("n1", count=1))
    assert fleet.inventory(fleet.nodes["n2"]) is other


def test_a_slice_may_move_to_another_node() -> None:
    fleet = builders.fleet(
        builders.resource_slice(builders.gpu("g"), node="n1", pool="p", name="s"),
        nodes=[builders.node("n2")],
    )
    fleet.put_slice(builders.resource_slice(builders.gpu("g"), node="n2", pool="p", name="s"))
    asking.refusal(fleet, CLAIM, node="n1")
    assert asking.devices(fleet, CLAIM, node="n2") == ["g"]


def test_a_dropped_slice_takes_its_devices_along() -> None:
    fleet = builders.fleet(builders.gpu_slice())
    fleet.drop_slice("n1-gpu")
    asking.refusal(fleet, CLAIM)


def test_slices_may_come_before_their_node() -> None:
    fleet = builders.fleet()
    fleet.put_slice(builders.gpu_slice("late"))
    assert not fleet.existing_nodes
    fleet.put_node(builders.node("late"))
    assert asking.devices(fleet, CLAIM, node="late") == ["gpu-0"]


def test_the_number_of_a_node_that_left_is_given_to_the_next() -> None:
    fleet = builders.fleet(nodes=[builders.node("a"), builders.node("b")])
    fleet.drop_node("a")
    fleet.put_node(builders.node("c"))
    assert [entry.name for entry in fleet.by_index if entry] == ["c", "b"]
    assert fleet.existing_nodes == 0b11


def test_labels_decide_anew_which_slices_a_node_sees() -> None:
    rack = builders.nodes_labelled("rack", "a")
    fleet = builders.fleet(
        builders.resource_slice(builders.gpu("g"), node_selector=rack),
        nodes=[builders.node("n1")],
    )
    asking.refusal(fleet, CLAIM)
    fleet.put_node(builders.node("n1", labels={"rack": "a"}))
    assert asking.devices(fleet, CLAIM) == ["g"]


def test_what_a_claim_holds_is_replaced_not_added() -> None:
    fleet = builders.fleet(builders.gpu_slice(count=2))
    builders.hold(fleet, "other", "gpu-0")
    builders.hold(fleet, "other", "gpu-1")
    assert asking.devices(fleet, CLAIM) == ["gpu-0"]
    fleet.release(ClaimKey(builders.NAMESPACE, "other"))
    assert fleet.holders_of(DeviceId(builders.DRIVER, "n1", "gpu-1")) == ()


def test_devices_of_a_shared_pool_are_taken_for_every_node() -> None:
    fleet = builders.fleet(
        builders.resource_slice(builders.gpu("g"), all_nodes=True),
        nodes=[builders.node("n1"), builders.node("n2")],
    )
    assert asking.devices(fleet, CLAIM, node="n2") == ["g"]
    builders.hold(fleet, "other", "g", pool="n1")
    asking.refusal(fleet, CLAIM, node="n2")


def test_allocated_state_may_come_without_claims() -> None:
    fleet = builders.fleet(builders.gpu_slice(count=3, shareable=True))
    first, second = (DeviceId(builders.DRIVER, "n1", f"gpu-{number}") for number in (0, 1))
    fleet.record_state(
        AllocatedState([first], [SharedDeviceId(*second, "s")], {second: {"memory": "80Gi"}})
    )
    assert asking.devices(fleet, CLAIM) == ["gpu-2"]
