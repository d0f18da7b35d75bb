"""The wheel, the sdist and dray.pyz, built once for all tests of packages."""

from __future__ import annotations

import dataclasses
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from tools.release import build, bundle, project

PLACE = build.Place("https://downloads.example.com/dray", "https://dray.example.com")
PYTHON = "{}.{}".format(*sys.version_info[:2])


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist."""
    folder = tmp_path_factory.mktemp("packages")
    build.build_python_packages(folder)
    return folder


@pytest.fixture(scope="session")
def wheel(packages: Path) -> Path:
    (path,) = packages.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that a release publishes, for this machine and this Python alone."""
    facts = dataclasses.replace(project.read(), pythons=(PYTHON,))
    machines = {each.extensions.partition("-")[0]: each for each in bundle.PLATFORMS}
    if platform.machine() not in machines:
        pytest.skip("dray.pyz is not made for this machine")
    folder = tmp_path_factory.mktemp("release")
    here = [machines[platform.machine()]]
    try:
        build.build_all(folder, facts, PLACE, build.commit_time(), here)
    except subprocess.CalledProcessError as error:
        if "Failed to fetch" not in error.stderr:
            raise
        pytest.skip("no package index can be reached")
    return folder
