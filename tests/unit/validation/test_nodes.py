"""Rules for nodes."""

from __future__ import annotations

from typing import Any

from tests.unit.validation import objects


def node(**content: Any) -> Any:
    meta = {"name": "node-1", "resourceVersion": "1"}
    return objects.decode({"kind": "Node", "metadata": meta, **content})


def test_an_ordinary_node_is_valid() -> None:
    taints = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    status = {
        "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
        "declaredFeatures": ["DRANodeAllocatableResources", "Other/sub"],
    }
    assert not objects.created("Node", node(spec={"taints": taints}, status=status))


def test_taints_are_distinct_by_key_and_effect() -> None:
    taints = [
        {"key": "gpu", "value": "a", "effect": "NoSchedule"},
        {"key": "gpu", "value": "b", "effect": "NoSchedule"},
        {"key": "gpu"},
    ]
    assert objects.created("Node", node(spec={"taints": taints})) == [
        'metadata.taints[1]: Duplicate value: {"key":"gpu","value":"b","effect":"NoSchedule"}: '
        "taints must be unique by key and effect pair",
        "metadata.taints[2].effect: Required value",
    ]


def test_pods_are_counted_in_whole_numbers() -> None:
    assert objects.created("Node", node(status={"capacity": {"pods": "1500m"}})) == [
        'status.capacity.pods: Invalid value: "1500m": must be an integer',
        'status.allocatable.pods: Invalid value: "1500m": must be an integer',
    ]


def test_declared_features_are_sorted_and_well_named() -> None:
    features = ["B", "A", "lower"]
    messages = objects.created("Node", node(status={"declaredFeatures": features}))
    assert messages[0] == (
        'status.declaredFeatures[1]: Invalid value: "A": list must be sorted alphabetically'
    )
    assert messages[1].startswith(
        'status.declaredFeatures[2]: Invalid value: "lower": invalid feature name "lower": must'
    )


def test_the_provider_of_a_node_stays() -> None:
    old, new = node(spec={"providerID": "a"}), node(spec={"providerID": "b"})
    assert objects.updated("Node", new, old) == [
        "spec.providerID: Invalid value: null: field cannot be modified once set"
    ]
    assert not objects.updated("Node", old, node())


def test_addresses_are_distinct() -> None:
    address = {"type": "InternalIP", "address": "10.0.0.1"}
    new = node(status={"addresses": [address, address]})
    assert objects.status_updated("Node", new, node()) == [
        'status.addresses[1]: Duplicate value: {"type":"InternalIP","address":"10.0.0.1"}'
    ]
