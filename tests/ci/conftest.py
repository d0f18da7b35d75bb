"""A repository with manifests, and what an index of packages would offer."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
from pathlib import Path

import pytest

from tests.pages import ROOT
from tests.unit.cli.lint.test_reports import CLEAN, UNUSED, WRONG


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables with which pip finds what deploy/ pins, and nothing else: it asks no index."""
    folder = tmp_path_factory.mktemp("packages")
    for file in (ROOT / "deploy").glob("*requirements.txt"):
        for name in re.findall(r"^([\w.-]+)==", file.read_text("utf-8"), re.M):
            # Some are for other systems.
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                _link(importlib.metadata.distribution(name), folder)
    return {
        "PYTHONPATH": str(folder),
        "PIP_NO_INDEX": "1",
        # pip reads it as the value of the option: no isolation.
        "PIP_NO_BUILD_ISOLATION": "0",
        "PATH": os.environ["PATH"],
        "HOME": str(folder.parent),
    }


def _link(distribution: importlib.metadata.Distribution, folder: Path) -> None:
    for entry in {file.parts[0] for file in distribution.files or ()} - {".."}:
        # Namespace packages, such as google, belong to several distributions.
        if not (folder / entry).exists():
            (folder / entry).symlink_to(str(distribution.locate_file(entry)))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A folder with a good manifest, one with a warning and one with an error."""
    folder = tmp_path / "repository"
    for name, text in {"clean": CLEAN, "unused": UNUSED, "wrong": WRONG}.items():
        (folder / name).mkdir(parents=True)
        (folder / name / f"{name}.yaml").write_text(text, "utf-8")
    return folder
