"""`dray driver new`: names that work everywhere, and nothing is overwritten."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import run


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Acme", "lower case"),
        ("acme_npu", "lower case"),
        ("acme.npu", "lower case"),
        ("-acme", ""),
        ("acme-", "lower case"),
        ("../acme", "lower case"),
        ("", "lower case"),
        ("3d", "not a name in Python"),
        ("a" * 57, "no more than 63"),
        ("a" * 52, "longer than 63"),
    ],
)
def test_a_name_that_does_not_work_everywhere_is_refused(
    name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("driver", "new", name)
    assert result.exit_code == 2
    assert words in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_domain_is_checked(tmp_path: Path) -> None:
    result = run("driver", "new", "npu", "--domain", "-x", "--directory", str(tmp_path / "npu"))
    assert result.exit_code == 2
    assert "--domain '-x'" in result.stderr


@pytest.mark.parametrize("existing", ["file", "empty folder", "folder", "broken link"])
def test_nothing_is_overwritten(existing: str, tmp_path: Path) -> None:
    place = tmp_path / "npu-driver"
    if existing == "file":
        place.write_text("mine")
    elif existing == "broken link":
        place.symlink_to(tmp_path / "absent")
    else:
        place.mkdir()
    if existing == "folder":
        (place / "README.md").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    result = run("driver", "new", "npu", "--directory", str(place))
    assert result.exit_code == 1
    assert "exists already" in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("driver", "new", "npu", "--directory", str(tmp_path / "file" / "npu"))
    assert result.exit_code == 1
    assert "cannot be created" in result.stderr


def test_the_project_is_complete_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    result = run("driver", "new", "npu", "--directory", str(tmp_path / "npu"))
    assert result.exit_code == 1
    assert "No space left" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("pip", "install"),
    [(object(), "pip install"), (None, f"uv pip install --python {sys.executable}")],
)
def test_the_next_steps_are_printed(
    pip: object, install: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: pip)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/uv")
    result = run("driver", "new", "npu", "--domain", "acme.com")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "Created npu-driver, the driver npu.acme.com. Test it:",
        "  cd npu-driver",
        f"  {install} -e '.[test]'",
        "  pytest",
    ]
    assert 'name = "npu.acme.com"' in (tmp_path / "npu-driver/src/npu_driver/driver.py").read_text()


def test_the_uv_of_the_repository_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    uv = tmp_path / ".tools" / "bin" / "uv"
    uv.parent.mkdir(parents=True)
    uv.touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    result = run("driver", "new", "npu", "--domain", "acme.com")
    assert f"  {uv} pip install --python {sys.executable} -e '.[test]'" in result.stdout
