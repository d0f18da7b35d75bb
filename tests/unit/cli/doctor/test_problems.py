"""`dray doctor` finds each fault that is planted, and mends it without touching anything else."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dray.api.types.meta import JsonObject
from tests.unit.cli.conftest import Cluster, as_list, run, start, stop

DRIVER, CLASS = "gpu.example.com", "gpu.example.com"
KINDS = "nodes,pods,resourceclaims,resourceslices,deviceclasses,events"
REQUESTS = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]}}


def resource(kind: str, name: str, spec: JsonObject, **metadata: Any) -> JsonObject:
    version = "resource.k8s.io/v1"
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def piece(name: str, pool: str, *devices: str, count: int = 1, **settings: Any) -> JsonObject:
    """A slice of node n1."""
    generation = settings.pop("generation", 1)
    spec = {
        "driver": settings.pop("driver", DRIVER),
        "nodeName": "n1",
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        "devices": [{"name": device, **settings} for device in devices],
    }
    return resource("ResourceSlice", name, spec)


def node(name: str, ready: str = "True", **metadata: Any) -> JsonObject:
    condition = {"type": "Ready", "status": ready, "reason": "r", "message": f"ready is {ready}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, **metadata},
        "status": {"conditions": [condition]},
    }


def pod(name: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "c", "image": "x"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "held"}],
        },
    }


def owned(name: str, uid: str) -> JsonObject:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    return resource("ResourceClaim", name, REQUESTS, ownerReferences=[reference])


def allocation(device: str) -> JsonObject:
    result = {"request": "gpu", "driver": DRIVER, "pool": "sound", "device": device}
    return {"devices": {"results": [result]}}


class Ward(NamedTuple):
    """A cluster to plant faults in."""

    cluster: Cluster

    def create(self, *documents: JsonObject) -> None:
        made = self.cluster.dray("create", "-f", "-", input=as_list(list(documents)))
        assert made.exit_code == 0, made.output

    def set_status(self, claim: str, status: JsonObject) -> None:
        patch = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
        set_ = self.cluster.dray("patch", "resourceclaim", claim, *patch)
        assert set_.exit_code == 0, set_.output

    def uid(self, pod_name: str) -> str:
        return self.cluster.dray("get", "pod", pod_name, "-o", "jsonpath={.metadata.uid}").stdout

    def found(self) -> list[JsonObject]:
        looked = self.cluster.dray("doctor", "-o", "json")
        found: list[JsonObject] = json.loads(looked.stdout)
        assert looked.exit_code == (1 if found else 0), looked.output
        return found

    def objects(self) -> dict[str, JsonObject]:
        listed = self.cluster.dray("get", KINDS, "-A", "-o", "json").stdout
        return {
            f"{each['kind']} {each['metadata']['name']}": each
            for each in json.loads(listed)["items"]
        }


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ward]:
    data: Path = tmp_path_factory.mktemp("ward")
    process = start(data, "--store", "memory")
    ward = Ward(Cluster(data / "kubeconfig"))
    try:
        ward.create(
            node("n1"),
            resource("DeviceClass", CLASS, {}),
            piece("sound-1", "sound", "gpu-0", "gpu-1", count=2),
            piece("sound-2", "sound", "gpu-2", count=2),
            resource("ResourceClaim", "held", REQUESTS),
            pod("p"),
        )
        ward.create(owned("of-p", ward.uid("p")))
        consumer = {"resource": "pods", "name": "p", "uid": ward.uid("p")}
        ward.set_status("held", {"allocation": allocation("gpu-0"), "reservedFor": [consumer]})
        yield ward
    finally:
        assert stop(process) == 0


def test_a_sound_cluster_has_nothing_wrong(ward: Ward) -> None:
    assert ward.found() == []
    assert ward.cluster.dray("doctor").stdout == "Nothing is wrong.\n"


def reservation_for_a_pod_of_the_same_name(ward: Ward) -> None:
    consumer = {"resource": "pods", "name": "p", "uid": "gone"}
    other = {"resource": "pods", "name": "p", "uid": ward.uid("p")}
    ward.create(resource("ResourceClaim", "stuck", REQUESTS))
    reserved = [{**consumer, "uid": "gone-before"}, other, consumer]
    ward.set_status("stuck", {"allocation": allocation("gpu-1"), "reservedFor": reserved})


def claim_of_a_gone_pod(ward: Ward) -> None:
    ward.create(owned("left-behind", "gone"))


def incomplete_pool(ward: Ward) -> None:
    ward.create(piece("half-1", "half", "gpu-0", count=3), piece("half-2", "half", "b", count=3))


def stale_generation(ward: Ward) -> None:
    ward.create(piece("new", "renewed", "gpu-0", generation=7))
    ward.create(piece("old", "renewed", "gpu-0", generation=6))


def device_published_twice(ward: Ward) -> None:
    ward.create(piece("two-1", "two", "a", count=2), piece("two-2", "two", "a", count=2))


@pytest.mark.parametrize(
    ("plant", "faults", "removed", "kept"),
    [
        pytest.param(
            reservation_for_a_pod_of_the_same_name,
            {"orphaned-reservation": 2},
            set(),
            {"ResourceClaim stuck"},
            id="orphaned-reservation",
        ),
        pytest.param(
            claim_of_a_gone_pod,
            {"claim-of-gone-pod": 1},
            {"ResourceClaim left-behind"},
            set(),
            id="claim-of-gone-pod",
        ),
        pytest.param(
            incomplete_pool,
            {"incomplete-pool": 1},
            {"ResourceSlice half-1", "ResourceSlice half-2"},
            set(),
            id="incomplete-pool",
        ),
        pytest.param(
            stale_generation,
            {"stale-generation": 1},
            {"ResourceSlice old"},
            {"ResourceSlice new"},
            id="stale-generation",
        ),
        pytest.param(
            device_published_twice,
            {"device-published-twice": 1},
            {"ResourceSlice two-1", "ResourceSlice two-2"},
            set(),
            id="device-published-twice",
        ),
    ],
)
def test_a_fault_is_found_and_mended_and_nothing_else_is_touched(
    ward: Ward, plant: Any, faults: dict[str, int], removed: set[str], kept: set[str]
) -> None:
    plant(ward)
    before = ward.objects()
    found = [each["fault"] for each in ward.found()]
    assert {fault: found.count(fault) for fault in found} == faults
    declined = ward.cluster.dray("doctor", "--fix", input="n\n" * len(found))
    assert declined.exit_code == 1
    assert ward.objects() == before
    mended = ward.cluster.dray("doctor", "--fix", "--yes")
    assert mended.exit_code == 0, mended.output
    assert ward.found() == []
    after = ward.objects()
    assert before.keys() - after.keys() == removed
    changed = {name for name in after if after[name] != before[name]}
    assert changed <= kept
    if plant is reservation_for_a_pod_of_the_same_name:
        reserved = after["ResourceClaim stuck"]["status"]["reservedFor"]
        assert [each["uid"] for each in reserved] == [ward.uid("p")]


def test_the_printed_command_mends_it_as_well(ward: Ward) -> None:
    ward.create(resource("ResourceClaim", "by-hand", REQUESTS))
    consumer = {"resource": "pods", "name": "p", "uid": "gone"}
    ward.set_status("by-hand", {"allocation": allocation("gpu-2"), "reservedFor": [consumer]})
    (ailment,) = ward.found()
    (command,) = ailment["repairs"]
    assert command.endswith(f" --kubeconfig {ward.cluster.kubeconfig}")
    mended = run(*shlex.split(command)[1:])
    assert mended.exit_code == 0, mended.output
    assert ward.found() == []


def test_what_no_write_can_mend_comes_with_advice(ward: Ward) -> None:
    uuid: Any = {"attributes": {"uuid": {"string": "GPU-1"}}}
    about = {"kind": "Pod", "namespace": "default", "name": "p", "uid": ward.uid("p")}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "unprepared", "namespace": "default"},
        "involvedObject": about,
        "reason": "FailedPrepareDynamicResources",
        "message": f"prepare dynamic resources: DRA driver {DRIVER} is not registered",
        "type": "Warning",
        "source": {"component": "kubelet"},
    }
    ward.create(
        piece("theirs", "theirs", "a", driver="other.example.com", **uuid),
        piece("ours", "ours", "b", **uuid),
        event,
    )
    try:
        twice, silent = ward.found()
        assert twice["fault"] == "device-published-twice"
        assert "ours/b and other.example.com/theirs/a" in twice["message"]
        assert silent["about"] == f"driver {DRIVER}"
        assert "on node n1; waiting for it: default/p" in silent["message"]
        assert not twice["repairs"]
        assert not silent["repairs"]
        before = ward.objects()
        assert ward.cluster.dray("doctor", "--fix", "--yes").exit_code == 1
        assert ward.objects() == before
    finally:
        ward.cluster.dray(
            "delete", "resourceslice/theirs", "resourceslice/ours", "event/unprepared"
        )


def test_fixing_needs_a_cluster(tmp_path: Path, ward: Ward) -> None:
    result = ward.cluster.dray("doctor", "--fix", "--against", "h100")
    assert result.exit_code == 2
    assert "needs a cluster" in result.stderr
