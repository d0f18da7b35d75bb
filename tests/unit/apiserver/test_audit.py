"""The audit log: who asked for what and how it ended, and nothing that was sent."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.api import errors
from dray.api.http_messages import Request, User
from dray.apiserver import audit
from dray.apiserver.request import request_info
from dray.apiserver.server import Settings
from tests.wire.serving import Api, with_api

ALICE = User("alice", frozenset({"system:authenticated"}), uid="1")
SECRETS = "/api/v1/namespaces/default/secrets"


def recorded(path: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def record(path: Path, request: Request, user: User = ALICE, code: int = 200) -> dict[str, Any]:
    with audit.opened(path) as log:
        assert log is not None
        log.record(request, request_info.parse(request), user, code=code, seconds=0.0015)
    return recorded(path)[-1]


def test_a_line_says_who_asked_for_what_and_how_it_ended(tmp_path: Path) -> None:
    request = Request(
        "GET",
        "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims/one/status",
        (("pretty", "true"),),
        {"user-agent": "kubectl/1.37"},
        source="127.0.0.1",
    )
    line = record(tmp_path / "audit.log", request, code=403)
    assert line["user"] == {"username": "alice", "uid": "1", "groups": ["system:authenticated"]}
    assert line["verb"] == "get"
    assert line["objectRef"] == {
        "resource": "resourceclaims",
        "namespace": "team",
        "name": "one",
        "apiGroup": "resource.k8s.io",
        "apiVersion": "v1",
        "subresource": "status",
    }
    assert line["requestURI"].endswith("/status?pretty=true")
    assert line["responseStatus"]["code"] == 403
    assert line["sourceIPs"] == ["127.0.0.1"]
    assert line["annotations"] == {audit.LATENCY: "1.500ms"}


def test_whoever_acts_as_another_is_named_too(tmp_path: Path) -> None:
    acting = User("bob", impersonator=ALICE)
    line = record(tmp_path / "audit.log", Request("GET", "/version"), acting)
    assert line["user"]["username"] == "alice"
    assert line["impersonatedUser"] == {"username": "bob"}
    assert "objectRef" not in line


def test_the_file_is_for_its_owner_and_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    record(path, Request("GET", "/version"))
    record(path, Request("GET", "/livez"))
    assert [line["requestURI"] for line in recorded(path)] == ["/version", "/livez"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_a_file_there_is_no_log() -> None:
    with audit.opened(None) as log:
        assert log is None


def test_a_full_disk_stops_no_request(caplog: pytest.LogCaptureFixture) -> None:
    with audit.opened(Path("/dev/full")) as log:
        assert log is not None
        for _ in range(3):
            request = Request("GET", "/version")
            log.record(request, request_info.parse(request), ALICE, code=200, seconds=0.0)
    assert [each.message for each in caplog.records] == [
        "the audit log cannot be written: [Errno 28] No space left on device"
    ]


def test_a_server_logs_every_request_and_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    secret = {"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}}
    account = {"metadata": {"name": "a"}}

    async def converse(api: Api) -> None:
        assert (await api("POST", SECRETS, secret)).status == 201
        assert (await api("GET", SECRETS)).status == 200
        assert (await api("GET", SECRETS, user=ALICE)).status == 403
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        await api("POST", accounts, account)
        assert (await api("POST", f"{accounts}/a/token", {"spec": {}})).status == 201

    with_api(converse, tmp_path, Settings(audit_log=path))
    lines = recorded(path)
    assert [(line["verb"], line["responseStatus"]["code"]) for line in lines] == [
        ("create", 201),
        ("list", 200),
        ("list", 403),
        ("create", 201),
        ("create", 201),
    ]
    text = path.read_text("utf-8")
    assert "hunter2" not in text
    assert "aHVudGVyMg" not in text
    assert "eyJ" not in text


def test_a_request_without_a_known_user_is_logged(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"

    async def converse(api: Api) -> None:
        api.opened.app.note_refusal(Request("GET", SECRETS), User(""), errors.unauthorized())

    with_api(converse, tmp_path, Settings(audit_log=path))
    (line,) = recorded(path)
    assert (line["user"], line["responseStatus"]["code"]) == ({}, 401)
