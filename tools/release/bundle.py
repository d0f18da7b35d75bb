"""Makes dray.pyz: dray and its dependencies for one platform, in one file that Python runs.

The file holds a zip file of what all its Pythons share, one for each of them with the rest, and
`start.py`, which unpacks and runs them. The same input gives the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.release.project import ROOT, Project

EXTRAS: Final = ("etcd", "exporter", "mcp", "nvidia")
"""Optional dependencies that users of one file cannot add to it."""
SHEBANG: Final = b"#!/usr/bin/env python3\n"
LEFT_OUT: Final = (".lock", "bin")
"""What an installation writes beside the packages."""
LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip file can hold; of every file, so that builds are alike."""
MAIN: Final = 'import dray_start\n\ndray_start.main("dray")\n'


@dataclass(frozen=True)
class Platform:
    """A machine that a bundle is for, in the words of those who ask for it."""

    arch: str
    """As Go, kubectl and krew name it."""
    wheels: str
    """As uv names it: the oldest C library for which every dependency has a wheel."""
    extensions: str
    """As Python names it in the file names of extension modules."""


PLATFORMS: Final = (
    Platform("amd64", "x86_64-manylinux_2_28", "x86_64-linux-gnu"),
    Platform("arm64", "aarch64-manylinux_2_28", "aarch64-linux-gnu"),
)


def uv() -> str:
    """Return the path of uv: on the PATH, or where `make` installs it."""
    return shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")


def install(wheel: Path, platform: Platform, version: str, folder: Path) -> None:
    """Install a wheel and what it needs into a folder, as for a Python and a platform."""
    command = [uv(), "pip", "install", "-q", "--target", str(folder), "--only-binary", ":all:"]
    command += ["--python-version", version, "--python-platform", platform.wheels]
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    pinned = ["--require-hashes", "-c", "constraints.txt", "-r", "pyproject.toml", *extras]
    for what in (pinned, ["--no-deps", str(wheel)]):
        subprocess.run([*command, *what], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in LEFT_OUT:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def write(target: Path, project: Project, platform: Platform, trees: Mapping[str, Path]) -> None:
    """Write a bundle of what is installed in `trees`, by the version of Python."""
    parts = {name: _zipped(files) for name, files in _parts(trees).items()}
    digest = hashlib.sha256()
    for name in sorted(parts):
        digest.update(parts[name])
    constants = {
        "VERSION": project.version,
        "ID": digest.hexdigest()[:16],
        "PLATFORM": platform.extensions,
        "PYTHONS": tuple(tuple(map(int, version.split("."))) for version in trees),
        "PROGRAMS": dict(project.programs),
    }
    texts = {
        "__main__.py": MAIN,
        "dray_bundle.py": "".join(f"{name} = {value!r}\n" for name, value in constants.items()),
        "dray_start.py": Path(__file__).with_name("start.py").read_text("utf-8"),
        "private_directories.py": (ROOT / "src/dray/private_directories.py").read_text("utf-8"),
        "LICENSE": (ROOT / "LICENSE").read_text("utf-8"),
    }
    with target.open("wb") as file:
        file.write(SHEBANG)
        with zipfile.ZipFile(file, "w") as bundle:
            for name, text in texts.items():
                bundle.writestr(zipfile.ZipInfo(name, LONG_AGO), text)
            for name in sorted(parts):
                bundle.writestr(zipfile.ZipInfo(f"{name}.zip", LONG_AGO), parts[name])
    target.chmod(0o755)


def _parts(trees: Mapping[str, Path]) -> dict[str, dict[str, bytes]]:
    """Return what all Pythons share as `common`, and the rest of each as `cp311` and so on."""
    files = {version: _files(tree) for version, tree in trees.items()}
    first, *others = files.values()
    common = {
        name: content
        for name, content in first.items()
        if all(other.get(name) == content for other in others)
    }
    own = {
        f"cp{version.replace('.', '')}": {
            name: content for name, content in tree.items() if name not in common
        }
        for version, tree in files.items()
    }
    return {"common": common, **own}


def _files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def _zipped(files: Mapping[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, LONG_AGO), data, zipfile.ZIP_DEFLATED)
    return content.getvalue()
