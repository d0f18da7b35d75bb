"""Rules for ResourceQuota."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.validation import objects


def quota(**spec: Any) -> Any:
    return objects.decode({"kind": "ResourceQuota", "metadata": objects.metadata(), "spec": spec})


@pytest.mark.parametrize(
    "name",
    [
        "pods",
        "requests.cpu",
        "limits.memory",
        "requests.example.com/gpu",
        "count/resourceclaims.resource.k8s.io",
        "gpu.example.com.deviceclass.resource.k8s.io/devices",
        "hugepages-2Mi",
    ],
)
def test_what_can_be_limited_is_valid(name: str) -> None:
    assert not objects.created("ResourceQuota", quota(hard={name: "10"}))


def test_a_name_without_a_domain_is_one_of_kubernetes() -> None:
    assert objects.created("ResourceQuota", quota(hard={"devices": "1"})) == [
        'spec.hard[devices]: Invalid value: "devices": '
        "must be a standard resource type or fully qualified",
        'spec.hard[devices]: Invalid value: "devices": must be a standard resource for quota',
    ]


def test_amounts_are_not_negative() -> None:
    assert objects.created("ResourceQuota", quota(hard={"pods": "-1"})) == [
        'spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0'
    ]


def test_scopes_fit_resources_and_each_other() -> None:
    spec = {"hard": {"secrets": "1"}, "scopes": ["BestEffort", "NotBestEffort"]}
    shown = '["BestEffort","NotBestEffort"]'
    assert objects.created("ResourceQuota", quota(**spec)) == [
        f"spec.scopes: Invalid value: {shown}: unsupported scope applied to resource",
        f"spec.scopes: Invalid value: {shown}: conflicting scopes",
    ]


def test_scopes_cannot_change() -> None:
    old, new = quota(hard={"pods": "1"}), quota(hard={"pods": "1"}, scopes=["Terminating"])
    assert objects.updated("ResourceQuota", new, old) == [
        'spec.scopes: Invalid value: ["Terminating"]: field is immutable'
    ]


def test_a_selector_of_priority_classes_has_values() -> None:
    expression = {"scopeName": "PriorityClass", "operator": "In"}
    selector = {"matchExpressions": [expression]}
    assert objects.created("ResourceQuota", quota(hard={"pods": "1"}, scopeSelector=selector)) == [
        "spec.scopeSelector.matchExpressions.values: Required value: "
        "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
    ]
