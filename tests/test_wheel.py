"""The wheel alone is enough: installed with the dependencies it declares, it runs a cluster."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import dray

ROOT = Path(__file__).parents[1]
DEADLINE_SECONDS = 60.0
OPTIONAL = ("aetcd", "mcp", "mcp_types", "pynvml", "pytest")
"""What only those need to have who use it: the etcd store, `dray mcp`, NVIDIA's driver, the pytest
plugin."""

pytestmark = pytest.mark.slow


class Installation:
    """A virtual environment with nothing but dray and its dependencies."""

    def __init__(self, folder: Path) -> None:
        self.scripts = folder / "venv" / "bin"
        self.home = folder / "home"
        self.home.mkdir()

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.scripts}{os.pathsep}{os.defpath}"
        kubeconfig = str(self.home / "data" / "kubeconfig")
        return {"PATH": path, "HOME": str(self.home), "KUBECONFIG": kubeconfig}

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.home,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_SECONDS,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=DEADLINE_SECONDS)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    python = folder / "venv" / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "-q", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(pip, check=True, timeout=DEADLINE_SECONDS)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "venv")}))
    (wheel_metadata,) = importlib.metadata.distributions(name="dray", path=[str(site)])
    for name in _dependencies(wheel_metadata.requires or ()):
        _link(name, site)
    return Installation(folder)


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


@contextlib.contextmanager
def cluster(installed: Installation) -> Iterator[None]:
    """Run `dray up` from the wheel, until the cluster is ready and then until the block ends."""
    data = str(installed.home / "data")
    dray_up = [str(installed.scripts / "dray"), "up", "--data", data]
    options = ["--fleet", "quickstart", "--listen", "127.0.0.1:0", "--runtime", "none"]
    with (installed.home / "up.log").open("w+") as log:
        process = subprocess.Popen(
            [*dray_up, *options],
            cwd=installed.home,
            env=installed.environment,
            stdout=log,
            stderr=log,
        )
        try:
            _wait_until_up(process, installed.home / "up.log")
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(DEADLINE_SECONDS)
    assert process.returncode == 0, (installed.home / "up.log").read_text("utf-8")


def _wait_until_up(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while "dray is up" not in log.read_text("utf-8"):
        assert process.poll() is None, log.read_text("utf-8")
        assert time.monotonic() < deadline, log.read_text("utf-8")
        time.sleep(0.05)


def test_the_wheel_is_what_runs(installed: Installation) -> None:
    python = str(installed.scripts / "python")
    file, version = installed.run(
        python, "-c", "import dray; print(dray.__file__, dray.__version__)"
    ).split()
    assert Path(file).is_relative_to(installed.scripts.parent)
    assert version == dray.__version__
    metadata = "import importlib.metadata; print(importlib.metadata.version('dray'))"
    assert installed.run(python, "-c", metadata).strip() == dray.__version__
    assert installed.run("dray", "--version") == installed.run(python, "-m", "dray", "--version")


def test_every_module_of_the_wheel_can_be_imported(installed: Installation) -> None:
    code = f"""
import importlib, pkgutil, dray
for module in pkgutil.walk_packages(dray.__path__, 'dray.'):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if error.name not in {OPTIONAL!r}:
            raise
"""
    installed.run(str(installed.scripts / "python"), "-c", code)


def test_the_wheel_has_the_files_of_a_new_driver(installed: Installation) -> None:
    installed.run("dray", "driver", "new", "npu")
    assert (installed.home / "npu-driver" / "deploy" / "chart" / "values.yaml").exists()


def test_a_cluster_runs_from_the_wheel(installed: Installation) -> None:
    with cluster(installed):
        assert "gpu-0/gpu-0" in installed.run("dray", "get", "devices")
        installed.run("dray", "apply", "-f", str(ROOT / "examples" / "01-one-gpu"))
        installed.run("dray", "wait", "--for=condition=Ready", "pod/train", "--timeout", "60s")
        claims = installed.run("dray", "get", "resourceclaims")
        assert "allocated,reserved" in claims
