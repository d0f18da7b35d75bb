"""How many devices are left after each gate."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model import rejections, requests
from dray.allocator.problem import resolution
from dray.api.ids import ClaimKey
from dray.api.types.dra import DeviceTaint, ResourceClaim
from dray.explain.survey import node_survey
from dray.explain.survey.filters import CannotEvaluate, DeviceFilter, FilterKind
from dray.explain.survey.funnel import Funnel, Holder, NodeCount
from dray.explain.survey.node_survey import Survey
from tests.builders import (
    DRIVER,
    claim,
    cluster_inventory,
    device,
    device_class,
    gpu,
    gpu_slice,
    hold,
    mig_slices,
    node,
    request,
    resource_slice,
)

SECONDS_FOR_LARGE_FLEET = 2
PRODUCT = f'device.attributes["{DRIVER}"].productName'


def surveyed(cluster: ClusterInventory, *claims: ResourceClaim) -> Survey:
    questions = [requests.parse_claim(item.spec.devices) for item in claims]
    resolved = resolution.resolve(questions, cluster.classes, cluster.selectors, cluster.features)
    present = [name for name, entry in cluster.nodes.items() if entry.node is not None]
    return node_survey.survey_nodes(cluster, present, resolved)


def measured(cluster: ClusterInventory, *claims: ResourceClaim) -> Funnel:
    (funnel,) = surveyed(cluster, *claims).funnels
    return funnel


def counts(
    funnel: Funnel, kinds: Sequence[FilterKind] = tuple(FilterKind)
) -> list[tuple[str, int, int]]:
    return [
        (str(stage.filter.kind), stage.before, stage.after)
        for stage in funnel.stages
        if stage.lost and stage.filter.kind in kinds
    ]


def test_every_gate_counts_what_the_gates_before_have_left() -> None:
    taint = DeviceTaint("sick", "", "NoSchedule")
    nic = resource_slice(device("eth0"), driver="nic.example.com")
    mixed = resource_slice(
        gpu("gpu-0"),
        gpu("gpu-1"),
        gpu("gpu-2", taints=[taint]),
        gpu("gpu-3", product="A100"),
    )
    cluster = cluster_inventory(nic, mixed)
    hold(cluster, "other", "gpu-0")
    funnel = measured(cluster, claim(request("gpu", f'{PRODUCT} == "H100"')))
    assert funnel.published == 5
    assert counts(funnel) == [
        ("class", 5, 4),
        ("selector", 4, 3),
        ("taints", 3, 2),
        ("taken", 2, 1),
    ]
    assert funnel.stages[-1].after == 1


def test_gate_that_only_some_nodes_have_does_not_hide_devices_of_the_others() -> None:
    cluster = cluster_inventory(*mig_slices("n1"), gpu_slice("n2", 2))
    hold(cluster, "other", "gpu-0")
    funnel = measured(cluster, claim(request()))
    assert counts(funnel, [FilterKind.COUNTERS]) == [("counters", 8, 2)]


def test_device_that_several_nodes_reach_counts_once() -> None:
    shared = resource_slice(gpu("far-0"), gpu("far-1"), node=None, all_nodes=True)
    cluster = cluster_inventory(
        shared, gpu_slice("n1", 1), nodes=[node(f"n{number}") for number in range(3)]
    )
    hold(cluster, "other", "far-0", pool="network")
    funnel = measured(cluster, claim(request()))
    assert funnel.published == 3
    assert funnel.nodes == 3
    (taken,) = [stage for stage in funnel.stages if stage.lost]
    assert (taken.before, taken.after) == (3, 2)
    assert taken.holders == (Holder(ClaimKey("default", "other"), 1),)


def test_device_passes_if_it_is_for_one_of_the_nodes() -> None:
    published = resource_slice(
        device("gpu-a", node="n1"), device("gpu-b", node="n2"), pool="rack", per_device=True
    )
    funnel = measured(
        cluster_inventory(published, nodes=[node("n1"), node("n2")]), claim(request())
    )
    assert (funnel.published, funnel.stages[-1].after) == (2, 2)


def test_devices_on_which_a_selector_fails_are_counted_and_exemplified() -> None:
    cluster = cluster_inventory(
        resource_slice(gpu("gpu-0"), gpu("gpu-1", attributes={"nvlink": True}))
    )
    funnel = measured(cluster, claim(request("gpu", f'device.attributes["{DRIVER}"].nvlink')))
    stage = next(stage for stage in funnel.stages if stage.filter.kind is FilterKind.SELECTOR)
    assert (stage.before, stage.after, stage.failing) == (2, 1, 1)
    assert stage.example is not None
    assert stage.example.device == "gpu-0"
    assert isinstance(stage.rejection, CannotEvaluate)
    assert "no such key: nvlink" in stage.rejection.detail


def test_nearest_miss_is_the_device_that_the_fewest_gates_refuse() -> None:
    taint = DeviceTaint("sick", "", "NoSchedule")
    cluster = cluster_inventory(
        resource_slice(
            gpu("gpu-0", product="A100", taints=[taint]),
            gpu("gpu-1", product="A100"),
            gpu("gpu-2", taints=[taint]),
        )
    )
    hold(cluster, "other", "gpu-1")
    near = measured(cluster, claim(request("gpu", f'{PRODUCT} == "H100"'))).nearest
    assert near is not None
    assert near.device.device == "gpu-2"
    assert [type(lack) for lack in near.lacks] == [rejections.TaintNotTolerated]


def test_device_of_another_class_is_further_away_than_one_that_is_taken() -> None:
    nic = resource_slice(device("eth0"), driver="a-nic.example.com")
    cluster = cluster_inventory(nic, gpu_slice("n1", 1))
    hold(cluster, "other", "gpu-0")
    near = measured(cluster, claim(request())).nearest
    assert near is not None
    assert near.device.device == "gpu-0"


def test_node_is_blocked_at_the_gate_where_too_few_are_left() -> None:
    cluster = cluster_inventory(gpu_slice("n1", 4), gpu_slice("n2", 1), nodes=[node("n3")])
    hold(cluster, "other", "gpu-0", "gpu-1", "gpu-2")
    funnel = measured(cluster, claim(request("gpu", count=2)))
    blocked = {item.filter.kind: (item.nodes, item.example) for item in funnel.blocked}
    assert blocked == {FilterKind.CLASS: (2, "n3"), FilterKind.TAKEN: (1, "n1")}
    assert funnel.best == NodeCount("n1", 1)


@pytest.mark.parametrize(("taken", "kind"), [(0, None), (1, FilterKind.TAKEN)])
def test_all_is_blocked_where_one_of_the_matching_devices_is_lost(
    taken: int, kind: FilterKind | None
) -> None:
    cluster = cluster_inventory(gpu_slice("n1", 3))
    if taken:
        hold(cluster, "other", "gpu-1")
    funnel = measured(cluster, claim(request("gpu", mode="All")))
    assert [item.filter for item in funnel.blocked] == ([DeviceFilter(kind)] if kind else [])
    assert (funnel.needed, funnel.most_needed) == (0, 3)


def test_options_of_unknown_class_have_no_funnel() -> None:
    assert (
        surveyed(cluster_inventory(gpu_slice()), claim(request("gpu", cls="unknown"))).funnels == ()
    )


def test_nodes_that_look_alike_are_represented_by_a_few() -> None:
    cluster = cluster_inventory(*(gpu_slice(f"n{number}", 1 + number % 2) for number in range(300)))
    found = surveyed(cluster, claim(request("gpu", count=3)))
    assert len(found.representatives) == 2 * node_survey.EXAMPLES_KEPT
    assert found.representatives[0].blocked == {(0, "gpu")}


def test_first_request_that_cannot_be_served_is_the_obstacle() -> None:
    classes = [device_class(), device_class("nic", 'device.driver == "nic"')]
    cluster = cluster_inventory(gpu_slice("n1", 1), classes=classes)
    found = surveyed(cluster, claim(request("gpu"), request("nic", cls="nic")))
    ((obstacle, nodes),) = found.counts.items()
    assert (obstacle.request, nodes) == ("nic", 1)
    assert found.undecided_nodes == []


def test_pool_with_missing_slices_is_unusable() -> None:
    cluster = cluster_inventory(resource_slice(gpu("gpu-0"), slices=3))
    (pool,) = surveyed(cluster, claim(request())).unusable
    assert (pool.slices, pool.expected_slices, pool.invalid_reason) == (1, 3, "")


@pytest.mark.slow
def test_large_fleet_is_surveyed_quickly() -> None:
    cluster = cluster_inventory(*(gpu_slice(f"n{number}", 8) for number in range(5000)))
    asked = claim(request("gpu", f'{PRODUCT} == "A100"', count=2), match=f"{DRIVER}/productName")
    surveyed(cluster, asked)
    began = time.process_time()
    (funnel,) = surveyed(cluster, asked).funnels
    assert time.process_time() - began < SECONDS_FOR_LARGE_FLEET
    assert (funnel.published, funnel.stages[-1].after) == (40_000, 0)
