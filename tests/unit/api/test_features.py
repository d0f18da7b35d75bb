"""Feature gates: defaults per version, what may be set, what depends on what."""

from __future__ import annotations

import msgspec
import pytest

from dray.api import features


def test_every_gate_has_one_field_and_every_field_one_gate() -> None:
    fields = [field.name for field in msgspec.structs.fields(features.Features)]
    assert sorted(fields) == sorted(["version", *(gate.field for gate in features.GATES.values())])


@pytest.mark.parametrize("version", features.VERSIONS)
def test_defaults_of_a_version_satisfy_their_own_needs(version: str) -> None:
    assert features.with_gates(features.for_version(version), {}) == features.for_version(version)


@pytest.mark.parametrize(
    ("version", "gate", "on"),
    [
        ("1.34", "DynamicResourceAllocation", True),
        ("1.34", "DRAConsumableCapacity", False),
        ("1.35", "DRADeviceTaints", False),
        ("1.36", "DRADeviceTaints", True),
        ("1.36", "DRADeviceTaintRules", False),
        ("1.37", "DRADeviceTaintRules", True),
        ("1.37", "DRAFractionalCapacityRange", False),
        ("1.37", "GenericWorkload", False),
        ("1.37", "DrayExclusiveDevices", True),
        ("1.37", "DrayGangSearch", False),
        ("1.37", "DrayPreemption", False),
    ],
)
def test_default_of_a_gate_in_a_version(version: str, gate: str, on: bool) -> None:
    assert features.is_enabled(features.for_version(version), gate) is on


def test_default_is_the_newest_version() -> None:
    assert features.for_version("1.37") == features.DEFAULT


def test_parse_sets_what_is_named_and_leaves_the_rest() -> None:
    parsed = features.parse(" DRAListTypeAttributes = true ,DRAConsumableCapacity=0")
    assert parsed.list_type_attributes
    assert not parsed.consumable_capacity
    assert parsed.admin_access


def test_all_alpha_sets_alpha_gates_only() -> None:
    parsed = features.parse("AllAlpha=true")
    assert parsed.derived_attributes
    assert parsed.partitionable_devices_type
    assert not parsed.fractional_capacity_range


def test_all_beta_spares_gates_without_stage() -> None:
    parsed = features.parse("AllBeta=false")
    assert not parsed.partitionable_devices
    assert parsed.exclusive_devices
    assert parsed.device_taints


def test_a_gate_named_itself_wins_over_its_group_in_any_order() -> None:
    assert not features.parse("DRADerivedAttributes=false,AllAlpha=true").derived_attributes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DRAListAttributes=true", "unrecognized feature gate: DRAListAttributes, did you mean"),
        ("Zzz=true", "unrecognized feature gate: Zzz, known are DRAAdminAccess, "),
        ("DRAAdminAccess=false", "DRAAdminAccess to false, feature is locked to true: leave it"),
        ("DRADeviceTaints", "missing bool value for DRADeviceTaints: write"),
        ("DRADeviceTaints=yes", "invalid value of DRADeviceTaints=yes: write true or false"),
        (
            "DRADeviceTaints=false",
            "DRADeviceTaintRules is enabled, but depends on features that are disabled: "
            "DRADeviceTaints: enable it or set DRADeviceTaintRules=false",
        ),
        (
            "DRAWorkloadResourceClaims=true",
            "DRAWorkloadResourceClaims is enabled, but depends on features that are disabled: "
            "GenericWorkload",
        ),
        (
            "DRAPartitionableDevicesType=true,DRAPartitionableDevices=false",
            "disabled: DRAPartitionableDevices, DRAResourcePoolStatus: enable them or",
        ),
    ],
)
def test_refused_gates_are_named(text: str, message: str) -> None:
    with pytest.raises(features.FeatureError) as refused:
        features.parse(text)
    assert message in str(refused.value)


def test_a_gate_from_the_future_is_refused() -> None:
    with pytest.raises(features.FeatureError, match=r"does not have it: it came with 1\.37"):
        features.parse("DRADerivedAttributes=true", features.for_version("1.36"))


def test_a_locked_gate_may_be_set_to_what_it_is() -> None:
    assert features.parse("DRAAdminAccess=true") == features.DEFAULT


def test_unknown_version_is_refused() -> None:
    with pytest.raises(features.FeatureError, match=r"use one of 1\.34"):
        features.for_version("1.20")
