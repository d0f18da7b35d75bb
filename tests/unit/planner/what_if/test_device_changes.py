"""Devices that fail, and the pods that use them."""

from __future__ import annotations

import msgspec
import pytest

from dray.api.types.dra import DeviceToleration, ResourceClaim, ResourceSlice
from dray.api.types.pods import Pod
from dray.planner.what_if import compare
from dray.planner.what_if.changes import ImpossibleChange
from dray.planner.what_if.device_changes import FailDevice
from tests import builders
from tests.unit.planner.what_if import small_clusters as small
from tests.unit.planner.what_if.small_clusters import cluster, results, running, what_if


def test_the_users_of_a_failed_device_get_another_one() -> None:
    model = cluster(running("a", "n1", "gpu-0"), running("b", "n1", "gpu-1"))
    model = model.with_objects(running("c", "n2", "gpu-0", "gpu-1"))
    found = what_if(model, FailDevice("n1", "gpu-0"))
    assert results(found) == {"a": "stops"}
    found = what_if(cluster(running("a", "n1", "gpu-0"), nodes=["n1"]), FailDevice("n1", "gpu-0"))
    assert results(found) == {"a": "moves n1"}
    assert [device.device for device in found.pods[0].after.devices] == ["gpu-1"]


def test_all_users_of_a_shared_claim_are_evicted_and_it_gets_other_devices() -> None:
    pods = [builders.pod(n, uid=n, claims={"gpu": "shared"}, nodeName="n1") for n in ("a", "b")]
    owned = [
        msgspec.structs.replace(
            pod,
            metadata=msgspec.structs.replace(pod.metadata, owner_references=(small.REPLICA_SET,)),
        )
        for pod in pods
    ]
    claim = builders.allocated(builders.claim(builders.request(), name="shared"), "gpu-0")
    found = what_if(cluster(*owned, small.reserved(claim, *pods)), FailDevice("n1", "gpu-0"))
    places = {each.pod.metadata.name: each.after for each in found.pods}
    assert places["a"] == places["b"]
    assert str(places["a"].devices[0]) != "gpu.example.com/n1/gpu-0"


def test_a_claim_that_tolerates_everything_keeps_a_failed_device() -> None:
    model = cluster(running("a", "n1", "gpu-0"))
    pod, claim = model.of(Pod)[0], model.of(ResourceClaim)[0]
    assert claim.status.allocation is not None
    result = msgspec.structs.replace(
        claim.status.allocation.devices.results[0],
        tolerations=(DeviceToleration(operator="Exists", effect="NoExecute"),),
    )
    devices = msgspec.structs.replace(claim.status.allocation.devices, results=(result,))
    allocation = msgspec.structs.replace(claim.status.allocation, devices=devices)
    status = msgspec.structs.replace(claim.status, allocation=allocation)
    model = model.with_objects([pod, msgspec.structs.replace(claim, status=status)])
    assert results(what_if(model, FailDevice("n1", "gpu-0"))) == {}


def test_partitions_fail_with_their_gpu_but_not_the_other_way_round() -> None:
    model = cluster(nodes=[]).with_objects([small.node("n1"), *builders.mig_slices("n1", 2)])

    def failed(device: str) -> list[str]:
        changed = FailDevice("n1", device).apply(model).cluster
        slices = changed.of(ResourceSlice)
        return sorted(d.name for item in slices for d in item.spec.devices if d.taints)

    assert failed("gpu-0-half-1") == ["gpu-0-half-1"]
    parts = [*(f"gpu-0-half-{n}" for n in range(2)), *(f"gpu-0-quarter-{n}" for n in range(4))]
    assert failed("gpu-0") == sorted(["gpu-0", *parts])


def test_a_device_of_a_pool_without_a_node_is_named_by_the_pool() -> None:
    shared = builders.resource_slice(builders.gpu("gpu-0"), pool="fabric", all_nodes=True)
    model = cluster(shared)
    found = what_if(model, FailDevice("fabric", "gpu-0"))
    assert [count.pods for count in compare.room(found)["gpu"]] == [5, 4]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (FailDevice("n9", "gpu-0"), "there is no node n9; did you mean n"),
        (FailDevice("n1", "gpu-9"), "there is no device gpu-9 on n1; did you mean gpu-"),
        (FailDevice("n3", "gpu-0"), "node n3 has no devices"),
        (FailDevice("n2", "gpu-0"), "write n2/gpu.example.com/gpu-0 or n2/net.example.com/gpu-0"),
        (FailDevice("n2", "gpu-0", "gpu.exampel.com"), "did you mean gpu.example.com?"),
    ],
)
def test_an_unknown_device_is_refused_with_the_nearest_name(
    change: FailDevice, message: str
) -> None:
    same = builders.resource_slice(builders.gpu("gpu-0"), node="n2", driver="net.example.com")
    model = cluster(small.node("n3"), same)
    with pytest.raises(ImpossibleChange) as refused:
        change.apply(model)
    assert message in str(refused.value)
    named = FailDevice("n2", "gpu-0", "net.example.com").apply(model).cluster
    with pytest.raises(ImpossibleChange, match="has failed already"):
        FailDevice("n2", "gpu-0", "net.example.com").apply(named)
