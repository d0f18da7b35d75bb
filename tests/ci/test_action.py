"""The GitHub Action: it installs dray, shows findings on their lines, and writes both files."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.ci.runners import GitHubRunner, StepResult
from tests.pages import ROOT

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
Run = Callable[..., StepResult]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(packages: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runner's folder after the first step."""
    workspace = tmp_path_factory.mktemp("action") / "workspace"
    workspace.mkdir()
    first = {**ACTION, "runs": {"steps": ACTION["runs"]["steps"][:1]}}
    result = GitHubRunner(first, ROOT, workspace).run(packages, python=sys.executable)
    assert result.code == 0, result.printed
    return workspace.parent


@pytest.fixture
def run(installed: Path, repository: Path, packages: dict[str, str]) -> Run:
    """Run the steps after the first one in the repository."""
    (repository.parent / "runner").symlink_to(installed / "runner")
    rest = {**ACTION, "runs": {"steps": ACTION["runs"]["steps"][1:]}}
    runner = GitHubRunner(rest, ROOT, repository)
    return lambda **inputs: runner.run(packages, **inputs)


def test_it_installs_the_dray_of_its_own_checkout(installed: Path) -> None:
    (package,) = (installed / "runner" / "dray-lint").glob("lib/python3*/site-packages/dray")
    assert (package / "cli" / "lint" / "command.py").is_file()


def test_everything_is_installed_by_its_hash() -> None:
    script = ACTION["runs"]["steps"][0]["run"]
    first, second = [line for line in script.splitlines() if " install " in line]
    assert "--require-hashes" in first
    assert "--no-deps --no-build-isolation" in second


def test_findings_are_shown_on_their_lines(run: Run) -> None:
    result = run(files="clean\nunused\nwrong\n")
    assert result.code == 1
    annotations = re.findall(r"^::(\w+) file=(.*?),line=(\d+),.*?::", result.printed, re.M)
    assert annotations == [
        ("warning", "unused/unused.yaml", "7"),
        ("error", "wrong/wrong.yaml", "5"),
    ]


def test_both_files_are_there_also_when_the_job_fails(run: Run, repository: Path) -> None:
    result = run(files="wrong", sarif="a b.sarif")
    assert result.outputs == {"sarif": "a b.sarif", "junit": "dray-lint.xml"}
    sarif = json.loads((repository / result.outputs["sarif"]).read_text("utf-8"))
    assert [item["ruleId"] for item in sarif["runs"][0]["results"]] == ["unknown-field"]
    junit = ElementTree.fromstring((repository / result.outputs["junit"]).read_text("utf-8"))
    assert junit.get("failures") == "1"


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ({}, 0),
        ({"strict": "true"}, 1),
        ({"strict": "true", "ignore": "unused-claim\nno-node"}, 0),
        ({"against": "h100", "strict": "true", "ignore": "unused-claim"}, 0),
        ({"strict": "yes"}, 2),
        ({"ignore": "unused"}, 2),
        ({"feature-gates": "Nope=true"}, 2),
        ({"against": "no-such-fleet"}, 2),
        ({"files": "\n"}, 2),
        ({"files": "$(exit 1); `touch x`"}, 2),
        ({"files": "--help"}, 2),
    ],
)
def test_inputs_are_honoured_or_refused(
    run: Run, repository: Path, inputs: dict[str, str], code: int
) -> None:
    result = run(**{"files": "unused", **inputs})
    assert result.code == code, result.printed
    assert not (repository / "x").exists()


def test_an_old_python_is_refused(repository: Path, packages: dict[str, str]) -> None:
    old = repository.parent / "python3"
    old.write_text("#!/bin/sh\nexit 1\n", "utf-8")
    old.chmod(0o755)
    result = GitHubRunner(ACTION, ROOT, repository).run(packages, python=str(old), files="clean")
    assert result.code == 1
    assert "::error::dray lint needs Python 3.11 or newer" in result.printed
