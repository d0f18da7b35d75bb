"""Runs the tests of a file once more as an ordinary user, where root runs them first."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
USER: Final = 65534
NO_PYTHON: Final = "needs root and a Python that an ordinary user may run"
INSIDE: Final = "DRAY_TESTS_AS_USER"
"""Set in the run of the ordinary user, which must not start another."""


def run_again(file: str, *options: str) -> None:
    """Run the tests of a file as an ordinary user; those that root runs are seen already."""
    if INSIDE in os.environ:
        return
    if os.geteuid() != 0:
        pytest.skip("needs root, to run as an ordinary user too")
    packages = open_packages()
    with tempfile.TemporaryDirectory() as home:
        os.chown(home, USER, USER)
        env = {
            "HOME": home,
            "TMPDIR": home,
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *packages]),
            INSIDE: "1",
        }
        argv = [open_python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        argv += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), file]
        ran = subprocess.run(
            argv,
            cwd=home,
            env=env,
            user=USER,
            group=USER,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
        )
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]


def open_python() -> str:
    """Return a Python of this version that everybody may run."""
    for program in (os.path.realpath(sys.executable), "/usr/bin/python3", "/usr/local/bin/python3"):
        if _is_open_to_all(Path(program)) and _version(program) == sys.version_info[:2]:
            return program
    pytest.skip(NO_PYTHON)


def open_packages() -> list[str]:
    """Return the folders of packages; skips the test where an ordinary user cannot read them."""
    packages = [entry for entry in sys.path if entry.endswith("site-packages")]
    if not all(_is_open_to_all(folder) for folder in (ROOT, *map(Path, packages))):
        pytest.skip(NO_PYTHON)
    return packages


def _is_open_to_all(program: Path) -> bool:
    found = (program, *program.parents)
    return program.exists() and all(path.stat().st_mode & stat.S_IXOTH for path in found)


def _version(program: str) -> tuple[int, ...]:
    code = "import sys; print(*sys.version_info[:2])"
    said = subprocess.run([program, "-c", code], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in said.split())
