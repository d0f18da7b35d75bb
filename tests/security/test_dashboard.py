"""Attacks on the dashboard: pages of others, guessed keys, used links, floods, and what leaks."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from dray.ui.pages import filters
from tests.ui.browser import Browser, link_in, raw
from tests.ui.processes import Up, claim
from tests.unit.cli.conftest import DRAY
from tests.waiting import block_until

STREAMS = 200


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    running = Up(tmp_path_factory.mktemp("up"))
    try:
        yield running
    finally:
        running.end()


@pytest.fixture(scope="module")
def admin(up: Up) -> Browser:
    url, key = link_in(up.output)
    browser = Browser(url)
    assert browser.log_in(key=key).status == 200
    return browser


def link_of(up: Up, *options: str) -> tuple[subprocess.Popen[str], str, str]:
    """Return a `dray ui` with a new link."""
    process = subprocess.Popen(
        [str(DRAY), "ui", "--kubeconfig", str(up.kubeconfig), *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, *link_in(process.stdout.readline())


def test_a_link_works_once(up: Up, admin: Browser) -> None:
    url, key = link_in(up.output)
    other = Browser(url)
    answer = other.log_in(key=key)
    assert answer.status == 401
    assert "set-cookie" not in answer.headers
    assert key.encode() not in answer.body
    assert admin.get("session").status == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1:{port}x"),
        *("127.0.0.1:{port}@evil.example", "evil.example#127.0.0.1:{port}", "[::1]:{port}"),
        *(
            "127.0.0.1.evil.example:{port}",
            "0:{port}",
            "2130706433:{port}",
            "",
            "localhost.:{port}",
        ),
    ],
)
def test_another_host_is_refused(admin: Browser, host: str) -> None:
    host = host.format(port=admin.port)
    for path in ("/ui/", "/ui/api/session", "/ui/api/stream"):
        request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {admin.cookie}\r\n\r\n"
        status = raw(admin.host, admin.port, request.encode()).split(b" ")[1]
        assert status in (b"421", b"400"), (path, host, status)


def test_own_names_are_accepted(admin: Browser) -> None:
    for host in (f"127.0.0.1:{admin.port}", f"localhost:{admin.port}", f"LOCALHOST:{admin.port}"):
        assert admin.get("session", Host=host).status == 200, host


def test_two_hosts_are_refused(admin: Browser) -> None:
    own = f"Host: {admin.host}:{admin.port}\r\n"
    request = f"GET /ui/api/session HTTP/1.1\r\n{own}{own}Cookie: {admin.cookie}\r\n\r\n"
    assert raw(admin.host, admin.port, request.encode()).split(b" ")[1] in (b"421", b"400")


@pytest.mark.parametrize(
    "origin",
    [
        *("http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1"),
        *("http://127.0.0.1:1", "http://127.0.0.1:{port}.evil.example", "http://localhost:{port}"),
        *("http://127.0.0.1:{port}/", ""),
    ],
)
def test_another_origin_is_refused(admin: Browser, origin: str) -> None:
    origin = origin.format(port=admin.port)
    assert admin.get("session", Origin=origin).status == 403
    answer = admin.post("actions", {"action": "cordon", "node": "gpu-0"}, Origin=origin)
    assert answer.status == 403
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none of it"])
def test_requests_of_other_pages_are_refused(admin: Browser, site: str) -> None:
    """Another port of this machine is the same site: browsers send it the cookie."""
    assert admin.get("session", **{"Sec-Fetch-Site": site}).status == 403
    assert admin.get("stream", **{"Sec-Fetch-Site": site}).status == 403
    assert admin.send("GET", "/ui/", headers={"Sec-Fetch-Site": site}).status == 200


def test_a_preflight_allows_nothing(admin: Browser) -> None:
    answer = admin.send(
        "OPTIONS",
        "/ui/api/actions",
        headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"},
    )
    assert answer.status == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("csrf", ["", "x", "é", None])
def test_a_change_needs_the_token_of_the_session(admin: Browser, csrf: str | None) -> None:
    headers = {"Content-Type": "application/json", "Origin": admin.origin}
    if csrf is not None:
        headers["X-Dray-Csrf"] = csrf.encode().decode("latin-1")
    body = json.dumps({"action": "cordon", "node": "gpu-0"}).encode()
    for path in ("/ui/api/actions", "/ui/api/logout"):
        assert admin.send("POST", path, body, headers).status == 403, path
    assert admin.get("session").status == 200


def test_the_token_of_another_session_is_refused(up: Up) -> None:
    browsers = []
    for _ in range(2):
        browser = up.secure(with_certificate=True)
        assert browser.log_in(certificate=True).status == 200
        browsers.append(browser)
    first, second = browsers
    first.session["csrf"], second.session["csrf"] = second.session["csrf"], first.session["csrf"]
    for browser in browsers:
        assert browser.post("actions", {"action": "cordon", "node": "gpu-0"}).status == 403


@pytest.mark.parametrize("content", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_forms_of_other_pages_are_no_json(admin: Browser, content: str) -> None:
    body = json.dumps({"key": "x"}).encode()
    headers = {"Content-Type": content} if content else {}
    assert admin.send("POST", "/ui/api/login", body, headers).status == 400


def test_without_a_session_nothing_is_said(admin: Browser) -> None:
    stranger = Browser(admin.origin)
    paths = ("session", "stream", "pod/default/x", "health", "capacity", "history/span", "nothing")
    for cookie in (
        "",
        "dray-ui=x",
        f"dray-ui-{admin.port}=x",
        f"dray-ui-{admin.port}=" + "x" * 4000,
    ):
        stranger.cookie = cookie
        for path in paths:
            answer = stranger.get(path)
            assert answer.status == 401, path
            assert b"dray up" not in answer.body
    assert stranger.post("actions", {"action": "cordon", "node": "gpu-0"}).status == 401


def test_a_cookie_is_for_this_server_alone(admin: Browser, up: Up) -> None:
    process, url, key = link_of(up)
    try:
        other = Browser(url)
        answer = other.log_in(key=key)
        cookie = answer.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=Strict", "Path=/ui"} <= set(cookie.split("; "))
        assert cookie.startswith(f"dray-ui-{other.port}=")
        other.cookie = admin.cookie
        assert other.get("session").status == 401
        # The same value under the name of the other port.
        other.cookie = f"dray-ui-{other.port}={admin.cookie.partition('=')[2]}"
        assert other.get("session").status == 401
    finally:
        process.terminate()
        process.communicate(timeout=30)
    secure = up.secure(with_certificate=True)
    assert "; Secure" in secure.log_in(certificate=True).headers["set-cookie"]


def test_logging_out_ends_streams_and_the_session(up: Up) -> None:
    browser = up.secure(with_certificate=True)
    browser.log_in(certificate=True)
    with browser.stream() as stream:
        stream.first()
        assert browser.post("logout", {}).status == 200
        for _ in stream.events():
            pass
    assert browser.get("session").status == 401


def test_twenty_wrong_keys_void_the_right_one(up: Up) -> None:
    process, url, key = link_of(up)
    try:
        began = time.monotonic()

        def guess(number: int) -> int:
            return Browser(url).post("login", {"key": f"{key[:-3]}{number:03}"}).status

        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(guess, range(20)))
        assert set(answers) <= {401, 429}
        while answers.count(401) < 20:
            answers.append(guess(len(answers)))
        assert time.monotonic() - began >= 1.0
        assert Browser(url).log_in(key=key).status == 401
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b'"x"', b"null", b'{"key": 1}', b'{"key": null}', b'{"token": []}'),
        *(b'{"certificate": 1}', b"\xff\xfe", b"[" * 10_000, b'{"key": "' + b"x" * 9000 + b'"}'),
        b'{"a": ' * 2000,
    ],
)
def test_bodies_that_are_wrong(admin: Browser, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    assert admin.send("POST", "/ui/api/login", body, headers).status == 400


def test_bodies_that_are_too_large(admin: Browser) -> None:
    headers = {"Content-Type": "application/json"}
    body = b'{"key": "' + b"x" * 100_000 + b'"}'
    assert admin.send("POST", "/ui/api/login", body, headers).status == 413
    # Without a length, and without an end.
    request = (
        f"POST /ui/api/login HTTP/1.1\r\nHost: {admin.host}:{admin.port}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    ).encode()
    chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    assert raw(admin.host, admin.port, request + chunk * 4).split(b" ")[1] == b"413"
    long = admin.get("filter?expression=" + "%78" * filters.LONGEST)
    assert (long.status, long.document["line"]) == (400, 1)
    longer = admin.get("filter?expression=" + "x" * (filters.LONGEST + 1))
    assert (longer.status, "longer than" in longer.message) == (400, True)
    assert admin.get("pod/default/" + "x" * 600).status == 400
    assert admin.get("pod/default/%00").status == 400
    assert admin.get("pod/default/%ff").status == 400
    assert admin.get("pod/default/" + "x" * 9000).status == 400


def test_paths_stay_below_their_kind(admin: Browser) -> None:
    for name in ("..", "%2e%2e", "..%2f..%2fnodes", "a%2fb", "%2e%2e%2fsecrets%2fx", "."):
        answer = admin.get(f"pod/default/{name}")
        assert answer.status in (400, 404), (name, answer)
        assert "facts" not in answer.document
    for name in ("..%2fnodes", "%2e%2e"):
        assert admin.get(f"pod/{name}/x").status in (400, 404)


@pytest.mark.parametrize(
    "path",
    [
        *("node/", "pod//", "pod/default/", "claim//x", "explain/pod//x", "history/", "/health"),
        *("history/at?time=0001-01-01T00:00:00%2B23:59", "history/at?time=1969-12-31T23:59:59Z"),
        *("history/at?time=9999-12-31T23:59:59-23:59", "history/usage?until=0001-01-01T00:00:00Z"),
        "history/usage?since=1969-01-01T00:00:00Z",
    ],
)
def test_empty_names_and_impossible_times_are_refused(admin: Browser, path: str) -> None:
    answer = admin.get(path)
    assert (answer.status, bool(answer.message)) == (400, True)


@pytest.mark.parametrize(
    "expression",
    [
        "1", "device", "", "x" * 5000, "(" * 2000, "device.driver == 'x' || true" * 100,
        "[1,2,3].all(x, [1,2,3].all(y, [1,2,3].all(z, true)))", "\x00", "'\ud83d'",
        "device.driver.matches('(a+)+$')", "size(device.attributes) > 0",
        "device.driver == 'x' || " * 300 + '"',
    ],
)  # fmt: skip
def test_expressions_end(admin: Browser, expression: str) -> None:
    encoded = quote(expression.encode("utf-8", "surrogatepass"), safe="")
    began = time.monotonic()
    answer = admin.get(f"filter?expression={encoded}")
    assert answer.status in (200, 400)
    assert time.monotonic() - began < 20


def test_every_answer_has_the_headers(admin: Browser) -> None:
    found = [
        admin.send("GET", path)
        for path in ("/", "/ui", "/ui/", "/ui/none", "/ui/api/session", "/ui/api/none", "/other")
    ]
    found.append(admin.post("login", {}))
    found.append(admin.get("session", Host="evil.example"))
    for answer in found:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'self'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["server"] == "dray"
    for answer in found[4:6]:
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-type"].startswith("application/json")


@pytest.mark.parametrize(
    "line", ["GET /ui/<b>\x00 HTTP/1.1", f"GET /ui/<b>{'x' * 70_000} HTTP/1.1"]
)
def test_what_is_no_http_is_refused_without_versions(admin: Browser, line: str) -> None:
    answer = raw(admin.host, admin.port, f"{line}\r\nHost: x\r\n\r\n".encode()).lower()
    assert answer.split(b" ")[1] == b"400"
    assert b"\r\nserver: dray\r\n" in answer
    assert b"aiohttp" not in answer
    assert b"content-type: text/plain" in answer
    assert b"x-content-type-options: nosniff" in answer


def test_the_key_is_in_no_page(up: Up, admin: Browser) -> None:
    _, key = link_in(up.output)
    assert key.encode() not in admin.send("GET", "/ui/").body
    assert key not in str(admin.get("session").document)


def test_two_hundred_streams_are_served_and_more_of_one_session_are_not(up: Up) -> None:
    browsers = []
    for _ in range(STREAMS // 8):
        browser = up.secure(with_certificate=True)
        assert browser.log_in(certificate=True).status == 200
        browsers.append(browser)
    streams = [browser.stream() for browser in browsers for _ in range(8)]
    try:
        assert len(streams) == STREAMS
        assert browsers[0].get("stream").status == 429
        for stream in streams:
            stream.first()
        up.create(claim("seen-by-all"))
        wanted = "claim/default/seen-by-all"
        for stream in streams:
            stream.until(lambda state: wanted in state["waiting"], "the claim")
    finally:
        for stream in streams:
            stream.__exit__()
    up.delete("resourceclaim", "seen-by-all")

    def has_room() -> bool:
        with browsers[0].stream() as stream:
            return stream.response.status == 200

    block_until(has_room, "room for a stream")


def test_connections_without_a_session_are_few(admin: Browser) -> None:
    held = [socket.create_connection((admin.host, admin.port)) for _ in range(300)]
    try:
        # Who has a session is served nevertheless.
        assert admin.get("session").status == 200
        with admin.stream() as stream:
            stream.first()
    finally:
        for connection in held:
            connection.close()


def test_only_this_machine_can_reach_a_plain_dashboard(up: Up) -> None:
    for listen in ("0.0.0.0:0", ":0", "192.0.2.1:0", "[::]:0", "example.com:0"):
        done = up.cluster.dray("ui", "--listen", listen)
        assert done.exit_code == 2, listen
        assert "only an address of this machine itself" in done.output
