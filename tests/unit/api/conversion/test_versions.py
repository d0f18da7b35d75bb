"""Versions: what old clients see of an object, and how what they send is stored."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.conversion import versions

V1, V1BETA1 = "resource.k8s.io/v1", "resource.k8s.io/v1beta1"


def claim(api_version: str, *requests: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": list(requests)}},
    }


def resource_slice(api_version: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": "ResourceSlice", "spec": spec}


@pytest.mark.parametrize(
    ("flat", "stored"),
    [
        pytest.param(
            {"name": "gpu", "deviceClassName": "gpu", "count": 2},
            {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 2}},
            id="flat fields move to exactly",
        ),
        pytest.param(
            {"name": "gpu", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]},
            {"name": "gpu", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]},
            id="subrequests stay",
        ),
        pytest.param({"name": "gpu"}, {"name": "gpu"}, id="nothing set, nothing made"),
        pytest.param(
            {"name": "gpu", "count": 0, "allocationMode": "", "adminAccess": None},
            {"name": "gpu", "count": 0, "allocationMode": "", "adminAccess": None},
            id="zero values set nothing",
        ),
        pytest.param(
            {"name": "gpu", "adminAccess": False},
            {"name": "gpu", "exactly": {"adminAccess": False}},
            id="false is a value",
        ),
        pytest.param(
            {"name": "gpu", "deviceClassName": "gpu", "firstAvailable": [{"name": "a"}]},
            {
                "name": "gpu",
                "firstAvailable": [{"name": "a"}],
                "exactly": {"deviceClassName": "gpu"},
            },
            id="both are kept for validation to refuse",
        ),
        pytest.param(
            {"name": "gpu", "deviceClassName": "gpu", "future": 1},
            {"name": "gpu", "exactly": {"deviceClassName": "gpu", "future": 1}},
            id="unknown fields move along",
        ),
        pytest.param(
            {"name": "gpu", "firstAvailable": [{}], "future": 1},
            {"name": "gpu", "firstAvailable": [{}], "future": 1},
            id="unknown fields stay beside subrequests",
        ),
    ],
)
def test_requests_of_v1beta1_are_stored_as_v1(flat: dict[str, Any], stored: dict[str, Any]) -> None:
    assert versions.to_storage(claim(V1BETA1, flat)) == claim(V1, stored)


def test_v1beta1_clients_see_flat_requests() -> None:
    stored = claim(V1, {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 1}})
    assert versions.from_storage(stored, V1BETA1) == claim(
        V1BETA1, {"name": "gpu", "deviceClassName": "gpu", "count": 1}
    )


def test_templates_are_converted_inside() -> None:
    template = {
        "apiVersion": V1BETA1,
        "kind": "ResourceClaimTemplate",
        "spec": {"spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "c"}]}}},
    }
    stored = versions.to_storage(template)
    assert stored["apiVersion"] == V1
    assert stored["spec"]["spec"]["devices"]["requests"] == [
        {"name": "r", "exactly": {"deviceClassName": "c"}}
    ]
    assert versions.from_storage(stored, V1BETA1) == template


def test_devices_are_wrapped_in_basic_for_v1beta1() -> None:
    stored = resource_slice(
        V1, driver="d", nodeName="n", devices=[{"name": "a", "capacity": {}}, {"name": "b"}]
    )
    old = resource_slice(
        V1BETA1,
        driver="d",
        nodeName="n",
        devices=[{"name": "a", "basic": {"capacity": {}}}, {"name": "b", "basic": {}}],
    )
    assert versions.from_storage(stored, V1BETA1) == old
    assert versions.to_storage(old) == stored


def test_an_empty_node_name_of_v1beta1_is_no_node_name() -> None:
    old = resource_slice(V1BETA1, nodeName="", allNodes=False, devices=[{"name": "a"}])
    assert versions.to_storage(old) == resource_slice(V1, devices=[{"name": "a"}])


@pytest.mark.parametrize("version", ["v1beta2", "v1alpha3"])
def test_other_versions_differ_in_name_only(version: str) -> None:
    rule: dict[str, Any] = {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "DeviceTaintRule",
        "spec": {"taint": {"key": "k"}, "future": 1},
    }
    stored = versions.to_storage(rule)
    assert stored == {**rule, "apiVersion": V1}
    assert versions.from_storage(stored, rule["apiVersion"]) == rule


def test_a_kind_with_one_version_is_stored_as_it_is() -> None:
    request = {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourcePoolStatusRequest"}
    assert versions.to_storage(request) is request


def test_stored_versions_pass_through_unchanged() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod"}
    assert versions.to_storage(pod) is pod
    assert versions.from_storage(pod, "v1") is pod


def test_both_kinds_of_event_share_one_form() -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p"},
        "note": "no devices",
        "reason": "FailedScheduling",
        "reportingController": "default-scheduler",
        "reportingInstance": "i",
        "deprecatedCount": 3,
        "deprecatedSource": {"component": "s"},
        "deprecatedFirstTimestamp": None,
        "series": {"count": 2},
    }
    stored = versions.to_storage(event)
    assert stored == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p"},
        "message": "no devices",
        "reason": "FailedScheduling",
        "reportingComponent": "default-scheduler",
        "reportingInstance": "i",
        "count": 3,
        "source": {"component": "s"},
        "firstTimestamp": None,
        "series": {"count": 2},
    }
    assert versions.from_storage(stored, "events.k8s.io/v1") == event


@pytest.mark.parametrize(
    ("field", "stored"),
    [
        ("regarding.name", "involvedObject.name"),
        ("reportingController", "reportingComponent"),
        ("metadata.name", "metadata.name"),
    ],
)
def test_field_selectors_of_events_name_stored_fields(field: str, stored: str) -> None:
    assert versions.storage_field("events.k8s.io/v1", "Event", field) == stored


@pytest.mark.parametrize("spec", [None, {}, {"devices": None}, {"devices": {"requests": None}}, 3])
def test_malformed_objects_are_left_for_validation(spec: Any) -> None:
    wire = {"apiVersion": V1BETA1, "kind": "ResourceClaim", "spec": spec}
    assert versions.to_storage(wire) == {**wire, "apiVersion": V1}
