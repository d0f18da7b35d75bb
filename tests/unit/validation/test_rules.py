"""Hand-written and declarative rules together, on create, update and status update."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api import kinds
from dray.api.types import dra
from dray.validation import rules
from tests.unit.validation import objects

REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}


def claim_with(*requests: dict[str, Any], **devices: Any) -> Any:
    return objects.claim(spec={"devices": {"requests": list(requests), **devices}})


def allocated(**changes: Any) -> dict[str, Any]:
    result = {"request": "gpu", "driver": "d.io", "pool": "p", "device": "gpu-0", **changes}
    return {"allocation": {"devices": {"results": [result]}}}


def test_a_plain_claim_is_valid() -> None:
    assert not objects.created("ResourceClaim", objects.claim())


def test_declarative_words_replace_covered_ones() -> None:
    assert objects.created("ResourceClaim", claim_with(REQUEST, REQUEST)) == [
        'spec.devices.requests[1]: Duplicate value: {"name":"gpu","exactly":'
        '{"deviceClassName":"gpu","allocationMode":"ExactCount","count":1}}'
    ]


def test_an_error_without_declarative_twin_stays() -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": ""}}
    assert objects.created("ResourceClaim", claim_with(request)) == [
        "spec.devices.requests[0].exactly.deviceClassName: Required value"
    ]


def test_declarative_errors_come_last() -> None:
    config = [{"opaque": {"driver": "Bad_Driver", "parameters": [1]}}]
    first, last = objects.created("ResourceClaim", claim_with(REQUEST, config=config))
    assert first.startswith("spec.devices.config[0].opaque.parameters: ")
    assert last.startswith("spec.devices.config[0].opaque.driver: ")


def test_rules_of_new_fields_are_only_declarative() -> None:
    request = {
        "name": "gpu",
        "exactly": {
            "deviceClassName": "gpu",
            "derivedAttributes": [{"name": "", "expression": ""}],
        },
    }
    assert objects.created("ResourceClaim", claim_with(request)) == [
        "spec.devices.requests[0].exactly.derivedAttributes[0].name: Required value",
        "spec.devices.requests[0].exactly.derivedAttributes[0].expression: Required value",
    ]


def test_declarative_paths_are_those_of_the_version_the_client_spoke() -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "Some"}}
    errors = rules.validate_create("ResourceClaim", claim_with(request), objects.ALL_ON, "v1beta1")
    assert [error.field for error in errors] == ["spec.devices.requests[0].allocationMode"]
    device = {"name": "gpu-0", "attributes": {"none": {}}}
    errors = rules.validate_create(
        "ResourceSlice", objects.resource_slice(device), objects.ALL_ON, "v1beta1"
    )
    assert [error.field for error in errors] == ["spec.devices[0].basic.attributes[none]"]


def test_each_message_comes_once() -> None:
    labelled = objects.claim(metadata=objects.metadata(labels={"bad key": ""}))
    assert len(objects.updated("ResourceClaim", labelled, objects.claim())) == 1


def test_the_spec_of_a_claim_is_immutable_and_not_looked_at_again() -> None:
    bad = {"name": "BAD", "exactly": {"deviceClassName": "gpu"}}
    assert objects.updated("ResourceClaim", claim_with(bad), objects.claim()) == [
        "spec: Invalid value: null: field is immutable"
    ]


def test_the_spec_of_a_stored_claim_may_be_invalid() -> None:
    stored = claim_with({"name": "BAD", "exactly": {"deviceClassName": "gpu"}})
    assert not objects.updated("ResourceClaim", stored, stored)


def test_the_same_quantity_in_other_words_is_no_change() -> None:
    def with_memory(text: str) -> dra.ResourceClaim:
        capacity = dra.CapacityRequirements(requests={"memory": text})
        exactly = dra.ExactDeviceRequest(device_class_name="c", capacity=capacity)
        requests = (dra.DeviceRequest(name="gpu", exactly=exactly),)
        spec = dra.ResourceClaimSpec(devices=dra.DeviceClaim(requests=requests))
        return dra.ResourceClaim(metadata=objects.claim().metadata, spec=spec)

    assert not objects.updated("ResourceClaim", with_memory("1024Mi"), with_memory("1Gi"))
    assert objects.updated("ResourceClaim", with_memory("2Gi"), with_memory("1Gi"))


def test_a_claim_can_be_allocated_and_deallocated() -> None:
    free, taken = objects.claim(), objects.claim(status=allocated())
    assert not objects.status_updated("ResourceClaim", taken, free)
    assert not objects.status_updated("ResourceClaim", free, taken)


def test_an_allocation_cannot_be_modified() -> None:
    old, new = objects.claim(status=allocated()), objects.claim(status=allocated(device="gpu-1"))
    assert objects.status_updated("ResourceClaim", new, old) == [
        "status.allocation: Invalid value: null: field cannot be modified once set"
    ]


def test_a_result_must_be_for_a_request_of_the_claim() -> None:
    new = objects.claim(status=allocated(request="other"))
    (message,) = objects.status_updated("ResourceClaim", new, objects.claim())
    assert message.startswith("status.allocation.devices.results[0].request: Invalid value: ")


def test_a_reservation_needs_an_allocation() -> None:
    reserved = [{"resource": "pods", "name": "p", "uid": "u"}]
    new = objects.claim(status={"reservedFor": reserved})
    assert objects.status_updated("ResourceClaim", new, objects.claim()) == [
        "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"
    ]


def test_no_reservation_is_added_to_a_claim_that_is_being_deleted() -> None:
    deleted = objects.metadata(deletionTimestamp=objects.NOW)
    pod = {"resource": "pods", "name": "p", "uid": "u"}
    other = {**pod, "uid": "v"}
    old = objects.claim(metadata=deleted, status={**allocated(), "reservedFor": [pod]})
    more = objects.claim(metadata=deleted, status={**allocated(), "reservedFor": [pod, other]})
    (message,) = objects.status_updated("ResourceClaim", more, old)
    assert "new entries may not be added" in message
    less = objects.claim(metadata=deleted, status=allocated())
    assert not objects.status_updated("ResourceClaim", less, old)


def test_a_driver_reports_only_on_allocated_devices() -> None:
    old = objects.claim(status=allocated())
    report = {"driver": "d.io", "pool": "p", "device": "gpu-9"}
    new = objects.claim(status={**allocated(), "devices": [report]})
    assert objects.status_updated("ResourceClaim", new, old) == [
        'status.devices[0]: Invalid value: {"driver":"d.io","pool":"p","device":"gpu-9"}: '
        "must be an allocated device in the claim"
    ]


def test_the_template_of_claims_is_immutable() -> None:
    def template(name: str) -> Any:
        spec = {"devices": {"requests": [{"name": name, "exactly": {"deviceClassName": "c"}}]}}
        content = {"kind": "ResourceClaimTemplate", "metadata": objects.metadata()}
        return objects.decode({**content, "spec": {"spec": spec}}, "resource.k8s.io/v1")

    (message,) = objects.updated("ResourceClaimTemplate", template("b"), template("a"))
    assert '"spec":{"devices":{"requests":[{"name":"b",' in message
    assert message.startswith("spec: Invalid value: {")
    assert message.endswith(": field is immutable")


def test_a_slice_keeps_its_driver_pool_and_node() -> None:
    old = objects.resource_slice()
    pool = {"name": "other", "generation": 1, "resourceSliceCount": 1}
    new = objects.resource_slice(driver="other.io", pool=pool, nodeName="other")
    assert objects.updated("ResourceSlice", new, old) == [
        'spec.pool.name: Invalid value: "other": field is immutable',
        'spec.driver: Invalid value: "other.io": field is immutable',
        'spec.nodeName: Invalid value: "other": field is immutable',
    ]


def test_an_unchanged_selector_of_a_class_is_not_compiled_again() -> None:
    def device_class(expression: str, **spec: Any) -> Any:
        selectors = [{"cel": {"expression": expression}}]
        content = {"kind": "DeviceClass", "metadata": {"name": "gpu", "resourceVersion": "1"}}
        return objects.decode(
            {**content, "spec": {"selectors": selectors, **spec}}, "resource.k8s.io/v1"
        )

    stored, changed = device_class("no such thing"), device_class("no such", config=[])
    assert not objects.updated("DeviceClass", stored, stored)
    (message,) = objects.updated("DeviceClass", changed, stored)
    assert message.startswith("spec.selectors[0].cel.expression: Invalid value: ")


def test_an_answered_question_about_pools_stays_answered() -> None:
    def request(**status: Any) -> Any:
        content = {
            "kind": "ResourcePoolStatusRequest",
            "metadata": {"name": "q", "resourceVersion": "1"},
            "spec": {"driver": "d.io", "limit": 10},
            **({"status": status} if status else {}),
        }
        return objects.decode(content, "resource.k8s.io/v1alpha3")

    kind = "ResourcePoolStatusRequest"
    assert not objects.status_updated(kind, request(poolCount=1), request())
    (message,) = objects.status_updated(kind, request(poolCount=2), request(poolCount=1))
    assert message == 'status: Invalid value: {"poolCount":2}: field is immutable'


def test_common_rules_hold_for_updates_of_every_kind() -> None:
    old = rules.Bare(metadata=objects.claim().metadata)
    new = msgspec.structs.replace(
        old, metadata=msgspec.structs.replace(old.metadata, uid="other", resource_version="")
    )
    assert set(objects.updated("Event", new, old)) == {
        'metadata.resourceVersion: Invalid value: "": must be specified for an update',
        'metadata.uid: Invalid value: "other": field is immutable',
    }


@pytest.mark.parametrize("kind", sorted({row.kind for row in kinds.KINDS if row.is_stored}))
def test_every_stored_kind_has_rules(kind: str) -> None:
    messages = objects.created(kind, rules.struct_of(kind)())
    assert "metadata.name: Required value: name or generateName is required" in messages
