"""The smallest change comes first, and every change that is named helps."""

from __future__ import annotations

import pytest

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.ids import ClaimKey
from dray.api.types.dra import DeviceTaint, ResourceClaim
from dray.explain import claim_explanation
from dray.explain.suggestions import changes
from dray.explain.suggestions.changes import Rewriting, SuggestedChange
from tests.builders import (
    DRIVER,
    claim,
    cluster_inventory,
    device_class,
    gpu,
    gpu_slice,
    hold,
    request,
    resource_slice,
    version,
)

ATTRIBUTES = f'device.attributes["{DRIVER}"]'
CAPACITY = f'device.capacity["{DRIVER}"]'


def found(cluster: ClusterInventory, *claims: ResourceClaim) -> tuple[SuggestedChange, ...]:
    return claim_explanation.explain(cluster, claims, new_share_id=str).changes


def rewritten(cluster: ClusterInventory, selector: str) -> changes.ReplaceSelector:
    change = found(cluster, claim(request("gpu", selector)))[0]
    assert isinstance(change, changes.ReplaceSelector)
    return change


def models() -> ClusterInventory:
    return cluster_inventory(
        gpu_slice("n1", 1, memory="40Gi", attributes={"index": 1}),
        gpu_slice("n2", 1, memory="60Gi", attributes={"index": 2}),
        gpu_slice("n3", 1, memory="80Gi", attributes={"index": 4}),
    )


@pytest.mark.parametrize(
    ("selector", "how", "replacement"),
    [
        pytest.param(
            f'{ATTRIBUTES}.productname == "H100"',
            Rewriting.NAME,
            f'{ATTRIBUTES}.productName == "H100"',
            id="misspelt-name",
        ),
        pytest.param(
            'device.attributes["gpu.com"].productName == "H100"',
            Rewriting.DOMAIN,
            f'{ATTRIBUTES}.productName == "H100"',
            id="other-domain",
        ),
        pytest.param(
            f'{ATTRIBUTES}.memory >= "60Gi"',
            Rewriting.FIELD,
            f'{CAPACITY}.memory.compareTo(quantity("60Gi")) >= 0',
            id="capacity-for-attribute",
        ),
        pytest.param(
            f'{CAPACITY}.memory >= "60Gi"',
            Rewriting.TYPE,
            f'{CAPACITY}.memory.compareTo(quantity("60Gi")) >= 0',
            id="quantity-for-text",
        ),
        pytest.param(
            f'{ATTRIBUTES}.productName == "h-100"',
            Rewriting.SPELLING,
            f'{ATTRIBUTES}.productName == "H100"',
            id="value-written-otherwise",
        ),
        pytest.param(
            f'{CAPACITY}.memory.compareTo(quantity("96Gi")) >= 0',
            Rewriting.THRESHOLD,
            f'{CAPACITY}.memory.compareTo(quantity("80Gi")) >= 0',
            id="nearest-threshold",
        ),
        pytest.param(
            f"{ATTRIBUTES}.index > 4", Rewriting.THRESHOLD, f"{ATTRIBUTES}.index > 2", id="strict"
        ),
        pytest.param(
            f"{ATTRIBUTES}.index <= 0",
            Rewriting.THRESHOLD,
            f"{ATTRIBUTES}.index <= 1",
            id="downward",
        ),
        pytest.param(
            f'{ATTRIBUTES}.driverVersion.isGreaterThan(semver("551.0.0")) && true',
            Rewriting.CLAUSE,
            "true",
            id="clause-where-no-threshold-helps",
        ),
        pytest.param(
            f'{ATTRIBUTES}.productName == "B200"',
            Rewriting.VALUE,
            f'{ATTRIBUTES}.productName == "H100"',
            id="other-value",
        ),
    ],
)
def test_selector_is_loosened_rather_than_dropped(
    selector: str, how: Rewriting, replacement: str
) -> None:
    change = rewritten(models(), selector)
    assert (change.how, change.replacement) == (how, replacement)


def test_devices_without_the_attribute_are_passed_over() -> None:
    cluster = cluster_inventory(
        resource_slice(gpu("gpu-0"), gpu("gpu-1", attributes={"nvlink": True}))
    )
    change = rewritten(cluster, f"{ATTRIBUTES}.nvlink")
    assert change.replacement == f"has({ATTRIBUTES}.nvlink) && {ATTRIBUTES}.nvlink"


def test_threshold_below_the_first_one_if_devices_with_that_are_taken() -> None:
    cluster = models()
    hold(cluster, "other", "gpu-0", pool="n3")
    change = found(cluster, claim(request("gpu", f"{ATTRIBUTES}.index >= 5")))[0]
    assert isinstance(change, changes.ReplaceSelector)
    assert change.new == "2"


def test_waiting_asks_nothing_of_the_user_and_comes_before_asking_for_less() -> None:
    cluster = cluster_inventory(gpu_slice("n1", 3))
    hold(cluster, "small", "gpu-0")
    hold(cluster, "large", "gpu-1", "gpu-2")
    named = found(cluster, claim(request("gpu", count=2)))
    assert named == (changes.WaitForClaim(node="n1", holder=ClaimKey("default", "large")),)


def test_several_claims_have_to_end_where_no_single_one_frees_enough() -> None:
    cluster = cluster_inventory(gpu_slice("n1", 4))
    hold(cluster, "small", "gpu-0")
    hold(cluster, "large", "gpu-1", "gpu-2")
    hold(cluster, "other", "gpu-3")
    change = found(cluster, claim(request("gpu", count=3)))[0]
    assert isinstance(change, changes.WaitForClaims)
    assert len(change.holders) == 2
    assert "large" in {holder.name for holder in change.holders}


def test_fewer_devices_are_as_many_as_fit() -> None:
    devices = [gpu(f"gpu-{n}", attributes={"side": "ab"[n < 3]}) for n in range(5)]
    cluster = cluster_inventory(resource_slice(*devices))
    change = found(cluster, claim(request("gpu", count=5), match=f"{DRIVER}/side"))[0]
    assert change == changes.FewerDevices(node="n1", claim=0, request="gpu", count=3, asked=5)


def test_taint_is_tolerated_alone_if_that_is_enough() -> None:
    one, two = DeviceTaint("a", "", "NoSchedule"), DeviceTaint("b", "", "NoSchedule")
    cluster = cluster_inventory(
        resource_slice(gpu("gpu-0", taints=[one, two]), gpu("gpu-1", taints=[two]))
    )
    (change,) = found(cluster, claim(request()))
    assert change == changes.TolerateTaint(node="n1", claim=0, request="gpu", taint=two)


def test_change_that_makes_another_node_fail_is_not_named() -> None:
    lacking = resource_slice(gpu("gpu-0"), node="n0")
    having = resource_slice(gpu("gpu-0", attributes={"nvlink": version("2.0.0")}), node="n1")
    (change,) = found(
        cluster_inventory(lacking, having),
        claim(request("gpu", f"{ATTRIBUTES}.nvlinks.major() >= 2")),
    )
    assert isinstance(change, changes.DropSelector)


def test_two_causes_cannot_be_mended_by_one_change() -> None:
    wanted = [request("a", f'{ATTRIBUTES}.productName == "B200"', "false"), request("b", "false")]
    assert found(models(), claim(*wanted)) == ()


def test_other_class_comes_before_dropping_what_the_user_asked_for() -> None:
    classes = [device_class("nic", 'device.driver == "nic"'), device_class()]
    cluster = cluster_inventory(gpu_slice(), classes=classes)
    asked = request("gpu", f'{ATTRIBUTES}.productName == "H100"', cls="nic")
    first = found(cluster, claim(asked))[0]
    assert isinstance(first, changes.OtherClass)
    assert first.device_class == "gpu"


def test_same_selector_is_not_named_twice() -> None:
    named = found(
        models(), claim(request("gpu", f'{CAPACITY}.memory.isGreaterThan(quantity("1Ti"))'))
    )
    assert len(named) == 1
