"""A new project passes its own tests, and all of its files are well formed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.testing import Cluster
from tests.cli.driver_new.conftest import OPTIONS
from tests.unit.cli.conftest import run

TOOLS = Path(sys.executable).parent
RUN_SECONDS = 280.0
NAMESPACE = "drivers"
NEWEST = "1.37.0"
Projects = dict[str, Path]


def done(*command: str | Path, folder: Path, **environment: str) -> str:
    """What a program prints that must succeed."""
    result = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_SECONDS,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_projects_pass_their_tests(projects: Projects) -> None:
    """All in one process: starting pytest takes longer than the tests."""
    folders = list(projects.values())
    printed = done(
        *(sys.executable, "-m", "pytest", "-q", "-W", "error", "--import-mode=importlib"),
        *("-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", folders[0].parent),
        *folders,
        folder=folders[0].parent,
        PYTHONPATH=os.pathsep.join(str(folder / "src") for folder in folders),
    )
    assert re.search(r"^21 passed", printed, re.MULTILINE), printed


@pytest.mark.parametrize("name", OPTIONS)
def test_the_files_are_formatted_and_well_formed(name: str, projects: Projects) -> None:
    folder = projects[name]
    done(TOOLS / "ruff", "check", "--no-cache", ".", folder=folder)
    done(TOOLS / "ruff", "format", "--no-cache", "--check", ".", folder=folder)
    for file in (path for path in folder.rglob("*") if path.is_file()):
        text = file.read_text("utf-8")
        assert not re.search(r"@(if|else|end|[a-z]+)@", text), file
        assert text.endswith("\n")
        assert "\n\n\n\n" not in text
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["name"] == f"{name}-driver"
    assert json.loads((folder / "deploy/chart/values.schema.json").read_text("utf-8"))


@pytest.mark.parametrize("name", OPTIONS)
def test_the_manifests_have_no_mistakes(name: str, projects: Projects) -> None:
    """Their own tests apply them."""
    files = [str(file) for file in sorted((projects[name] / "deploy").glob("*.yaml"))]
    assert len(files) == 3
    linted = run("lint", "--strict", *files)
    assert linted.exit_code == 0, linted.output


def helm(*arguments: str | Path, folder: Path) -> str:
    program = shutil.which("helm", path=str(TOOLS)) or shutil.which("helm")
    if program is None:
        pytest.skip("no helm on PATH")
    return done(program, *arguments, folder=folder, HOME=str(folder))


def objects(chart: Path, *options: str) -> list[dict[str, Any]]:
    command = ["template", "test", str(chart), "-n", NAMESPACE, "--kube-version", NEWEST]
    rendered = helm(*command, *options, folder=chart.parent)
    return [item for item in yaml.safe_load_all(rendered) if item]


@pytest.mark.parametrize("version", ["1.34.0", NEWEST])
def test_the_chart_has_the_objects_of_the_manifests(
    version: str, projects: Projects, cluster: Cluster
) -> None:
    deploy = projects["shared"] / "deploy"
    helm("lint", "--strict", deploy / "chart", folder=deploy)
    made = objects(deploy / "chart", "--kube-version", version)
    texts = [(deploy / file).read_text("utf-8") for file in ("driver.yaml", "device-class.yaml")]
    written = [item for text in texts for item in yaml.safe_load_all(text)]
    assert {item["kind"] for item in made} == {item["kind"] for item in written}
    (role,) = (item for item in made if item["kind"] == "ClusterRole")
    (own,) = (item for item in written if item["kind"] == "ClusterRole")
    assert role["rules"] == own["rules"]
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    cluster.apply(made)


def test_values_of_the_chart_are_honoured_or_refused(projects: Projects, tmp_path: Path) -> None:
    chart = projects["exclusive"] / "deploy" / "chart"
    values = tmp_path / "values.yaml"
    chosen = {
        "image": {"repository": "registry.example.com/npu", "tag": "7"},
        "deviceClass": {"create": False},
        "nodeSelector": {"npu": "yes"},
        "kubelet": {"directory": "/data/kubelet"},
    }
    values.write_text(yaml.safe_dump(chosen))
    made = objects(chart, "--values", str(values))
    assert "DeviceClass" not in {item["kind"] for item in made}
    (daemon_set,) = (item for item in made if item["kind"] == "DaemonSet")
    pod = daemon_set["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"npu": "yes"}
    assert pod["containers"][0]["image"] == "registry.example.com/npu:7"
    assert "/data/kubelet/plugins" in str(pod["volumes"])
    with pytest.raises(AssertionError, match="colour"):
        objects(chart, "--set", "colour=red")
