"""dray.pyz unpacks itself once, safely, and runs with a Python that fits."""

from __future__ import annotations

import ast
import importlib.machinery
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tools.release import bundle, project

VERSION = "1.2.3"
HERE = "{}.{}".format(*sys.version_info[:2])
UNKNOWN = "9.9"
EXTENSIONS = importlib.machinery.EXTENSION_SUFFIXES[0].split("-", 2)[2].removesuffix(".so")
PLATFORM = bundle.Platform("any", "any", EXTENSIONS)
MODULE = """
import sys
from own import NAME

def main():
    print(NAME, *sys.argv)

def places():
    print(*sys.path, sep="\\n")
"""


def pyz(folder: Path, version: str = HERE, name: str = HERE) -> Path:
    """A bundle with a small program in the place of dray, for one Python and another."""
    programs = {"dray": "program:main", "places": "program:places"}
    facts = project.Project(VERSION, (version, "9.8"), programs, "", "")
    trees = {}
    for each in facts.pythons:
        trees[each] = folder / "trees" / each
        trees[each].mkdir(parents=True)
        own = name if each == version else "the other"
        (trees[each] / "own.py").write_text(f"NAME = {own!r}\n", "utf-8")
        (trees[each] / "program.py").write_text(MODULE, "utf-8")
    path = folder / "dray.pyz"
    bundle.write(path, facts, PLATFORM, trees)
    return path


def start(
    path: Path, *words: str, cache: Path | None = None, home: str = "/nonexistent", extra: str = ""
) -> subprocess.CompletedProcess[str]:
    environment = {"HOME": home, "PATH": f"{extra}:{os.defpath}"}
    if cache is not None:
        environment["XDG_CACHE_HOME"] = str(cache)
    command = [sys.executable, str(path), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_it_runs_what_is_for_this_python(tmp_path: Path) -> None:
    path = pyz(tmp_path)
    for words in (("get", "pods"), ("get", "devices")):
        done = start(path, *words, cache=tmp_path / "cache")
        assert done.stdout.split() == [HERE, "dray", *words], done.stderr
    (unpacked,) = [entry for entry in (tmp_path / "cache" / "dray").iterdir() if entry.is_dir()]
    assert unpacked.name.startswith(f"{VERSION}-")
    assert unpacked.name.endswith(f"-cp{HERE.replace('.', '')}")


def test_the_home_is_the_usual_place(tmp_path: Path) -> None:
    done = start(pyz(tmp_path), home=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE((tmp_path / ".cache" / "dray").stat().st_mode) == 0o700


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert pyz(tmp_path / "a").read_bytes() == pyz(tmp_path / "b").read_bytes()


def test_another_build_has_a_directory_of_its_own(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        path = pyz(tmp_path / name, name=name)
        assert start(path, cache=tmp_path / "cache").stdout.split() == [name, "dray"]


def test_it_sees_no_packages_of_others(tmp_path: Path) -> None:
    path = pyz(tmp_path)
    code = f"import sys; sys.path.insert(0, {str(path)!r}); import dray_start; "
    command = [sys.executable, "-c", code + "dray_start.main('places')"]
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    places = done.stdout.splitlines()
    assert places[0].startswith(str(tmp_path / "cache"))
    assert str(path) not in places
    assert not [place for place in places if place.endswith("-packages")]


def test_many_first_starts_at_once_unpack_it_once(tmp_path: Path) -> None:
    command = [sys.executable, str(pyz(tmp_path)), "x"]
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    printed = {process.communicate(timeout=60)[0] for process in processes}
    assert printed == {f"{HERE} dray x\n"}
    entries = [entry for entry in (tmp_path / "cache" / "dray").iterdir() if entry.is_dir()]
    assert len(entries) == 1


def test_what_a_killed_start_left_is_removed(tmp_path: Path) -> None:
    path, cache = pyz(tmp_path), tmp_path / "cache"
    start(path, cache=cache)
    (unpacked,) = [entry for entry in (cache / "dray").iterdir() if entry.is_dir()]
    unfinished = unpacked.rename(unpacked.with_name(f"{unpacked.name}.new"))
    (unfinished / "program.py").write_text("", "utf-8")
    assert start(path, cache=cache).returncode == 0
    assert not unfinished.exists()


def test_a_damaged_file_leaves_nothing(tmp_path: Path) -> None:
    path = pyz(tmp_path)
    content = path.read_bytes()
    name = b"program.py"
    at = content.index(name) + len(name)
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    done = start(path, cache=tmp_path / "cache")
    assert done.returncode == 2
    assert "is damaged" in done.stderr
    assert [entry.name for entry in (tmp_path / "cache" / "dray").iterdir()] == ["lock"]


def test_a_directory_that_others_could_have_filled_is_refused(tmp_path: Path) -> None:
    path, cache = pyz(tmp_path), tmp_path / "cache"
    planted = cache / "dray" / "planted"
    planted.mkdir(parents=True)
    planted.parent.chmod(0o777)
    done = start(path, cache=cache)
    assert done.returncode == 2
    assert "can be opened by others" in done.stderr
    assert "Set XDG_CACHE_HOME" in done.stderr


def test_a_place_where_others_can_replace_it_is_refused(tmp_path: Path) -> None:
    path, cache = pyz(tmp_path), tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    done = start(path, cache=cache)
    assert done.returncode == 2
    assert "can be written by everybody" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("kind", ["directory", "link"])
def test_a_directory_of_another_user_is_refused(tmp_path: Path, kind: str) -> None:
    path, cache = pyz(tmp_path), tmp_path / "cache"
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 12345, 12345)
    cache.mkdir()
    if kind == "directory":
        (tmp_path / "theirs").rename(cache / "dray")
    else:
        (cache / "dray").symlink_to(tmp_path / "theirs")
        os.chown(cache / "dray", 12345, 12345, follow_symlinks=False)
    done = start(path, cache=cache)
    assert done.returncode == 2
    assert "another user" in done.stderr


def test_without_a_place_it_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    done = start(pyz(tmp_path), home=str(tmp_path / "file"))
    assert done.returncode == 2
    assert "cannot unpack itself" in done.stderr
    assert "Set XDG_CACHE_HOME" in done.stderr


def test_a_python_that_is_not_included_says_which_are(tmp_path: Path) -> None:
    done = start(pyz(tmp_path, UNKNOWN), cache=tmp_path / "cache")
    assert done.returncode == 2
    assert f"needs Python {UNKNOWN} or 9.8 for {EXTENSIONS}" in done.stderr
    assert sys.executable in done.stderr
    assert not (tmp_path / "cache").exists()


def test_older_pythons_can_read_it() -> None:
    """They have to say what is missing, and not that the syntax is wrong."""
    text = Path(bundle.__file__).with_name("start.py").read_text("utf-8")
    ast.parse(text, feature_version=(3, 7))
    assert "from __future__" not in text


@pytest.mark.parametrize("works", [True, False])
def test_it_looks_for_another_python(tmp_path: Path, works: bool) -> None:
    """A stand-in for Python 9.9: one that starts, or a name without a program behind it."""
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / f"python{UNKNOWN}"
    suffix = f".cpython-99-{EXTENSIONS}.so"
    answers = f"""case "$1" in -c) echo "['{suffix}']";; *) echo "ran $*";; esac"""
    python.write_text(f"#!/bin/sh\n{answers if works else 'exit 127'}\n", "utf-8")
    python.chmod(0o755)
    path = pyz(tmp_path, UNKNOWN)
    done = start(path, "get", "pods", cache=tmp_path / "cache", extra=str(tmp_path / "bin"))
    if works:
        assert done.stdout == f"ran {path} get pods\n"
    else:
        assert done.returncode == 2
        assert "none is on the PATH" in done.stderr
