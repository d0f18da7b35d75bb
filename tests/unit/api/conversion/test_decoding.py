from typing import Any

import pytest

from dray.api.conversion import decoding
from dray.api.formats import gojson

CLAIM = "resource.v1.ResourceClaim"


def claim(**exactly: Any) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "gpu", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def messages(type_name: str, value: object) -> list[str]:
    return [problem.message for problem in decoding.check(type_name, value)]


def test_a_well_formed_claim_has_no_problems() -> None:
    value = claim(
        deviceClassName="gpu.example.com",
        count=2,
        adminAccess=False,
        selectors=[{"cel": {"expression": "true"}}],
        capacity={"requests": {"memory": "10Gi"}},
    )
    assert decoding.check(CLAIM, value) == []


def test_every_mistake_in_a_manifest_is_found_with_its_path() -> None:
    value = claim(
        deviceClassName=5, memory="40Gi", count="two", capacity={"requests": {"m": "1Gx"}}
    )
    value["metadata"]["labels"] = {"team": 7}
    value["metadata"]["nmae"] = "x"
    value["spec"]["devices"]["constraints"] = {"matchAttribute": "a/b"}
    found = [(problem.kind, problem.path) for problem in decoding.check(CLAIM, value)]
    assert found == [
        ("mistyped", "metadata.labels.team"),
        ("unknown", "metadata.nmae"),
        ("mistyped", "spec.devices.requests[0].exactly.deviceClassName"),
        ("unknown", "spec.devices.requests[0].exactly.memory"),
        ("mistyped", "spec.devices.requests[0].exactly.count"),
        ("malformed", "spec.devices.requests[0].exactly.capacity.requests.m"),
        ("mistyped", "spec.devices.constraints"),
    ]


def test_an_unknown_field_is_refused_in_strict_mode() -> None:
    problems = decoding.check(CLAIM, claim(memory="40Gi"))
    assert decoding.refusal(problems) == (
        'strict decoding error: unknown field "spec.devices.requests[0].exactly.memory"'
    )
    assert decoding.strict_messages(problems) == [
        'unknown field "spec.devices.requests[0].exactly.memory"'
    ]


def test_fields_are_told_apart_by_case() -> None:
    assert messages("resource.v1.ResourcePool", {"Name": "p"}) == ['unknown field "Name"']


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        pytest.param(
            claim(count="1"),
            "json: cannot unmarshal string into Go struct field"
            " ExactDeviceRequest.spec.devices.requests.exactly.count of type int64",
            id="string for an integer",
        ),
        pytest.param(
            claim(count=1.5),
            "json: cannot unmarshal number 1.5 into Go struct field"
            " ExactDeviceRequest.spec.devices.requests.exactly.count of type int64",
            id="fraction for an integer",
        ),
        pytest.param(
            claim(count=2**63),
            "json: cannot unmarshal number 9223372036854775808 into Go struct field"
            " ExactDeviceRequest.spec.devices.requests.exactly.count of type int64",
            id="integer beyond 64 bits",
        ),
        pytest.param(
            claim(count=True),
            "json: cannot unmarshal bool into Go struct field"
            " ExactDeviceRequest.spec.devices.requests.exactly.count of type int64",
            id="boolean for an integer",
        ),
        pytest.param(
            claim(allocationMode=1),
            "json: cannot unmarshal number into Go struct field"
            " ExactDeviceRequest.spec.devices.requests.exactly.allocationMode"
            " of type v1.DeviceAllocationMode",
            id="number for a named string",
        ),
        pytest.param(
            claim(selectors={}),
            "json: cannot unmarshal object into Go struct field"
            " ExactDeviceRequest.spec.devices.requests.exactly.selectors"
            " of type []v1.DeviceSelector",
            id="object for a list",
        ),
        pytest.param(
            claim(selectors=["x"]),
            "json: cannot unmarshal string into Go struct field"
            " ExactDeviceRequest.spec.devices.requests.exactly.selectors of type v1.DeviceSelector",
            id="string for a structure in a list",
        ),
        pytest.param(
            {"metadata": {"labels": ["a"]}},
            "json: cannot unmarshal array into Go struct field"
            " ObjectMeta.metadata.labels of type map[string]string",
            id="list for a map",
        ),
        pytest.param(
            {"spec": {"devices": {"config": [{"opaque": "x"}]}}},
            "json: cannot unmarshal string into Go struct field DeviceClaimConfiguration"
            ".spec.devices.config.DeviceConfiguration.opaque of type v1.OpaqueDeviceConfiguration",
            id="a field that Go embeds",
        ),
        pytest.param(
            {"metadata": {"creationTimestamp": 5}},
            "json: cannot unmarshal number into Go struct field"
            " ObjectMeta.metadata.creationTimestamp of type string",
            id="number for a time",
        ),
        pytest.param(
            [],
            "json: cannot unmarshal array into Go value of type v1.ResourceClaim",
            id="list for the object",
        ),
    ],
)
def test_a_mistyped_value_is_refused_in_the_words_of_go(value: object, sentence: str) -> None:
    assert decoding.refusal(decoding.check(CLAIM, value)) == sentence


@pytest.mark.parametrize(
    ("type_name", "value", "sentence"),
    [
        (
            "core.v1.PodSpec",
            {"volumes": [{"name": "v", "configMap": []}]},
            "json: cannot unmarshal array into Go struct field"
            " Volume.volumes.VolumeSource.configMap of type v1.ConfigMapVolumeSource",
        ),
        (
            "core.v1.ServicePort",
            {"targetPort": True},
            "json: cannot unmarshal bool into Go struct field ServicePort.targetPort of type int32",
        ),
        (
            "core.v1.ServicePort",
            {"port": 2**31},
            "json: cannot unmarshal number 2147483648 into Go struct field ServicePort.port"
            " of type int32",
        ),
        ("core.v1.Secret", {"data": {"key": "a!"}}, "illegal base64 data at input byte 1"),
        ("core.v1.Secret", {"data": {"key": "YWJj="}}, "illegal base64 data at input byte 4"),
        ("core.v1.Secret", {"data": {"key": "YWJjZA"}}, "illegal base64 data at input byte 4"),
        (
            "meta.v1.ObjectMeta",
            {"creationTimestamp": "now"},
            'parsing time "now" as "2006-01-02T15:04:05Z07:00": cannot parse "now" as "2006"',
        ),
        (
            "resource.v1.DeviceCapacity",
            {"value": "80 GB"},
            "quantities must match the regular expression"
            " '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            "resource.v1.DeviceCapacity",
            {"value": {}},
            "quantities must match the regular expression"
            " '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ],
)
def test_values_with_a_form_of_their_own_are_checked(
    type_name: str, value: object, sentence: str
) -> None:
    assert decoding.refusal(decoding.check(type_name, value)) == sentence


@pytest.mark.parametrize(
    ("type_name", "value"),
    [
        ("core.v1.ServicePort", {"targetPort": "http"}),
        ("core.v1.ServicePort", {"targetPort": 80}),
        ("resource.v1.DeviceCapacity", {"value": 80}),
        ("resource.v1.DeviceCapacity", {"value": " 80Gi "}),
        ("core.v1.Secret", {"data": {"key": "YWJj\nZA=="}}),
        ("resource.v1.OpaqueDeviceConfiguration", {"parameters": {"any": [1, {"x": None}]}}),
        ("resource.v1.OpaqueDeviceConfiguration", {"parameters": "even a string"}),
        ("meta.v1.ManagedFieldsEntry", {"fieldsV1": {"f:spec": {".": {}}}}),
        ("meta.v1.ObjectMeta", {"creationTimestamp": "2026-11-15T01:14:31.5+01:00"}),
    ],
)
def test_every_form_that_go_reads_is_well_formed(type_name: str, value: object) -> None:
    assert decoding.check(type_name, value) == []


def test_null_is_well_formed_everywhere() -> None:
    value = claim(deviceClassName=None, count=None, selectors=[None], capacity=None)
    value["metadata"]["labels"] = {"team": None}
    value["metadata"]["creationTimestamp"] = None
    value["status"] = None
    assert decoding.check(CLAIM, value) == []


def test_a_malformed_value_is_refused_before_a_mistyped_one_before_an_unknown_field() -> None:
    value = claim(memory=1, count="x", capacity={"requests": {"m": "1Gx"}})
    problems = decoding.check(CLAIM, value)
    assert decoding.refusal(problems).startswith("quantities must match")
    without_malformed = [problem for problem in problems if problem.kind != "malformed"]
    assert decoding.refusal(without_malformed).startswith("json: cannot unmarshal string")
    assert decoding.refusal([]) == ""


def test_repeated_fields_are_found_where_the_type_looks() -> None:
    data = b"""{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
      "metadata": {"name": "a", "name": "b", "labels": {"x": "1", "x": "2"}},
      "spec": {"bogus": {"y": 1, "y": 2},
               "config": [{"opaque": {"parameters": {"z": 1, "z": 2}}}]}}"""
    value = gojson.decode(data)
    problems = decoding.check("resource.v1.DeviceClass", value)
    assert sorted(problem.message for problem in problems) == [
        'duplicate field "metadata.labels.x"',
        'duplicate field "metadata.name"',
        'unknown field "spec.bogus"',
    ]
    assert value["metadata"]["name"] == "b"


def test_a_repeated_message_is_reported_once_and_no_more_than_a_hundred() -> None:
    problems = decoding.check("meta.v1.ObjectMeta", {f"unknown{n}": 0 for n in range(150)})
    assert len(problems) == 150
    assert len(decoding.strict_messages(problems + problems)) == 100


def test_structures_that_contain_themselves_can_be_checked() -> None:
    eviction = {"kind": "Eviction", "deleteOptions": {"preconditions": {"uid": 5}}}
    assert messages("policy.v1.Eviction", eviction) == [
        "json: cannot unmarshal number into Go struct field"
        " Preconditions.deleteOptions.preconditions.uid of type types.UID"
    ]
