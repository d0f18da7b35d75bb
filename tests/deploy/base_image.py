"""An image like python:3.12-slim, made from the Python that runs the tests.

It needs no registry. dray's dependencies are in it already, in their pinned versions, so that a
build downloads nothing.
"""

from __future__ import annotations

import importlib.metadata
import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.cluster.test_podman import BUSYBOX
from tests.pages import ROOT

PREFIX = "usr/local"
LISTS = ("deploy/requirements.txt", "deploy/build-requirements.txt")
LEFT_OUT = re.compile(r"__pycache__|tests?|idlelib|tkinter|(site|dist)-packages|config-.*")
PIP = '#!/bin/sh\nexec /usr/local/bin/python -m pip "$@"\n'
USERS = "root:x:0:0:root:/root:/bin/sh\n"
NAME = re.compile(r"^([\w.-]+)==", re.M)
LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")


def archive() -> bytes:
    """The file system of the image."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as files:
        base = _Base(files)
        base.add_shell()
        base.add_python()
        base.add_packages()
        base.add_libraries()
    return made.getvalue()


class _Base:
    def __init__(self, files: tarfile.TarFile) -> None:
        self._files = files
        self._binaries: list[Path] = []
        self._added: set[str] = set()
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self._packages = f"{PREFIX}/lib/{version}/site-packages"

    def add_shell(self) -> None:
        busybox = next(path for path in BUSYBOX if path.exists())
        self._copy(busybox.resolve(), "bin/busybox")
        listed = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True)
        for name in listed.stdout.split():
            if name != "busybox":
                self._link(f"bin/{name}", "busybox")
        self._write("etc/passwd", USERS)
        folder = tarfile.TarInfo("tmp")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        self._files.addfile(folder)

    def add_python(self) -> None:
        """Python where it is on this machine, and an environment around it in /usr/local."""
        executable = Path(sys.executable).resolve()
        self._copy(executable, str(executable)[1:])
        for name in ("stdlib", "platstdlib"):
            base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
            base |= {f"installed_{key}": value for key, value in base.items()}
            self._copy_tree(Path(sysconfig.get_path(name, vars=base)))
        settings = f"home = {executable.parent}\ninclude-system-site-packages = false\n"
        self._write(f"{PREFIX}/pyvenv.cfg", settings)
        for name in ("python", "python3"):
            self._link(f"{PREFIX}/bin/{name}", str(executable))
        self._write(f"{PREFIX}/bin/pip", PIP, mode=0o755)

    def add_packages(self) -> None:
        """pip from Python's own copy, and what dray needs from the environment of the tests."""
        import ensurepip

        folder = Path(ensurepip.__file__).parent / "_bundled"
        with zipfile.ZipFile(next(folder.glob("pip-*.whl"))) as wheel:
            for name in wheel.namelist():
                self._add(f"{self._packages}/{name}", wheel.read(name))
        for name in sorted(set(_pinned())):
            for source, target in _files_of(name):
                self._copy(source, f"{self._packages}/{target}")

    def add_libraries(self) -> None:
        """The shared libraries of everything that was copied."""
        done = subprocess.run(
            ["ldd", *map(str, self._binaries)], capture_output=True, text=True, check=False
        )
        for path in sorted(set(LIBRARY.findall(done.stdout))):
            if (ROOT / ".venv").resolve() not in Path(path).resolve().parents:
                self._copy(Path(path).resolve(), path[1:])

    def _copy_tree(self, folder: Path) -> None:
        for parent, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if not LEFT_OUT.fullmatch(name)]
            for name in names:
                path = Path(parent, name)
                self._copy(path.resolve(), str(path)[1:])

    def _copy(self, source: Path, target: str) -> None:
        if not source.is_file():
            return
        if source.suffix == ".so" or ".so." in source.name or source.name.startswith("python"):
            self._binaries.append(source)
        self._add(target, source.read_bytes(), mode=0o755 if os.access(source, os.X_OK) else 0o644)

    def _write(self, target: str, text: str, mode: int = 0o644) -> None:
        self._add(target, text.encode(), mode)

    def _add(self, target: str, content: bytes, mode: int = 0o644) -> None:
        if target in self._added:
            return
        self._added.add(target)
        entry = tarfile.TarInfo(target)
        entry.size, entry.mode = len(content), mode
        self._files.addfile(entry, io.BytesIO(content))

    def _link(self, target: str, destination: str) -> None:
        entry = tarfile.TarInfo(target)
        entry.type, entry.linkname = tarfile.SYMTYPE, destination
        self._files.addfile(entry)


def _pinned() -> Iterator[str]:
    for name in LISTS:
        yield from NAME.findall((ROOT / name).read_text("utf-8"))


def _files_of(name: str) -> Iterable[tuple[Path, str]]:
    """The files of an installed distribution, with their places below site-packages."""
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return []  # Only for another platform or Python.
    return [
        (Path(str(distribution.locate_file(file))), str(file))
        for file in distribution.files or ()
        if file.parts[0] != ".." and "__pycache__" not in file.parts
    ]
