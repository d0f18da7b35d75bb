"""The hooks for pre-commit, installed and run by pre-commit itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.pages import ROOT

PUBLISHED = (".pre-commit-hooks.yaml", "LICENSE", "README.md", "pyproject.toml", "src")
"""What pre-commit needs of the repository of dray."""


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@example.com", *arguments]
    ran = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


def committed(folder: Path) -> str:
    """Make a git repository of a folder; its commit."""
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "all")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def dray_repository(tmp_path: Path) -> Path:
    folder = tmp_path / "dray"
    folder.mkdir()
    for name in PUBLISHED:
        if (ROOT / name).is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.mark.slow
def test_hooks_check_and_correct_what_is_committed(
    dray_repository: Path, repository: Path, packages: dict[str, str], tmp_path: Path
) -> None:
    if shutil.which("pre-commit") is None:
        pytest.skip("no pre-commit on PATH")
    hooks = [
        {"id": "dray-lint", "files": "^(clean|unused)/", "args": ["--strict"]},
        {"id": "dray-lint-fix", "files": "^old/"},
    ]
    source = {"repo": str(dray_repository), "rev": committed(dray_repository), "hooks": hooks}
    config = {"default_language_version": {"python": sys.executable}, "repos": [source]}
    (repository / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config), "utf-8")
    old = repository / "old" / "class.yaml"
    old.parent.mkdir()
    old.write_text(
        "apiVersion: resource.k8s.io/v1beta1\nkind: DeviceClass\nmetadata: {name: any}\n", "utf-8"
    )
    (repository / "clean" / "notes.txt").write_text("not a manifest", "utf-8")
    committed(repository)
    ran = subprocess.run(
        ["pre-commit", "run", "--all-files", "--color=never"],
        cwd=repository,
        env={**packages, "PRE_COMMIT_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "unused/unused.yaml:7:5: warning: " in ran.stdout
    assert "3 objects: 0 errors, 1 warning" in ran.stdout
    assert "old/class.yaml:1: fixed: " in ran.stdout
    assert old.read_text("utf-8").startswith("apiVersion: resource.k8s.io/v1\n")
