"""Changes are made to claims as copies, and to the fleet for the time of a block."""

from __future__ import annotations

import msgspec
import pytest

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.placement import Allocator, Fit
from dray.api.features import DEFAULT
from dray.api.ids import ClaimKey, DeviceId
from dray.api.types.dra import DeviceConstraint, DeviceTaint, DeviceToleration, ExactDeviceRequest
from dray.explain.suggestions import changes
from dray.explain.suggestions.changes import Rewriting
from tests.builders import (
    DRIVER,
    alternatives,
    claim,
    cluster_inventory,
    device_class,
    gpu_slice,
    hold,
    option,
    request,
)


def exactly(change: changes.SuggestedChange) -> ExactDeviceRequest:
    claims = [claim(request("gpu", "a", "b", count=3, capacity={"memory": "2Gi"}))]
    (changed,) = change.applied_to(claims)
    body = changed.spec.devices.requests[0].exactly
    assert body is not None
    return body


def test_selector_is_replaced_in_its_place() -> None:
    change = changes.ReplaceSelector(
        claim=0, request="gpu", index=1, expression="b", replacement="c", how=Rewriting.VALUE
    )
    texts = [selector.cel.expression for selector in exactly(change).selectors if selector.cel]
    assert texts == ["a", "c"]


def test_selector_is_dropped() -> None:
    change = changes.DropSelector(claim=0, request="gpu", index=0, expression="a")
    texts = [selector.cel.expression for selector in exactly(change).selectors if selector.cel]
    assert texts == ["b"]


@pytest.mark.parametrize(
    ("taint", "toleration"),
    [
        (DeviceTaint("k", "v", "NoSchedule"), DeviceToleration("k", "Equal", "v", "NoSchedule")),
        (DeviceTaint("k", "", "NoExecute"), DeviceToleration("k", "Exists", "", "NoExecute")),
        (None, DeviceToleration(operator="Exists")),
    ],
)
def test_toleration_is_added(taint: DeviceTaint | None, toleration: DeviceToleration) -> None:
    change = changes.TolerateTaint(claim=0, request="gpu", taint=taint)
    assert exactly(change).tolerations == (toleration,)


def test_fewer_devices_are_an_exact_count() -> None:
    body = exactly(changes.FewerDevices(claim=0, request="gpu", count=2, asked=3))
    assert (body.allocation_mode, body.count) == ("ExactCount", 2)


def test_capacity_is_replaced_or_left_out() -> None:
    asked = {"memory": "2Gi"}
    less = changes.LessCapacity(claim=0, request="gpu", amounts={"memory": "1Gi"}, asked=asked)
    none = changes.LessCapacity(claim=0, request="gpu", amounts={}, asked=asked)
    capacity = exactly(less).capacity
    assert capacity is not None
    assert capacity.requests == {"memory": "1Gi"}
    assert exactly(none).capacity is None


def test_only_the_named_alternative_is_changed() -> None:
    asked = claim(alternatives("gpu", option("one"), option("two")))
    change = changes.OtherClass(claim=0, request="gpu/two", device_class="x", asked="gpu")
    (changed,) = change.applied_to([asked])
    found = changed.spec.devices.requests[0].first_available
    assert [item.device_class_name for item in found] == ["gpu", "x"]


def test_request_is_dropped_with_what_refers_to_it() -> None:
    both = DeviceConstraint(("a", "b"), match_attribute="x/y")
    only = DeviceConstraint(("b/sub",), match_attribute="x/y")
    all_of_them = DeviceConstraint(match_attribute="x/z")
    asked = claim(request("a"), request("b"), constraints=[both, only, all_of_them])
    (changed,) = changes.DropRequest(claim=0, request="b").applied_to([asked])
    assert [item.name for item in changed.spec.devices.requests] == ["a"]
    assert changed.spec.devices.constraints == (
        DeviceConstraint(("a",), match_attribute="x/y"),
        all_of_them,
    )


def test_constraint_is_replaced_or_dropped() -> None:
    asked = claim(request(), distinct="x/y")
    replace = changes.ReplaceConstraint(claim=0, index=0, attribute="x/y", replacement="x/z")
    drop = changes.DropConstraint(claim=0, index=0, attribute="x/y", is_match=False)
    (replaced,), (dropped,) = replace.applied_to([asked]), drop.applied_to([asked])
    assert replaced.spec.devices.constraints == (DeviceConstraint(distinct_attribute="x/z"),)
    assert dropped.spec.devices.constraints == ()


def test_claim_is_dropped() -> None:
    first, second = claim(request(), name="first"), claim(request(), name="second")
    change = changes.DropClaim(claim=0, name=ClaimKey("default", "first"))
    assert change.applied_to([first, second]) == (second,)


def is_free(cluster: ClusterInventory) -> bool:
    return isinstance(
        Allocator(cluster, new_share_id=str).allocate_on([claim(request())], "n1"), Fit
    )


def test_claim_has_ended_inside_the_block_only() -> None:
    cluster = cluster_inventory(gpu_slice("n1", 1))
    hold(cluster, "other", "gpu-0")
    with changes.WaitForClaim(holder=ClaimKey("default", "other")).applied_in(cluster):
        assert is_free(cluster)
    assert not is_free(cluster)
    device = DeviceId(DRIVER, "n1", "gpu-0")
    assert cluster.holders_of(device) == (ClaimKey("default", "other"),)


def test_claim_comes_back_when_the_block_is_left_by_an_error() -> None:
    cluster = cluster_inventory(gpu_slice("n1", 1))
    hold(cluster, "other", "gpu-0")
    with pytest.raises(ZeroDivisionError), changes.without(cluster, ClaimKey("default", "other")):
        _ = 1 / 0
    assert not is_free(cluster)


def test_class_is_changed_inside_the_block_only_and_nobody_else_forgets() -> None:
    cluster = cluster_inventory(gpu_slice("n1", 1), classes=[device_class("gpu", "false")])
    epoch = cluster.epoch
    change = changes.DropClassSelector(device_class="gpu", index=0, expression="false")
    with change.applied_in(cluster):
        assert is_free(cluster)
    assert not is_free(cluster)
    assert cluster.epoch == epoch


def test_gate_is_on_inside_the_block_only() -> None:
    features = msgspec.structs.replace(
        DEFAULT, device_binding_conditions=False, resource_claim_device_status=False
    )
    cluster = cluster_inventory(gpu_slice(), features=features)
    with changes.EnableGate(gate="DRADeviceBindingConditions").applied_in(cluster):
        assert cluster.features.device_binding_conditions
        assert cluster.features.resource_claim_device_status
    assert cluster.features == features
