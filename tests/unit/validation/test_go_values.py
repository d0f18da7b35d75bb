"""Structs in messages look as Go prints them."""

from __future__ import annotations

from dray.api.types import dra, meta, pods
from dray.validation import go_values


def test_an_internal_struct_shows_go_names_and_every_field() -> None:
    claim = pods.PodResourceClaim(name="gpu")
    assert go_values.to_json(go_values.Internal(claim)) == (
        '{"Name":"gpu","ResourceClaimName":null,"ResourceClaimTemplateName":null}'
    )


def test_a_versioned_struct_shows_what_is_on_the_wire() -> None:
    request = dra.DeviceRequest(
        name="gpu", exactly=dra.ExactDeviceRequest(device_class_name="c", count=1)
    )
    assert go_values.to_json(request) == (
        '{"name":"gpu","exactly":{"deviceClassName":"c","count":1}}'
    )


def test_fields_without_omitempty_are_always_written() -> None:
    assert go_values.to_json(dra.DeviceSubRequest()) == '{"name":"","deviceClassName":""}'


def test_a_pointer_to_zero_is_written() -> None:
    request = dra.ExactDeviceRequest(device_class_name="c", admin_access=False)
    assert go_values.to_json(request) == '{"deviceClassName":"c","adminAccess":false}'


def test_embedded_metadata_is_inlined_with_its_tags() -> None:
    spec = dra.ResourceClaimTemplateSpec(metadata=meta.ObjectMeta(labels={"a": "b"}))
    text = go_values.to_json(go_values.Internal(spec))
    assert text.startswith('{"labels":{"a":"b"},"Spec":{"Devices":')


def test_types_of_apimachinery_keep_their_tags_inside_internal_structs() -> None:
    status = dra.AllocatedDeviceStatus(conditions=(meta.Condition(type="Ready"),))
    text = go_values.to_json(go_values.Internal(status))
    assert '"Conditions":[{"type":"Ready","status":"","lastTransitionTime":null,' in text


def test_initialisms_are_upper_case() -> None:
    data = dra.NetworkDeviceData(ips=("10.0.0.1/24",))
    assert go_values.to_json(go_values.Internal(data)) == (
        '{"InterfaceName":"","IPs":["10.0.0.1/24"],"HardwareAddress":""}'
    )


def test_markup_is_escaped_and_maps_are_sorted() -> None:
    assert go_values.to_json({"b": "<&>", "a": 1}) == '{"a":1,"b":"\\u003c\\u0026\\u003e"}'
