"""The nodes with devices on which selectors fail."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from dray.allocator.inventory import selector_failures
from dray.allocator.inventory.cluster_inventory import EVERY_NODE, ClusterInventory
from dray.api.types.dra import Device, DeviceAttribute, ResourceSlice
from tests.builders import DRIVER, cluster_inventory, device, resource_slice

CLASS = f'device.driver == "{DRIVER}"'
FAST = f'device.attributes["{DRIVER}"].fast'


def fast(node: str, *values: bool | None, driver: str = DRIVER) -> ResourceSlice:
    """Return a slice with devices that have the attribute, or lack it where it is None."""
    devices = [
        device(f"gpu-{number}", attributes={} if value is None else {"fast": value})
        for number, value in enumerate(values)
    ]
    return resource_slice(*devices, node=node, driver=driver)


def result_of(steps: Generator[None, None, int]) -> int:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return int(end.value)


def failing(cluster: ClusterInventory, *expressions: str) -> set[str] | None:
    """Return the names of the nodes; None for every node."""
    selectors = tuple(map(cluster.selectors.selector, expressions or (FAST,)))
    nodes = result_of(cluster.selector_failures.nodes([selectors]))
    if nodes == EVERY_NODE:
        return None
    return {name for name, entry in cluster.nodes.items() if nodes >> entry.index & 1}


def test_nodes_with_a_failing_device() -> None:
    cluster = cluster_inventory(fast("n1", True, False), fast("n2", True, None), fast("n3"))
    assert failing(cluster) == {"n2"}
    assert failing(cluster, CLASS) == set()


def test_a_device_that_an_earlier_selector_rejects_does_not_fail() -> None:
    cluster = cluster_inventory(fast("n1", True), fast("n2", None, driver="other.example.com"))
    assert failing(cluster, CLASS, FAST) == set()
    assert failing(cluster, FAST, CLASS) == {"n2"}


def test_a_slice_without_a_node_is_for_every_node() -> None:
    network = resource_slice(device("gpu-0"), node=None, all_nodes=True)
    assert failing(cluster_inventory(fast("n1", True), network)) is None


def test_a_selector_that_does_not_compile_fails_on_every_device() -> None:
    cluster = cluster_inventory(fast("n1", True), fast("n2"))
    assert failing(cluster, "device.") == {"n1"}


def test_an_attribute_without_a_value_fails_whatever_is_read() -> None:
    broken = Device("gpu-0", {"fast": DeviceAttribute(bool_value=True), "x": DeviceAttribute()})
    cluster = cluster_inventory(resource_slice(broken), fast("n2", True))
    assert failing(cluster) == {"n1"}
    cluster.put_slice(fast("n1", True))
    assert failing(cluster) == set()


def changes() -> Iterator[tuple[ResourceSlice, set[str]]]:
    yield fast("n1", None), {"n1", "n2"}
    yield fast("n2", True), {"n1"}
    yield fast("n1", False), set()
    yield fast("n2", None, None), {"n2"}


@pytest.mark.parametrize("limit", [1, 2, 1 << 14])
def test_changes_are_followed(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after more changes than are recorded."""
    monkeypatch.setattr(selector_failures, "_CHANGES_LIMIT", limit)
    cluster = cluster_inventory(fast("n1", True), fast("n2", None))
    assert failing(cluster) == {"n2"}
    for changed, expected in changes():
        cluster.put_slice(changed)
        cluster.put_slice(fast("n3", True))
        assert failing(cluster) == expected
    cluster.drop_slice(fast("n2").metadata.name)
    assert failing(cluster) == set()


def test_sequences_beyond_the_limit_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selector_failures, "_SEQUENCES_LIMIT", 1)
    cluster = cluster_inventory(fast("n1", True), fast("n2", None))
    assert failing(cluster) == {"n2"}
    assert failing(cluster, CLASS) == set()
    cluster.put_slice(fast("n2", True))
    assert failing(cluster) == set()


def test_an_update_that_was_abandoned_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selector_failures, "_STEP", 1)
    cluster = cluster_inventory(fast("n1", None), fast("n2", None))
    steps = cluster.selector_failures.nodes([(cluster.selectors.selector(FAST),)])
    next(steps)
    steps.close()
    cluster.drop_slice(fast("n1").metadata.name)
    cluster.drop_node("n1")
    assert failing(cluster) == {"n2"}


def test_a_slice_that_goes_during_a_pause_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selector_failures, "_STEP", 1)
    cluster = cluster_inventory(fast("n1", None), fast("n2", None))
    steps = cluster.selector_failures.nodes([(cluster.selectors.selector(FAST),)])
    next(steps)
    cluster.drop_slice(fast("n1").metadata.name)
    cluster.drop_node("n1")
    assert result_of(steps) == 1 << cluster.nodes["n2"].index
