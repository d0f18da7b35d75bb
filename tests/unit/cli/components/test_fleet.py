"""`dray fleet`: what ships, and what can be done to the machines of a running `dray up`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from dray.cli.inputs import cluster_objects, fleet_counts, published_devices
from dray.drivers.simulated import fleet as fleets
from dray.drivers.simulated.fleet import FLEET_LABEL
from tests.unit.cli.components.test_up import up
from tests.unit.cli.conftest import START_SECONDS, Cluster, run


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    data: Path = tmp_path_factory.mktemp("fleet")
    with up(data, "--fleet", "l4", "--nodes", "2"):
        cluster = Cluster(data / "kubeconfig")
        eventually(lambda: devices(cluster), 2)
        yield cluster


def eventually(look: Callable[[], object], expected: object) -> None:
    end = time.monotonic() + START_SECONDS
    while (seen := look()) != expected and time.monotonic() < end:
        time.sleep(0.05)
    assert seen == expected


def nodes(cluster: Cluster) -> list[str]:
    return cluster.dray("get", "nodes", "-o", "name").stdout.split()


def devices(cluster: Cluster) -> int:
    return cluster.dray("get", "devices", "-o", "name").stdout.count("device/")


def taints(cluster: Cluster) -> str:
    shown = "jsonpath={range .items[?(@.taints)]}{.node}/{.name}:{.taints[*].effect} {end}"
    return cluster.dray("get", "devices", "-o", shown).stdout


def test_every_fleet_is_listed_with_its_size() -> None:
    shown = run("fleet", "list")
    assert shown.exit_code == 0, shown.output
    header, *rows = shown.stdout.splitlines()
    assert header.split() == ["NAME", "NODES", "DEVICES", "PARTITIONS", "DESCRIPTION"]
    assert ["l4", "8", "8", "0"] in [row.split()[:4] for row in rows]
    assert ["quickstart", "3", "5", "25"] in [row.split()[:4] for row in rows]
    listed = json.loads(run("fleet", "list", "-o", "json").stdout)["items"]
    (h100,) = [each for each in listed if each["name"] == "h100"]
    assert h100["devices"]["gpu.nvidia.com h100-80gb-hbm3"] == 32
    assert "gpu.nvidia.com" in h100["classes"]


@pytest.mark.parametrize("name", fleets.shipped())
def test_a_fleet_has_as_many_devices_as_a_cluster_of_it(name: str) -> None:
    has = fleet_counts.count(fleets.load(name))
    published = published_devices.of(cluster_objects.from_fleet(name))
    wholes, partitions = published_devices.wholes_and_partitions(published)
    assert (has.devices, has.partitions) == (len(wholes), len(partitions))


def test_a_fleet_is_shown_with_what_its_devices_publish() -> None:
    shown = run("fleet", "show", "quickstart").stdout
    assert "1 a100-sxm4-80gb (partitionable)" in shown
    assert "productName" in shown
    objects = yaml.safe_load(run("fleet", "show", "l4", "--nodes", "3", "-o", "yaml").stdout)
    kinds = [each["kind"] for each in objects["items"]]
    assert (kinds.count("Node"), kinds.count("ResourceSlice")) == (3, 3)
    missing = run("fleet", "show", "no-such-fleet")
    assert missing.exit_code == 2
    assert "dray fleet list" in missing.stderr


def test_devices_fail_and_heal(running: Cluster) -> None:
    node = nodes(running)[0].removeprefix("node/")
    failed = running.dray("fleet", "fail", node, "gpu-0")
    assert failed.exit_code == 0, failed.output
    eventually(lambda: taints(running), f"{node}/gpu-0:NoExecute ")
    running.dray("fleet", "fail", node, "gpu-0", "--effect", "NoSchedule")
    eventually(lambda: taints(running), f"{node}/gpu-0:NoSchedule ")
    assert running.dray("fleet", "heal", node, "gpu-0").exit_code == 0
    eventually(lambda: taints(running), "")
    missing = running.dray("fleet", "fail", node, "gpu-9")
    assert (missing.exit_code, "It has: gpu-0" in missing.stderr) == (4, True)
    assert running.dray("fleet", "fail", "nowhere", "gpu-0").exit_code == 4
    sound = running.dray("fleet", "heal", node, "gpu-0")
    assert (sound.exit_code, sound.stdout) == (4, "")
    assert "has not failed" in sound.stderr


def test_devices_of_other_drivers_do_not_fail(running: Cluster) -> None:
    node = nodes(running)[0].removeprefix("node/")
    spec = {
        "driver": "npu.example.com",
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "npu-1"}],
    }
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "spec": spec}
    body["metadata"] = {"name": "npus"}
    assert running.dray("create", "-f", "-", input=json.dumps(body)).exit_code == 0
    refused = running.dray("fleet", "fail", node, "npu-1")
    running.dray("delete", "resourceslice", "npus")
    assert (refused.exit_code, refused.stdout) == (4, "")
    assert f"node {node} has no simulated device npu-1" in refused.stderr
    assert "It has: gpu-0" in refused.stderr


@pytest.mark.parametrize("arguments", [("slow", "5s"), ("crash",)], ids=lambda words: words[0])
def test_simulated_pods_prepare_nothing(running: Cluster, arguments: tuple[str, ...]) -> None:
    node = nodes(running)[0].removeprefix("node/")
    command, *others = arguments
    refused = running.dray("fleet", command, node, *others)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "are simulated: no claim is prepared there" in refused.stderr
    assert "dray up --runtime auto" in refused.stderr
    found = json.loads(running.dray("get", "node", node, "-o", "json").stdout)
    assert "prepare" not in str(found["metadata"].get("annotations"))


def test_trouble_with_preparing_is_noted_on_the_node_and_healed_at_once(running: Cluster) -> None:
    node = "with-containers"
    made = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node, "labels": {FLEET_LABEL: "other"}},
    }
    assert running.dray("create", "-f", "-", input=json.dumps(made)).exit_code == 0

    def noted() -> dict[str, str]:
        found = json.loads(running.dray("get", "node", node, "-o", "json").stdout)
        annotations = found["metadata"].get("annotations") or {}
        return {key: value for key, value in annotations.items() if "prepare" in key}

    assert running.dray("fleet", "slow", node, "5s").exit_code == 0
    assert running.dray("fleet", "crash", node).exit_code == 0
    assert noted() == {"dray.dev/slow-prepare": "5s", "dray.dev/crash-on-prepare": "true"}
    assert running.dray("fleet", "heal", node).exit_code == 0
    assert noted() == {}
    assert running.dray("fleet", "slow", node, "soon").exit_code == 2
    assert running.dray("delete", "node", node).exit_code == 0


def test_a_running_fleet_is_scaled_up_and_down_again(running: Cluster) -> None:
    before = nodes(running)
    scaled = running.dray("fleet", "scale", "5")
    assert (scaled.exit_code, scaled.stdout) == (0, "l4: 5 machines of each kind\n")
    eventually(lambda: len(nodes(running)), 5)
    eventually(lambda: devices(running), 5)
    assert running.dray("fleet", "scale", "2").exit_code == 0
    eventually(lambda: nodes(running), before)
    eventually(lambda: devices(running), 2)
    assert running.dray("fleet", "scale", "2", "--fleet", "other").exit_code == 4


def test_nodes_that_are_not_simulated_are_left_alone(cluster: Cluster) -> None:
    body = '{"apiVersion":"v1","kind":"Node","metadata":{"name":"real"}}'
    assert cluster.dray("create", "-f", "-", input=body).exit_code == 0
    refused = cluster.dray("fleet", "slow", "real", "5s")
    assert (refused.exit_code, "is not simulated" in refused.stderr) == (2, True)
    assert cluster.dray("fleet", "scale", "3").exit_code == 2
