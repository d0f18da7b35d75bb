"""Situations that people meet, each as a fleet and the claims of a pod."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.features import DEFAULT, Features
from dray.api.types.dra import (
    AllocationResult,
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    DeviceCapacity,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceClaim,
    ResourceClaimStatus,
)
from dray.api.types.meta import ObjectMeta
from tests.builders import (
    DRIVER,
    alternatives,
    claim,
    cluster_inventory,
    device,
    device_class,
    gpu,
    gpu_slice,
    hold,
    mig_slices,
    node,
    nodes_labelled,
    option,
    request,
    resource_slice,
    strings,
    valid_values,
)

ATTRIBUTES = f'device.attributes["{DRIVER}"]'
CAPACITY = f'device.capacity["{DRIVER}"]'


class Situation(NamedTuple):
    cluster: ClusterInventory
    claims: Sequence[ResourceClaim]


SITUATIONS: dict[str, Callable[[], Situation]] = {}


def situation(build: Callable[[], Situation]) -> Callable[[], Situation]:
    """Enter a situation into the table under its name."""
    SITUATIONS[build.__name__.replace("_", "-")] = build
    return build


def with_gates(**gates: bool) -> Features:
    return msgspec.structs.replace(DEFAULT, **gates)


def two_models() -> ClusterInventory:
    """Four H100 with 80Gi on n1, four A100 with 40Gi on n2."""
    return cluster_inventory(gpu_slice("n1", 4), gpu_slice("n2", 4, product="A100", memory="40Gi"))


def allocated(asked: ResourceClaim, allocation: AllocationResult) -> ResourceClaim:
    return msgspec.structs.replace(asked, status=ResourceClaimStatus(allocation))


# Nothing wrong


@situation
def free_device() -> Situation:
    return Situation(two_models(), [claim(request("gpu", count=2))])


@situation
def allocated_already() -> Situation:
    cluster = two_models()
    hold(cluster, "train", "gpu-1")
    allocation = cluster.release(("default", "train"))  # type: ignore[arg-type]
    assert allocation is not None
    return Situation(cluster, [allocated(claim(request()), allocation)])


@situation
def admin_access_sees_devices_in_use() -> Situation:
    cluster = cluster_inventory(gpu_slice("n1", 1))
    hold(cluster, "other", "gpu-0")
    return Situation(cluster, [claim(request("gpu", admin=True))])


# Written wrong


@situation
def class_misspelt() -> Situation:
    return Situation(two_models(), [claim(request("gpu", cls="gpus"))])


@situation
def class_unknown() -> Situation:
    classes = [device_class(name, "true") for name in ("nic", "fpga", "disk", "gpu")]
    cluster = cluster_inventory(gpu_slice(), classes=classes)
    return Situation(cluster, [claim(request("gpu", cls="accelerator.example.com"))])


@situation
def class_absent_from_request() -> Situation:
    return Situation(two_models(), [claim(request("gpu", cls=""))])


@situation
def class_of_other_devices() -> Situation:
    nic = resource_slice(device("eth0", attributes={"speed": 100}), driver="nic.example.com")
    classes = [device_class(), device_class("nic", 'device.driver == "nic.example.com"')]
    cluster = cluster_inventory(gpu_slice("n1", 2), nic, classes=classes)
    wanted = request("gpu", f'{ATTRIBUTES}.?productName.orValue("") == "H100"', cls="nic")
    return Situation(cluster, [claim(wanted)])


@situation
def attribute_misspelt() -> Situation:
    return Situation(two_models(), [claim(request("gpu", f'{ATTRIBUTES}.productname == "H100"'))])


@situation
def attribute_misspelt_and_optional() -> Situation:
    selector = f'{ATTRIBUTES}.?product.orValue("") == "H100"'
    return Situation(two_models(), [claim(request("gpu", selector))])


@situation
def attribute_nobody_has() -> Situation:
    selector = f"{ATTRIBUTES}.?liquidCooled.orValue(false)"
    return Situation(two_models(), [claim(request("gpu", selector))])


@situation
def attribute_of_another_domain() -> Situation:
    selector = 'device.attributes["example.com"].productName == "H100"'
    return Situation(two_models(), [claim(request("gpu", selector))])


@situation
def domain_nobody_uses() -> Situation:
    selector = 'has(device.attributes["topology.example.com"].rack)'
    return Situation(two_models(), [claim(request("gpu", selector))])


@situation
def attribute_on_some_devices_only() -> Situation:
    linked = gpu("gpu-1", attributes={"nvlink": True})
    cluster = cluster_inventory(resource_slice(gpu("gpu-0"), linked))
    return Situation(cluster, [claim(request("gpu", f"{ATTRIBUTES}.nvlink"))])


@situation
def capacity_taken_for_an_attribute() -> Situation:
    return Situation(two_models(), [claim(request("gpu", f'{ATTRIBUTES}.memory >= "40Gi"'))])


@situation
def quantity_compared_with_text() -> Situation:
    return Situation(two_models(), [claim(request("gpu", f'{CAPACITY}.memory >= "40Gi"'))])


@situation
def version_compared_with_text() -> Situation:
    return Situation(
        two_models(), [claim(request("gpu", f'{ATTRIBUTES}.driverVersion >= "550.0.0"'))]
    )


@situation
def version_equal_to_text() -> Situation:
    selector = f'{ATTRIBUTES}.driverVersion == "550.54.15"'
    return Situation(two_models(), [claim(request("gpu", selector))])


@situation
def integer_compared_with_text() -> Situation:
    cluster = cluster_inventory(gpu_slice("n1", 2, attributes={"index": 1}))
    return Situation(cluster, [claim(request("gpu", f'{ATTRIBUTES}.index == "1"'))])


@situation
def selector_with_syntax_error() -> Situation:
    selector = f'{ATTRIBUTES}.productName = "H100"'
    return Situation(two_models(), [claim(request("gpu", selector))])


@situation
def selector_with_unknown_function() -> Situation:
    selector = f'{CAPACITY}.memory.atLeast("40Gi")'
    return Situation(two_models(), [claim(request("gpu", selector))])


@situation
def selector_that_costs_too_much() -> Situation:
    digits = "[" + ", ".join(map(str, range(40))) + "]"
    nested = f"{digits}.all(d, d + a + b + c < 1000)"
    for variable in "cba":
        nested = f"{digits}.all({variable}, {nested})"
    return Situation(two_models(), [claim(request("gpu", nested))])


@situation
def class_selector_broken() -> Situation:
    cluster = cluster_inventory(
        gpu_slice(), classes=[device_class("gpu", f'{CAPACITY}.memory > "1Gi"')]
    )
    return Situation(cluster, [claim(request())])


@situation
def too_many_devices() -> Situation:
    return Situation(two_models(), [claim(request("gpu", count=33))])


@situation
def match_attribute_misspelt() -> Situation:
    cluster = cluster_inventory(gpu_slice("n1", 4, attributes={"nvswitchDomain": "d1"}))
    return Situation(cluster, [claim(request("gpu", count=2), match=f"{DRIVER}/nvSwitchdomain")])


@situation
def capacity_request_misspelt() -> Situation:
    cluster = cluster_inventory(gpu_slice("n1", 1, shareable=True))
    return Situation(cluster, [claim(request("gpu", capacity={"memroy": "10Gi"}))])


# More than there is


@situation
def memory_too_large() -> Situation:
    selector = f'{CAPACITY}.memory.compareTo(quantity("180Gi")) >= 0'
    return Situation(two_models(), [claim(request("gpu", selector))])


@situation
def memory_strictly_larger() -> Situation:
    selector = f'{CAPACITY}.memory.isGreaterThan(quantity("80Gi"))'
    return Situation(two_models(), [claim(request("gpu", selector))])


@situation
def version_too_new() -> Situation:
    selector = f'{ATTRIBUTES}.driverVersion.compareTo(semver("570.0.0")) >= 0'
    return Situation(two_models(), [claim(request("gpu", selector))])


@situation
def product_not_there() -> Situation:
    return Situation(two_models(), [claim(request("gpu", f'{ATTRIBUTES}.productName == "B200"'))])


@situation
def product_misspelt() -> Situation:
    cluster = cluster_inventory(gpu_slice("n1", 2, product="NVIDIA H100 80GB"))
    selector = f'{ATTRIBUTES}.productName == "nvidia-h100-80gb"'
    return Situation(cluster, [claim(request("gpu", selector))])


@situation
def clauses_that_exclude_each_other() -> Situation:
    selector = (
        f'{ATTRIBUTES}.productName == "A100" && {CAPACITY}.memory.compareTo(quantity("80Gi")) >= 0'
    )
    return Situation(two_models(), [claim(request("gpu", selector))])


@situation
def selectors_that_exclude_each_other() -> Situation:
    selectors = (
        f'{ATTRIBUTES}.productName == "H100"',
        f'{CAPACITY}.memory.compareTo(quantity("60Gi")) <= 0',
    )
    return Situation(two_models(), [claim(request("gpu", *selectors))])


@situation
def more_devices_than_a_node_has() -> Situation:
    return Situation(two_models(), [claim(request("gpu", count=6))])


@situation
def requests_need_more_together() -> Situation:
    cluster = cluster_inventory(gpu_slice("n1", 3))
    return Situation(cluster, [claim(request("small", count=2), request("large", count=2))])


@situation
def claims_need_more_together() -> Situation:
    cluster = cluster_inventory(gpu_slice("n1", 1))
    return Situation(cluster, [claim(request(), name="first"), claim(request(), name="second")])


# In use


@situation
def all_taken() -> Situation:
    cluster = two_models()
    hold(cluster, "a", "gpu-0", "gpu-1", "gpu-2")
    hold(cluster, "b", "gpu-3")
    hold(cluster, "c", "gpu-0", "gpu-1", pool="n2")
    hold(cluster, "d", "gpu-2", "gpu-3", pool="n2")
    return Situation(cluster, [claim(request())])


@situation
def one_claim_frees_enough() -> Situation:
    cluster = cluster_inventory(gpu_slice("n1", 4))
    hold(cluster, "small", "gpu-0")
    hold(cluster, "large", "gpu-1", "gpu-2")
    return Situation(cluster, [claim(request("gpu", count=3))])


@situation
def partition_keeps_the_whole_gpu() -> Situation:
    cluster = cluster_inventory(*mig_slices("n1"))
    hold(cluster, "inference", "gpu-0-quarter-0")
    return Situation(cluster, [claim(request("gpu", f'{ATTRIBUTES}.type == "gpu"'))])


@situation
def partitions_used_up() -> Situation:
    cluster = cluster_inventory(*mig_slices("n1"))
    hold(cluster, "half", "gpu-0-half-0")
    hold(cluster, "quarter", "gpu-0-quarter-0")
    wanted = request("gpu", f'{ATTRIBUTES}.size == "half"')
    return Situation(cluster, [claim(wanted)])


@situation
def partitions_too_large_together() -> Situation:
    cluster = cluster_inventory(*mig_slices("n1"))
    wanted = request("gpu", f'{ATTRIBUTES}.size == "half"', count=3)
    return Situation(cluster, [claim(wanted)])


@situation
def share_larger_than_what_is_left() -> Situation:
    cluster = cluster_inventory(gpu_slice("n1", 1, memory="40Gi", shareable=True))
    for name in ("a", "b", "c"):
        hold(cluster, name, "gpu-0", share={"memory": "10Gi"})
    return Situation(cluster, [claim(request("gpu", capacity={"memory": "20Gi"}))])


@situation
def shares_used_up() -> Situation:
    cluster = cluster_inventory(gpu_slice("n1", 1, memory="40Gi", shareable=True))
    for name in ("a", "b", "c", "d"):
        hold(cluster, name, "gpu-0", share={"memory": "10Gi"})
    return Situation(cluster, [claim(request("gpu", capacity={"memory": "10Gi"}))])


@situation
def share_against_the_policy() -> Situation:
    memory = valid_values("40Gi", "5Gi", "10Gi")
    cluster = cluster_inventory(gpu_slice("n1", 1, memory=memory, shareable=True))
    return Situation(cluster, [claim(request("gpu", capacity={"memory": "30Gi"}))])


@situation
def share_outside_the_range() -> Situation:
    allowed = CapacityRequestPolicyRange("2Gi", "16Gi", "2Gi")
    memory = DeviceCapacity("40Gi", CapacityRequestPolicy("2Gi", (), allowed))
    cluster = cluster_inventory(gpu_slice("n1", 1, memory=memory, shareable=True))
    return Situation(cluster, [claim(request("gpu", capacity={"memory": "17Gi"}))])


@situation
def groups_that_do_not_go_together() -> Situation:
    parts = [
        device("time-sliced", consumes={"gpu-0": {"slots": "1"}}, groups=("shared",)),
        device("exclusive", consumes={"gpu-0": {"slots": "1"}}, groups=("alone",)),
    ]
    cluster = cluster_inventory(
        resource_slice(*parts, slices=2),
        resource_slice(name="counters", slices=2, counters={"gpu-0": {"slots": "4"}}),
        features=with_gates(device_compatibility_groups=True),
    )
    hold(cluster, "batch", "time-sliced")
    return Situation(cluster, [claim(request())])


# Tainted


@situation
def tainted() -> Situation:
    taint = DeviceTaint("example.com/unhealthy", "xid-79", "NoSchedule")
    cluster = cluster_inventory(gpu_slice("n1", 2, taints=[taint]))
    return Situation(cluster, [claim(request())])


@situation
def tainted_twice() -> Situation:
    taints = [
        DeviceTaint("example.com/unhealthy", "", "NoExecute"),
        DeviceTaint("example.com/reserved", "team-a", "NoSchedule"),
    ]
    cluster = cluster_inventory(gpu_slice("n1", 2, taints=taints))
    return Situation(cluster, [claim(request())])


@situation
def tainted_by_a_rule() -> Situation:
    cluster = two_models()
    taint = DeviceTaint("example.com/maintenance", "", "NoSchedule")
    spec = DeviceTaintRuleSpec(DeviceTaintSelector(pool="n1"), taint)
    cluster.put_taint_rule(DeviceTaintRule(ObjectMeta(name="drain-n1"), spec))
    return Situation(cluster, [claim(request("gpu", f'{ATTRIBUTES}.productName == "H100"'))])


@situation
def some_tainted_some_taken() -> Situation:
    taint = DeviceTaint("example.com/unhealthy", "", "NoSchedule")
    sick = [gpu(f"gpu-{number}", taints=[taint]) for number in (2, 3)]
    cluster = cluster_inventory(resource_slice(gpu("gpu-0"), gpu("gpu-1"), *sick))
    hold(cluster, "other", "gpu-0")
    return Situation(cluster, [claim(request("gpu", count=2))])


# Constraints


@situation
def match_attribute_best_domain() -> Situation:
    domains = ("d1", "d1", "d2", "d2", "d2", "d3")
    devices = [
        gpu(f"gpu-{number}", attributes={"nvswitchDomain": domain})
        for number, domain in enumerate(domains)
    ]
    cluster = cluster_inventory(resource_slice(*devices))
    return Situation(cluster, [claim(request("gpu", count=4), match=f"{DRIVER}/nvswitchDomain")])


@situation
def match_attribute_across_requests() -> Situation:
    root = "resource.kubernetes.io/pcieRoot"
    gpus = resource_slice(gpu("gpu-0", attributes={root: "pci0"}))
    nics = resource_slice(device("eth0", attributes={root: "pci1"}), driver="nic.example.com")
    classes = [device_class(), device_class("nic", 'device.driver == "nic.example.com"')]
    cluster = cluster_inventory(gpus, nics, classes=classes)
    return Situation(cluster, [claim(request("gpu"), request("nic", cls="nic"), match=root)])


@situation
def distinct_attribute_too_few_values() -> Situation:
    devices = [gpu(f"gpu-{n}", attributes={"numa": n // 2}) for n in range(4)]
    cluster = cluster_inventory(resource_slice(*devices))
    return Situation(cluster, [claim(request("gpu", count=3), distinct=f"{DRIVER}/numa")])


@situation
def distinct_attribute_absent() -> Situation:
    return Situation(two_models(), [claim(request("gpu", count=2), distinct=f"{DRIVER}/numa")])


@situation
def list_attribute_without_its_gate() -> Situation:
    devices = [gpu(f"gpu-{n}", attributes={"zones": strings("a", f"b{n}")}) for n in range(2)]
    cluster = cluster_inventory(resource_slice(*devices))
    return Situation(cluster, [claim(request("gpu", count=2), match=f"{DRIVER}/zones")])


@situation
def derived_attribute_that_fails() -> Situation:
    cluster = cluster_inventory(gpu_slice("n1", 2), features=with_gates(derived_attributes=True))
    derived = {f"{DRIVER}/side": f"{ATTRIBUTES}.slot"}
    wanted = request("gpu", count=2, derived=derived)
    return Situation(cluster, [claim(wanted, match=f"{DRIVER}/side")])


# All


@situation
def all_and_one_is_taken() -> Situation:
    cluster = cluster_inventory(gpu_slice("n1", 4))
    hold(cluster, "other", "gpu-2")
    return Situation(cluster, [claim(request("gpu", mode="All"))])


@situation
def all_and_none_matches() -> Situation:
    wanted = request("gpu", f'{ATTRIBUTES}.productName == "B200"', mode="All")
    return Situation(two_models(), [claim(wanted)])


@situation
def all_while_a_pool_is_updated() -> Situation:
    slices = [gpu_slice("n1", 2), resource_slice(gpu("gpu-9"), pool="extra", slices=2)]
    return Situation(cluster_inventory(*slices), [claim(request("gpu", mode="All"))])


@situation
def all_against_a_constraint() -> Situation:
    devices = [gpu(f"gpu-{n}", attributes={"numa": n}) for n in range(2)]
    cluster = cluster_inventory(resource_slice(*devices))
    return Situation(cluster, [claim(request("gpu", mode="All"), match=f"{DRIVER}/numa")])


# Alternatives


@situation
def no_alternative_fits() -> Situation:
    wanted = alternatives(
        "gpu",
        option("best", f'{ATTRIBUTES}.productName == "B200"'),
        option("many", f'{ATTRIBUTES}.productName == "A100"', count=6),
    )
    return Situation(two_models(), [claim(wanted)])


# Features


@situation
def binding_conditions_without_their_gate() -> Situation:
    attachable = device("gpu-0", binding_conditions=["example.com/attached"])
    gates = with_gates(device_binding_conditions=False)
    return Situation(
        cluster_inventory(resource_slice(attachable), features=gates), [claim(request())]
    )


@situation
def partitions_without_their_gate() -> Situation:
    cluster = cluster_inventory(*mig_slices("n1"), features=with_gates(partitionable_devices=False))
    return Situation(cluster, [claim(request())])


@situation
def alternatives_without_their_gate() -> Situation:
    cluster = cluster_inventory(gpu_slice(), features=with_gates(prioritized_list=False))
    return Situation(cluster, [claim(alternatives("gpu", option("any")))])


@situation
def admin_access_without_its_gate() -> Situation:
    cluster = cluster_inventory(gpu_slice(), features=with_gates(admin_access=False))
    return Situation(cluster, [claim(request("gpu", admin=True))])


@situation
def node_without_optional_operations() -> Situation:
    published = resource_slice(gpu("gpu-0"), skip_node_operations=["*"])
    cluster = cluster_inventory(published, features=with_gates(optional_node_operations=True))
    return Situation(cluster, [claim(request())])


# What is published


@situation
def no_node() -> Situation:
    return Situation(cluster_inventory(), [claim(request())])


@situation
def nothing_published() -> Situation:
    return Situation(cluster_inventory(nodes=[node("n1"), node("n2")]), [claim(request())])


@situation
def pool_being_updated() -> Situation:
    slices = [gpu_slice("n1", 1), resource_slice(gpu("gpu-0"), node="n2", slices=3)]
    cluster = cluster_inventory(*slices)
    hold(cluster, "other", "gpu-0")
    return Situation(cluster, [claim(request())])


@situation
def pool_that_contradicts_itself() -> Situation:
    cluster = cluster_inventory(resource_slice(gpu("gpu-0"), gpu("gpu-0")))
    return Situation(cluster, [claim(request())])


@situation
def slice_of_an_old_generation() -> Situation:
    old = resource_slice(gpu("gpu-0"), pool="rack", name="old", slices=2)
    new = resource_slice(gpu("gpu-0"), node="n2", pool="rack", name="new", generation=2, slices=2)
    return Situation(cluster_inventory(old, new), [claim(request())])


@situation
def slice_of_a_node_that_is_gone() -> Situation:
    cluster = cluster_inventory(gpu_slice("n1", 2), nodes=[node("n2")])
    cluster.drop_node("n1")
    return Situation(cluster, [claim(request())])


@situation
def network_devices_for_other_nodes() -> Situation:
    published = resource_slice(
        gpu("far-0"), gpu("far-1"), node=None, node_selector=nodes_labelled("rack", "r7")
    )
    cluster = cluster_inventory(published, nodes=[node("n1", labels={"rack": "r1"}), node("n2")])
    return Situation(cluster, [claim(request())])


@situation
def network_devices_counted_once() -> Situation:
    published = resource_slice(gpu("far-0"), gpu("far-1"), node=None, all_nodes=True)
    cluster = cluster_inventory(published, nodes=[node(f"n{number}") for number in range(3)])
    hold(cluster, "other", "far-0", pool="network")
    return Situation(cluster, [claim(request("gpu", count=2))])


@situation
def devices_of_another_node_in_one_pool() -> Situation:
    published = resource_slice(
        device("gpu-a", node="n1"), device("gpu-b", node="n2"), pool="rack", per_device=True
    )
    cluster = cluster_inventory(published, nodes=[node("n1"), node("n2")])
    hold(cluster, "other", "gpu-a", pool="rack")
    hold(cluster, "third", "gpu-b", pool="rack")
    return Situation(cluster, [claim(request())])


# Several causes


@situation
def other_claim_of_the_pod_binds_it_to_a_node() -> Situation:
    cluster = two_models()
    cluster.put_node(node("n1", labels={"kubernetes.io/hostname": "n1"}))
    first = AllocationResult(node_selector=nodes_labelled("kubernetes.io/hostname", "n1"))
    wanted = request("gpu", f'{ATTRIBUTES}.productName == "A100"')
    data = allocated(claim(request(), name="data"), first)
    return Situation(cluster, [data, claim(wanted)])


@situation
def fleet_with_many_causes() -> Situation:
    taint = DeviceTaint("example.com/unhealthy", "", "NoSchedule")
    slices = [gpu_slice(f"h{number}", 8) for number in range(40)]
    slices += [gpu_slice(f"a{number}", 8, product="A100", memory="40Gi") for number in range(30)]
    slices += [gpu_slice(f"t{number}", 8, taints=[taint]) for number in range(5)]
    cluster = cluster_inventory(*slices, nodes=[node(f"cpu{number}") for number in range(100)])
    for number in range(40):
        hold(cluster, f"job-{number}", *(f"gpu-{item}" for item in range(6)), pool=f"h{number}")
    wanted = request("gpu", f'{ATTRIBUTES}.productName == "H100"', count=4)
    return Situation(cluster, [claim(wanted)])


@situation
def two_requests_in_trouble() -> Situation:
    cluster = two_models()
    wanted = [
        request("big", f'{CAPACITY}.memory.compareTo(quantity("96Gi")) >= 0'),
        request("new", f'{ATTRIBUTES}.productName == "B200"'),
    ]
    return Situation(cluster, [claim(*wanted)])
