"""The stand-in for the programs of the suite's image."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tools.e2e import agnhost

from tests.waiting import block_until


def printed(*arguments: str) -> str:
    command = [sys.executable, agnhost.__file__, *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def test_its_command_line_is_printed() -> None:
    assert (
        printed("entrypoint-tester", "a", "b c")
        == f"[{agnhost.__file__} entrypoint-tester a b c]\n"
    )


def test_files_are_printed(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("hello", "utf-8")
    file.chmod(0o640)
    text = printed("mounttest", f"--file_content={file}", f"--file_mode={file}")
    assert text == f'content of file "{file}": hello\nmode of file "{file}": -rw-r-----\n'


def test_a_new_file_is_made_before_others_are_told_of(tmp_path: Path) -> None:
    file, owner = tmp_path / "f", tmp_path.stat()
    options = (f"--file_perm={file}", f"--file_owner={file}", f"--new_file_0666={file}")
    assert printed("mounttest", *options).splitlines() == [
        f'content of file "{file}": mount-tester new file',
        "",
        f'perms of file "{file}": -rw-rw-rw-',
        f'owner UID of "{file}": {owner.st_uid}',
        f'owner GID of "{file}": {owner.st_gid}',
    ]


def test_a_file_is_told_of_until_it_has_its_content(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text(agnhost.NEW_FILE, "utf-8")
    text = printed("mounttest", "--retry_time=60", f"--file_content_in_loop={file}")
    assert text == f'content of file "{file}": {agnhost.NEW_FILE}\n'


def test_the_names_of_hosts_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # A computer need not have /etc/hosts; a pod has.
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n", "utf-8")
    monkeypatch.setattr(agnhost, "HOSTS", hosts)
    monkeypatch.setattr(sys, "argv", ["agnhost", "etc-hosts"])
    agnhost.main()
    assert capsys.readouterr().out == "127.0.0.1 localhost\n\n"


@pytest.mark.parametrize("arguments", [("netexec",), ("mounttest", "--fs_type=/")])
def test_what_it_cannot_do_is_said(arguments: tuple[str, ...]) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        printed(*arguments)
    assert "the stand-in" in caught.value.stderr


def test_pausing_ends_by_a_signal() -> None:
    command = [sys.executable, agnhost.__file__]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"Paused\n"
        process.terminate()
        assert process.wait() == 0


def _status(url: str) -> int:
    """Return the status of an answer; 0 without one."""
    try:
        with urllib.request.urlopen(url) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def test_files_are_served_while_they_are_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, agnhost.__file__, "test-webserver", f"--port={port}"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        (tmp_path / "f").touch()
        url = f"http://127.0.0.1:{port}{tmp_path}/f"
        assert block_until(lambda: _status(url), "an answer") == 200
        (tmp_path / "f").unlink()
        assert _status(url) == 404
        process.kill()
