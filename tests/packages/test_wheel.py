"""The wheel alone is enough: installed with the dependencies it declares, it runs a cluster."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import dray
from tests import rounds
from tests.packages.installation import Installation

OPTIONAL = ("aetcd", "pynvml", "pytest")
"""What only those need to have who use it: the etcd store, NVIDIA's driver, the pytest plugin."""
INSTALL_SECONDS = 300.0

pytestmark = [pytest.mark.slow, pytest.mark.random]


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a virtual environment with nothing but dray and its dependencies.

    The large runs install them from the index as users do. The others need none: they link to
    what is installed here.
    """
    folder = tmp_path_factory.mktemp("wheel") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "-q"]
    if rounds.CHOSEN.is_long:
        from_index = [*pip, "--only-binary", ":all:", str(wheel)]
        subprocess.run(from_index, check=True, timeout=INSTALL_SECONDS)
        return python
    alone = [*pip, "--no-index", "--no-deps", str(wheel)]
    subprocess.run(alone, check=True, timeout=INSTALL_SECONDS)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (wheel_metadata,) = importlib.metadata.distributions(name="dray", path=[str(site)])
    for name in _dependencies(wheel_metadata.requires or ()):
        _link(name, site)
    return python


@pytest.fixture(scope="module")
def installed(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return Installation(tmp_path_factory.mktemp("user") / "home", python.parent)


def _dependencies(requirements: Sequence[str]) -> set[str]:
    """Return the names of the distributions that requirements declare, directly or not."""
    needed: set[str] = set()
    queue = [(line, "") for line in requirements]
    for line, extra in queue:
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is not None and not marker.evaluate({"extra": extra}):
            continue
        if requirement.name in needed and not requirement.extras:
            continue
        needed.add(requirement.name)
        for inner in importlib.metadata.requires(requirement.name) or ():
            queue += [(inner, name) for name in ("", *requirement.extras)]
    return needed


def _link(name: str, site: Path) -> None:
    """Make an installed distribution importable from another environment, without an index."""
    distribution = importlib.metadata.distribution(name)
    for entry in {file.parts[0] for file in distribution.files or () if file.parts[0] != ".."}:
        target = site / entry
        # Namespace packages, such as google, belong to several distributions.
        if not target.exists():
            target.symlink_to(Path(str(distribution.locate_file(entry))))


def test_the_wheel_is_what_runs(installed: Installation, python: Path) -> None:
    file, version = installed.run(
        str(python), "-c", "import dray; print(dray.__file__, dray.__version__)"
    ).split()
    assert Path(file).is_relative_to(python.parents[1])
    assert version == dray.__version__
    metadata = "import importlib.metadata; print(importlib.metadata.version('dray'))"
    assert installed.run(str(python), "-c", metadata).strip() == dray.__version__
    printed = installed.run(str(python), "-m", "dray", "--version")
    assert installed.run("dray", "--version") == printed


def test_every_module_of_the_wheel_can_be_imported(installed: Installation, python: Path) -> None:
    code = f"""
import importlib, pkgutil, dray
for module in pkgutil.walk_packages(dray.__path__, 'dray.'):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if error.name not in {OPTIONAL!r}:
            raise
"""
    installed.run(str(python), "-c", code)


def test_a_cluster_runs_from_the_wheel(installed: Installation) -> None:
    installed.check_cluster()
