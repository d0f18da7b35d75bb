"""Partitions by size, turned into plain DRA."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dray.api.types.dra import DeviceClass, ResourceSlice
from dray.api.types.meta import JsonObject
from dray.cel import device as cel
from dray.partitions import expansion, profiles
from dray.partitions.expansion import Expansion
from dray.partitions.profiles import PartitionDevice
from tests.unit.apiserver import world
from tests.unit.partitions.devices import (
    A100,
    ASKED,
    BESIDE,
    DEVICES,
    DRIVER,
    FLAT,
    GPU_CLASS,
    INSIDE,
    MIG_CLASS,
    device_class,
    partition,
)


def partitions(*devices: JsonObject, **spec: Any) -> list[PartitionDevice]:
    body = world.resource_slice("s", "n1", *(devices or DEVICES), **spec)
    return list(profiles.partition_devices(msgspec.convert(body, ResourceSlice)))


def classes(*bodies: JsonObject) -> list[DeviceClass]:
    return [msgspec.convert(body, DeviceClass) for body in bodies or (GPU_CLASS, MIG_CLASS)]


def expand(asked: Any, **exactly: Any) -> Expansion:
    spec = world.claim("c", **exactly)["spec"]
    return expansion.expand(spec, {"gpu": asked}, partitions(), classes())


def labels(expanded: Expansion) -> list[str]:
    assert not expanded.errors, [error.message for error in expanded.errors]
    (request,) = expanded.spec["devices"]["requests"]
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
    expanded = expand({**ASKED, "count": 3}, selectors=[selector], tolerations=[toleration])
    assert expanded.spec["devices"]["requests"][0]["firstAvailable"][0] == {
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
        device.device.name
        for device in partitions()
        if selector.matches(cel.view(device.driver, device.device))
    ]
    assert found == ["gpu-0-2g-20gb"]


def test_the_remark_says_the_real_size() -> None:
    (remark,) = expand(ASKED).remarks
    assert remark.startswith(
        'request "gpu" asks for 2g.20gb (memory 19968Mi), else 3g.40gb (memory 40192Mi)'
    )


def test_selectors_of_the_request_count() -> None:
    expression = f'device.attributes["{DRIVER}"].productName == "H100"'
    expanded = expand(ASKED, selectors=[{"cel": {"expression": expression}}])
    assert [error.detail for error in expanded.errors] == [
        'no partition of class "mig.example.com" is published'
    ]


def test_at_most_eight_alternatives() -> None:
    devices = [partition(f"1g.{size}gb", f"{size}Gi") for size in range(10, 22)]
    spec = world.claim("c")["spec"]
    asked = {"gpu": {"resources": {"memory": "10Gi"}}}
    expanded = expansion.expand(spec, asked, partitions(*devices), classes())
    assert labels(expanded) == [f"1g-{size}gb" for size in range(10, 18)]


def test_without_a_marked_class_the_partitions_are_those_of_the_class_itself() -> None:
    spec = world.claim("c", deviceClassName="mig.example.com")["spec"]
    plain = device_class("mig.example.com", "mig")
    expanded = expansion.expand(spec, {"gpu": ASKED}, partitions(), classes(plain))
    assert labels(expanded)[0] == "2g-20gb"


def test_partitions_without_a_profile_are_told_apart_by_their_capacity() -> None:
    devices = []
    for number, size in enumerate(("10Gi", "20Gi")):
        device = partition("x", size, number)
        del device["attributes"]["profile"]
        device["capacity"]["compute"] = {"value": str(number + 1)}
        devices.append(device)
    spec = world.claim("c")["spec"]
    expanded = expansion.expand(spec, {"gpu": ASKED}, partitions(*devices), classes())
    (request,) = expanded.spec["devices"]["requests"]
    (alternative,) = request["firstAvailable"]
    expression = alternative["selectors"][-1]["cel"]["expression"]
    selector = cel.compile_selector(expression, stored=False)
    found = [
        selector.matches(cel.view(device.driver, device.device)) for device in partitions(*devices)
    ]
    assert found == [False, True]


def test_a_slice_may_name_the_attribute_that_tells_partitions_apart() -> None:
    device = partition("2g.20gb", "19968Mi")
    device["attributes"]["kind"] = device["attributes"].pop("profile")
    found = partitions(device, partitionTypeAttribute=f"{DRIVER}/kind")
    assert [device.type_name for device in found] == ["2g.20gb"]


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
        ({"count": 1}, ".resources", "Required value: set the memory or compute that it must have"),
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


@pytest.mark.parametrize("request_body", [FLAT, BESIDE, INSIDE])
def test_lifting_leaves_alone_what_others_may_share(request_body: JsonObject) -> None:
    """A patch is laid over an object again when somebody else was faster."""
    shared = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request_body]}}}
    before = json.dumps(shared)
    first = {"kind": "ResourceClaim", **shared}
    second = {"kind": "ResourceClaim", **shared}
    expansion.move_to_annotation(first)
    expansion.move_to_annotation(second)
    assert json.dumps(shared) == before
    assert first == second
    assert expansion.requested_partitions(first) == {"gpu": ASKED}
