"""`dray top`: devices by class and node, how many more pods fit, and what waits and why."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import termios
from pathlib import Path
from typing import Any

import pytest

from dray.api.types.meta import JsonObject
from dray.cli.inputs import cluster_objects
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.insight import cluster_overview, top, top_view
from dray.cli.insight.top_view import TopView
from dray.cli.output import counts
from dray.clock import utc_now
from tests.unit.cli.conftest import DRAY, Cluster, as_list, fleet_documents, run

CLASS = "gpu.nvidia.com"


def claim(name: str, device: str = "", pool: str = "gpu-0", cls: str = CLASS) -> JsonObject:
    result = {"driver": "gpu.nvidia.com", "pool": pool, "device": device, "request": "gpu"}
    status = {"allocation": {"devices": {"results": [result]}}} if device else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": cls}}]}},
        "status": status,
    }


def pod(name: str, claim_name: str, message: str) -> JsonObject:
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {
            "containers": [{"name": "c", "image": "x"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim_name}],
        },
        "status": {"phase": "Pending", "conditions": [condition]},
    }


def world(tmp_path: Path, *more: JsonObject) -> str:
    """The quickstart fleet: the A100 is held, an H100 too, another is tainted; a MIG pod waits."""
    documents = fleet_documents("quickstart")
    broken = next(document for document in documents if document["kind"] == "ResourceSlice")
    for device in broken["spec"]["devices"][:2]:
        device["taints"] = [{"key": "bad", "effect": "NoSchedule"}]
    documents += [claim("had", "gpu-0"), claim("whole", "gpu-0", "mig-0"), claim("unused")]
    documents += [claim("wanted", cls="mig.nvidia.com"), *more]
    documents.append(pod("waiting", "wanted", "0/3 nodes are available: " + "long " * 100))
    path = tmp_path / "world.json"
    path.write_text(as_list(documents))
    return str(path)


def overview(path: str) -> dict[str, Any]:
    shown = run("top", "--against", path, "-o", "json")
    assert shown.exit_code == 0, shown.output
    document: dict[str, Any] = json.loads(shown.stdout)
    return document


def named(items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = [item for item in items if item["name"] == name]
    return found


def test_devices_are_counted_by_class_and_state(tmp_path: Path) -> None:
    seen = overview(world(tmp_path))
    gpus = named(seen["classes"], "gpu.nvidia.com")
    assert (gpus["devices"], gpus["tainted"], gpus["unhealthy"]) == (5, 2, 0)
    assert gpus["states"] == {"in use": 2, "free": 3}
    assert gpus["morePodsFit"] == 2, "a tainted device is free, but not for everybody"
    partitions = named(seen["classes"], "mig.nvidia.com")
    assert (partitions["states"], partitions["morePodsFit"]) == ({"blocked": 25}, 0)
    assert (seen["devices"], seen["partitions"]) == ({"free": 3, "in use": 2}, {"blocked": 25})
    assert seen["claims"] == {"allocated": 2, "pending": 2}


def test_devices_are_counted_by_node(tmp_path: Path) -> None:
    by_node = overview(world(tmp_path))["byNode"]
    assert [line["name"] for line in by_node] == ["gpu-0", "gpu-1", "mig-0"]
    assert named(by_node, "mig-0")["states"] == {"in use": 1}
    assert named(by_node, "mig-0")["partitions"] == {"blocked": 25}
    assert named(by_node, "gpu-0")["tainted"] == 2


def test_a_waiting_pod_is_one_line_with_a_short_cause(tmp_path: Path) -> None:
    shown = run("top", "--once", "--against", world(tmp_path))
    assert shown.exit_code == 0, shown.output
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    header = "CLASS DEVICES FREE SHARED IN USE BLOCKED TAINTED UNHEALTHY MORE PODS FIT"
    assert header in lines
    (waiting,) = [line for line in lines if line.startswith("ns/waiting")]
    assert "no device has enough of its counters left" in waiting
    assert "1 pod waits" in lines
    assert "ns/unused <unknown> no pod uses it" in lines
    assert not any(line.startswith("ns/wanted") for line in lines), "its pod says it"
    assert max(map(len, lines)) < 200


def test_a_quota_that_stops_a_pod_is_named(tmp_path: Path) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": "ns"},
        "spec": {"hard": {"count/resourceclaims.resource.k8s.io": "1"}},
        "status": {
            "hard": {"count/resourceclaims.resource.k8s.io": "1"},
            "used": {"count/resourceclaims.resource.k8s.io": "1"},
        },
    }
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "t", "namespace": "ns"},
        "spec": {"spec": claim("x")["spec"]},
    }
    blocked = pod("blocked", "", "")
    blocked["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    seen = overview(world(tmp_path, quota, template, blocked))
    assert "quota gpus" in named(seen["waitingPods"], "blocked")["reason"]


def test_a_name_is_nothing_that_an_overview_has(tmp_path: Path) -> None:
    refused = run("top", "--against", world(tmp_path), "-o", "name")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "-o name" in refused.stderr


def test_what_could_not_be_read_is_said_once(tmp_path: Path) -> None:
    objects = cluster_objects.from_files([world(tmp_path)])
    objects.unread = {"DeviceTaintRule": "x" * 300, "Event": "y" * 300}
    objects.partly_read = {"Pod": "z" * 300}
    seen = cluster_overview.summarize(objects)
    text = top_view.text(seen, utc_now())
    assert text.count("Could not be read: DeviceTaintRule, Event, Pod elsewhere") == 1
    assert "xxx" not in text
    assert all(line.more_pods_fit is None for line in seen.classes), "other pods may use devices"


@pytest.mark.parametrize(
    ("states", "text"),
    [
        ({}, "no nodes"),
        ({"ready": 1}, "1 node (ready)"),
        ({"ready": 2, "unknown": 0}, "2 nodes (all ready)"),
        ({"ready": 2, "not ready": 1}, "3 nodes (2 ready, 1 not ready)"),
    ],
)
def test_numbers_are_said_with_the_right_noun(states: dict[str, int], text: str) -> None:
    assert counts.counted(states, "node") == text


@pytest.fixture
def objects(tmp_path: Path) -> ClusterObjects:
    return cluster_objects.from_files([world(tmp_path)])


def drawn(view: TopView, objects: ClusterObjects) -> str:
    from rich.console import Console

    console = Console(width=200, height=50, color_system=None)
    with console.capture() as capture:
        console.print(view.rendered(cluster_overview.summarize(objects), utc_now(), 50))
    return capture.get()


def test_keys_sort_filter_and_open_lines(objects: ClusterObjects) -> None:
    view = TopView()
    assert drawn(view, objects).index("gpu-0") < drawn(view, objects).index("mig-0")
    assert view.keys[:3] == [
        ("class", "gpu.nvidia.com"),
        ("class", "mig.nvidia.com"),
        ("node", "gpu-0"),
    ]
    for key in ("s", "s", "s"):
        assert view.press(key)
    assert view.sort == "in use"
    lines = [line.split()[0] for line in drawn(view, objects).splitlines() if line.strip()]
    assert lines.index("mig-0") < lines.index("gpu-1")
    for key in ("/", "m", "i", "g", "x", "backspace", "enter"):
        assert view.press(key)
    drawn(view, objects)
    assert ("node", "gpu-1") not in view.keys
    assert ("node", "mig-0") in view.keys
    view.press("down")
    view.press("enter")
    assert view.opened == view.keys[1] == ("node", "mig-0")
    opened = top.details(view.opened, objects)
    assert opened[0].split()[0] == "mig-0/gpu-0"
    assert len(opened) == 26
    view.press("left")
    assert [view.opened, view.search] == [None, "mig"]
    view.press("escape")
    assert view.search == ""
    assert not view.press("q")


def test_a_line_shows_its_devices_or_why_it_waits(objects: ClusterObjects) -> None:
    assert len(top.details(("class", "gpu.nvidia.com"), objects)) == 5
    assert "waits" in top.details(("pod", "ns/waiting"), objects)[0]
    assert "ns/unused" in top.details(("claim", "ns/unused"), objects)[0]
    assert top.details(("pod", "ns/gone"), objects) == ["pod ns/gone is gone"]


def test_keys_of_a_terminal_have_names() -> None:
    assert list(top.keys_in("s\x1b[A\x1b[B\r\x1b")) == ["s", "up", "down", "enter", "escape"]


def test_it_is_live_on_a_terminal_until_a_key_ends_it(cluster: Cluster) -> None:
    process, terminal = pty.fork()
    if process == 0:
        os.environ["TERM"] = "xterm"
        os.execv(DRAY, [str(DRAY), "top", "--kubeconfig", str(cluster.kubeconfig)])
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 140, 0, 0))
        printed = b""
        while b"q quit" not in printed:
            printed += os.read(terminal, 65536)
        os.write(terminal, b"sq")
        _, status = os.waitpid(process, 0)
        assert os.waitstatus_to_exitcode(status) == 0
    finally:
        os.close(terminal)
