"""Which nodes look alike to claims, and which of them the allocator need not be asked about."""

from __future__ import annotations

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model import requests
from dray.allocator.problem import resolution
from dray.api.ids import ClaimKey
from dray.api.types.dra import (
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceClaim,
    ResourceSlice,
)
from dray.api.types.meta import ObjectMeta
from dray.explain.survey import equivalence
from dray.explain.survey.equivalence import EquivalenceClass
from tests.builders import (
    DRIVER,
    claim,
    cluster_inventory,
    gpu,
    gpu_slice,
    hold,
    mig_slices,
    node,
    request,
    resource_slice,
)

PRODUCT = f'device.attributes["{DRIVER}"].productName'
SICK = DeviceTaint("sick", "", "NoSchedule")


def grouped(cluster: ClusterInventory, *claims: ResourceClaim) -> list[EquivalenceClass]:
    present = [name for name, entry in cluster.nodes.items() if entry.node is not None]
    paths = equivalence.paths_read(resolved(cluster, *claims), cluster.features)
    return equivalence.group_nodes(cluster, present, paths)


def resolved(cluster: ClusterInventory, *claims: ResourceClaim) -> list[resolution.ResolvedClaim]:
    questions = [requests.parse_claim(item.spec.devices) for item in claims]
    return resolution.resolve(questions, cluster.classes, cluster.selectors, cluster.features)


def names(groups: list[EquivalenceClass]) -> list[list[str]]:
    return [[member.node for member in group] for group in groups]


def with_uuids(node: str, *numbers: int) -> ResourceSlice:
    devices = [
        gpu(f"gpu-{index}", attributes={"uuid": f"{node}-{number}"})
        for index, number in enumerate(numbers)
    ]
    return resource_slice(*devices, node=node)


def test_nodes_with_the_same_devices_are_alike_in_whichever_order() -> None:
    cluster = cluster_inventory(
        resource_slice(gpu("gpu-0"), gpu("gpu-1", product="A100"), node="n1"),
        gpu_slice("n2", 2),
        resource_slice(gpu("gpu-0", product="A100"), gpu("gpu-1"), node="n3"),
    )
    assert names(grouped(cluster, claim(request("gpu", f'{PRODUCT} == "H100"')))) == [
        ["n1", "n3"],
        ["n2"],
    ]


def test_values_that_nobody_reads_make_no_difference() -> None:
    cluster = cluster_inventory(with_uuids("n1", 1, 2), with_uuids("n2", 1, 2))
    assert names(grouped(cluster, claim(request()))) == [["n1", "n2"]]
    reading = claim(request("gpu", f'device.attributes["{DRIVER}"].uuid == "n1-1"'))
    assert names(grouped(cluster, reading)) == [["n1"], ["n2"]]


def test_held_and_tainted_devices_look_different() -> None:
    cluster = cluster_inventory(*(gpu_slice(f"n{number}", 2) for number in range(1, 5)))
    cluster.put_slice(resource_slice(gpu("gpu-0"), gpu("gpu-1", taints=[SICK]), node="n5"))
    cluster.put_node(node("n5"))
    hold(cluster, "one", "gpu-0", pool="n2")
    hold(cluster, "other", "gpu-1", pool="n3")
    assert names(grouped(cluster, claim(request()))) == [["n1", "n4"], ["n2", "n3"], ["n5"]]


def test_taint_rule_for_one_device_tells_its_node_from_others() -> None:
    cluster = cluster_inventory(gpu_slice("n1", 2), gpu_slice("n2", 2), gpu_slice("n3", 2))
    selector = DeviceTaintSelector(pool="n2", device="gpu-1")
    cluster.put_taint_rule(
        DeviceTaintRule(ObjectMeta(name="rule"), DeviceTaintRuleSpec(selector, SICK))
    )
    assert names(grouped(cluster, claim(request()))) == [["n1", "n3"], ["n2"]]


def test_node_that_shares_devices_with_others_is_alone() -> None:
    shared = resource_slice(gpu("far-0"), node=None, all_nodes=True)
    cluster = cluster_inventory(shared, gpu_slice("n1", 2), gpu_slice("n2", 2))
    assert names(grouped(cluster, claim(request()))) == [["n1"], ["n2"]]


def test_partitions_are_compared_as_long_as_none_is_held() -> None:
    slices = [published for number in range(1, 5) for published in mig_slices(f"n{number}")]
    cluster = cluster_inventory(*slices)
    hold(cluster, "one", "gpu-0", pool="n2")
    hold(cluster, "other", "gpu-0", pool="n3")
    assert names(grouped(cluster, claim(request()))) == [["n1", "n4"], ["n2"], ["n3"]]


def test_holders_are_those_of_the_devices_that_look_the_same() -> None:
    cluster = cluster_inventory(gpu_slice("n1", 2), gpu_slice("n2", 2))
    hold(cluster, "one", "gpu-0", pool="n1")
    hold(cluster, "other", "gpu-1", pool="n2")
    ((first, second),) = grouped(cluster, claim(request()))
    assert list(equivalence.holders(cluster, 0b01, first, second)) == [ClaimKey("default", "other")]
    assert list(equivalence.holders(cluster, 0b10, first, second)) == []


def test_twins_agree_in_order_and_in_which_constrained_values_are_the_same() -> None:
    cluster = cluster_inventory(
        with_uuids("n1", 1, 2, 3),
        with_uuids("n2", 7, 7, 8),
        with_uuids("n3", 4, 5, 6),
        with_uuids("n4", 1, 1, 2),
    )
    asked = claim(request(count=2), match=f"{DRIVER}/uuid")
    groups = grouped(cluster, asked)
    assert names(groups) == [["n1", "n2", "n3", "n4"]]
    assert equivalence.representatives(groups, resolved(cluster, asked)) == {
        "n1": "n1",
        "n2": "n2",
        "n3": "n1",
        "n4": "n2",
    }
