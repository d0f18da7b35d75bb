"""How many copies of a pod fit, against placing them one by one, and what limits the number."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import hypothesis
import msgspec
from hypothesis import strategies as st

from dray.api.types.core import ResourceQuota, ResourceQuotaSpec
from dray.api.types.dra import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from dray.api.types.meta import LabelSelector, ObjectMeta
from dray.api.types.nodes import Node, NodeSpec, NodeStatus, Taint
from dray.api.types.pods import (
    Affinity,
    Pod,
    PodAffinityTerm,
    PodAntiAffinity,
    PodResourceClaim,
)
from dray.planner.capacity import limits, pod_capacity
from dray.planner.capacity.pod_capacity import NodeCapacity, PodCapacity
from dray.planner.cluster_model import ClusterModel
from dray.planner.placement.place import place
from dray.planner.submission.submitted_pods import SubmittedPod
from dray.scheduling.pod_copies import PodCopies
from tests import builders, rounds
from tests.properties import problems
from tests.properties.test_fit_counts import moved

NODES = ("n1", "n2", "n3")
NAMESPACE = "shop"
LIFTED = {"pods": 1, "cpu": 2, "memory": 1 << 30}
"""One unit of each resource that limits: what one copy takes at most."""


class Drawn(NamedTuple):
    cluster: ClusterModel
    copies: PodCopies


def drawn(seed: int) -> Drawn:
    dice = random.Random(seed)
    problem = problems.draw(dice)
    slices = [
        moved(resource_slice, name)
        for name in NODES
        for resource_slice in problems.draw_pool(dice, problem.features)
    ]
    if dice.random() < 0.15:
        devices = [builders.gpu(f"net-{number}") for number in range(2)]
        slices.append(builders.resource_slice(*devices, driver="a.test", all_nodes=True))
    objects = [
        *(_node(dice, name) for name in NODES),
        *problem.classes.values(),
        *slices,
        *_held(dice, slices),
        *(_running(dice, number) for number in range(dice.choice((0, 1, 3)))),
        *_quotas(dice),
    ]
    cluster = ClusterModel({}, problem.features).with_objects(objects)
    claims = [problems.draw_claim(dice, number, problem.features) for number in range(2)]
    return Drawn(cluster, _copies(dice, claims[: dice.choice((0, 1, 1, 1, 2))]))


def _node(dice: random.Random, name: str) -> Node:
    amounts = {"pods": dice.choice(("0", "2", "30")), "cpu": dice.choice(("3", "40"))}
    amounts["memory"] = dice.choice(("2Gi", "64Gi"))
    taints = (Taint(key="only", effect="NoSchedule"),) if dice.random() < 0.15 else ()
    spec = NodeSpec(unschedulable=dice.random() < 0.1, taints=taints)
    metadata = ObjectMeta(name=name, labels={"zone": dice.choice("ab")})
    return Node(metadata, spec, NodeStatus(allocatable=amounts))


def _held(dice: random.Random, slices: Sequence[ResourceSlice]) -> list[ResourceClaim]:
    claims: list[ResourceClaim] = []
    for resource_slice in slices:
        for device in resource_slice.spec.devices:
            if dice.random() < 0.15:
                result = DeviceRequestAllocationResult("r", *resource_slice.pool_id, device.name)
                allocation = AllocationResult(DeviceAllocationResult((result,)))
                name = f"held-{len(claims)}"
                status = ResourceClaimStatus(allocation)
                claims.append(msgspec.structs.replace(builders.claim(name=name), status=status))
    return claims


def _running(dice: random.Random, number: int) -> Pod:
    pod = builders.pod(f"running-{number}", uid=f"running-{number}")
    spec = msgspec.structs.replace(pod.spec, node_name=dice.choice(NODES))
    return msgspec.structs.replace(pod, spec=_requesting(spec, {"cpu": "1"}))


def _quotas(dice: random.Random) -> list[ResourceQuota]:
    if dice.random() < 0.7:
        return []
    hard = {dice.choice(("pods", "count/resourceclaims.resource.k8s.io")): dice.choice("0137")}
    return [ResourceQuota(ObjectMeta(name="limit", namespace=NAMESPACE), ResourceQuotaSpec(hard))]


def _copies(dice: random.Random, claims: Sequence[ResourceClaim]) -> PodCopies:
    metadata = ObjectMeta(name="copy", namespace=NAMESPACE, uid="copy", labels={"app": "copy"})
    sources = tuple(
        PodResourceClaim(claim.metadata.name, resource_claim_name=claim.metadata.name)
        for claim in claims
    )
    spec = msgspec.structs.replace(builders.pod("copy").spec, resource_claims=sources)
    if dice.random() < 0.6:
        spec = _requesting(spec, {"cpu": dice.choice(("500m", "2")), "memory": "1Gi"})
    if dice.random() < 0.2:
        spec = msgspec.structs.replace(spec, node_selector={"zone": "a"})
    if dice.random() < 0.1:
        term = PodAffinityTerm(LabelSelector({"app": "copy"}), topology_key="zone")
        apart = Affinity(pod_anti_affinity=PodAntiAffinity((term,)))
        spec = msgspec.structs.replace(spec, affinity=apart)
    return PodCopies(Pod(metadata, spec), claims)


def _requesting(spec: Any, amounts: dict[str, str]) -> Any:
    (container,) = spec.containers
    resources = msgspec.structs.replace(container.resources, requests=amounts)
    container = msgspec.structs.replace(container, resources=resources)
    return msgspec.structs.replace(spec, containers=(container,))


def counted(found: Drawn) -> PodCapacity:
    return pod_capacity.capacity_of("copy", found.copies, found.cluster, found.cluster.state())


def placed(found: Drawn, number: int) -> int:
    """Return how many of so many copies get a node, one after the other."""
    plan = place(found.cluster, submitted(found.copies, number))
    return sum(bool(planned.node) for planned in plan.pods)


def submitted(copies: PodCopies, number: int) -> list[SubmittedPod]:
    return [SubmittedPod(*copies.copy(each)) for each in range(number)]


def admitted(found: Drawn, most: int) -> int:
    """Return how many copies the quota admits, of so many."""
    for quota in found.cluster.of(ResourceQuota):
        ((name, amount),) = quota.spec.hard.items()
        each = 1 if name == "pods" else len(found.copies.claims)
        most = min(most, int(amount) // each) if each else most
    return most


@rounds.examples(80, long=300)
@hypothesis.given(st.integers(min_value=0, max_value=2**63))
def test_the_number_is_what_placing_one_by_one_reaches(seed: int) -> None:
    found = drawn(seed)
    capacity = counted(found)
    assert capacity.is_complete
    reached = placed(found, sum(node.pods for node in capacity.nodes) + 2)
    assert capacity.pods == admitted(found, reached), capacity


@rounds.examples(200, long=1500)
@hypothesis.given(st.integers(min_value=0, max_value=2**63))
@hypothesis.example(508_937_348_335)
@hypothesis.example(1_337_602_610_299_034)
@hypothesis.example(16_975_989_630)
def test_one_more_fits_where_the_limits_of_a_node_are_lifted(seed: int) -> None:
    found = drawn(seed)
    cluster = found.cluster.without(ResourceQuota, lambda _: True)
    found = Drawn(cluster, found.copies)
    before = counted(found)
    chosen = [node for node in before.nodes if _can_be_lifted(found, node)]
    for node in chosen[:1] if not before.message else ():
        full = place(cluster, submitted(found.copies, before.pods)).cluster_after(cluster)
        assert counted(Drawn(full, _others(found.copies))).pods == 0
        more = counted(_lifted(Drawn(full, _others(found.copies)), node))
        # The search may now come to a device on which a selector fails.
        assert more.pods > 0 or more.message, (node, before)


def _others(copies: PodCopies) -> PodCopies:
    """Return copies whose names are not those of the copies that are placed already."""
    objects: list[Any] = [copies.pod, *copies.claims]
    pod, *claims = [
        msgspec.structs.replace(
            item,
            metadata=msgspec.structs.replace(
                item.metadata, name=f"more-{item.metadata.name}", uid=f"more-{item.metadata.uid}"
            ),
        )
        for item in objects
    ]
    sources = tuple(
        PodResourceClaim(source.name, resource_claim_name=f"more-{source.resource_claim_name}")
        for source in copies.pod.spec.resource_claims
    )
    spec = msgspec.structs.replace(pod.spec, resource_claims=sources)
    return PodCopies(msgspec.structs.replace(pod, spec=spec), claims)


def _can_be_lifted(found: Drawn, node: NodeCapacity) -> bool:
    """Return whether more of what limits a node means more pods there.

    With more devices, a request for all of them needs more, and one with alternatives may take
    an earlier one that needs more.
    """
    asked = [request for claim in found.copies.claims for request in claim.spec.devices.requests]
    takes_more = any(
        request.exactly is None or request.exactly.allocation_mode == "All" for request in asked
    )
    known = {*LIFTED, limits.DEVICES, limits.COUNTERS, limits.SHARED_CAPACITY}
    if takes_more or not known.issuperset(node.limits) or found.copies.pod.spec.affinity:
        return False
    # A node that takes one when everything is free lacks nothing but what is in use.
    empty = found.cluster.without(ResourceClaim, lambda _: True).without(Pod, lambda _: True)
    empty = empty.without(Node, lambda other: other.metadata.name != node.node)
    of_node = node._replace(limits=tuple(limit for limit in node.limits if limit in LIFTED))
    return counted(_lifted(Drawn(empty, found.copies), of_node)).pods > 0


def _lifted(found: Drawn, limited: NodeCapacity) -> Drawn:
    """Return a cluster with one unit more of what limits a node; of devices, all of them again."""
    cluster = found.cluster
    (node,) = (node for node in cluster.of(Node) if node.metadata.name == limited.node)
    used = {"pods": 0, "cpu": 0, "memory": 0}
    for pod in cluster.of(Pod):
        if pod.spec.node_name == limited.node:
            requests = pod.spec.containers[0].resources.requests
            used["pods"] += 1
            used["cpu"] += 2 if requests.get("cpu", "0") == "2" else 1
            used["memory"] += _whole(requests.get("memory", "0"))
    amounts = {
        # Pods that run may use more than there is already.
        name: str(max(_whole(amount), used[name]) + LIFTED[name])
        if name in limited.limits
        else amount
        for name, amount in node.status.allocatable.items()
    }
    status = msgspec.structs.replace(node.status, allocatable=amounts)
    more: list[Any] = [msgspec.structs.replace(node, status=status)]
    if not LIFTED.keys() >= set(limited.limits):
        more += [_again(item) for item in cluster.of(ResourceSlice) if _serves(item, limited.node)]
    return Drawn(cluster.with_objects(more), found.copies)


def _whole(amount: str) -> int:
    return int(amount.removesuffix("Gi")) << (30 if amount.endswith("Gi") else 0)


def _serves(resource_slice: ResourceSlice, node: str) -> bool:
    """Return whether the devices may be for a node, perhaps for others too."""
    return not resource_slice.spec.node_name or resource_slice.spec.node_name == node


def _again(resource_slice: ResourceSlice) -> ResourceSlice:
    pool = msgspec.structs.replace(
        resource_slice.spec.pool, name=f"{resource_slice.spec.pool.name}-again"
    )
    spec = msgspec.structs.replace(resource_slice.spec, pool=pool)
    return ResourceSlice(ObjectMeta(name=f"{resource_slice.metadata.name}-again"), spec)
