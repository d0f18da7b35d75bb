"""The options of the store: what contradicts itself or exposes a secret is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.cli.command_errors import WrongUsage
from dray.cli.components import store_option
from dray.cli.components.store_option import StoreChoice
from dray.store.etcd_connection import Login, Tls
from tests.unit.cli.conftest import run


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        pytest.param(["--store", "etcds://u:geheim@h:1"], "--etcd-password-file", id="password"),
        pytest.param(["--store", "etcd://u:geheim@h:1?x"], "write memory", id="malformed"),
        pytest.param(["--store", "etcds://u:@h:1"], "--etcd-password-file", id="empty-password"),
        pytest.param(["--store", "etcds://u@h:1"], "belong together", id="user"),
        pytest.param(
            ["--store", "etcds://h:1", "--etcd-password-file", "x"], "belong together", id="no-user"
        ),
        pytest.param(
            ["--store", "etcds://h:1", "--etcd-certfile", "x"], "belong together", id="no-key"
        ),
        pytest.param(
            ["--store", "etcds://h:1", "--etcd-keyfile", "x"], "belong together", id="no-cert"
        ),
        pytest.param(["--store", "etcds://h:1", "--etcd-insecure"], "no TLS", id="both"),
        pytest.param(
            ["--store", "etcd://127.0.0.1:1", "--etcd-cafile", "x"], "needs TLS", id="plain-ca"
        ),
        pytest.param(["--store", "etcd://192.0.2.1:2379"], "in plain text", id="remote"),
        pytest.param(["--store", "etcd://etcd.example.com:2379"], "in plain text", id="name"),
        pytest.param(
            ["--store", "etcd://127.0.0.1:1,192.0.2.1:2"], "192.0.2.1:2 in plain", id="one-remote"
        ),
        pytest.param(
            ["--store", "etcd://127.0.0.1.example.com:1"], "in plain text", id="lookalike"
        ),
        pytest.param(["--store", "memory", "--etcd-cafile", "x"], "another one", id="memory"),
        pytest.param(["--etcd-insecure"], "another one", id="default"),
        pytest.param(["--store", "etcds://"], "write memory", id="no-host"),
        pytest.param(["--store", "etcds://h:1/p?ca=x"], "write memory", id="query"),
        pytest.param(["--ca-cert-file", "x"], "belong together", id="ca-without-key"),
        pytest.param(["--ca-key-file", "x"], "belong together", id="ca-without-certificate"),
    ],
)
@pytest.mark.parametrize("command", ["apiserver", "up"])
def test_wrong_options_are_refused(
    tmp_path: Path, command: str, options: list[str], complaint: str
) -> None:
    result = run(command, "--data", str(tmp_path / "data"), *options)
    assert result.exit_code == 2, result.output
    assert complaint in result.stderr
    assert "geheim" not in result.output
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("hosts", ["[::1:2", "::1", "a:b", "a b:1", "a:1,b]:2", ",", ""])
def test_hosts_that_are_none_are_refused(hosts: str) -> None:
    with pytest.raises(WrongUsage, match="write memory, sqlite:PATH or etcds://"):
        StoreChoice(f"etcds://{hosts}/p").check()


@pytest.mark.parametrize(
    "text",
    ["etcd://127.0.0.1:1", "etcd://localhost:1", "etcd://[::1]:1/p", "etcd://127.8.9.1:1,[::1]:2"],
)
def test_etcd_on_this_computer_needs_no_tls(text: str) -> None:
    StoreChoice(text).check()


def test_plain_text_beyond_this_computer_can_be_allowed() -> None:
    StoreChoice("etcd://192.0.2.1:2379", allows_plaintext=True).check()


def test_credentials_come_from_files(tmp_path: Path) -> None:
    paths = {}
    for name in ("ca", "certificate", "key", "password"):
        paths[name] = tmp_path / name
        paths[name].touch(mode=0o600)
        paths[name].write_text(f"{name} \n")
    choice = StoreChoice(
        "etcds://me%40home@a:1,b:2/x/y/",
        paths["ca"],
        paths["certificate"],
        paths["key"],
        paths["password"],
    )
    choice.check()
    access = store_option.access(choice)
    assert access.endpoints == ("a:1", "b:2")
    assert access.tls == Tls(b"ca \n", b"certificate \n", b"key \n")
    assert access.login == Login("me@home", "password ")
    assert "password" not in repr(access)


@pytest.mark.parametrize(
    ("mode", "content", "complaint"),
    [
        pytest.param(0o604, "x", "every user can read it", id="readable"),
        pytest.param(0o602, "x", "every user can read it", id="writable"),
        pytest.param(0o600, "\n", "is empty", id="empty"),
        pytest.param(0o600, None, "No such file", id="absent"),
    ],
)
def test_unusable_files_are_named(
    tmp_path: Path, mode: int, content: str | None, complaint: str
) -> None:
    path = tmp_path / "password"
    if content is not None:
        path.write_text(content)
        path.chmod(mode)
    choice = StoreChoice("etcds://me@a:1", password_file=path)
    choice.check()
    with pytest.raises(WrongUsage, match=complaint) as refusal:
        store_option.access(choice)
    assert f"--etcd-password-file {path}" in str(refusal.value)
