"""How people reach the dashboard of `dray up`: links that are renewed, and names of the server."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import pytest

from dray.client import kubeconfig
from tests.ui.browser import SECONDS, Browser, link_in
from tests.ui.processes import Up
from tests.waiting import block_until

NAME = "gpus.example.com"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    running = Up(tmp_path_factory.mktemp("named"), "--tls-san", NAME.upper())
    try:
        yield running
    finally:
        running.end()


def test_a_link_that_is_used_is_followed_by_another(up: Up) -> None:
    file = up.data / "dashboard-link"
    url, first = link_in(up.output)
    assert link_in(file.read_text()) == (url, first)
    browser = Browser(url)
    assert browser.log_in(key=first).status == 200
    second = block_until(lambda: _other(file.read_text(), first), "another link")
    assert file.stat().st_mode & 0o777 == 0o600
    refused = Browser(url).log_in(key=first)
    assert (refused.status, "dashboard-link" in refused.document["advice"]) == (401, True)
    assert Browser(url).log_in(key=second).status == 200
    # Who is logged in stays so.
    assert browser.get("session").status == 200


def test_a_key_that_was_guessed_at_is_followed_by_another(up: Up) -> None:
    file = up.data / "dashboard-link"
    url, key = link_in(file.read_text())
    for _ in range(20):
        if _other(file.read_text(), key):
            break
        Browser(url).log_in(key="wrong")
    renewed = block_until(lambda: _other(file.read_text(), key), "another link")
    assert Browser(url).log_in(key=renewed).status == 200


def _other(text: str, key: str) -> str:
    found = link_in(text)[1]
    return found if found != key else ""


def test_a_name_of_the_server_is_in_its_certificate_and_leads_to_the_dashboard(up: Up) -> None:
    authority = kubeconfig.load(up.kubeconfig).certificate_authority.decode()
    context = ssl.create_default_context(cadata=authority)
    browser = up.secure()
    with (
        socket.create_connection((browser.host, browser.port), timeout=SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=NAME) as secured,
    ):
        assert secured.version()
    for name, status in ((NAME, 401), (f"{NAME}:443", 401), ("gpus.example.org", 421)):
        assert browser.get("session", Host=name).status == status, name
    own = {"Host": NAME, "Origin": f"https://{NAME}"}
    assert browser.post("login", {"token": "wrong"}, **own).status == 401
    other = {"Host": NAME, "Origin": "https://gpus.example.org"}
    assert browser.post("login", {"token": "wrong"}, **other).status == 403
