"""Which specs belong to a group, and which are not run."""

from __future__ import annotations

import re

import pytest
from tools.e2e import groups, skips

DRA = "[sig-node] [DRA]"
POOLS = "[FeatureGate:DRAResourcePoolStatus]"
NAMES = {
    "crud": f"{DRA} CRUD Tests resource.k8s.io/v1 DeviceClass [Conformance]",
    "control-plane": f"{DRA} control plane supports reusing resources",
    "pool-status": f"{DRA} control plane {POOLS} [Alpha] should create a status",
    "slices": f"{DRA} ResourceSlice Controller creates slices",
    "claim-quota": "[sig-api-machinery] ResourceQuota should capture the life of a ResourceClaim",
    "kubelet": f"{DRA} kubelet [Feature:DynamicResourceAllocation] on single node works",
    "extended-resources": f"{DRA} [FeatureGate:DRAExtendedResource] [Beta] must run a pod",
    "metadata": f"{DRA} metadata [Feature:DynamicResourceAllocation] v1beta1 must mount",
    "compatibility": f"{DRA} [FeatureGate:X] device compatibility groups incompatible devices",
    "conformance-apps": "[sig-apps] Job should delete a job [Conformance]",
    "conformance-node": "[sig-node] Pods should be updated [Conformance] [NodeConformance]",
}


@pytest.mark.parametrize("group", NAMES)
def test_a_spec_is_in_one_group(group: str) -> None:
    assert groups.named(group).select(NAMES.values()) == [NAMES[group]]
    assert [each.name for each in groups.GROUPS if each.select([NAMES[group]])] == [group]


def test_specs_without_conformance_are_in_no_group_of_it() -> None:
    name = "[sig-apps] Job should do something new"
    assert not any(group.select([name]) for group in groups.GROUPS)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("[sig-api-machinery] FieldValidation should detect duplicates in a CR", "Custom"),
        ("[sig-api-machinery] AdmissionWebhook should deny crd creation", "Custom"),
        ("[sig-api-machinery] AdmissionWebhook should honor timeout", "webhooks"),
        ("[sig-api-machinery] Aggregator Should be able to support", "other servers"),
    ],
)
def test_what_is_not_served_is_not_run(name: str, part: str) -> None:
    assert part in skips.reason(name)


@pytest.mark.parametrize("name", NAMES.values())
def test_everything_else_is_run(name: str) -> None:
    assert not skips.reason(name)


def test_every_skip_has_a_reason_and_a_pattern_that_is_not_everything() -> None:
    for skip in skips.SKIPS:
        assert skip.reason
        assert not re.search(skip.pattern, "")
