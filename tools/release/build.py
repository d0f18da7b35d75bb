"""Builds the files of a release into one folder."""

from __future__ import annotations

import datetime
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tools.release import bundle, checks, plugin_archive, sbom
from tools.release.bundle import Platform
from tools.release.project import ROOT, Project

SUMS: Final = "SHA256SUMS"


class Place(NamedTuple):
    """Where the files of a release will be."""

    downloads: str
    """The address below which they can be downloaded."""
    homepage: str


def build_all(
    target: Path,
    project: Project,
    place: Place,
    time: datetime.datetime,
    platforms: Sequence[Platform] = bundle.PLATFORMS,
) -> None:
    """Build everything into `target`, an empty folder."""
    wheel = build_python_packages(target)
    with tempfile.TemporaryDirectory(prefix="dray-release-") as name:
        folders = [
            folder
            for platform in platforms
            for folder in _build_bundle(target, project, platform, wheel, Path(name))
        ]
        sbom.write(target / f"dray-{project.version}.cdx.json", project, folders, time)
    archives = {}
    for platform in platforms:
        archives[platform] = (
            target / f"kubectl-plugins-{project.version}-linux-{platform.arch}.tar.gz"
        )
        plugin_archive.write(archives[platform], target / bundle_name(project, platform))
    for plugin in plugin_archive.PLUGINS:
        text = plugin_archive.manifest(plugin, project, archives, *place)
        (target / f"{plugin.name}.yaml").write_text(text, "utf-8")
    write_sums(target)


def build_python_packages(target: Path) -> Path:
    """Build the wheel and the sdist, and return the path of the wheel."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target.absolute())]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    (wheel,) = target.glob("*.whl")
    return wheel


def bundle_name(project: Project, platform: Platform) -> str:
    """Return the name of a platform's dray.pyz among those of other platforms."""
    return f"dray-{project.version}-linux-{platform.arch}.pyz"


def _build_bundle(
    target: Path, project: Project, platform: Platform, wheel: Path, folder: Path
) -> list[Path]:
    """Build the dray.pyz of a platform, and return the folders of what it contains."""
    trees = {version: folder / f"{platform.arch}-{version}" for version in project.pythons}
    for version, tree in trees.items():
        bundle.install(wheel.absolute(), platform, version, tree)
    bundle.write(target / bundle_name(project, platform), project, platform, trees)
    return list(trees.values())


def commit_time() -> datetime.datetime:
    """Return the time of the commit that is built."""
    seconds = int(checks.git(ROOT, "log", "-1", "--format=%ct"))
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def write_sums(target: Path) -> None:
    """Write the checksums as `sha256sum --check` reads them."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(target.iterdir())
    ]
    (target / SUMS).write_text("".join(lines), "utf-8")
