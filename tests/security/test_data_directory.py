"""The data directory and backups are for their owner, whatever the umask and other users do."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dray import private_directories
from dray.private_directories import DirectoryRefused
from dray.store import backup, store
from tests.unit.cli.conftest import run, start, stop

OTHER = 65534
"""A user who is neither root nor the one who runs the tests."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def prepared(path: Path) -> list[str]:
    """Prepare a directory; the warnings."""
    warnings: list[str] = []
    private_directories.prepare(path, warnings.append)
    return warnings


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_a_new_directory_is_private_with_every_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        assert prepared(tmp_path / "above" / "data") == []
    finally:
        os.umask(before)
    assert mode(tmp_path / "above") == 0o700
    assert mode(tmp_path / "above" / "data") == 0o700


@pytest.mark.parametrize("lax", [0o755, 0o750, 0o770, 0o705, 0o711, 0o777, 0o1777])
@pytest.mark.parametrize("content", ["", "store.db", "pods"])
def test_a_directory_of_an_earlier_version_is_closed_and_goes_on(
    tmp_path: Path, lax: int, content: str
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    if content:
        (data / content).touch()
    data.chmod(lax)
    (warning,) = [
        each for each in prepared(data) if str(data) in each and "replace the keys" in each
    ]
    assert f"{lax:04o}" in warning
    assert mode(data) == 0o700
    assert prepared(data) == []


def test_keys_that_others_could_read_are_closed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    for name in (
        "ca.key",
        "service-accounts.key",
        "kubeconfig",
        "scheduler.kubeconfig",
        "store.db-wal",
    ):
        (data / name).touch()
        (data / name).chmod(0o644)
    assert len(prepared(data)) == 5
    assert {mode(each) for each in data.iterdir()} == {0o600}


def test_a_directory_with_another_use_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    (home / "thesis.tex").touch()
    with pytest.raises(DirectoryRefused, match="other files than dray's") as refused:
        prepared(home)
    assert "chmod 700" in refused.value.advice
    assert mode(home) == 0o755


def test_a_path_that_everybody_can_change_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(DirectoryRefused, match="everybody") as refused:
        prepared(shared / "data")
    assert refused.value.advice.endswith(f"chmod o-w {shared}")
    assert not (shared / "data").exists()
    shared.chmod(0o1777)
    assert prepared(shared / "other") == []


def test_a_link_of_ones_own_is_followed_and_its_target_closed(tmp_path: Path) -> None:
    target = tmp_path / "disk"
    target.mkdir(mode=0o755)
    link = tmp_path / "data"
    link.symlink_to(target)
    assert len(prepared(link)) == 1
    assert mode(target) == 0o700


def test_a_directory_that_is_there_already_goes_on_with_a_warning(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / "data").mkdir(parents=True)
    shared.chmod(0o777)
    (shared / "data").chmod(0o700)
    link = tmp_path / "data"
    link.symlink_to(shared / "data")
    for path in (shared / "data", link):
        (warning,) = prepared(path)
        assert "can be written by everybody" in warning


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(DirectoryRefused, match="not a directory"):
        prepared(tmp_path / "data")


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that other users can go through; pytest's own are private."""
    with tempfile.TemporaryDirectory(prefix="dray-test-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def _foreign_directory(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    os.chown(data, OTHER, OTHER)
    return data


def _foreign_link(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir(mode=0o700)
    data = tmp_path / "data"
    data.symlink_to(tmp_path / "target")
    os.chown(data, OTHER, OTHER, follow_symlinks=False)
    return data


def _link_to_foreign(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir(mode=0o777)
    os.chown(tmp_path / "target", OTHER, OTHER)
    data = tmp_path / "data"
    data.symlink_to(tmp_path / "target")
    return data


@as_root
@pytest.mark.parametrize("make", [_foreign_directory, _foreign_link, _link_to_foreign])
def test_what_another_user_made_is_refused(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    with pytest.raises(DirectoryRefused, match="another user"):
        prepared(make(tmp_path))


@as_root
@pytest.mark.parametrize("command", [("up",), ("apiserver",)])
def test_components_refuse_a_foreign_directory_and_say_what_to_do(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    data = _foreign_directory(tmp_path)
    ran = run(*command, "--data", str(data))
    assert ran.exit_code == 1
    assert "belongs to another user (65534" in ran.stderr
    assert f"chown -R 0 {data}" in ran.stderr
    assert list(data.iterdir()) == []


@as_root
def test_an_ordinary_user_cannot_be_given_the_directory_of_another(reachable: Path) -> None:
    data = reachable / "data"
    data.mkdir()
    data.chmod(0o777)
    code = (
        "import os, sys, pathlib\n"
        "from dray import private_directories as p\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: p.prepare(pathlib.Path(sys.argv[1]), print)\n"
        "except p.DirectoryRefused as error: print('refused:', error)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(data)], capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith("refused:")
    assert mode(data) == 0o777


def test_a_server_closes_its_directory_and_says_so(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy.db"
    data.mkdir(mode=0o755)
    data.chmod(0o755)
    before = os.umask(0)
    try:
        process = start(data)
        try:
            saved = run("backup", str(copy), "--data", str(data))
        finally:
            assert stop(process) == 0
    finally:
        os.umask(before)
    assert mode(data) == 0o700
    others = {path.name: mode(path) for path in data.rglob("*") if mode(path) & 0o077}
    assert others == {}
    assert mode(copy) == 0o600
    assert saved.exit_code == 0
    assert "contains every Secret" in saved.stderr


def writing(content: bytes) -> Callable[[Path], None]:
    """Stands for the store, which writes a copy of itself to a path."""

    def write(path: Path) -> None:
        path.write_bytes(content)

    return write


def test_a_planted_journal_or_link_does_not_get_into_a_backup(tmp_path: Path) -> None:
    target, stolen = tmp_path / "copy.db", tmp_path / "stolen"
    stolen.touch()
    for planted in ("copy.db.unfinished", "copy.db.unfinished-journal", "copy.db-journal"):
        (tmp_path / planted).symlink_to(stolen)
    backup.write(writing(b"secret"), target)
    assert target.read_bytes() == b"secret"
    assert stolen.read_bytes() == b""
    assert mode(target) == 0o600


def test_a_link_in_the_place_of_the_target_is_replaced_not_followed(tmp_path: Path) -> None:
    target, victim = tmp_path / "copy.db", tmp_path / "victim"
    victim.write_bytes(b"mine")
    target.symlink_to(victim)
    backup.write(writing(b"secret"), target)
    assert victim.read_bytes() == b"mine"
    assert not target.is_symlink()


def test_a_folder_that_is_in_the_way_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    (tmp_path / ".copy.db.unfinished").symlink_to(elsewhere)
    with pytest.raises(store.StoreUnusable, match="in the way"):
        backup.write(lambda _path: None, tmp_path / "copy.db")
    assert (elsewhere / "kept").exists()


def test_what_an_interrupted_backup_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / ".copy.db.unfinished"
    left.mkdir(mode=0o755)
    (left / "copy.db").write_bytes(b"half")
    backup.write(writing(b"whole"), tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_bytes() == b"whole"
    assert not left.exists()
