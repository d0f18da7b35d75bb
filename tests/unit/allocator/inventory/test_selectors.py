"""Selectors are answered once per shape, and only where the search comes to."""

from __future__ import annotations

import pytest

from dray.api.types.dra import DeviceAttribute
from dray.cel import device as cel
from tests import builders
from tests.unit.allocator import asking

RING = 'device.attributes["gpu.example.com"].ring == "east"'


def test_a_fleet_of_one_model_evaluates_a_selector_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    matches = cel.Selector.matches

    def counted(self: cel.Selector, device: cel.DeviceView) -> bool:
        asked.append(self.expression)
        return matches(self, device)

    monkeypatch.setattr(cel.Selector, "matches", counted)
    fleet = builders.fleet(*[builders.gpu_slice(f"n{number}", 8) for number in range(10)])
    selector = 'device.attributes["gpu.example.com"].productName == "A100"'
    claim = builders.claim(builders.request("gpu", selector))
    asking.placement_on(fleet).first_fit([claim])
    assert asked.count(selector) == 1


def test_an_expression_that_fails_fails_only_where_the_search_comes_to() -> None:
    piece = builders.resource_slice(
        builders.gpu("gpu-0", attributes={"ring": "east"}), builders.gpu("gpu-1")
    )
    fleet = builders.fleet(piece)
    one = builders.claim(builders.request("gpu", RING))
    two = builders.claim(builders.request("gpu", RING, count=2))
    assert asking.devices(fleet, one) == ["gpu-0"]
    assert asking.failure(fleet, two) == (
        "claim default/train: selector #0 on device gpu.example.com/n1/gpu-1: CEL runtime error: "
        "no such key: ring. consider using CEL optional chaining (.? followed by orValue()) or "
        "guarding the check with has() for optional fields"
    )


def test_a_taken_device_is_never_evaluated() -> None:
    piece = builders.resource_slice(
        builders.gpu("gpu-0"), builders.gpu("gpu-1", attributes={"ring": "east"})
    )
    fleet = builders.fleet(piece)
    claim = builders.claim(builders.request("gpu", RING))
    assert "no such key" in asking.failure(fleet, claim)
    builders.hold(fleet, "other", "gpu-0")
    assert asking.devices(fleet, claim) == ["gpu-1"]


def test_too_few_devices_do_not_hide_a_failure() -> None:
    """Counting would say no; upstream comes upon the device that fails first."""
    piece = builders.resource_slice(
        builders.gpu("gpu-0", attributes={"ring": "west"}), builders.gpu("gpu-1")
    )
    claim = builders.claim(builders.request("gpu", RING, count=3))
    assert "no such key: ring" in asking.failure(builders.fleet(piece), claim)


def test_a_device_with_an_attribute_without_value_fails_whatever_is_read() -> None:
    broken = builders.gpu("gpu-0", attributes={"odd": DeviceAttribute()})
    claim = builders.claim(builders.request())
    assert asking.failure(builders.fleet(builders.resource_slice(broken)), claim) == (
        "class gpu: selector #0 on device gpu.example.com/n1/gpu-0: CEL runtime error: "
        "attribute odd: unsupported attribute value"
    )


def test_a_class_selector_that_refuses_keeps_the_request_selector_from_failing() -> None:
    fleet = builders.fleet(builders.gpu_slice(), classes=[builders.device_class("gpu", "false")])
    claim = builders.claim(builders.request("gpu", RING))
    asking.refusal(fleet, claim)
