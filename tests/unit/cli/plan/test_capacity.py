"""`dray plan capacity`: tables, drawings, JSON, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from dray.api.ids import DeviceId
from dray.cli.plan import card_drawing
from dray.planner.capacity.cards import Card
from tests import builders, pages
from tests.unit.cli.conftest import run

PLANNING = pages.ROOT / "examples" / "planning"
CARD = str(PLANNING / "fragmented-card.yaml")
TEMPLATE = str(PLANNING / "3g-template.yaml")


def write(path: Path, *documents: object) -> str:
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def test_every_class_of_a_fleet_is_counted() -> None:
    result = run("plan", "capacity", "--against", "quickstart")
    assert result.exit_code == 0, result.output
    header, *lines = result.stdout.splitlines()
    assert header.split() == ["CLASS", "PODS", "THAT", "FIT", "LIMIT"]
    assert [line.split()[:3] for line in lines[:2]] == [
        ["gpu.nvidia.com", "5", "devices"],
        ["mig.nvidia.com", "7", "counters"],
    ]


def test_a_card_is_drawn_with_its_holes() -> None:
    result = run("plan", "capacity", "--against", CARD)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert "n1/gpu-0: 5 of 8 slices are free; largest partition left: 2g.20gb" in lines
    assert lines[-4].replace(" ", "").replace("|", "│") == "│1g.10gb│1g.10gb││││1g.10gb│││"
    assert lines[-2].startswith("3g.40gb does not fit: 5 of 8 slices are free, but no 4 in a row")


def test_a_template_that_fits_nowhere_shows_the_card() -> None:
    result = run("plan", "capacity", "--against", CARD, "-f", TEMPLATE)
    assert result.exit_code == 1
    assert "resourceclaimtemplate/large-mig: 0 more fit; limit: counters (1 node)" in result.stdout
    assert "3g.40gb does not fit" in result.stdout


def test_json_has_nodes_and_cards() -> None:
    document = json.loads(run("plan", "capacity", "--against", CARD, "-o", "json").stdout)
    (found,) = document["capacity"]
    assert (found["name"], found["pods"]) == ("mig.nvidia.com", 4)
    assert found["nodes"] == [{"node": "n1", "pods": 4, "limits": ["counters"]}]
    (card,) = document["cards"]
    assert [part["start"] for part in card["inUse"]] == [0, 1, 5]
    assert card["inUse"][0]["claims"] == ["team/notebook-0"]
    assert [item["starts"] for item in card["blocked"]] == [[0, 4], [0]]


def test_a_workload_is_counted_once_whatever_its_replicas(tmp_path: Path) -> None:
    template = builders.template_manifest("gpu")
    template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = (
        "gpu.nvidia.com"
    )
    pod = builders.pod_manifest("web", templates={"gpu": "gpu"})["spec"]
    labels = {"app": "web"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    path = write(tmp_path / "web.yaml", template, deployment)
    result = run("plan", "capacity", "--against", "h100", "-f", path)
    assert result.exit_code == 0, result.output
    assert "deployment/web: 32 more fit; limit: devices (4 nodes)" in result.stdout
    assert "h100-0, h100-1 and 2 more   8           devices" in result.stdout
    assert "resourceclaimtemplate" not in result.stdout, "the deployment uses it"
    wide = run("plan", "capacity", "--against", "h100", "-f", path, "-o", "wide")
    assert wide.stdout.count("\nh100-") == 4


def test_a_pod_that_exists_already_can_be_counted(tmp_path: Path) -> None:
    pod = builders.pod_manifest("web", namespace="team")
    path = write(tmp_path / "web.yaml", pod)
    pod["spec"]["nodeName"] = "n1"
    existing = write(tmp_path / "existing.yaml", pod)
    both = tmp_path / "cluster.yaml"
    both.write_text(Path(CARD).read_text() + "---\n" + Path(existing).read_text())
    result = run("plan", "capacity", "--against", str(both), "-f", path)
    assert "pod/web: 109 more fit; limit: pods (1 node)" in result.stdout, result.output


def test_pods_that_do_not_come_one_by_one_are_refused(tmp_path: Path) -> None:
    labels = {"app": "agent"}
    daemons = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "pause"}]},
            },
        },
    }
    path = write(tmp_path / "agent.yaml", daemons)
    result = run("plan", "capacity", "--against", "h100", "-f", path)
    assert result.exit_code == 2
    assert "daemonset/agent has one pod on each node" in result.stderr
    classes = write(
        tmp_path / "class.yaml",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
    )
    result = run("plan", "capacity", "--against", "h100", "-f", classes)
    assert result.exit_code == 2
    assert "no pods, claims or templates" in result.stderr
    result = run("plan", "capacity", "--against", "h100", "-o", "name")
    assert result.exit_code == 2


@pytest.mark.parametrize(("width", "is_ascii"), [(120, False), (80, True), (20, True)])
def test_drawings_have_the_width_of_the_terminal(width: int, is_ascii: bool) -> None:
    card = Card("n1", DeviceId("d", "p", "gpu-0"), 8, [], "", 0.0)
    lines = card_drawing.drawing(card, width, is_ascii=is_ascii)
    assert len({len(line) for line in lines[1:]}) == 1
    assert len(lines[1]) <= max(width, 8 * 4 + 1)
    assert all(line.isascii() for line in lines) == is_ascii
