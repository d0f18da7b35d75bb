"""Renders our charts with Helm itself."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.api.types.meta import JsonObject
from tests.pages import ROOT

CHARTS = ROOT / "deploy" / "helm"
NAMES = ("dray", "dray-exporter", "dray-nvidia", "dray-scheduler")
VERSIONS = ("1.34.0", "1.37.0")
"""Of Kubernetes: the oldest and the newest that the charts are for."""
RELEASE, NAMESPACE = "test", "dray-system"


def program() -> str:
    """The path of Helm; skips the test where there is none."""
    found = shutil.which("helm", path=str(Path(sys.executable).parent)) or shutil.which("helm")
    if found is None:
        pytest.skip("no helm on PATH")
    return found


def run(*arguments: str, values: JsonObject | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command of Helm with values, which may be merged into those of the chart."""
    command = [program(), *arguments]
    if values is not None:
        command += ["--values", "-"]
    with tempfile.TemporaryDirectory(prefix="dray-helm-") as home:
        return subprocess.run(
            command,
            input=json.dumps(values or {}),
            env={"HOME": home},
            capture_output=True,
            text=True,
            check=False,
        )


def rendered(
    chart: str, values: JsonObject | None = None, kubernetes: str = VERSIONS[-1]
) -> subprocess.CompletedProcess[str]:
    return _rendered(chart, json.dumps(values or {}), kubernetes)


@functools.cache
def _rendered(chart: str, values: str, kubernetes: str) -> subprocess.CompletedProcess[str]:
    return run(
        *("template", RELEASE, str(folder(chart)), "--namespace", NAMESPACE),
        *("--kube-version", kubernetes),
        values=json.loads(values),
    )


def documents(
    chart: str, values: JsonObject | None = None, kubernetes: str = VERSIONS[-1]
) -> list[JsonObject]:
    """The objects of a chart."""
    done = rendered(chart, values, kubernetes)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def of_kind(objects: list[JsonObject], kind: str) -> list[JsonObject]:
    return [each for each in objects if each["kind"] == kind]


def container(objects: list[JsonObject]) -> Any:
    """The one container of the one workload among the objects of a chart."""
    (pod,) = (each["spec"]["template"]["spec"] for each in objects if "template" in _spec(each))
    (found,) = pod["containers"]
    return found


def _spec(body: JsonObject) -> Any:
    return body.get("spec", {})


@functools.cache
def folder(chart: str) -> Path:
    """The folder of a chart, with the charts that it depends on."""
    if chart != "dray":
        return CHARTS / chart
    copies = Path(tempfile.mkdtemp(prefix="dray-charts-"))
    atexit.register(shutil.rmtree, copies)
    shutil.copytree(CHARTS, copies / "helm", ignore=shutil.ignore_patterns("charts", "Chart.lock"))
    done = run("dependency", "update", str(copies / "helm" / "dray"))
    assert done.returncode == 0, done.stderr
    return copies / "helm" / "dray"
