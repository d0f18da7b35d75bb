"""Partitions by size, turned into plain DRA."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dray.api import features
from dray.api.types.dra import DeviceClass, ResourceSlice
from dray.api.types.meta import JsonObject
from dray.apiserver.admission import partition_expansion, partition_profiles
from dray.apiserver.admission.partition_profiles import PartitionDevice
from dray.cel import device as cel
from tests.unit.apiserver import world
from tests.unit.apiserver.world import World

DRIVER = "gpu.example.com"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
ASKED = {"count": 1, "resources": {"memory": "20Gi", "compute": 2}}
A100 = {
    "1g.10gb": "9856Mi",
    "1g.20gb": "19968Mi",
    "2g.20gb": "19968Mi",
    "3g.40gb": "40192Mi",
    "4g.40gb": "40192Mi",
    "7g.80gb": "81152Mi",
}


def partition(profile: str, memory: str, number: int = 0) -> JsonObject:
    return {
        "name": f"gpu-{number}-{profile.replace('.', '-')}",
        "attributes": {
            "type": {"string": "mig"},
            "profile": {"string": profile},
            "productName": {"string": "A100"},
            "uuid": {"string": f"MIG-{number}-{profile}"},
        },
        "capacity": {"memory": {"value": memory}},
        "consumesCounters": [
            {"counterSet": f"gpu-{number}", "counters": {"memory": {"value": "1"}}}
        ],
    }


def whole(number: int = 0) -> JsonObject:
    return {
        "name": f"gpu-{number}",
        "attributes": {"type": {"string": "gpu"}, "productName": {"string": "A100"}},
        "capacity": {"memory": {"value": "80Gi"}},
        "consumesCounters": [
            {"counterSet": f"gpu-{number}", "counters": {"memory": {"value": "8"}}}
        ],
    }


def device_class(name: str, type_name: str, **labels: str) -> JsonObject:
    expression = f'device.attributes["{DRIVER}"].type == "{type_name}"'
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


GPU_CLASS = device_class(DRIVER, "gpu")
MIG_CLASS = device_class("mig.example.com", "mig", **{partition_expansion.CLASS_MARK: DRIVER})
DEVICES = [whole(), *(partition(profile, memory) for profile, memory in A100.items())]


def offers(*devices: JsonObject, **spec: Any) -> list[PartitionDevice]:
    body = world.resource_slice("s", "n1", *(devices or DEVICES), **spec)
    return list(partition_profiles.offers(msgspec.convert(body, ResourceSlice)))


def classes(*bodies: JsonObject) -> list[DeviceClass]:
    return [msgspec.convert(body, DeviceClass) for body in bodies or (GPU_CLASS, MIG_CLASS)]


def expand(asked: Any, **exactly: Any) -> partition_expansion.Expansion:
    spec = world.claim("c", **exactly)["spec"]
    return partition_expansion.expand(spec, {"gpu": asked}, offers(), classes())


def labels(expansion: partition_expansion.Expansion) -> list[str]:
    assert not expansion.errors, [error.message for error in expansion.errors]
    (request,) = expansion.spec["devices"]["requests"]
    return [alternative["name"] for alternative in request["firstAvailable"]]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"memory": "20Gi", "compute": 2}, ["2g-20gb", "3g-40gb", "4g-40gb", "7g-80gb"]),
        ({"memory": "20Gi"}, ["1g-20gb", "2g-20gb", "3g-40gb", "4g-40gb", "7g-80gb"]),
        ({"compute": "4"}, ["4g-40gb", "7g-80gb"]),
        ({"memory": "41Gi"}, ["7g-80gb"]),
        ({"memory": "1Gi", "compute": 1}, [profile.replace(".", "-") for profile in A100]),
    ],
)
def test_what_is_large_enough_comes_from_small_to_large(
    resources: JsonObject, expected: list[str]
) -> None:
    assert labels(expand({"resources": resources})) == expected


def test_an_alternative_is_plain_dra() -> None:
    selector = {"cel": {"expression": f'device.attributes["{DRIVER}"].productName == "A100"'}}
    toleration = {"key": "k", "operator": "Exists"}
    expansion = expand({**ASKED, "count": 3}, selectors=[selector], tolerations=[toleration])
    assert expansion.spec["devices"]["requests"][0]["firstAvailable"][0] == {
        "name": "2g-20gb",
        "deviceClassName": "mig.example.com",
        "selectors": [
            selector,
            {
                "cel": {
                    "expression": f'has(device.attributes["{DRIVER}"].profile) && '
                    f'device.attributes["{DRIVER}"].profile == "2g.20gb"'
                }
            },
        ],
        "allocationMode": "ExactCount",
        "count": 3,
        "tolerations": [toleration],
    }


def test_the_expression_finds_its_profile_and_fails_on_nothing() -> None:
    (request,) = expand(ASKED).spec["devices"]["requests"]
    expression = request["firstAvailable"][0]["selectors"][-1]["cel"]["expression"]
    selector = cel.compile_selector(expression, stored=False)
    found = [
        offer.device.name
        for offer in offers()
        if selector.matches(cel.view(offer.driver, offer.device))
    ]
    assert found == ["gpu-0-2g-20gb"]


def test_the_remark_says_the_real_size() -> None:
    (remark,) = expand(ASKED).remarks
    assert remark.startswith(
        'request "gpu" asks for 2g.20gb (memory 19968Mi), else 3g.40gb (memory 40192Mi)'
    )


def test_selectors_of_the_request_count() -> None:
    expression = f'device.attributes["{DRIVER}"].productName == "H100"'
    expansion = expand(ASKED, selectors=[{"cel": {"expression": expression}}])
    assert [error.detail for error in expansion.errors] == [
        'no partition of class "mig.example.com" is published'
    ]


def test_at_most_eight_alternatives() -> None:
    devices = [partition(f"1g.{size}gb", f"{size}Gi") for size in range(10, 22)]
    spec = world.claim("c")["spec"]
    asked = {"gpu": {"resources": {"memory": "10Gi"}}}
    expansion = partition_expansion.expand(spec, asked, offers(*devices), classes())
    assert labels(expansion) == [f"1g-{size}gb" for size in range(10, 18)]


def test_without_a_marked_class_the_partitions_are_those_of_the_class_itself() -> None:
    spec = world.claim("c", deviceClassName="mig.example.com")["spec"]
    plain = device_class("mig.example.com", "mig")
    expansion = partition_expansion.expand(spec, {"gpu": ASKED}, offers(), classes(plain))
    assert labels(expansion)[0] == "2g-20gb"


def test_partitions_without_a_profile_are_told_apart_by_their_capacity() -> None:
    devices = []
    for number, size in enumerate(("10Gi", "20Gi")):
        device = partition("x", size, number)
        del device["attributes"]["profile"]
        device["capacity"]["compute"] = {"value": str(number + 1)}
        devices.append(device)
    spec = world.claim("c")["spec"]
    expansion = partition_expansion.expand(spec, {"gpu": ASKED}, offers(*devices), classes())
    (request,) = expansion.spec["devices"]["requests"]
    (alternative,) = request["firstAvailable"]
    expression = alternative["selectors"][-1]["cel"]["expression"]
    selector = cel.compile_selector(expression, stored=False)
    found = [selector.matches(cel.view(offer.driver, offer.device)) for offer in offers(*devices)]
    assert found == [False, True]


def test_a_slice_may_name_the_attribute_that_tells_partitions_apart() -> None:
    device = partition("2g.20gb", "19968Mi")
    device["attributes"]["kind"] = device["attributes"].pop("profile")
    found = offers(device, partitionTypeAttribute=f"{DRIVER}/kind")
    assert [offer.type_name for offer in found] == ["2g.20gb"]


TOO_SMALL = "must be greater than zero"
UNKNOWN = 'Unsupported value: "size": supported values: "count", "resources"'
TOO_LARGE = (
    'Invalid value: {"memory":"90Gi"}: no partition is large enough; the largest published is '
    "7g.80gb with compute 7, memory 80Gi"
)
ENOUGH = {"memory": "1Gi"}


@pytest.mark.parametrize(
    ("asked", "field", "message"),
    [
        (5, "", "Invalid value: 5: must be an object with count and resources"),
        ({"resources": ENOUGH, "size": 1}, "", UNKNOWN),
        ({"count": 0, "resources": ENOUGH}, ".count", f"Invalid value: 0: {TOO_SMALL}"),
        ({"count": "2", "resources": ENOUGH}, ".count", f'Invalid value: "2": {TOO_SMALL}'),
        ({"count": 1}, ".resources", "Required value: say how much memory or compute it must have"),
        (
            {"resources": {"memory": "-1Gi"}},
            ".resources[memory]",
            f'Invalid value: "-1Gi": {TOO_SMALL}',
        ),
        (
            {"resources": {"compute": True}},
            ".resources[compute]",
            "Invalid value: true: must be a quantity",
        ),
        ({"resources": {"memory": "90Gi"}}, ".resources", TOO_LARGE),
    ],
)
def test_invalid_sizes_are_errors_of_their_field(asked: Any, field: str, message: str) -> None:
    (error,) = expand(asked).errors
    assert error.field == f"spec.devices.requests[0].partitionRequest{field}"
    assert error.body == message


def test_an_unknown_unit_is_said_as_kubernetes_says_it() -> None:
    (error,) = expand({"resources": {"memory": "20Gb"}}).errors
    assert error.field == "spec.devices.requests[0].partitionRequest.resources[memory]"
    assert error.body.startswith('Invalid value: "20Gb": quantities must match the regular')


@pytest.mark.parametrize(
    "exactly", [{"allocationMode": "All"}, {"count": 2}, {"adminAccess": True}], ids=str
)
def test_what_makes_no_sense_with_it_is_forbidden(exactly: JsonObject) -> None:
    (error,) = expand(ASKED, **exactly).errors
    assert error.type.value == "FieldValueForbidden"


FLAT = {"name": "gpu", "deviceClassName": DRIVER, "partitionRequest": ASKED}
BESIDE = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}, "partitionRequest": ASKED}
INSIDE = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "partitionRequest": ASKED}}


@pytest.mark.parametrize(
    ("version", "request_body"),
    [("v1beta1", FLAT), ("v1beta2", INSIDE), ("v1", INSIDE), ("v1", BESIDE)],
)
def test_every_version_accepts_it(version: str, request_body: JsonObject) -> None:
    server = partitioned()
    body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request_body]}}}
    path = world.CLAIMS.replace("/v1/", f"/{version}/")
    answer = server.ask("POST", path, body, query="fieldValidation=Strict")
    assert answer.status == 201, answer.body
    stored = server.get(f"{world.CLAIMS}/c")
    (request,) = stored["spec"]["devices"]["requests"]
    names = [alternative["name"] for alternative in request["firstAvailable"]]
    assert names == ["2g-20gb", "3g-40gb", "4g-40gb", "7g-80gb"]
    noted = json.loads(stored["metadata"]["annotations"][partition_expansion.ANNOTATION])
    assert noted == {"gpu": ASKED}


def partitioned(gates: features.Features = features.DEFAULT) -> World:
    server = World(gates)
    for body in (GPU_CLASS, MIG_CLASS):
        server.create(CLASSES, body)
    counters = [{"name": f"gpu-{n}", "counters": {"memory": {"value": "8"}}} for n in range(2)]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
    server.create(
        SLICES, world.resource_slice("counters", "n1", pool=pool, sharedCounters=counters)
    )
    second = [partition(profile, memory, 1) for profile, memory in A100.items()]
    server.create(SLICES, world.resource_slice("devices", "n1", *DEVICES, *second, pool=pool))
    return server


def asking(name: str, asked: Any = ASKED) -> JsonObject:
    body = world.claim(name)
    body["spec"]["devices"]["requests"][0]["partitionRequest"] = asked
    return body


def test_the_author_is_told_what_was_made_of_it() -> None:
    (warning,) = partitioned().ask("POST", world.CLAIMS, asking("c")).warnings
    assert "2g.20gb (memory 19968Mi)" in warning


def test_templates_ask_for_partitions_too() -> None:
    server = partitioned()
    body = {"metadata": {"name": "t"}, "spec": {"spec": asking("c")["spec"]}}
    made = server.create(TEMPLATES, body)
    assert made["spec"]["spec"]["devices"]["requests"][0]["firstAvailable"]
    bad = {"metadata": {"name": "t2"}, "spec": {"spec": asking("c", {"resources": {}})["spec"]}}
    answer = server.ask("POST", TEMPLATES, bad)
    assert answer.status == 422
    assert answer.causes[0]["field"] == "spec.spec.devices.requests[0].partitionRequest.resources"


def test_nothing_partitionable_is_a_reason() -> None:
    answer = World().ask("POST", world.CLAIMS, asking("c"))
    assert answer.status == 422
    assert answer.causes[0]["message"].endswith(f'no partition of class "{DRIVER}" is published')


def test_what_is_written_again_in_the_same_words_stays_as_it_is() -> None:
    server = partitioned()
    before = server.create(world.CLAIMS, asking("c"))
    server.create(SLICES, world.resource_slice("more", "n2", partition("2g.24gb", "24Gi")))
    answer = server.ask("PUT", f"{world.CLAIMS}/c", asking("c"))
    assert answer.status == 200, answer.body
    assert answer.body["spec"] == before["spec"]


@pytest.mark.parametrize(
    "changes",
    [{"deviceClassName": "other.example.com"}, {"tolerations": [{"operator": "Exists"}]}],
    ids=str,
)
def test_a_claim_cannot_be_asked_for_anew(changes: JsonObject) -> None:
    server = partitioned()
    server.create(world.CLAIMS, asking("c"))
    body = asking("c")
    body["spec"]["devices"]["requests"][0]["exactly"].update(changes)
    assert server.ask("PUT", f"{world.CLAIMS}/c", body).status == 422


def test_server_side_apply_is_idempotent() -> None:
    server = partitioned()
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **asking("c")}
    for status in (201, 200):
        answer = server.ask(
            "PATCH",
            f"{world.CLAIMS}/c",
            body,
            content_type="application/apply-patch+yaml",
            query="fieldManager=me",
        )
        assert answer.status == status, answer.body
        assert answer.body["spec"]["devices"]["requests"][0]["firstAvailable"]


def test_without_the_gate_the_field_is_unknown() -> None:
    server = partitioned(features.parse("DrayPartitionRequest=false"))
    answer = server.ask("POST", world.CLAIMS, asking("c"), query="fieldValidation=Strict")
    assert answer.status == 400
    assert 'unknown field "spec.devices.requests[0].partitionRequest"' in answer.message


@pytest.mark.parametrize("request_body", [FLAT, BESIDE, INSIDE])
def test_lifting_leaves_alone_what_others_may_share(request_body: JsonObject) -> None:
    """A patch is laid over an object again when somebody else was faster."""
    shared = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request_body]}}}
    before = json.dumps(shared)
    first = {"kind": "ResourceClaim", **shared}
    second = {"kind": "ResourceClaim", **shared}
    partition_expansion.move_to_annotation(first)
    partition_expansion.move_to_annotation(second)
    assert json.dumps(shared) == before
    assert first == second
    assert partition_expansion.requested_partitions(first) == {"gpu": ASKED}
