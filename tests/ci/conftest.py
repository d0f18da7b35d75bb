"""A repository with manifests, and what an index of packages would offer."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

from tests.unit.cli.lint.test_reports import CLEAN, UNUSED, WRONG


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables with which pip finds installed packages, but not dray, and asks no index."""
    folder = tmp_path_factory.mktemp("packages")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith("dray-") and entry.suffix != ".pth":
            (folder / entry.name).symlink_to(entry)
    return {
        "PYTHONPATH": str(folder),
        "PIP_NO_INDEX": "1",
        # pip reads it as the value of the option: no isolation.
        "PIP_NO_BUILD_ISOLATION": "0",
        "PATH": os.environ["PATH"],
        "HOME": str(folder.parent),
    }


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A folder with a good manifest, one with a warning and one with an error."""
    folder = tmp_path / "repository"
    for name, text in {"clean": CLEAN, "unused": UNUSED, "wrong": WRONG}.items():
        (folder / name).mkdir(parents=True)
        (folder / name / f"{name}.yaml").write_text(text, "utf-8")
    return folder
