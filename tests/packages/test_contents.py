"""The wheel and the sdist hold what they should and nothing else, and agree with each other."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path, PurePath

import dray
from tests.pages import ROOT

INFO = f"dray-{dray.__version__}.dist-info"


def names_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def tracked() -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


def test_the_wheel_holds_the_package_and_its_licence(wheel: Path) -> None:
    names = names_in(wheel)
    own = {f"src/{name}" for name in names if not name.startswith(f"{INFO}/")}
    assert own == tracked()
    assert "dray/py.typed" in names
    about = {name.removeprefix(f"{INFO}/") for name in names if name.startswith(f"{INFO}/")}
    assert about == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}


def test_the_metadata_says_what_users_read(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = HeaderParser().parsestr(archive.read(f"{INFO}/METADATA").decode())
    assert metadata["Version"] == dray.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert {"etcd", "nvidia", "testing"} <= set(metadata.get_all("Provides-Extra") or ())


def test_the_sdist_holds_what_builds_the_wheel(packages: Path) -> None:
    (sdist,) = packages.glob("*.tar.gz")
    top = f"dray-{dray.__version__}"
    with tarfile.open(sdist) as archive:
        names = {str(PurePath(name).relative_to(top)) for name in archive.getnames()}
    beside = {name for name in names if not name.startswith("src/")}
    known = {"CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml", ".gitignore"}
    assert beside == known
    assert names - beside == tracked()


def test_the_sdist_builds_the_same_wheel(packages: Path, wheel: Path, tmp_path: Path) -> None:
    (sdist,) = packages.glob("*.tar.gz")
    subprocess.run(["tar", "-xzf", str(sdist), "-C", str(tmp_path)], check=True)
    (folder,) = tmp_path.iterdir()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (again,) = tmp_path.glob("*.whl")
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()
