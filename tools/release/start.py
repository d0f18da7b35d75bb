"""Runs a program of dray from dray.pyz, which holds dray and all that it needs in one file.

Extension modules cannot be loaded from a zip file, so the first start unpacks the file for this
Python, into a directory that only its owner can open. Older Pythons read this module too: they
look for a newer one, and say what is missing. What only a first start needs is imported there.
"""

import importlib
import importlib.machinery
import os
import pathlib
import sys
from typing import NoReturn

import dray_bundle

EXIT_CODE = 2
NOT_OURS = ("site-packages", "dist-packages")
"""Folders of packages that others installed, in versions that may not fit."""
ADVICE = "Set XDG_CACHE_HOME to a directory that only you can write, with 100 MB of space."


def main(program: str) -> None:
    """Run a program by its name, such as `dray` or `kubectl-why`."""
    version = sys.version_info[:2]
    is_included = version in dray_bundle.PYTHONS
    if not is_included or _suffix(version) not in importlib.machinery.EXTENSION_SUFFIXES:
        _run_with_another_python()
    folder = _unpacked()
    script = os.path.dirname(os.path.realpath(sys.argv[0]))
    sys.path[:] = [folder] + [
        entry
        for entry in sys.path
        if entry not in (_bundle(), script) and os.path.basename(entry) not in NOT_OURS
    ]
    sys.argv[0] = program
    module, _, name = dray_bundle.PROGRAMS[program].partition(":")
    getattr(importlib.import_module(module), name)()


def _bundle() -> str:
    """Return the path of dray.pyz."""
    return os.path.dirname(__file__)


def _suffix(version: "tuple[int, int]") -> str:
    """Return how the names of the bundle's extension modules for a Python end."""
    return ".cpython-{}{}-{}.so".format(*version, dray_bundle.PLATFORM)


def _run_with_another_python() -> NoReturn:
    """Replace this process by the newest Python on the PATH that fits, or end with a message."""
    import shutil

    for version in sorted(dray_bundle.PYTHONS, reverse=True):
        found = shutil.which("python{}.{}".format(*version))
        if found and _fits(found, version):
            os.execv(found, [found, *sys.argv])
    versions = " or ".join("{}.{}".format(*version) for version in dray_bundle.PYTHONS)
    _end(
        f"dray needs Python {versions} for {dray_bundle.PLATFORM}, and none is on the PATH: "
        f"{sys.executable} is {sys.implementation.name} {sys.version.split()[0]} "
        f"({importlib.machinery.EXTENSION_SUFFIXES[0].strip('.')}).\n"
        f"Install Python {versions}, or another build of dray."
    )


def _fits(python: str, version: "tuple[int, int]") -> bool:
    """Whether a Python can be started and loads the bundle's modules; a name alone says neither."""
    import subprocess

    code = "import importlib.machinery as m; print(m.EXTENSION_SUFFIXES)"
    try:
        printed = subprocess.check_output([python, "-c", code], stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return False
    return repr(_suffix(version)) in printed.decode()


def _unpacked() -> str:
    """Return the directory with the modules for this Python, unpacked if it is not there yet."""
    import private_directories

    base = os.environ.get("XDG_CACHE_HOME", "")
    base = base if os.path.isabs(base) else os.path.expanduser("~/.cache")
    if not os.path.isabs(base):
        _end(f"dray has no directory to unpack itself to. {ADVICE}")
    cache = pathlib.Path(base, "dray")
    name = "{}-{}-cp{}{}".format(dray_bundle.VERSION, dray_bundle.ID, *sys.version_info[:2])
    try:
        private_directories.prepare(cache, _warn)
        if not (cache / name).is_dir():
            _unpack(cache, name)
    except (private_directories.DirectoryRefused, OSError) as error:
        _end(f"dray cannot unpack itself to {cache}: {error}\n{ADVICE}")
    return str(cache / name)


def _unpack(cache: pathlib.Path, name: str) -> None:
    """Write the modules for this Python: other processes find all of them, or none and wait."""
    import fcntl
    import shutil

    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (cache / name).is_dir():
            return
        new = cache / f"{name}.new"
        for unfinished in cache.glob("*.new"):
            shutil.rmtree(unfinished)
        try:
            _extract(new)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        # After a power cut the name must not stand for files without content.
        os.sync()
        new.rename(cache / name)


def _extract(folder: pathlib.Path) -> None:
    import zipfile
    import zlib

    try:
        with zipfile.ZipFile(_bundle()) as bundle:
            for part in ("common", "cp{}{}".format(*sys.version_info[:2])):
                with bundle.open(f"{part}.zip") as file, zipfile.ZipFile(file) as modules:
                    modules.extractall(folder)
    except (EOFError, zipfile.BadZipFile, zlib.error) as error:
        _end(f"{_bundle()} is damaged ({error}). Download it again.")


def _warn(text: str) -> None:
    print(text, file=sys.stderr)


def _end(text: str) -> NoReturn:
    _warn(text)
    sys.exit(EXIT_CODE)
