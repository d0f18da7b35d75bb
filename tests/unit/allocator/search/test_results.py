"""What an allocation says: devices, configuration, where it can be used."""

from __future__ import annotations

from typing import Any

import msgspec

from dray.allocator import placement
from dray.api import features
from dray.api.types.dra import (
    DeviceClaimConfiguration,
    DeviceClass,
    DeviceClassConfiguration,
    DeviceClassSpec,
    OpaqueDeviceConfiguration,
    ResourceClaim,
    ResourceSlice,
)
from dray.api.types.meta import NodeSelector, ObjectMeta
from tests import builders
from tests.unit.allocator import allocating


def opaque(**parameters: Any) -> OpaqueDeviceConfiguration:
    return OpaqueDeviceConfiguration(builders.DRIVER, parameters)


def configured(name: str, **parameters: Any) -> DeviceClass:
    config = (DeviceClassConfiguration(opaque(**parameters)),)
    return DeviceClass(ObjectMeta(name=name), DeviceClassSpec(config=config))


def with_config(claim: ResourceClaim, *requests: str, **parameters: Any) -> ResourceClaim:
    config = (DeviceClaimConfiguration(requests, opaque(**parameters)),)
    devices = msgspec.structs.replace(claim.spec.devices, config=config)
    return msgspec.structs.replace(claim, spec=msgspec.structs.replace(claim.spec, devices=devices))


def config_of(
    claim: ResourceClaim, *classes: DeviceClass
) -> list[tuple[str, tuple[str, ...], Any]]:
    cluster = builders.cluster_inventory(builders.gpu_slice(), classes=classes)
    (allocation,) = allocating.allocations(cluster, claim)
    return [
        (item.source, item.requests, item.opaque.parameters if item.opaque else None)
        for item in allocation.devices.config
    ]


def node_selector(*slices: ResourceSlice) -> NodeSelector | None:
    cluster = builders.cluster_inventory(*slices, nodes=[builders.node("n1", labels={"rack": "a"})])
    (allocation,) = allocating.allocations(
        cluster, builders.claim(builders.request(count=len(slices)))
    )
    return allocation.node_selector


def test_a_class_configures_all_its_requests_once() -> None:
    claim = builders.claim(
        builders.request("a", cls="fast"),
        builders.request("b", cls="slow"),
        builders.request("c", cls="fast"),
    )
    classes = configured("fast", level=1), configured("slow", level=2)
    assert config_of(claim, *classes) == [
        ("FromClass", ("a", "c"), {"level": 1}),
        ("FromClass", ("b",), {"level": 2}),
    ]


def test_configuration_for_all_requests_names_none() -> None:
    claim = with_config(builders.claim(builders.request("a"), builders.request("b")), "a", "b", x=1)
    assert config_of(claim, configured("gpu", level=1)) == [
        ("FromClass", (), {"level": 1}),
        ("FromClaim", (), {"x": 1}),
    ]


def test_configuration_of_an_option_that_was_not_taken_is_left_out() -> None:
    asked = builders.claim(
        builders.alternatives("any", builders.option("big", count=9), builders.option("small")),
        builders.request("other"),
    )
    plain = builders.device_class("gpu")
    assert config_of(with_config(asked, "any/big", x=1), plain) == []
    assert config_of(with_config(asked, "any/small", x=1), plain) == [
        ("FromClaim", ("any/small",), {"x": 1})
    ]


def test_local_devices_bind_the_claim_to_their_node() -> None:
    selector = node_selector(builders.gpu_slice(count=1))
    assert selector is not None
    (term,) = selector.node_selector_terms
    assert [(field.key, field.values) for field in term.match_fields] == [
        ("metadata.name", ("n1",))
    ]


def test_devices_for_all_nodes_do_not() -> None:
    assert node_selector(builders.resource_slice(builders.gpu("g"), all_nodes=True)) is None


def test_node_selectors_of_devices_are_joined_without_repetition() -> None:
    rack = builders.nodes_labelled("rack", "a")
    selector = node_selector(
        builders.resource_slice(builders.gpu("g"), node_selector=rack, pool="p"),
        builders.resource_slice(builders.gpu("h"), node_selector=rack, pool="q"),
    )
    assert selector == rack


def test_a_device_that_binds_to_its_node_keeps_the_claim_there() -> None:
    binding = msgspec.structs.replace(builders.gpu("g"), binds_to_node=True)
    selector = node_selector(builders.resource_slice(binding, all_nodes=True))
    assert selector is not None
    assert selector.node_selector_terms[0].match_fields[0].values == ("n1",)


def test_binding_conditions_are_passed_on_with_their_gate() -> None:
    device = msgspec.structs.replace(
        builders.device("d", binding_conditions=["attached"]),
        binding_failure_conditions=("broken",),
    )
    cluster = builders.cluster_inventory(builders.resource_slice(device))
    claim = builders.claim(builders.request())
    (allocation,) = allocating.allocations(cluster, claim)
    (result,) = allocation.devices.results
    assert result.binding_conditions == ("attached",)
    assert result.binding_failure_conditions == ("broken",)
    cluster.use_features(msgspec.structs.replace(features.DEFAULT, device_binding_conditions=False))
    allocating.rejection(cluster, claim)


def test_node_operations_are_skipped_only_where_the_node_knows_how() -> None:
    gates = msgspec.structs.replace(features.DEFAULT, optional_node_operations=True)
    resource_slice = builders.resource_slice(builders.gpu("g"), skip_node_operations=["Prepare"])
    claim = builders.claim(builders.request())
    able = builders.node("n1", features=["DRAOptionalNodeOperations"])
    (allocation,) = allocating.allocations(
        builders.cluster_inventory(resource_slice, nodes=[able], features=gates), claim
    )
    assert allocation.devices.results[0].skip_node_operations == ("Prepare",)
    allocating.rejection(builders.cluster_inventory(resource_slice, features=gates), claim)


def test_without_alpha_gates_node_operations_are_not_looked_at() -> None:
    """As upstream's incubating allocator, which is the one that runs then."""
    resource_slice = builders.resource_slice(builders.gpu("g"), skip_node_operations=["Prepare"])
    (allocation,) = allocating.allocations(
        builders.cluster_inventory(resource_slice), builders.claim(builders.request())
    )
    assert allocation.devices.results[0].skip_node_operations == ()


def test_every_share_gets_an_id_of_its_own() -> None:
    ids = iter("abc")
    cluster = builders.cluster_inventory(builders.gpu_slice(count=1, shareable=True))
    wanted = [builders.request(name, capacity={"memory": "1Gi"}) for name in "xy"]
    asked = placement.Allocator(cluster, new_share_id=lambda: next(ids))
    result = asked.allocate_on([builders.claim(*wanted)], "n1")
    assert isinstance(result, placement.Fit)
    (allocation,) = result.allocations
    assert [result.share_id for result in allocation.devices.results] == ["a", "b"]
