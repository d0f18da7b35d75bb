"""The web configuration file: what is honoured, and what is refused with its line."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import ssl
from pathlib import Path

import bcrypt
import pytest

from dray.apiserver.access.certificates import Authority
from dray.exporter import web_access, web_config
from dray.exporter.web_access import WebAccess
from dray.exporter.web_config import WebConfigError

HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
TOKEN_HASH = hashlib.sha256(b"token").hexdigest()
TLS = "tls_server_config:\n  cert_file: tls.crt\n  key_file: tls.key\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.load_or_create(tmp_path_factory.mktemp("authority"))


def write(directory: Path, text: str) -> Path:
    path = directory / "web.yaml"
    path.write_text(text, "utf-8")
    return path


def write_pair(directory: Path, authority: Authority) -> None:
    pair = authority.server_pair(("127.0.0.1",))
    (directory / "tls.crt").write_bytes(pair.certificate)
    (directory / "tls.key").write_bytes(pair.key)
    (directory / "ca.crt").write_bytes(authority.certificate)


def test_files_are_beside_the_configuration(tmp_path: Path, authority: Authority) -> None:
    write_pair(tmp_path, authority)
    text = f"{TLS}  client_ca_file: ca.crt\n  client_auth_type: RequireAndVerifyClientCert\n"
    text += "  min_version: TLS13\nhttp_server_config: {http2: false}\n"
    config = web_config.load(write(tmp_path, text))
    assert config.tls is not None
    context = config.tls.context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3


def test_an_empty_file_serves_everybody(tmp_path: Path) -> None:
    assert web_config.load(write(tmp_path, "")) == web_config.WebConfig()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("basic_auth_user:\n  a: b\n", "line 1: there is no field basic_auth_user"),
        ("basic_auth_users:\n  a: secret\n", "line 2: basic_auth_users.a is not a bcrypt hash"),
        ("basic_auth_users: [a]\n", "line 1: basic_auth_users is not a mapping"),
        (f"basic_auth_users:\n  a: {HASH}\n  a: {HASH}\n", "line 3: a is there twice"),
        ("bearer_token_hashes:\n  a: token\n", "line 2: bearer_token_hashes.a is not the SHA-256"),
        ("tls_server_config:\n  cert_file: a\n", "line 2: tls_server_config has no key_file"),
        (f"{TLS}  cipher_suites: [a]\n", "line 4: tls_server_config.cipher_suites is not supp"),
        (f"{TLS}  cert_fil: a\n", "line 4: there is no field tls_server_config.cert_fil"),
        (f"{TLS}  min_version: TLS10\n", "line 4: TLS10 is not supported; use TLS12, TLS13"),
        (f"{TLS}  client_auth_type: RequireAnyClientCert\n", "line 4: RequireAnyClientCert is not"),
        (f"{TLS}  client_ca_file: ca.crt\n", "line 4: client_ca_file needs a client_auth_type"),
        (f"{TLS}  client_auth_type: VerifyClientCertIfGiven\n", "needs client_ca_file"),
        ("http_server_config:\n  http2: true\n", "line 2: http_server_config.http2 is not supp"),
        ("http_server_config:\n  headers: {a: b}\n", "line 2: http_server_config.headers is not"),
        ("rate_limit: {}\n", "line 1: there is no field rate_limit"),
        ("a: [\n", "line 2: "),
        ("- a\n", "line 1: the file is not a mapping"),
        ("a: b\n---\nc: d\n", "line 2: "),
    ],
)
def test_what_is_not_honoured_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(WebConfigError) as caught:
        web_config.load(path)
    assert str(caught.value).startswith(f"{path}, line ")
    assert problem in str(caught.value)


def test_files_that_do_not_work_are_named(tmp_path: Path) -> None:
    with pytest.raises(WebConfigError, match="cannot be read: No such file"):
        web_config.load(tmp_path / "missing.yaml")
    with pytest.raises(WebConfigError, match=r"tls\.crt.*No such file"):
        WebAccess(write(tmp_path, TLS))


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def allowed(access: WebAccess, *headers: str) -> list[bool]:
    async def ask() -> list[bool]:
        return [await access.allows(header) for header in headers]

    return asyncio.run(ask())


def test_users_and_tokens_are_told_apart(tmp_path: Path) -> None:
    text = f"basic_auth_users:\n  anna: {HASH}\nbearer_token_hashes:\n  prometheus: {TOKEN_HASH}\n"
    access = WebAccess(write(tmp_path, text))
    right = basic("anna", "secret"), basic("anna", "secret"), "Bearer token", "bearer token"
    assert allowed(access, *right) == [True] * len(right)
    wrong = (
        "", "Basic", "Basic secret", "Bearer", "Bearer secret", "Digest token", "token",
        basic("anna", "wrong"), basic("anna", ""), basic("anna", "secret\0"), basic("", "secret"),
        basic("berta", "secret"), basic("prometheus", "token"), f"Bearer {TOKEN_HASH}",
        "Bearer \udcff", "Basic \udcff", "Basic \u00e9",
    )  # fmt: skip
    assert allowed(access, *wrong) == [False] * len(wrong)


def test_nobody_knows_the_password_of_users_that_do_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even somebody who does is not let in."""
    monkeypatch.setattr(web_access, "_UNKNOWN_USER", HASH)
    access = WebAccess(write(tmp_path, f"basic_auth_users:\n  anna: {HASH}\n"))
    assert allowed(access, basic("berta", "secret"), basic("berta", "secret")) == [False, False]


def test_a_changed_file_is_followed_if_it_is_right(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    access = WebAccess(write(tmp_path, f"bearer_token_hashes: {{a: {TOKEN_HASH}}}\n"))
    assert allowed(access, "Bearer token", "Bearer new") == [True, False]
    new = hashlib.sha256(b"new").hexdigest()
    write(tmp_path, f"bearer_token_hashes: {{a: {new}, b: {new}}}\n")
    assert allowed(access, "Bearer token", "Bearer new") == [False, True]
    write(tmp_path, "bearer_token_hashes: {a: wrong, b: wrong}\n")
    with caplog.at_level(logging.ERROR):
        assert allowed(access, "Bearer token", "Bearer new") == [False, True]
    assert "the web configuration stays as it was" in caplog.text


def test_without_the_package_the_message_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "bcrypt", None)
    with pytest.raises(WebConfigError, match=r"pip install 'dray\[exporter\]'"):
        WebAccess(write(tmp_path, f"basic_auth_users:\n  anna: {HASH}\n"))
