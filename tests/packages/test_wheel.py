"""The wheel alone is enough: installed with the dependencies it declares, it runs a cluster."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tools.release import bundle

import dray
from tests import rounds
from tests.packages.installation import Installation

OPTIONAL = ("aetcd", "mcp", "mcp_types", "pynvml", "pytest")
"""What only those need to have who use it: the etcd store, `dray mcp`, NVIDIA's driver, the pytest
plugin."""
INSTALL_SECONDS = 300.0
UNREACHABLE = r"Failed to fetch|Failed to establish a new connection|NameResolutionError"
"""What uv and pip say where no index answers."""

pytestmark = [pytest.mark.slow, pytest.mark.random]


def install(command: Sequence[str], variables: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(
        command,
        env={**os.environ, **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=INSTALL_SECONDS,
    )
    if done.returncode and re.search(UNREACHABLE, done.stderr):
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stdout + done.stderr


def linked(wheel: Path, folder: Path) -> Path:
    """Install the wheel without an index: dependencies are links to what is installed here."""
    python = _virtual_environment(folder)
    alone = ["-m", "pip", "install", "-q", "--no-index", "--no-deps", str(wheel)]
    install([str(python), *alone])
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (wheel_metadata,) = importlib.metadata.distributions(name="dray", path=[str(site)])
    for name in _dependencies(wheel_metadata.requires or ()):
        _link(name, site)
    return python


def by_pip(wheel: Path, folder: Path) -> Path:
    """Install as users do, without a compiler: `pip install`."""
    python = _virtual_environment(folder)
    from_index = ["-m", "pip", "install", "-q", "--only-binary", ":all:", str(wheel)]
    install([str(python), *from_index])
    return python


def by_uv_tool(wheel: Path, folder: Path) -> Path:
    """Install as users do: `uv tool install`."""
    places = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    command = [bundle.uv(), "tool", "install", "-q", "--python", sys.executable, "--no-build"]
    install([*command, str(wheel)], places)
    assert (folder / "bin" / "dray").exists()
    return folder / "tools" / "dray" / "bin" / "python"


def by_pipx(wheel: Path, folder: Path) -> Path:
    """Install as users do: `pipx install`."""
    places = {"PIPX_HOME": str(folder / "home"), "PIPX_BIN_DIR": str(folder / "bin")}
    command = [bundle.uv(), "tool", "run", "-q", "pipx", "install", "-q"]
    install([*command, "--python", sys.executable, str(wheel)], places)
    assert (folder / "bin" / "dray").exists()
    return folder / "home" / "venvs" / "dray" / "bin" / "python"


INSTALLERS = (linked, by_pip, by_uv_tool, by_pipx)
"""The first needs no index; the large runs use all."""


def _virtual_environment(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder / "bin" / "python"


@pytest.fixture(scope="module", params=INSTALLERS[: rounds.count(1, long=len(INSTALLERS))])
def python(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The Python of a virtual environment with nothing but dray and its dependencies."""
    folder = tmp_path_factory.mktemp("wheel")
    installer: Callable[[Path, Path], Path] = request.param
    return installer(wheel, folder)


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


def test_the_wheel_has_the_files_of_a_new_driver(installed: Installation) -> None:
    installed.run("dray", "driver", "new", "npu")
    assert (installed.home / "npu-driver" / "deploy" / "chart" / "values.yaml").exists()


def test_a_cluster_runs_from_the_wheel(installed: Installation) -> None:
    installed.check_cluster()
