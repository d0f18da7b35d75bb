"""`dray get devices`: true states, options that work or are refused, partitions in one line."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from dray.allocator.device_counts import DeviceCounts
from dray.api.ids import DeviceId
from dray.api.types.dra import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    DeviceTaint,
    ResourceClaim,
    ResourceClaimStatus,
)
from dray.api.types.meta import ObjectMeta
from dray.cli.inputs import published_devices
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.output import colours
from tests import builders
from tests.unit.cli.conftest import DRAY, Cluster, as_list, fleet_documents, start, stop

BROKEN = DeviceTaint(key="broken", effect="NoExecute")
GPU = DeviceId(builders.DRIVER, "n1", "gpu-0")


def holder(name: str, **fields: Any) -> ResourceClaim:
    result = DeviceRequestAllocationResult(request="gpu", **GPU._asdict(), **fields)
    allocation = AllocationResult(devices=DeviceAllocationResult(results=(result,)))
    metadata = ObjectMeta(name=name, namespace="ns")
    return ResourceClaim(metadata, status=ResourceClaimStatus(allocation=allocation))


@pytest.mark.parametrize("taints", [(), (BROKEN,)])
@pytest.mark.parametrize(
    ("holders", "state"),
    [
        ([], "free"),
        ([holder("admin", admin_access=True)], "free"),
        ([holder("a")], "in use"),
        ([holder("a"), holder("admin", admin_access=True)], "in use"),
        ([holder("a", share_id="1"), holder("b", share_id="2")], "shared"),
    ],
)
def test_the_table_and_the_metrics_agree(
    taints: tuple[DeviceTaint, ...], holders: list[ResourceClaim], state: str
) -> None:
    resource_slice = builders.gpu_slice("n1", 1, taints=taints)
    objects = ClusterObjects("test")
    for value in (resource_slice, *holders):
        objects.add(value)
    (found,) = published_devices.of(objects)
    assert (found.state, found.tainted) == (state, bool(taints))
    counts = DeviceCounts(published_devices.inventory(objects)).counts()
    assert {(group.state, group.is_tainted) for group, count in counts.items() if count} == {
        (state, bool(taints))
    }


@pytest.mark.parametrize(
    ("unread", "partly_read", "said"),
    [
        ({}, {}, []),
        ({"Pod": "forbidden"}, {}, []),
        ({"ResourceClaim": "forbidden"}, {}, ["ResourceClaims could not be read"]),
        ({}, {"ResourceClaim": "forbidden"}, ["ResourceClaims of other namespaces"]),
        ({"DeviceTaintRule": "forbidden"}, {}, ["DeviceTaintRules could not be read"]),
    ],
)
def test_what_could_not_be_read_is_said_in_short(
    unread: dict[str, str], partly_read: dict[str, str], said: list[str]
) -> None:
    objects = ClusterObjects("test", unread=unread, partly_read=partly_read)
    lines = published_devices.limits(objects)
    assert len(lines) == len(said)
    assert all(line.startswith(start) for line, start in zip(lines, said, strict=True))


def test_nodes_that_cannot_be_read_block_no_device() -> None:
    objects = ClusterObjects("test")
    objects.add(builders.gpu_slice("n1", 1))
    assert [device.state for device in published_devices.of(objects)] == ["free"]


def test_memory_in_use_counts_partitions_and_shares() -> None:
    objects = ClusterObjects("test")
    for resource_slice in builders.mig_slices("n1"):
        objects.add(resource_slice)
    objects.add(builders.allocated(builders.claim(name="half"), "gpu-0-half-1"))
    found = published_devices.of(objects)
    assert {device.name: device.memory for device in found if device.holders} == {
        "gpu-0-half-1": "20Gi/20Gi"
    }
    assert found[0].memory == "20Gi/40Gi"
    shared = ClusterObjects("test")
    shared.add(builders.gpu_slice("n1", 1, shareable=True, memory="40Gi"))
    shared.add(holder("share", share_id="1", consumed_capacity={"memory": "28Gi"}))
    (device,) = published_devices.of(shared)
    assert (device.described_state, device.memory) == (
        "shared (12Gi of 40Gi left)",
        "28Gi/40Gi",
    )


def claim(name: str, pool: str, device: str, pod: str = "") -> dict[str, Any]:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": pool, "device": device}
    reserved = [{"resource": "pods", "name": pod, "uid": pod}] if pod else []
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
        "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved},
    }


def hold(cluster: Cluster, *claims: dict[str, Any]) -> None:
    for document in claims:
        spec = {key: value for key, value in document.items() if key != "status"}
        made = cluster.dray("create", "-f", "-", input=json.dumps(spec))
        assert made.exit_code == 0, made.output
        patched = cluster.dray(
            *("patch", "resourceclaim", document["metadata"]["name"], "--type=merge"),
            *("--subresource=status", "-p", json.dumps({"status": document["status"]})),
        )
        assert patched.exit_code == 0, patched.output


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The quickstart fleet: a pod has the whole A100, and a claim a device that is gone."""
    data = tmp_path_factory.mktemp("devices")
    process = start(data, "--store", "memory")
    cluster = Cluster(data / "kubeconfig")
    try:
        documents = fleet_documents("quickstart")
        unhealthy = {"key": "gpu.nvidia.com/unhealthy", "effect": "NoExecute"}
        (first,) = [
            document["spec"]["devices"][0]
            for document in documents
            if document["kind"] == "ResourceSlice" and document["spec"]["nodeName"] == "gpu-1"
        ]
        first["taints"] = [unhealthy]
        created = cluster.dray("create", "-f", "-", input=as_list(documents))
        assert created.exit_code == 0, created.output
        hold(cluster, claim("whole", "mig-0", "gpu-0", "train"), claim("lost", "gpu-0", "gpu-9"))
        yield cluster
    finally:
        assert stop(process) == 0


def rows(cluster: Cluster, *options: str) -> dict[str, list[str]]:
    """The cells of each line below the header, by the first one."""
    shown = cluster.dray("get", "devices", *options)
    assert shown.exit_code == 0, shown.output
    lines = [re.split(" {3,}", line) for line in shown.stdout.splitlines()]
    assert lines[0][0] == "DEVICE"
    return {cells[0]: cells for cells in lines[1:]}


def test_partitions_are_one_line_with_what_blocks_them(fleet: Cluster) -> None:
    shown = rows(fleet)
    assert shown["mig-0/gpu-0"][4:6] == ["80Gi/80Gi", "in use"]
    blocked = "25 blocked (by gpu-0, in use by pod default/train)"
    assert shown["mig-0/gpu-0 (25 partitions)"][5] == blocked
    assert len(shown) == 7
    every = rows(fleet, "--show-partitions")
    assert len(every) == 31
    assert (
        every["mig-0/gpu-0-mig-1g10gb-19-0"][5] == "blocked (by gpu-0, in use by pod default/train)"
    )


def test_what_is_missing_or_unhealthy_is_said(fleet: Cluster) -> None:
    shown = rows(fleet)
    assert shown["gpu-0/gpu-9"][5:9] == ["missing", "-", "-", "default/lost"]
    taint = "gpu.nvidia.com/unhealthy:NoExecute"
    assert shown["gpu-1/gpu-0"][5:8] == ["free", taint, "yes"]
    assert "<none>" not in fleet.dray("get", "devices", "-o", "wide").stdout


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (
            ("-l", "architecture=Hopper,type=gpu"),
            {"gpu-0/gpu-0", "gpu-0/gpu-1", "gpu-1/gpu-0", "gpu-1/gpu-1"},
        ),
        (("-l", "gpu.nvidia.com/architecture=Ampere,type=gpu"), {"mig-0/gpu-0"}),
        (("-l", "architecture notin (Hopper,Ampere)"), {"gpu-0/gpu-9"}),
        (("--field-selector", "state=free,node=gpu-0"), {"gpu-0/gpu-0", "gpu-0/gpu-1"}),
        (("--field-selector", "state=in use"), {"mig-0/gpu-0"}),
        (("--field-selector", "unhealthy=true"), {"gpu-1/gpu-0"}),
        (("--field-selector", "tainted=false,node=gpu-1"), {"gpu-1/gpu-1"}),
        (
            ("--field-selector", "attributes.productName=NVIDIA A100-SXM4-80GB,partitionOf="),
            {"mig-0/gpu-0"},
        ),
        (("gpu-1", "mig-0/gpu-0"), {"gpu-0/gpu-1", "gpu-1/gpu-0", "gpu-1/gpu-1", "mig-0/gpu-0"}),
    ],
)
def test_selectors_select(fleet: Cluster, options: tuple[str, ...], names: set[str]) -> None:
    shown = fleet.dray("get", "devices", *options, "-o", "name")
    assert shown.exit_code == 0, shown.output
    assert {line.removeprefix("device/") for line in shown.stdout.split()} == names


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--field-selector", "phase=free"), "devices have no field phase"),
        (("-l", "a==b==c"), ""),
        (("--show-managed-fields",), "--show-managed-fields has no meaning for devices"),
        (("nosuch",), "there is no device nosuch"),
    ],
)
def test_what_cannot_be_honoured_is_refused(
    fleet: Cluster, options: tuple[str, ...], said: str
) -> None:
    refused = fleet.dray("get", "devices", *options)
    assert refused.exit_code != 0, refused.output
    assert said in refused.stderr


def test_partitions_are_an_option_of_devices_alone(fleet: Cluster) -> None:
    refused = fleet.dray("get", "nodes", "--show-partitions")
    assert (refused.exit_code, "is for devices" in refused.stderr) == (2, True)


def test_columns_headers_and_order(fleet: Cluster) -> None:
    assert fleet.dray("get", "devices", "nosuch", "--ignore-not-found").exit_code == 0
    labelled = fleet.dray("get", "devices", "mig-0/gpu-0", "--show-labels").stdout
    assert labelled.splitlines()[0].split()[-1] == "ATTRIBUTES"
    assert "architecture=Ampere" in labelled
    wide = fleet.dray("get", "devices", "mig-0/gpu-0", "-o", "wide").stdout
    assert "CAPACITY" in wide.splitlines()[0]
    assert "multiprocessors=98" in wide
    plain = fleet.dray("get", "devices", "gpu-0", "--no-headers").stdout
    assert "DEVICE" not in plain
    ordered = fleet.dray("get", "devices", "gpu-0", "gpu-1", "--sort-by", ".state", "-o", "name")
    assert ordered.stdout.splitlines()[-1] == "device/gpu-0/gpu-9"


def test_a_watch_shows_what_changes(fleet: Cluster) -> None:
    command = [
        str(DRAY),
        "get",
        "devices",
        "gpu-1/gpu-1",
        "-w",
        "--kubeconfig",
        str(fleet.kubeconfig),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        try:
            assert watching.stdout is not None
            first = [watching.stdout.readline() for _ in range(2)]
            assert ["free" in line for line in first] == [False, True]
            hold(fleet, claim("watched", "gpu-1", "gpu-1"))
            changed = watching.stdout.readline()
            assert re.split(" {3,}", changed)[0] == "gpu-1/gpu-1"
            assert "in use" in changed
        finally:
            watching.terminate()
            fleet.dray("delete", "resourceclaim", "watched")


def test_colours_have_a_meaning_and_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert colours.state("blocked (by gpu-0)") == "\x1b[33mblocked (by gpu-0)\x1b[0m"
    assert colours.number("  0") == "\x1b[90m  0\x1b[0m"
    assert colours.number("10") == "10"
    monkeypatch.setenv("NO_COLOR", "1")
    assert colours.state("free") == "free"
