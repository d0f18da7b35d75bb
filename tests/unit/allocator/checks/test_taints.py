"""Taints, tolerations and rules."""

from __future__ import annotations

import pytest

from dray.allocator.checks import taints
from dray.allocator.model import rejections
from dray.api.semantics import tolerations
from dray.api.types.dra import (
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    DeviceToleration,
)
from dray.api.types.meta import ObjectMeta
from tests import builders
from tests.unit.allocator import allocating

WORN = DeviceTaint("worn", "yes", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        pytest.param(DeviceToleration("worn", "Equal", "yes"), True, id="equal"),
        pytest.param(DeviceToleration("worn", "", "yes"), True, id="no-operator-is-equal"),
        pytest.param(DeviceToleration("worn", "Equal", "no"), False, id="other-value"),
        pytest.param(DeviceToleration("worn", "Exists"), True, id="exists"),
        pytest.param(DeviceToleration("", "Exists"), True, id="any-key"),
        pytest.param(DeviceToleration("hot", "Exists"), False, id="other-key"),
        pytest.param(DeviceToleration("worn", "Exists", "", "NoExecute"), False, id="other-effect"),
        pytest.param(DeviceToleration("worn", "Never"), False, id="unknown-operator"),
    ],
)
def test_toleration_matches_key_value_and_effect(
    toleration: DeviceToleration, tolerates: bool
) -> None:
    assert tolerations.tolerates(toleration, WORN) is tolerates


@pytest.mark.parametrize("effect", ["None", "Future"])
def test_effects_that_do_not_forbid_are_ignored(effect: str) -> None:
    assert taints.first_untolerated([DeviceTaint("worn", "", effect)], ()) is None


def test_a_tainted_device_is_passed_over() -> None:
    resource_slice = builders.resource_slice(
        builders.gpu("gpu-0", taints=[WORN]), builders.gpu("gpu-1")
    )
    claim = builders.claim(builders.request())
    assert allocating.devices(builders.cluster_inventory(resource_slice), claim) == ["gpu-1"]


def test_a_tolerated_taint_does_not_matter() -> None:
    resource_slice = builders.gpu_slice(count=1, taints=[WORN])
    tolerant = builders.request(tolerations=[DeviceToleration(operator="Exists")])
    (allocation,) = allocating.allocations(
        builders.cluster_inventory(resource_slice), builders.claim(tolerant)
    )
    (result,) = allocation.devices.results
    assert result.tolerations == (DeviceToleration(operator="Exists"),)


def test_a_rule_taints_the_devices_that_it_selects() -> None:
    cluster = builders.cluster_inventory(builders.gpu_slice(count=2))
    selector = DeviceTaintSelector(device="gpu-0")
    rule = DeviceTaintRule(ObjectMeta(name="hot"), DeviceTaintRuleSpec(selector, WORN))
    claim = builders.claim(builders.request())
    cluster.put_taint_rule(rule)
    assert allocating.devices(cluster, claim) == ["gpu-1"]
    cluster.drop_taint_rule("hot")
    assert allocating.devices(cluster, claim) == ["gpu-0"]


def test_all_devices_include_the_tainted_one_and_fail() -> None:
    resource_slice = builders.resource_slice(
        builders.gpu("gpu-0"), builders.gpu("gpu-1", taints=[WORN])
    )
    claim = builders.claim(builders.request(mode="All"))
    reason = allocating.rejection(builders.cluster_inventory(resource_slice), claim)
    assert isinstance(reason, rejections.TooFewDevices)
    assert (reason.needed, reason.free) == (2, 1)


def brief(seconds: int | None, effect: str = "NoExecute") -> DeviceToleration:
    return DeviceToleration("hot", "Exists", "", effect, seconds)


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        pytest.param((), 0, id="not-tolerated"),
        pytest.param((brief(60), brief(30)), 30, id="the-shortest-decides"),
        pytest.param((brief(60), brief(None)), None, id="for-ever"),
        pytest.param((brief(-5),), 0, id="negative-is-none"),
        pytest.param((brief(None, ""),), 0, id="without-an-effect"),
    ],
)
def test_an_evicting_taint_is_endured_as_long_as_tolerations_say(
    tolerations: tuple[DeviceToleration, ...], seconds: int | None
) -> None:
    assert taints.tolerated_seconds(DeviceTaint("hot", "", "NoExecute"), tolerations) == seconds


def test_other_taints_are_endured_for_ever() -> None:
    assert taints.tolerated_seconds(WORN, ()) is None
