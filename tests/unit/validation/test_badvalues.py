"""Structs in messages look as Go prints them."""

from __future__ import annotations

from dray.api import claims, meta, pods
from dray.validation import badvalues


def test_an_internal_struct_shows_go_names_and_every_field() -> None:
    claim = pods.PodResourceClaim(name="gpu")
    assert badvalues.to_json(badvalues.Internal(claim)) == (
        '{"Name":"gpu","ResourceClaimName":null,"ResourceClaimTemplateName":null}'
    )


def test_a_versioned_struct_shows_what_is_on_the_wire() -> None:
    request = claims.DeviceRequest(
        name="gpu", exactly=claims.ExactDeviceRequest(device_class_name="c", count=1)
    )
    assert badvalues.to_json(request) == (
        '{"name":"gpu","exactly":{"deviceClassName":"c","count":1}}'
    )


def test_fields_without_omitempty_are_always_written() -> None:
    assert badvalues.to_json(claims.DeviceSubRequest()) == '{"name":"","deviceClassName":""}'


def test_a_pointer_to_zero_is_written() -> None:
    request = claims.ExactDeviceRequest(device_class_name="c", admin_access=False)
    assert badvalues.to_json(request) == '{"deviceClassName":"c","adminAccess":false}'


def test_embedded_metadata_is_inlined_with_its_tags() -> None:
    spec = claims.ResourceClaimTemplateSpec(metadata=meta.ObjectMeta(labels={"a": "b"}))
    text = badvalues.to_json(badvalues.Internal(spec))
    assert text.startswith('{"labels":{"a":"b"},"Spec":{"Devices":')


def test_types_of_apimachinery_keep_their_tags_inside_internal_structs() -> None:
    status = claims.AllocatedDeviceStatus(conditions=(meta.Condition(type="Ready"),))
    text = badvalues.to_json(badvalues.Internal(status))
    assert '"Conditions":[{"type":"Ready","status":"","lastTransitionTime":null,' in text


def test_initialisms_are_upper_case() -> None:
    data = claims.NetworkDeviceData(ips=("10.0.0.1/24",))
    assert badvalues.to_json(badvalues.Internal(data)) == (
        '{"InterfaceName":"","IPs":["10.0.0.1/24"],"HardwareAddress":""}'
    )


def test_markup_is_escaped_and_maps_are_sorted() -> None:
    assert badvalues.to_json({"b": "<&>", "a": 1}) == '{"a":1,"b":"\\u003c\\u0026\\u003e"}'
