"""Scenario files: what is decoded, and which gates are on."""

from __future__ import annotations

import msgspec
import pytest

from dray.allocator import scenarios
from dray.api.features import FeatureError
from tests import builders


def test_equal_parts_of_slices_are_kept_once() -> None:
    slices = [msgspec.to_builtins(builders.gpu_slice(node, 1)) for node in ("n0", "n1")]
    first, second = scenarios.convert({"name": "s", "slices": slices}).slices
    assert first.spec.node_name == "n0"
    assert second.spec.node_name == "n1"
    assert (
        first.spec.devices[0].attributes["productName"]
        is (second.spec.devices[0].attributes["productName"])
    )


@pytest.mark.parametrize(
    ("feature_set", "on", "off"),
    [
        ("default", "partitionable_devices", "derived_attributes"),
        ("all", "derived_attributes", "preemption"),
        ("DRAPrioritizedList", "prioritized_list", "partitionable_devices"),
    ],
)
def test_a_scenario_says_which_gates_are_on(feature_set: str, on: str, off: str) -> None:
    features = scenarios.Scenario(feature_set=feature_set).features()
    assert getattr(features, on) is True
    assert getattr(features, off) is False


@pytest.mark.parametrize(
    "feature_set", ["DRAPrioritisedList", "all+DRAAdminAccess", "DrayPreemption"]
)
def test_a_scenario_refuses_gates_that_it_does_not_know(feature_set: str) -> None:
    with pytest.raises(FeatureError, match="Write default, all, or some of DRAAdminAccess, "):
        scenarios.Scenario(feature_set=feature_set).features()
