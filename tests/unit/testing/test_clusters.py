"""The cluster that users' tests get: whole, isolated, reachable in every way, gone afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightkube
import pytest
from click.testing import CliRunner
from examples.drivers.hello import Hello
from kubernetes import client as official
from kubernetes import config as official_config

from dray.api import errors, kinds
from dray.cli.main import main
from dray.client import kubeconfig
from dray.client.api_client import Client
from dray.client.rest import RestTransport
from dray.driverkit.driver import Allocated, PrepareError
from dray.testing import Cluster, invariants, keys

NAMES = ["gpu-0", "gpu-1", "mig-0"]
CLAIM_AND_POD = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: one}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: %s}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  containers: [{name: main, image: busybox, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimName: one}]
"""


@pytest.fixture
def running() -> Iterator[Cluster]:
    with Cluster() as made:
        yield made


def names(objects: list[dict[str, Any]]) -> list[str]:
    return sorted(object_["metadata"]["name"] for object_ in objects)


def test_a_pod_gets_a_device(running: Cluster) -> None:
    running.apply(CLAIM_AND_POD % "gpu.nvidia.com")
    pod = running.wait_for_pod("user")
    (device,) = running.devices_of("one")
    assert device.startswith(pod["spec"]["nodeName"])
    running.check()


def test_a_pod_that_waits_is_explained(running: Cluster) -> None:
    running.apply(CLAIM_AND_POD % "gpu.nvidia.org")
    pod = running.wait_until_unschedulable("user")
    assert "nodeName" not in pod["spec"]
    explained = running.explain("user")
    assert "device class gpu.nvidia.org does not exist" in explained.text
    assert str(explained) == explained.text
    assert explained.data["about"] == "pod/user"
    assert explained.data["outcome"] == "failed"


def test_a_pod_that_runs_was_not_refused(running: Cluster) -> None:
    running.apply(CLAIM_AND_POD % "gpu.nvidia.com")
    node = running.wait_for_pod("user")["spec"]["nodeName"]
    with pytest.raises(AssertionError, match=f"expected to wait; it is on node {node}"):
        running.wait_until_unschedulable("user")
    assert "runs" in running.explain("user").text.splitlines()[0]


def test_an_explanation_is_that_of_the_command(running: Cluster) -> None:
    running.apply(CLAIM_AND_POD % "gpu.nvidia.org")
    running.wait_until_unschedulable("user")
    options = ["explain", "pod/user", "--kubeconfig", str(running.kubeconfig)]
    printed = CliRunner().invoke(main, options)
    assert running.explain("user").text == printed.stdout
    data = CliRunner().invoke(main, [*options, "-o", "json"])
    assert running.explain("user").data == json.loads(data.stdout)


def test_everything_is_published_when_it_starts(running: Cluster) -> None:
    assert names(running.list("nodes")) == NAMES
    slices = [resource_slice.metadata.name for resource_slice in running.fleet.slices()]
    assert names(running.list("resourceslices")) == sorted(slices)


def test_the_fleet_can_be_chosen() -> None:
    with Cluster("h100", nodes=2) as running:
        assert names(running.list("nodes")) == ["h100-0", "h100-1"]


def test_a_file_can_describe_the_fleet(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("nodes: [{name: mine, devices: {gpu.nvidia.com: [{model: l4}]}}]", "utf-8")
    with Cluster(file) as running:
        assert names(running.list("nodes")) == ["mine"]


def test_feature_gates_can_be_chosen() -> None:
    exactly = {"deviceClassName": "x", "capacity": {"requests": {"memory": "1Gi"}}}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }
    with Cluster(feature_gates="DRAConsumableCapacity=false") as running:
        (made,) = running.apply(claim)
    assert "capacity" not in made["spec"]["devices"]["requests"][0]["exactly"]


def test_clusters_do_not_see_each_other(running: Cluster) -> None:
    running.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "here"}})
    with Cluster() as other:
        assert "here" not in names(other.list("namespaces"))
        assert other.url != running.url


def test_objects_can_be_read_changed_and_deleted(running: Cluster) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {}}
    running.apply(config)
    running.apply([{**config, "data": {"a": "1"}}])
    running.patch("configmap", "c", {"metadata": {"labels": {"mine": "yes"}}})
    (found,) = running.list("cm", labels="mine=yes")
    assert found["data"] == {"a": "1"}
    running.delete("configmaps", "c")
    with pytest.raises(errors.NotFound):
        running.get("configmap", "c")


def test_objects_without_a_name_are_created(running: Cluster) -> None:
    metadata = {"generateName": "c-"}
    for _ in range(2):
        running.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    assert len(running.list("configmaps", "default")) >= 2


def test_an_unknown_kind_is_named(running: Cluster) -> None:
    with pytest.raises(LookupError, match="there is no kind 'podz'"):
        running.list("podz")


def test_a_pod_that_does_not_run_says_why(running: Cluster) -> None:
    running.apply(CLAIM_AND_POD % "no-such-class")

    def told() -> bool:
        conditions = running.get("pod", "user").get("status", {}).get("conditions", [])
        return any("no-such-class" in condition.get("message", "") for condition in conditions)

    running.wait_for(told, "the reason")
    with pytest.raises(AssertionError, match=r"pod user is not Running: Pending; .*no-such-class"):
        running.wait_for_pod("user", timeout_seconds=0)


def test_waiting_ends(running: Cluster) -> None:
    with pytest.raises(AssertionError, match=r"timed out after 0\.01 s, waiting for the moon"):
        running.wait_for(lambda: False, "the moon", timeout_seconds=0.01)


def test_devices_fail_and_heal(running: Cluster) -> None:
    def tainted() -> list[str]:
        return [
            device["name"]
            for each in running.list("resourceslices")
            if each["spec"]["pool"]["name"] == "gpu-0"
            for device in each["spec"].get("devices", ())
            if device.get("taints")
        ]

    running.fail("gpu-0", "gpu-1")
    running.wait_for(lambda: tainted() == ["gpu-1"])
    running.fail("gpu-0")
    running.wait_for(lambda: not tainted())


def test_an_async_test_uses_the_client_on_its_own_loop(running: Cluster) -> None:
    async def test() -> None:
        client = running.client()
        assert (await client.get(kinds.NODE, "gpu-0"))["metadata"]["name"] == "gpu-0"
        watch = client.watch(kinds.NODE)
        assert (await anext(watch)).type == "ADDED"
        await watch.aclose()  # type: ignore[attr-defined]

    asyncio.run(test())


def test_a_client_in_another_name_may_less(running: Cluster) -> None:
    nobody = running.client("nobody", ["system:authenticated"])
    with pytest.raises(errors.Forbidden):
        asyncio.run(nobody.list(kinds.NODE))


def test_the_official_client_works(running: Cluster) -> None:
    config: Any = official_config
    with config.new_client_from_config(str(running.kubeconfig)) as api:
        nodes: Any = official.CoreV1Api(api).list_node()
    assert sorted(each.metadata.name for each in nodes.items) == NAMES


def test_lightkube_works(running: Cluster) -> None:
    from lightkube.resources.core_v1 import Node

    config = lightkube.KubeConfig.from_file(running.kubeconfig)
    client: Any = lightkube.Client(config=config, trust_env=False)
    with contextlib.closing(client._client._client):
        assert sorted(each.metadata.name for each in client.list(Node)) == NAMES


def test_drays_own_client_works_over_https(running: Cluster) -> None:
    async def test() -> int:
        async with RestTransport(kubeconfig.load(running.kubeconfig)) as transport:
            return len((await Client(transport).list(kinds.NODE)).items)

    assert asyncio.run(test()) == 3


def test_a_driver_is_tested_on_its_sockets(running: Cluster) -> None:
    with running.driver(Hello()) as hello:
        running.apply(CLAIM_AND_POD % Hello.name)
        running.wait_for_pod("user")
        assert running.devices_of("one") == ["gpu-0/hello-0"]
        assert hello.prepare("one").env == {"GREETING": "hello from hello-0"}
        assert [claim.name for claim in hello.plugin.claims] == ["one"]
        hello.unprepare("one")
        assert not list(hello.plugin.claims)


def test_a_driver_that_refuses_says_so(running: Cluster) -> None:
    class Refuses(Hello):
        def prepare(self, allocated: Allocated) -> Any:
            raise PrepareError("not today")

    with running.driver(Refuses(), "gpu-1") as driver:
        running.apply(CLAIM_AND_POD % Hello.name)
        running.wait_for_pod("user")
        with pytest.raises(Exception, match="not today"):
            driver.prepare("one")


def test_a_fault_in_the_fleet_is_told_at_once() -> None:
    with pytest.raises(ValueError, match="neither a file nor one of"):
        Cluster("no-such-fleet")


def test_a_cluster_that_does_not_run_says_how_to_use_it() -> None:
    with pytest.raises(RuntimeError, match="use it in a with statement"):
        Cluster().list("nodes")


def test_a_start_that_fails_is_told_and_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError("no keys today")

    monkeypatch.setattr(keys, "directory", fails)
    with pytest.raises(OSError, match="no keys today"), Cluster():
        pass
    assert not [each for each in threading.enumerate() if each.name == "dray-cluster"]


def test_broken_invariants_are_found(running: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> list[str]:
        return ["gpu-0 is held twice"]

    monkeypatch.setattr(invariants, "violations", broken)
    monkeypatch.setattr("dray.testing.clusters.CHECK_SECONDS", 0.0)
    with pytest.raises(AssertionError, match="gpu-0 is held twice"):
        running.check()


def test_many_in_a_row_leave_nothing_behind() -> None:
    """Threads, file descriptors, files and memory are what they were after the first few."""

    def used() -> tuple[int, int, set[str]]:
        files = {each for each in os.listdir(tempfile.gettempdir()) if each.startswith("dray-")}
        return threading.active_count(), len(os.listdir("/proc/self/fd")), files & ours

    def one() -> None:
        with Cluster() as running:
            assert running.kubeconfig.exists()
            ours.add(running.directory.name)

    ours: set[str] = set()
    for _ in range(3):
        one()
    gc.collect()
    before, memory = used(), _resident_bytes()
    for _ in range(10):
        one()
    gc.collect()
    assert used() == before
    assert _resident_bytes() - memory < 20 * 2**20


def test_it_starts_within_a_tenth_of_a_second_of_processor_time() -> None:
    """Of ten, the quickest: what other processes take away is not the cluster's."""
    times = []
    for _ in range(10):
        started = time.process_time()
        with Cluster():
            times.append(time.process_time() - started)
    assert min(times) < 0.1


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
