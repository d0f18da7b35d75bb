"""How many more copies of a pod fit: quotas, claims that copies share, and words for the limits."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.types import dra
from dray.api.types.core import ResourceQuota, ResourceQuotaSpec
from dray.api.types.meta import ObjectMeta
from dray.planner.capacity import pod_capacity
from dray.planner.capacity.pod_capacity import PodCapacity
from dray.planner.cluster_model import ClusterModel
from dray.scheduling import pod_copies
from dray.scheduling.pod_copies import PodCopies
from tests import builders
from tests.unit.planner.capacity.test_stranded import node

MADE = builders.claim(builders.request(), name="made")


def copies(**spec: Any) -> PodCopies:
    """Return copies of a pod with one GPU each."""
    return PodCopies(builders.pod("p", claims={"gpu": "made"}, uid="p", **spec), [MADE])


def requesting(cpu: str) -> list[dict[str, Any]]:
    return [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]


def capacity(of: PodCopies, *objects: Any) -> PodCapacity:
    cluster = ClusterModel().with_objects([builders.device_class(), *objects])
    state = cluster.state()
    found = pod_capacity.capacity_of("p", of, cluster, state)
    again = pod_capacity.capacity_of("p", of, cluster, state)
    assert again == found, "the state is the same afterwards"
    return found


def limits(found: PodCapacity) -> list[tuple[int, tuple[str, ...]]]:
    return [(item.pods, item.limits) for item in found.nodes]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, (4, ("devices",)), id="devices"),
        pytest.param({"containers": requesting("3")}, (2, ("cpu",)), id="cpu"),
        pytest.param({"containers": requesting("2")}, (4, ("cpu", "devices")), id="both"),
        pytest.param({"containers": requesting("20")}, (0, ("cpu",)), id="too-large"),
        pytest.param({"nodeSelector": {"a": "b"}}, (0, ("node selector",)), id="selector"),
        pytest.param({"schedulingGates": [{"name": "g"}]}, (0, ()), id="gated"),
        pytest.param(
            {"containers": [{"name": "m", "ports": [{"containerPort": 1, "hostPort": 1}]}]},
            (1, ("host ports",)),
            id="ports",
        ),
    ],
)
def test_the_checks_that_limit(spec: dict[str, Any], expected: tuple[int, tuple[str, ...]]) -> None:
    found = capacity(copies(**spec), node(), builders.gpu_slice())
    assert limits(found) == [expected]
    assert found.pods == expected[0]
    assert bool(found.message) == ("schedulingGates" in spec)


def test_nodes_without_such_devices_come_last() -> None:
    nodes = [node(name) for name in ("a", "b", "n1")]
    found = capacity(copies(), *nodes, builders.gpu_slice())
    assert found.limits() == [("devices", 1), ("no suitable devices", 2)]


def test_counters_limit_partitions() -> None:
    quarter = builders.request("gpu", 'device.attributes["gpu.example.com"].size == "quarter"')
    half = builders.request("gpu", 'device.attributes["gpu.example.com"].size == "half"')
    used = builders.allocated(builders.claim(name="used"), "gpu-0-quarter-0", "gpu-0-quarter-3")
    objects = [node(), *builders.mig_slices(), used]
    found = capacity(pod_copies.of_claim(builders.claim(quarter).spec), *objects)
    assert limits(found) == [(2, ("devices",))]
    found = capacity(pod_copies.of_claim(builders.claim(half).spec), *objects)
    assert limits(found) == [(1, ("counters",))]


def test_a_quota_admits_fewer() -> None:
    hard = {"count/resourceclaims.resource.k8s.io": "3"}
    quota = ResourceQuota(ObjectMeta(name="few", namespace="default"), ResourceQuotaSpec(hard))
    existing = builders.claim(name="existing")
    objects = [node(), builders.gpu_slice(), existing]
    found = capacity(copies(), *objects, quota)
    assert (found.pods, found.is_limited_by_nodes) == (2, False)
    assert found.quota.startswith("exceeded quota: few")
    elsewhere = ResourceQuota(ObjectMeta(name="few", namespace="other"), ResourceQuotaSpec(hard))
    assert capacity(copies(), *objects, elsewhere).pods == 4


def test_copies_that_share_a_claim_follow_its_devices() -> None:
    shared = builders.claim(builders.request(), name="shared")
    objects = [node("n1"), node("n2"), builders.gpu_slice("n1"), builders.gpu_slice("n2"), shared]
    of = PodCopies(builders.pod("p", claims={"gpu": "shared"}, uid="p"))
    found = capacity(of, *objects)
    assert sorted(limits(found)) == [(0, ("allocated claim",)), (10, ("pods",))]
    anywhere = builders.allocated(shared, "gpu-3")
    assert capacity(of, *objects, anywhere).pods == 20


def test_a_claim_without_requests_takes_no_device() -> None:
    empty = pod_copies.of_claim(builders.claim().spec)
    assert limits(capacity(empty, node(), builders.gpu_slice())) == [(10, ("pods",))]


def test_a_claim_has_room_for_so_many_users() -> None:
    shared = builders.allocated(builders.claim(name="shared"), "gpu-0")
    objects = [node("n1", pods="500"), builders.gpu_slice("n1"), shared]
    found = capacity(PodCopies(builders.pod("p", claims={"gpu": "shared"}, uid="p")), *objects)
    assert (found.pods, found.claim) == (dra.RESERVED_FOR_MAX_SIZE, "shared")


def test_a_missing_class_is_named() -> None:
    found = capacity(pod_copies.of_class("tpu"), node(), builders.gpu_slice())
    assert found.pods == 0
    assert "device class tpu does not exist" in found.message
