"""What each gate has against a device."""

from __future__ import annotations

import msgspec
import pytest

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model import rejections, requests
from dray.allocator.problem import resolution
from dray.api.features import DEFAULT
from dray.api.ids import ClaimKey
from dray.api.types.dra import Device, DeviceTaint, ResourceClaim
from dray.explain.survey.filters import CannotEvaluate, FilterKind, FilterRejection, NodeFilters
from tests.builders import (
    DRIVER,
    claim,
    cluster_inventory,
    device,
    gpu,
    gpu_slice,
    hold,
    mig_slices,
    node,
    request,
    resource_slice,
)


def filter_rejections(
    cluster: ClusterInventory, asked: ResourceClaim, number: int = 0
) -> dict[FilterKind, FilterRejection]:
    """What the gates of the first node say about one of its devices."""
    question = requests.parse_claim(asked.spec.devices)
    resolved = resolution.resolve([question], cluster.classes, cluster.selectors, cluster.features)
    entry = next(entry for entry in cluster.nodes.values() if entry.node is not None)
    panel = NodeFilters(cluster.inventory(entry), resolved, cluster.selectors)
    candidate = panel.inventory.devices[number]
    (plan,) = panel.requests[0].alternatives
    found = {}
    for answer in panel.results(plan):
        if not answer.passing & candidate.bit:
            rejection = panel.rejection(plan, answer.filter, candidate)
            assert rejection is not None
            found[answer.filter.kind] = rejection
    return found


def test_gates_that_have_nothing_against_a_device_are_silent() -> None:
    assert filter_rejections(cluster_inventory(gpu_slice()), claim(request())) == {}


def test_gates_are_asked_independently() -> None:
    taint = DeviceTaint("sick", "", "NoSchedule")
    cluster = cluster_inventory(resource_slice(gpu("gpu-0", taints=[taint])))
    hold(cluster, "other", "gpu-0")
    found = filter_rejections(cluster, claim(request("gpu", "false")))
    assert set(found) == {FilterKind.SELECTOR, FilterKind.TAINTS, FilterKind.TAKEN}
    assert found[FilterKind.TAKEN] == rejections.DeviceInUse(
        found[FilterKind.TAKEN].device,  # type: ignore[union-attr]
        (ClaimKey("default", "other"),),
    )


def test_selector_that_does_not_compile_fails_on_every_device() -> None:
    found = filter_rejections(cluster_inventory(gpu_slice()), claim(request("gpu", "nonsense")))
    assert isinstance(found[FilterKind.SELECTOR], CannotEvaluate)


def test_device_for_another_node() -> None:
    published = resource_slice(
        device("gpu-a", node="n1"), device("gpu-b", node="n2"), pool="rack", per_device=True
    )
    cluster = cluster_inventory(published, nodes=[node("n1"), node("n2")])
    assert set(filter_rejections(cluster, claim(request()), 1)) == {FilterKind.NODE}


@pytest.mark.parametrize(
    ("gate", "needing"),
    [
        ("device_binding_conditions", device("gpu-0", binding_conditions=["attached"])),
        ("partitionable_devices", device("gpu-0", consumes={"set": {"memory": "1Gi"}})),
    ],
)
def test_device_that_needs_a_gate(gate: str, needing: Device) -> None:
    features = msgspec.structs.replace(DEFAULT, **{gate: False})
    cluster = cluster_inventory(resource_slice(needing), features=features)
    assert set(filter_rejections(cluster, claim(request()))) == {FilterKind.FEATURES}


def test_capacity_that_cannot_be_computed_is_an_objection_of_capacity_alone() -> None:
    cluster = cluster_inventory(gpu_slice("n1", 1, shareable=True))
    hold(cluster, "other", "gpu-0")
    found = filter_rejections(cluster, claim(request("gpu", capacity={"memory": "-1"})))
    assert set(found) == {FilterKind.TAKEN, FilterKind.CAPACITY}
    assert isinstance(found[FilterKind.CAPACITY], CannotEvaluate)


def test_capacity_left_by_shares() -> None:
    cluster = cluster_inventory(gpu_slice("n1", 1, shareable=True))
    for name in ("b", "a"):
        hold(cluster, name, "gpu-0", share={"memory": "40Gi"})
    short = filter_rejections(cluster, claim(request("gpu", capacity={"memory": "1Gi"})))[
        FilterKind.CAPACITY
    ]
    assert isinstance(short, rejections.InsufficientCapacity)
    assert (short.available, short.total) == ("0", "80Gi")
    assert short.holders == (ClaimKey("default", "a"), ClaimKey("default", "b"))


def test_counters_that_others_have_drawn_from() -> None:
    cluster = cluster_inventory(*mig_slices())
    hold(cluster, "other", "gpu-0-half-0")
    short = filter_rejections(cluster, claim(request()))[FilterKind.COUNTERS]
    assert isinstance(short, rejections.InsufficientCounter)
    assert (short.needed, short.available) == ("40Gi", "20Gi")
    assert short.holders == (ClaimKey("default", "other"),)


def test_attribute_that_a_constraint_compares_is_absent() -> None:
    found = filter_rejections(
        cluster_inventory(gpu_slice()), claim(request(), match=f"{DRIVER}/numa")
    )
    assert isinstance(found[FilterKind.CONSTRAINTS], rejections.AttributeAbsent)


def test_derived_attribute_that_fails_is_an_objection_and_raises_nothing() -> None:
    features = msgspec.structs.replace(DEFAULT, derived_attributes=True)
    asked = request("gpu", derived={f"{DRIVER}/side": f'device.attributes["{DRIVER}"].nothing'})
    cluster = cluster_inventory(gpu_slice(), features=features)
    found = filter_rejections(cluster, claim(asked, match=f"{DRIVER}/side"))
    assert isinstance(found[FilterKind.CONSTRAINTS], CannotEvaluate)
