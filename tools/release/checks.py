"""What has to be right before a release is built: version, tree, changelog and pages."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from tools.release.project import ROOT, Project

BRANCH: Final = "main"
VERSION: Final = re.compile(r"\d+\.\d+\.\d+")
"""Three numbers: a version for Python as well as for krew."""
SECTION: Final = re.compile(r"^## \[(?P<name>[^]]+)\](?: - (?P<date>\S+))?$", re.M)
DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
PAGE_TESTS: Final = (
    *("tests/test_readme.py", "tests/test_architecture.py", "tests/test_pins.py"),
    *("tests/unit/cli/test_main.py", "tests/unit/cli/lint/test_rules.py"),
)
"""Tests of links, of commands on pages, and of pages that are made from the source."""


def problems(version: str, project: Project, root: Path = ROOT) -> Iterator[str]:
    """Yield what is wrong, each with what to do about it; without the pages, which take longer."""
    if not VERSION.fullmatch(version):
        yield f"{version!r} is no version. Write three numbers: make release VERSION=1.2.0"
    elif version != project.version:
        yield f'src/dray/__init__.py has {project.version}. Set __version__ = "{version}" there.'
    yield from _problems_of_tree(version, root)
    yield from _problems_of_charts(version, root)
    yield from problems_of_changelog(version, (root / "CHANGELOG.md").read_text("utf-8"))


def _problems_of_tree(version: str, root: Path) -> Iterator[str]:
    if changed := git(root, "status", "--porcelain"):
        yield f"The tree has changes that are not committed:\n{changed}\nCommit or remove them."
    if (branch := git(root, "branch", "--show-current")) != BRANCH:
        yield f"The branch is {branch or 'none'}. Releases are made from {BRANCH}."
    if git(root, "tag", "--list", f"v{version}"):
        yield f"The tag v{version} exists: this version was released. Choose the next one."


def _problems_of_charts(version: str, root: Path) -> Iterator[str]:
    """Yield charts that are of another version, or contain charts of another version."""
    for path in sorted((root / "deploy" / "helm").glob("*/Chart.yaml")):
        chart = yaml.safe_load(path.read_text("utf-8"))
        inner = [each["version"] for each in chart.get("dependencies", ())]
        if {chart["version"], chart["appVersion"], *inner} != {version}:
            name = path.relative_to(root)
            yield f"{name} has another version. Set version and appVersion to {version} there."


def problems_of_changelog(version: str, text: str) -> Iterator[str]:
    """Yield what is wrong with the changelog."""
    titles = list(SECTION.finditer(text))
    ends = [*(title.start() for title in titles), len(text)][1:]
    bodies = {
        title["name"]: text[title.end() : end].strip()
        for title, end in zip(titles, ends, strict=True)
    }
    dates = {title["name"]: title["date"] or "" for title in titles}
    released = [name for name in bodies if name != "Unreleased"]
    if not released or released[0] != version:
        yield f"CHANGELOG.md has no section of its own for this version, ## [{version}] - DATE."
    elif not bodies[version] or not DATE.fullmatch(dates[version]):
        yield f"CHANGELOG.md: ## [{version}] needs a date (2026-01-31), and text below it."
    if bodies.get("Unreleased"):
        yield "CHANGELOG.md has text below ## [Unreleased]. Move it to the version."


def check_pages() -> None:
    """Raise CalledProcessError where a page is wrong; the output says which."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-m", "not slow and not hardware"]
    subprocess.run([*pytest, *PAGE_TESTS], cwd=ROOT, check=True)


def git(root: Path, *words: str) -> str:
    """Return what git prints."""
    done = subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.rstrip("\n")
