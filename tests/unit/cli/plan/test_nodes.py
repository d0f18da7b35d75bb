"""`dray plan nodes`: machines of fleets, files and nodes, tables, JSON, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dray.drivers.simulated import fleet
from tests import builders
from tests.unit.cli.conftest import run

CLASS = "gpu.nvidia.com"


def write(path: Path, *documents: dict[str, Any]) -> str:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
    return str(path)


@pytest.fixture
def job(tmp_path: Path) -> str:
    """A deployment of ten pods with a GPU each."""
    template = builders.template_manifest("gpu", builders.request_manifest(cls=CLASS))
    pod = builders.pod_manifest(templates={"gpu": "gpu"})
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 10,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod["spec"]},
        },
    }
    return write(tmp_path / "job.json", template, deployment)


def test_a_table_says_how_many_and_what_fails_with_one_less(job: str) -> None:
    result = run("plan", "nodes", "-f", job, "--against", "l4", "--add-type", "h100,l4")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line.split() for line in lines[1:3]] == [["h100", "1", "8"], ["l4", "0", "0"]]
    assert "1 more machine makes 10 pods fit. Fewer are not enough." in lines
    assert "With one h100 less, 2 pods do not fit:" in lines
    assert "default/web-8 and default/web-9: 0/8 nodes are available" in lines[-1]


def test_wide_has_the_pods_with_their_devices(job: str) -> None:
    options = ("--against", "l4", "--add-type", "h100", "-o", "wide")
    lines = run("plan", "nodes", "-f", job, *options).stdout.splitlines()
    assert sum(line.startswith("default/web-") and "/gpu-" in line for line in lines) == 10


def test_json_has_the_same(job: str) -> None:
    options = ("--against", "l4", "--add-type", "l4", "--add-type", "h100", "-o", "json")
    document = json.loads(run("plan", "nodes", "-f", job, *options).stdout)
    assert document["types"] == [
        {"name": "l4", "machines": 0, "pods": 0},
        {"name": "h100", "machines": 1, "pods": 8},
    ]
    assert (document["fits"], document["machines"], document["isMinimum"]) == (True, 1, True)
    (less,) = document["oneLess"]
    assert (less["type"], len(less["waiting"])) == ("h100", 2)
    assert {pod["owner"] for pod in document["pods"]} == {"deployment/web"}
    assert document["pods"][0]["devices"]


def test_nothing_is_needed_where_everything_fits(job: str) -> None:
    result = run("plan", "nodes", "-f", job, "--against", "h100", "--add-type", "l4")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (
        0,
        "No machine has to be added for 10 pods.",
    )


def test_no_number_of_machines_without_gpus_is_enough(job: str) -> None:
    result = run("plan", "nodes", "-f", job, "--against", "l4", "--add-type", "tpu-v5e")
    assert result.exit_code == 1
    assert "No number of tpu-v5e is enough. 2 pods do not fit:" in result.stdout
    result = run(
        "plan", "nodes", "-f", job, "--against", "l4", "--add-type", "tpu-v5e", "-o", "json"
    )
    document = json.loads(result.stdout)
    assert (result.exit_code, document["fits"], document["isProved"]) == (1, False, True)
    assert [pod["name"] for pod in document["waiting"]] == ["web-8", "web-9"]


def test_kinds_of_a_fleet_are_types_of_their_own(job: str) -> None:
    options = ("plan", "nodes", "-f", job, "--against", "l4", "-o", "json")
    names = [
        type_["name"]
        for type_ in json.loads(run(*options, "--add-type", "quickstart").stdout)["types"]
    ]
    assert names == ["quickstart/gpu", "quickstart/mig"]
    document = json.loads(run(*options, "--add-type", "quickstart/mig").stdout)
    assert document["types"] == [{"name": "quickstart/mig", "machines": 2, "pods": 2}]


def test_a_type_like_a_node(job: str) -> None:
    result = run("plan", "nodes", "-f", job, "--against", "l4", "--add-type", "like:l4-3")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1].split() == ["like:l4-3", "2", "2"]


def test_an_empty_cluster_grows_from_a_template_of_slices(job: str, tmp_path: Path) -> None:
    """No node has ever been there: the type is a file, the class is that of the cluster."""
    described = fleet.load("l4", nodes=1)
    documents = cluster_documents(described)
    empty = write(tmp_path / "empty.json", *(d for d in documents if d["kind"] == "DeviceClass"))
    machine = write(
        tmp_path / "machine.json", *(d for d in documents if d["kind"] != "DeviceClass")
    )
    result = run("plan", "nodes", "-f", job, "--against", empty, "--add-type", machine)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1].split()[-2:] == ["10", "10"]


def cluster_documents(described: fleet.Fleet) -> list[dict[str, Any]]:
    from dray.cli.inputs import cluster_objects

    return cluster_objects.documents_of(described)


def test_a_fleet_file_is_a_type(job: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("nodes:\n- name: box\n  devices: {gpu.nvidia.com: [{model: l4, count: 3}]}\n")
    result = run("plan", "nodes", "-f", job, "--against", "l4", "--add-type", str(path))
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1].split()[-2:] == ["1", "3"]
    path.write_text(path.read_text().replace("box", "l4-{number}"))
    result = run("plan", "nodes", "-f", job, "--against", "l4", "--add-type", f"l4,{path}")
    assert result.exit_code == 2
    assert "its machines have the same names as those of l4" in result.stderr


def test_pods_that_wait_without_files(tmp_path: Path) -> None:
    pods = [
        builders.pod_manifest(f"w{number}", claims={"gpu": f"w{number}"}) for number in range(3)
    ]
    claims = [
        builders.claim_manifest(f"w{number}", builders.request_manifest(cls=CLASS))
        for number in range(3)
    ]
    for document in (*pods, *claims):
        document["metadata"]["namespace"] = "default"
    for pod in pods:
        pod["metadata"]["uid"] = pod["metadata"]["name"]
    classes = [d for d in cluster_documents(fleet.load("l4")) if d["kind"] == "DeviceClass"]
    snapshot = write(tmp_path / "snapshot.json", *classes, *pods, *claims)
    result = run("plan", "nodes", "--against", snapshot, "--add-type", "l4")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1].split() == ["l4", "3", "3"]


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ("h10", "--add-type h10: there is no fleet and no file h10; did you mean h100?"),
        ("like:l4-9", "--add-type like:l4-9: there is no node l4-9; did you mean l4-"),
        ("mi300x/cpx", "--add-type mi300x/cpx: there is no machine cpx in mi300x; "),
        ("l4,", "--add-type : a name is missing"),
        ("l4,h100,l4", "--add-type l4: l4 is named twice"),
    ],
)
def test_wrong_types_are_refused(job: str, types: str, message: str) -> None:
    result = run("plan", "nodes", "-f", job, "--against", "l4", "--add-type", types)
    assert result.exit_code == 2
    assert message in result.stderr


def test_wrong_usage_is_refused(job: str) -> None:
    result = run("plan", "nodes", "--against", "l4", "--add-type", "l4")
    assert result.exit_code == 2
    assert "no pod of the cluster waits" in result.stderr
    named = ("--against", "l4", "--add-type", "l4", "-o", "name")
    assert run("plan", "nodes", "-f", job, *named).exit_code == 2
    assert run("plan", "nodes", "-f", job, "--against", "l4").exit_code == 2
