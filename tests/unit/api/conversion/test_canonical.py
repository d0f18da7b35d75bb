from typing import Any

import msgspec
import pytest

from dray.api.conversion import canonical
from dray.api.types.dra import ResourceClaim


def write(type_name: str, **fields: Any) -> dict[str, Any]:
    return canonical.write(type_name, fields)


def test_unknown_fields_are_dropped() -> None:
    assert write("core.v1.PodIP", ip="10.0.0.1", extra=1) == {"ip": "10.0.0.1"}


def test_null_is_absent() -> None:
    assert write("meta.v1.LabelSelector", matchLabels=None) == {}


@pytest.mark.parametrize(
    ("field", "empty", "stays"),
    [
        pytest.param("count", 0, False, id="a number that may be left out"),
        pytest.param("allocationMode", "", False, id="a string that may be left out"),
        pytest.param("tolerations", [], False, id="a list"),
        pytest.param("adminAccess", False, True, id="a pointer"),
        pytest.param("capacity", {}, True, id="a pointer to a structure"),
    ],
)
def test_empty_values_are_left_out_unless_behind_a_pointer(
    field: str, empty: object, stays: bool
) -> None:
    written = write("resource.v1.ExactDeviceRequest", deviceClassName="gpu", **{field: empty})
    assert (field in written) is stays


def test_required_scalars_are_written_even_when_absent() -> None:
    assert write("resource.v1.ResourcePool", name="p") == {
        "name": "p",
        "generation": 0,
        "resourceSliceCount": 0,
    }


def test_structures_that_are_no_pointers_are_written_even_when_absent() -> None:
    assert write("core.v1.Container", name="c") == {"name": "c", "resources": {}}
    assert write("resource.v1.ResourceClaim", kind="ResourceClaim") == {
        "kind": "ResourceClaim",
        "metadata": {},
        "spec": {"devices": {"requests": None}},
        "status": {},
    }


def test_an_empty_list_that_is_always_written_reads_back_as_null() -> None:
    assert write("rbac.v1.Role", rules=[]) == {"metadata": {}, "rules": None}
    assert write("core.v1.PodSpec") == {"containers": None}


def test_a_time_that_is_not_set_is_null_or_absent() -> None:
    assert write("core.v1.PodCondition", type="Ready", status="True") == {
        "type": "Ready",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": None,
    }
    assert write("meta.v1.ObjectMeta", creationTimestamp="0001-01-01T00:00:00Z") == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [("1024Mi", "1Gi"), (2, "2"), (0.5, "500m"), ("1.5Gi", "1536Mi"), (None, "0")],
)
def test_quantities_have_one_form(value: object, text: str) -> None:
    assert write("resource.v1.DeviceCapacity", value=value) == {"value": text}


def test_times_are_in_utc() -> None:
    written = write("meta.v1.ObjectMeta", deletionTimestamp="2026-01-01T01:00:00.25+01:00")
    assert written == {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def test_opaque_parameters_are_kept_as_they_are() -> None:
    parameters: dict[str, Any] = {"a": None, "b": [], "c": {"d": 0}}
    written = write("resource.v1.OpaqueDeviceConfiguration", driver="d", parameters=parameters)
    assert written == {"driver": "d", "parameters": parameters}


def test_null_items_become_zero_values() -> None:
    assert write("meta.v1.ObjectMeta", finalizers=["a", None]) == {"finalizers": ["a", ""]}
    assert write("meta.v1.ObjectMeta", labels={"a": None}) == {"labels": {"a": ""}}
    assert write("core.v1.Secret", data={"a": None, "b": "Yg=="})["data"] == {"a": "", "b": "Yg=="}


def test_the_given_object_is_not_changed_and_writing_twice_changes_nothing() -> None:
    given = {"metadata": {"name": "c", "labels": {}}, "spec": {"devices": {"requests": []}}}
    once = canonical.write("resource.v1.ResourceClaim", given)
    assert given["metadata"] == {"name": "c", "labels": {}}
    assert canonical.write("resource.v1.ResourceClaim", once) == once


def test_structs_can_be_made_from_an_object_without_nulls() -> None:
    claim = {
        "metadata": {"name": "c", "labels": None},
        "spec": {
            "devices": {
                "requests": [
                    {"name": "r", "exactly": {"capacity": {"requests": {"memory": 5}}}},
                ],
                "config": [{"opaque": {"driver": "d", "parameters": {"keep": None}}}],
            }
        },
        "status": None,
    }
    pruned = canonical.without_nulls("resource.v1.ResourceClaim", claim)
    struct = msgspec.convert(pruned, ResourceClaim)
    exactly = struct.spec.devices.requests[0].exactly
    assert exactly is not None
    assert exactly.capacity is not None
    assert exactly.capacity.requests == {"memory": "5"}
    opaque = struct.spec.devices.config[0].opaque
    assert opaque is not None
    assert opaque.parameters == {"keep": None}
