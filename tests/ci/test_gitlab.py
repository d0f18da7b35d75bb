"""The GitLab template: its job installs a package of dray and writes both reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.ci.runners import StepResult, run_gitlab_job
from tests.pages import ROOT

JOB: dict[str, Any] = yaml.safe_load((ROOT / "deploy/ci/gitlab.yml").read_text("utf-8"))[
    "dray-lint"
]
Run = Callable[..., StepResult]


@pytest.fixture
def run(repository: Path, packages: dict[str, str]) -> Run:
    """Run the job in the repository, with this Python as that of the image."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{packages['PATH']}"
    environment = {**packages, "PATH": path}
    return lambda **given: run_gitlab_job(JOB, repository, environment, **given)


@pytest.mark.slow
def test_the_job_writes_both_reports(run: Run, repository: Path, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    given = {"DRAY_PACKAGE": str(wheel), "DRAY_LINT_FILES": "clean unused"}
    result = run(**given, DRAY_LINT_OPTIONS="--strict")
    assert result.code == 1, result.printed
    assert "unused/unused.yaml:7:5: warning:" in result.printed
    quality = json.loads((repository / result.outputs["codequality"]).read_text("utf-8"))
    assert [item["location"]["path"] for item in quality] == ["unused/unused.yaml"]
    junit = ElementTree.fromstring((repository / result.outputs["junit"]).read_text("utf-8"))
    assert (junit.get("tests"), junit.get("failures")) == ("2", "1")


@pytest.mark.parametrize("given", [{"DRAY_LINT_FILES": "clean"}, {"DRAY_PACKAGE": "dray"}])
def test_a_variable_that_is_missing_is_named(run: Run, given: dict[str, str]) -> None:
    result = run(**given)
    assert result.code == 2
    assert "Set the variables DRAY_PACKAGE" in result.printed


def test_reports_are_kept_when_the_job_fails() -> None:
    assert JOB["artifacts"]["when"] == "always"
