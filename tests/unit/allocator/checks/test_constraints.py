"""matchAttribute and distinctAttribute."""

from __future__ import annotations

import msgspec
import pytest

from dray.allocator.checks import constraints
from dray.allocator.checks.constraints import DistinctAttribute, MatchAttribute
from dray.allocator.model import rejections, requests
from dray.allocator.model.trail import Trail
from dray.api import features
from dray.api.types.dra import Device, DeviceConstraint
from tests import builders
from tests.unit.allocator import allocating

RING = "gpu.example.com/ring"
LISTS = msgspec.structs.replace(features.DEFAULT, list_type_attributes=True)


def on_rings(*rings: str | None) -> list[Device]:
    return [
        builders.gpu(f"gpu-{number}", attributes={"ring": ring} if ring else None)
        for number, ring in enumerate(rings)
    ]


def test_matching_devices_are_found_behind_others() -> None:
    cluster = builders.cluster_inventory(builders.resource_slice(*on_rings("east", "west", "west")))
    claim = builders.claim(builders.request(count=2), match=RING)
    assert allocating.devices(cluster, claim) == ["gpu-1", "gpu-2"]


def test_a_device_without_the_attribute_matches_nothing() -> None:
    cluster = builders.cluster_inventory(builders.resource_slice(*on_rings(None, "west", "west")))
    claim = builders.claim(builders.request(count=2), match=RING)
    assert allocating.devices(cluster, claim) == ["gpu-1", "gpu-2"]


def test_the_refusal_names_the_value_that_comes_closest() -> None:
    cluster = builders.cluster_inventory(
        builders.resource_slice(*on_rings("east", "west", "west", "north"))
    )
    reason = allocating.rejection(cluster, builders.claim(builders.request(count=3), match=RING))
    assert reason == rejections.NoCommonValue(0, "gpu", RING, needed=3, best=2, best_value="west")


def test_distinct_devices_differ_in_the_value() -> None:
    cluster = builders.cluster_inventory(builders.resource_slice(*on_rings("east", "east", "west")))
    claim = builders.claim(builders.request(count=2), distinct=RING)
    assert allocating.devices(cluster, claim) == ["gpu-0", "gpu-2"]


def test_the_refusal_says_how_many_values_there_are() -> None:
    cluster = builders.cluster_inventory(builders.resource_slice(*on_rings("east", "east", "west")))
    reason = allocating.rejection(cluster, builders.claim(builders.request(count=3), distinct=RING))
    assert reason == rejections.TooFewValues(0, "gpu", RING, needed=3, values=2)


def test_a_constraint_binds_only_the_requests_that_it_names() -> None:
    cluster = builders.cluster_inventory(builders.resource_slice(*on_rings("east", "west", "west")))
    named = DeviceConstraint(("b", "c"), match_attribute=RING)
    claim = builders.claim(*[builders.request(name) for name in "abc"], constraints=[named])
    assert allocating.devices(cluster, claim) == ["gpu-0", "gpu-1", "gpu-2"]


@pytest.mark.parametrize(
    ("named", "applies"),
    [((), True), (("any",), True), (("any/big",), True), (("any/small",), False)],
)
def test_a_subrequest_is_meant_by_its_parent_or_by_itself(
    named: tuple[str, ...], applies: bool
) -> None:
    asked = builders.claim(
        builders.alternatives("any", builders.option("big"), builders.option("small"))
    )
    (request,) = requests.parse_claim(asked.spec.devices).requests
    constraint = DeviceConstraint(named, match_attribute=RING)
    assert constraints.applies_to(constraint, request.alternatives[0]) is applies


def test_lists_match_while_they_have_a_member_in_common() -> None:
    links = (("x", "y"), ("y", "z"), ("x", "z"))
    devices = [
        builders.gpu(f"gpu-{number}", attributes={"ring": builders.strings(*item)})
        for number, item in enumerate(links)
    ]
    cluster = builders.cluster_inventory(builders.resource_slice(*devices), features=LISTS)
    assert allocating.devices(cluster, builders.claim(builders.request(count=2), match=RING)) == [
        "gpu-0",
        "gpu-1",
    ]
    allocating.rejection(cluster, builders.claim(builders.request(count=3), match=RING))


def test_a_single_value_that_cannot_be_compared_passes_without_lists() -> None:
    """Upstream's scalar comparison looks at values only from the second device on."""
    odd = builders.gpu("gpu-0", attributes={"ring": builders.strings("x")})
    claim = builders.claim(builders.request(), match=RING)
    assert allocating.devices(builders.cluster_inventory(builders.resource_slice(odd)), claim) == [
        "gpu-0"
    ]


def test_all_devices_that_do_not_match_are_a_failure() -> None:
    cluster = builders.cluster_inventory(builders.resource_slice(*on_rings("east", "west")))
    claim = builders.claim(builders.request(mode="All"), match=RING)
    assert allocating.error_text(cluster, claim) == (
        "claim default/train, request gpu: cannot add device gpu.example.com/n1/gpu-1 because a "
        "claim constraint would not be satisfied"
    )


def test_a_constraint_without_a_kind_is_a_failure() -> None:
    claim = builders.claim(builders.request(), constraints=[DeviceConstraint()])
    assert allocating.error_text(builders.cluster_inventory(builders.gpu_slice()), claim) == (
        "claim default/train, constraint #0: empty constraint (unsupported constraint type?)"
    )


@pytest.mark.parametrize("kind", [MatchAttribute, DistinctAttribute])
def test_a_refused_device_leaves_no_trace(kind: type[MatchAttribute | DistinctAttribute]) -> None:
    cluster = builders.cluster_inventory(builders.resource_slice(*on_rings("east", "west", "east")))
    inventory = cluster.inventory(cluster.nodes["n1"])
    first, second, third = inventory.devices
    refused = second if kind is MatchAttribute else third
    trail, constraint = Trail(), kind(0, RING, False)
    for device in (first, refused):
        mark = trail.mark()
        value = inventory.value(device, RING)
        assert value is not None
        verdict = constraint.add(device, value, trail)
        assert (verdict is None) is (device is first)
    assert trail.mark() == mark
    trail.unwind(0)
    assert not getattr(constraint, "value", None)
    assert not getattr(constraint, "values", None)
