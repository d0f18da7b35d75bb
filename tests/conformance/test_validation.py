"""Kubernetes' own validation cases: the same errors at the same fields, in the same words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from dray.api import features
from dray.api.features import Features
from dray.api.types import dra, meta
from dray.validation import fields
from dray.validation.dra import capacities, claim_status
from dray.validation.dra import claims as claim_rules
from dray.validation.dra import classes as class_rules
from dray.validation.dra import pool_status as poolstatus_rules
from dray.validation.dra import slices as slice_rules
from dray.validation.dra import taints as taint_rules
from tests.conformance import cases

Validate = Callable[[Any, Any, Features], Iterator[fields.FieldError]]

FUNCTIONS: dict[str, tuple[type, Validate]] = {
    "ValidateResourceClaim": (
        dra.ResourceClaim,
        lambda new, _, gates: claim_rules.resource_claim(new, gates),
    ),
    "ValidateResourceClaimUpdate": (
        dra.ResourceClaim,
        lambda new, old, _: claim_rules.resource_claim_update(new, old),
    ),
    "ValidateResourceClaimStatusUpdate": (
        dra.ResourceClaim,
        lambda new, old, _: claim_status.status_update(new, old),
    ),
    "ValidateResourceClaimTemplate": (
        dra.ResourceClaimTemplate,
        lambda new, _, gates: claim_rules.claim_template(new, gates),
    ),
    "ValidateResourceClaimTemplateUpdate": (
        dra.ResourceClaimTemplate,
        lambda new, old, _: claim_rules.claim_template_update(new, old),
    ),
    "ValidateDeviceClass": (
        dra.DeviceClass,
        lambda new, _, gates: class_rules.device_class(new, gates),
    ),
    "ValidateDeviceClassUpdate": (dra.DeviceClass, class_rules.device_class_update),
    "ValidateResourceSlice": (
        dra.ResourceSlice,
        lambda new, _, gates: slice_rules.resource_slice(new, gates),
    ),
    "ValidateResourceSliceUpdate": (dra.ResourceSlice, slice_rules.resource_slice_update),
    "ValidateDeviceTaintRule": (
        dra.DeviceTaintRule,
        lambda new, _, __: taint_rules.taint_rule(new),
    ),
    "ValidateDeviceTaintRuleUpdate": (
        dra.DeviceTaintRule,
        lambda new, old, _: taint_rules.taint_rule_update(new, old),
    ),
    "ValidateResourcePoolStatusRequest": (
        dra.ResourcePoolStatusRequest,
        lambda new, _, __: poolstatus_rules.pool_status_request(new),
    ),
    "ValidateResourcePoolStatusRequestUpdate": (
        dra.ResourcePoolStatusRequest,
        lambda new, old, _: poolstatus_rules.pool_status_request_update(new, old),
    ),
    "ValidateResourcePoolStatusRequestStatusUpdate": (
        dra.ResourcePoolStatusRequest,
        lambda new, old, _: poolstatus_rules.pool_status_request_status_update(new, old),
    ),
    "validateMultiAllocatableDeviceCapacity": (
        dra.DeviceCapacity,
        lambda new, _, gates: capacities.shared_capacity(
            new, fields.SPEC.child("devices").child("capacity"), gates
        ),
    ),
}


# What these cases check cannot be written as JSON: parameters that are no JSON at all or whose size
# depends on blanks, a list that is empty instead of absent, the zero time.
NOT_JSON = {
    ("ValidateDeviceClass", "configuration"),
    ("ValidateDeviceClassUpdate", "invalid-config-too-large"),
    ("ValidateResourceClaim", "configuration"),
    ("ValidateResourceClaimStatusUpdate", "configuration"),
    ("ValidateResourceClaimStatusUpdate", "invalid-data-device-status"),
    ("ValidateResourceClaimStatusUpdate", "invalid-data-device-status-disabled-feature-gate"),
    ("ValidateResourceClaimStatusUpdate", "invalid-data-device-status-limits"),
    ("ValidateResourceClaimStatusUpdate", "invalid-data-device-status-limits-feature-gate"),
    ("ValidateResourceClaimStatusUpdate", "invalid-reserved-deleted"),
    ("ValidateResourceSlice", "bad-list-attribute"),
}


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [without_nulls(part) for part in value]
    return value


def gates_of(case: dict[str, Any]) -> Features:
    """The gates of the case as they are: some of them could not be set together in a cluster."""
    values = {features.GATES[name].field: enabled for name, enabled in case["featureGates"].items()}
    return msgspec.structs.replace(features.DEFAULT, **values)


def validate(case: dict[str, Any]) -> list[fields.FieldError]:
    struct, rules = FUNCTIONS[case["function"]]
    new, old = (
        msgspec.convert(without_nulls(case[key]), struct) if case.get(key) else None
        for key in ("object", "oldObject")
    )
    return list(rules(new, old, gates_of(case)))


@pytest.fixture
def case(request: pytest.FixtureRequest) -> dict[str, Any]:
    recorded: dict[str, Any] = request.param
    if (recorded["function"], recorded["name"]) in NOT_JSON:
        pytest.skip("JSON cannot carry what the case is about")
    return recorded


every_case = pytest.mark.parametrize("case", cases.parameters("validation"), indirect=True)


@every_case
def test_errors_are_those_of_kubernetes(case: dict[str, Any]) -> None:
    found = sorted((error.field, str(error.type), error.detail) for error in validate(case))
    expected = sorted(
        (error["field"], error["type"], error["detail"]) for error in case["wantErrors"]
    )
    assert found == expected


@every_case
def test_messages_and_marks_are_those_of_kubernetes(case: dict[str, Any]) -> None:
    """Structs in messages are left out: Kubernetes prints its internal ones, dray the API's."""
    found = sorted(
        (error.field, "" if shows_struct(error) else error.message, error.origin, error.covered)
        for error in validate(case)
    )
    expected = sorted(
        (
            error["field"],
            "" if error["badValueType"] in STRUCTS else error["message"],
            error["origin"],
            error["coveredByDeclarative"],
        )
        for error in case["gotErrors"]
    )
    assert found == expected


STRUCTS = {
    "*resource.AllocationResult",
    "*resource.ResourcePoolStatusRequestStatus",
    "resource.DeviceAttribute",
    "resource.ResourceClaimSpec",
    "resource.ResourceClaimTemplateSpec",
    "schedulerapi.SharedDeviceID",
}
"""The Go types of bad values in the recorded messages that are structs."""


def shows_struct(error: fields.FieldError) -> bool:
    return isinstance(error.bad_value, meta.Wire)
