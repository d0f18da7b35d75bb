"""Rules for ResourceSlice beyond the recorded cases."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.validation import objects


def device(**changes: Any) -> dict[str, Any]:
    return {"name": "gpu-0", **changes}


def created(*devices: dict[str, Any], **spec: Any) -> list[str]:
    return objects.created("ResourceSlice", objects.resource_slice(*devices, **spec))


def test_a_device_with_everything_ordinary_is_valid() -> None:
    assert not created(
        device(
            attributes={
                "model": {"string": "h100"},
                "other.io/index": {"int": 0},
                "nvlink": {"bool": True},
                "driverVersion": {"version": "1.2.3-rc.1+build"},
                "links": {"strings": ["a", "b"]},
            },
            capacity={"memory": {"value": "80Gi"}},
            taints=[{"key": "example.com/broken", "effect": "NoExecute"}],
            nodeAllocatableResources={
                "cpu": {"mapping": {"capacityKey": "memory", "capacityMultiplier": "1m"}}
            },
        )
    )


def test_a_node_resource_is_mapped_from_one_source() -> None:
    resources: dict[str, Any] = {"cpu": {"mapping": {}}}
    assert created(device(nodeAllocatableResources=resources)) == [
        'spec.devices[0].nodeAllocatableResources[cpu].mapping: Invalid value: "": '
        "must specify one of: `capacityKey`, `deviceMultiplier`"
    ]


def test_compatibility_groups_are_few_distinct_names() -> None:
    consumption = {"counterSet": "set", "counters": {"memory": {"value": "1Gi"}}}
    path = "spec.devices[0].consumesCounters[0].compatibilityGroups"
    groups = {**consumption, "compatibilityGroups": ["a", "a"]}
    assert created(device(consumesCounters=[groups])) == [f'{path}[1]: Duplicate value: "a"']
    many = {**consumption, "compatibilityGroups": ["a", "b", "c"]}
    assert created(device(consumesCounters=[many])) == [
        f"{path}: Too many: 3: must have at most 2 items"
    ]


def test_skipped_operations_are_known_and_distinct() -> None:
    operations = ["NodeUnprepareResources", "NodeUnprepareResources", "Other"]
    assert created(skipNodeOperations=operations) == [
        'spec.skipNodeOperations[1]: Duplicate value: "NodeUnprepareResources"',
        'spec.skipNodeOperations[2]: Unsupported value: "Other": supported values: "*", '
        '"NodePrepareResources", "NodeUnprepareResources"',
    ]


def test_the_type_of_a_partition_is_a_qualified_string_attribute() -> None:
    consumption = {"counterSet": "set", "counters": {"memory": {"value": "1Gi"}}}
    typed = device(attributes={"type": {"string": "1g"}}, consumesCounters=[consumption])
    assert not created(typed, partitionTypeAttribute="gpu.example.com/type")
    assert created(typed, partitionTypeAttribute="type") == [
        'spec.partitionTypeAttribute: Invalid value: "type": '
        "a fully qualified name must be a domain and a name separated by a slash"
    ]


def test_an_old_device_keeps_taints_that_are_no_longer_allowed() -> None:
    tainted = device(taints=[{"key": "not a key", "effect": "NoSchedule"}])
    stored = objects.resource_slice(tainted)
    more = objects.resource_slice(tainted, device(name="gpu-1"))
    assert not objects.updated("ResourceSlice", more, stored)


@pytest.mark.parametrize(
    ("address", "detail"),
    [
        ("10.0.0.1/24", ""),
        ("fd00::1/64", ""),
        ("10.0.0.1", "must be a valid address in CIDR form"),
        ("10.0.0.1/33", "must be a valid address in CIDR form"),
        ("010.0.0.1/24", 'must be in canonical form ("10.0.0.1/24")'),
        ("fd00:0::1/64", 'must be in canonical form ("fd00::1/64")'),
        ("::ffff:10.0.0.1/120", 'must be in canonical form ("10.0.0.1/24")'),
        ("fe80::1%eth0/64", "must be a valid address in CIDR form"),
    ],
)
def test_addresses_of_network_devices_are_canonical(address: str, detail: str) -> None:
    result = {"request": "gpu", "driver": "d.io", "pool": "p", "device": "nic"}
    status: dict[str, Any] = {"allocation": {"devices": {"results": [result]}}}
    report = {"driver": "d.io", "pool": "p", "device": "nic", "networkData": {"ips": [address]}}
    old = objects.claim(status=status)
    new = objects.claim(status={**status, "devices": [report]})
    messages = objects.status_updated("ResourceClaim", new, old)
    assert len(messages) == bool(detail)
    assert all(detail in message for message in messages)
