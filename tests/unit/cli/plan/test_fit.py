"""`dray plan -f`: where the pods of files would run, and what blocks the others."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from dray.cli.inputs import cluster_objects
from dray.drivers.simulated import fleet
from tests import builders
from tests.unit.cli.conftest import run

GPU = "gpu.nvidia.com"


def deployment(replicas: int, count: int = 1) -> str:
    spec = builders.pod_manifest(templates={"gpu": "some"})["spec"]
    spec["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": body}
    request = builders.request_manifest(cls=GPU, count=count)
    return yaml.safe_dump_all([builders.template_manifest("some", request), web])


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "app.yaml"
    path.write_text(deployment(2))
    return path


def test_all_pods_have_a_node_and_devices(app: Path) -> None:
    result = run("plan", "-f", str(app), "--against", "l4")
    assert result.exit_code == 0, result.output
    assert result.stdout == (
        "deployment/web: 2 of 2 fit\n"
        "  POD     NODE   DEVICES\n"
        "  web-0   l4-0   gpu-0\n"
        "  web-1   l4-1   gpu-0\n"
    )
    wide = run("plan", "-f", str(app), "--against", "l4", "-o", "wide").stdout
    assert "web-1-gpu/gpu=gpu.nvidia.com/l4-1/gpu-0" in wide


def test_what_does_not_fit_has_a_reason_and_a_fix(app: Path) -> None:
    app.write_text(deployment(5, count=3))
    result = run("plan", "-f", str(app), "--against", "h200")
    assert result.exit_code == 1
    assert "deployment/web: 4 of 5 fit" in result.stdout
    assert "✗ web-4: there are no devices for its claims" in result.stdout
    assert "or: request 2 instead of 3 in request gpu" in result.stdout


def test_equal_obstacles_are_said_once(app: Path) -> None:
    app.write_text(deployment(3, count=9))
    lines = run("plan", "-f", str(app), "--against", "h200").stdout.splitlines()
    assert sum("fewer than 9 devices" in line for line in lines) == 1
    assert "the same holds for web-1 and web-2" in lines[-1]


def test_json_has_every_pod(app: Path) -> None:
    app.write_text(deployment(9))
    result = run("plan", "-f", str(app), "--against", "l4", "-o", "json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["fits"] is False
    assert [pod["fits"] for pod in document["pods"]] == [True] * 8 + [False]
    first, last = document["pods"][0], document["pods"][-1]
    device = {"claim": "web-0-gpu", "request": "gpu", "driver": GPU, "pool": "l4-0"}
    assert first["devices"] == [{**device, "device": "gpu-0"}]
    assert (first["owner"], first["ordinal"], first["node"]) == ("deployment/web", 0, "l4-0")
    assert last["check"] == "devices"
    assert "free" in last["reason"]
    assert last["fixes"][0].startswith("wait until pod default/web-")


def test_junit_has_a_case_for_each_pod(app: Path, tmp_path: Path) -> None:
    app.write_text(deployment(9))
    report = tmp_path / "plan.xml"
    run("plan", "-f", str(app), "--against", "l4", "--junit", str(report))
    suites = ElementTree.fromstring(report.read_text())
    assert suites.attrib == {"tests": "9", "failures": "1"}
    failures = [case for case in suites.iter("testcase") if case.find("failure") is not None]
    assert [case.attrib["name"] for case in failures] == ["default/web-8"]
    bad = run("plan", "-f", str(app), "--against", "l4", "--junit", str(tmp_path / "no" / "x"))
    assert bad.exit_code == 2


def test_pods_that_wait_already_come_first(app: Path, tmp_path: Path) -> None:
    waiting = builders.pod_manifest("first", namespace="default", claims={"gpu": "held"})
    waiting["metadata"]["uid"] = "first"
    request = builders.request_manifest(cls=GPU)
    held = builders.claim_manifest("held", request, namespace="default")
    snapshot = tmp_path / "cluster.json"
    items = [*cluster_objects.documents_of(fleet.load("l4")), waiting, held]
    snapshot.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    result = run("plan", "-f", str(app), "--against", str(snapshot))
    assert result.exit_code == 0, result.output
    assert "Pods that wait already get their nodes first: default/first\n" in result.stdout
    assert "  web-0   l4-1   gpu-0\n" in result.stdout


def test_a_refusal_names_the_quota(app: Path) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team-gpus"},
        "spec": {"hard": {f"{GPU}.deviceclass.resource.k8s.io/devices": "1"}},
    }
    app.write_text(deployment(2) + "---\n" + yaml.safe_dump(quota))
    result = run("plan", "-f", str(app), "--against", "l4")
    assert result.exit_code == 1
    assert "✗ web-1: the API server refuses it: exceeded quota: team-gpus" in result.stdout


def test_files_that_the_api_server_would_refuse_are_refused(app: Path) -> None:
    app.write_text(app.read_text().replace("replicas: 2", "replicas: two"))
    result = run("plan", "-f", str(app), "--against", "l4")
    assert result.exit_code == 1
    assert "replicas" in result.stderr


def test_wrong_usage_is_refused(app: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text(yaml.safe_dump(builders.template_manifest("some")))
    empty = run("plan", "-f", str(tmp_path / "empty.yaml"), "--against", "l4")
    assert (empty.exit_code, "makes pods" in empty.stderr) == (2, True)
    assert run("plan", "--against", "l4").exit_code == 2
    before = run("plan", "-f", str(app), "replay", "x.csv")
    assert (before.exit_code, "stand after its name" in before.stderr) == (2, True)
    unknown = run("plan", "-f", str(app), "--against", "l44")
    assert "Did you mean l4?" in unknown.stderr
    assert "Usage: dray plan" in run("plan").stdout
