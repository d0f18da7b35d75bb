"""Selectors are answered once per shape, and only where the search comes to."""

from __future__ import annotations

import pytest

from dray.allocator.inventory.interning import Interner
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model.candidates import DeviceMatches
from dray.allocator.placement import Fit
from dray.allocator.problem import eligibility
from dray.allocator.problem.resolution import ResolvedAlternative
from dray.api.types.dra import DeviceAttribute
from dray.cel import device as cel
from tests import builders
from tests.unit.allocator import allocating

RING = 'device.attributes["gpu.example.com"].ring == "east"'


def test_a_fleet_of_one_model_evaluates_a_selector_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    matches = cel.Selector.matches

    def counted(self: cel.Selector, device: cel.DeviceView) -> bool:
        asked.append(self.expression)
        return matches(self, device)

    monkeypatch.setattr(cel.Selector, "matches", counted)
    cluster = builders.cluster_inventory(
        *[builders.gpu_slice(f"n{number}", 8) for number in range(10)]
    )
    selector = 'device.attributes["gpu.example.com"].productName == "A100"'
    claim = builders.claim(builders.request("gpu", selector))
    allocating.allocator_on(cluster).first_fit([claim])
    assert asked.count(selector) == 1


def test_an_expression_that_fails_fails_only_where_the_search_comes_to() -> None:
    resource_slice = builders.resource_slice(
        builders.gpu("gpu-0", attributes={"ring": "east"}), builders.gpu("gpu-1")
    )
    cluster = builders.cluster_inventory(resource_slice)
    one = builders.claim(builders.request("gpu", RING))
    two = builders.claim(builders.request("gpu", RING, count=2))
    assert allocating.devices(cluster, one) == ["gpu-0"]
    assert allocating.error_text(cluster, two) == (
        "claim default/train: selector #0 on device gpu.example.com/n1/gpu-1: CEL runtime error: "
        "no such key: ring. consider using CEL optional chaining (.? followed by orValue()) or "
        "guarding the check with has() for optional fields"
    )


def test_a_taken_device_is_never_evaluated() -> None:
    resource_slice = builders.resource_slice(
        builders.gpu("gpu-0"), builders.gpu("gpu-1", attributes={"ring": "east"})
    )
    cluster = builders.cluster_inventory(resource_slice)
    claim = builders.claim(builders.request("gpu", RING))
    assert "no such key" in allocating.error_text(cluster, claim)
    builders.hold(cluster, "other", "gpu-0")
    assert allocating.devices(cluster, claim) == ["gpu-1"]


def test_too_few_devices_do_not_hide_a_failure() -> None:
    """Counting would say no; upstream comes upon the device that fails first."""
    resource_slice = builders.resource_slice(
        builders.gpu("gpu-0", attributes={"ring": "west"}), builders.gpu("gpu-1")
    )
    claim = builders.claim(builders.request("gpu", RING, count=3))
    assert "no such key: ring" in allocating.error_text(
        builders.cluster_inventory(resource_slice), claim
    )


def test_a_device_with_an_attribute_without_value_fails_whatever_is_read() -> None:
    broken = builders.gpu("gpu-0", attributes={"odd": DeviceAttribute()})
    claim = builders.claim(builders.request())
    assert allocating.error_text(
        builders.cluster_inventory(builders.resource_slice(broken)), claim
    ) == (
        "class gpu: selector #0 on device gpu.example.com/n1/gpu-0: CEL runtime error: "
        "attribute odd: unsupported attribute value"
    )


def test_a_class_selector_that_refuses_keeps_the_request_selector_from_failing() -> None:
    cluster = builders.cluster_inventory(
        builders.gpu_slice(), classes=[builders.device_class("gpu", "false")]
    )
    claim = builders.claim(builders.request("gpu", RING))
    allocating.rejection(cluster, claim)


def test_nodes_with_the_same_devices_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    find = eligibility.selected_devices

    def counted(resolved: ResolvedAlternative, inventory: NodeInventory) -> DeviceMatches:
        looked.append(inventory.node.metadata.name)
        return find(resolved, inventory)

    monkeypatch.setattr(eligibility, "selected_devices", counted)
    interner = Interner()
    slices = [interner.share(builders.gpu_slice(f"n{number}", 4)) for number in range(5)]
    cluster = builders.cluster_inventory(*slices)
    allocator = allocating.allocator_on(cluster)
    claim = builders.claim(builders.request("gpu", count=2))
    # A node has a class if one before it has the same, interned devices.
    for node in ("n0", "n1", "n2"):
        allocator.allocate_on([claim], node)
    before = len(looked)
    fit = allocator.allocate_on([claim], "n3")
    assert isinstance(fit, Fit)
    cluster.record_allocation(claim.key, fit.allocations[0])
    assert isinstance(allocator.allocate_on([claim], "n3"), Fit)
    assert len(looked) == before
