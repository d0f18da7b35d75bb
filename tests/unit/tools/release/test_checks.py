"""A release is refused while something is not ready, and each refusal says what to do."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest
from tools.release import checks, project

FACTS = dataclasses.replace(project.read(), version="1.2.0")
READY = """# Changelog

## [Unreleased]

## [1.2.0] - 2026-01-31

- New.

## [1.1.0] - 2025-12-01

- Old.
"""

CHART = """
version: 1.2.0
appVersion: "1.2.0"
dependencies: [{name: dray-exporter, version: 1.2.0}]
"""


def git(root: Path, *words: str) -> None:
    author = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
    subprocess.run(["git", *author, *words], cwd=root, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository that is ready to be released."""
    git(tmp_path, "init", "-b", "main")
    (tmp_path / "CHANGELOG.md").write_text(READY, "utf-8")
    chart = tmp_path / "deploy" / "helm" / "dray" / "Chart.yaml"
    chart.parent.mkdir(parents=True)
    chart.write_text(CHART, "utf-8")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    return tmp_path


def test_a_tree_that_is_ready_has_no_problems(tree: Path) -> None:
    assert list(checks.problems("1.2.0", FACTS, tree)) == []


@pytest.mark.parametrize("version", ["", "1.2", "v1.2.0", "1.2.0rc1"])
def test_a_version_is_three_numbers(tree: Path, version: str) -> None:
    assert any("Write three numbers" in each for each in checks.problems(version, FACTS, tree))


def test_the_source_has_the_version(tree: Path) -> None:
    facts = dataclasses.replace(FACTS, version="1.1.0")
    (problem,) = checks.problems("1.2.0", facts, tree)
    assert 'Set __version__ = "1.2.0"' in problem


@pytest.mark.parametrize("line", ["version: 1.2.0\napp", 'appVersion: "1.2.0"', "version: 1.2.0}"])
def test_charts_have_the_version(tree: Path, line: str) -> None:
    chart = tree / "deploy" / "helm" / "dray" / "Chart.yaml"
    chart.write_text(CHART.replace(line, line.replace("1.2.0", "1.1.0")), "utf-8")
    git(tree, "commit", "-am", "chart")
    (problem,) = checks.problems("1.2.0", FACTS, tree)
    assert problem.startswith("deploy/helm/dray/Chart.yaml has another version.")


def test_changes_that_are_not_committed_are_listed(tree: Path) -> None:
    (tree / "new.py").write_text("", "utf-8")
    (problem,) = checks.problems("1.2.0", FACTS, tree)
    assert "?? new.py" in problem


def test_releases_are_made_from_main(tree: Path) -> None:
    git(tree, "checkout", "-b", "feature")
    (problem,) = checks.problems("1.2.0", FACTS, tree)
    assert problem == "The branch is feature. Releases are made from main."


def test_a_version_is_released_once(tree: Path) -> None:
    git(tree, "tag", "v1.2.0")
    (problem,) = checks.problems("1.2.0", FACTS, tree)
    assert "The tag v1.2.0 exists" in problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("# Changelog\n", "has no section", id="none"),
        pytest.param("## [1.1.0] - 2025-12-01\n\n- Old.\n", "has no section", id="old"),
        pytest.param(READY.replace(" - 2026-01-31", ""), "needs a date", id="date"),
        pytest.param(READY.replace("- New.\n", ""), "and text below", id="text"),
        pytest.param(
            READY.replace("[Unreleased]\n", "[Unreleased]\n\n- Late.\n"), "Move it", id="unreleased"
        ),
    ],
)
def test_the_changelog_tells_what_is_new(text: str, expected: str) -> None:
    (problem,) = checks.problems_of_changelog("1.2.0", text)
    assert expected in problem


def test_the_tests_of_pages_exist() -> None:
    assert [each for each in checks.PAGE_TESTS if not (project.ROOT / each).is_file()] == []
