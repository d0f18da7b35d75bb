"""Requests that try to be authorized as one thing and served as another.

A user may read its own namespace and one secret there. Whatever the form of a request, it gets
neither the secret of another namespace nor the others of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dray.api.http_messages import User
from dray.apiserver.server import Settings
from dray.apiserver.verbs import reads
from dray.client import rest
from tests import waiting
from tests.wire.serving import Api, listening

RBAC = "rbac.authorization.k8s.io"
MARK = "VE9QLVNFQ1JFVA=="
"""What the secrets contain that the user may not read."""
LIMITED, FOREIGN_ADMIN = "token-of-limited", "token-of-admin"
TOKENS = {
    LIMITED: User("limited"),
    FOREIGN_ADMIN: User("boss", frozenset({"system:masters"})),
}
OTHER = "/api/v1/namespaces/other/secrets/theirs"
OWN = "/api/v1/namespaces/own/secrets"

PATHS = (
    OTHER,
    "/api/v1/secrets",
    OWN,
    f"{OWN}/",
    f"/{OWN}",
    f"{OWN}//",
    f"{OWN}/hidden",
    f"{OWN}/mine/../hidden",
    f"{OWN}/mine%2f..%2fhidden",
    f"{OWN}/mine/%2e%2e/hidden",
    f"{OWN}/mine;/hidden",
    f"{OWN}/mine%00hidden",
    f"{OWN}/mine?/../hidden",
    f"{OWN}/mine%3f/../hidden",
    f"{OWN}/./hidden",
    f"{OWN}/%68idden",
    f"{OWN}/%2568idden",
    f"{OWN}/hidden%20",
    f"{OWN}/HIDDEN",
    f"{OWN}/hidden/",
    "/api/v1/namespaces/own/../other/secrets/theirs",
    "/api/v1/namespaces/own/%2e%2e/other/secrets/theirs",
    "/api/v1/namespaces/own%2f..%2fother/secrets/theirs",
    "/api/v1/namespaces/own%2f%2e%2e%2fother/secrets",
    "/api/v1/namespaces/own/secrets/..%2f..%2fother%2fsecrets%2ftheirs",
    "/api/v1/namespaces/own/secrets/..%2fother%2ftheirs",
    "/api/v1/namespaces/own;other/secrets/theirs",
    "/api/v1/namespaces//other/secrets/theirs",
    "//api/v1/namespaces/other/secrets/theirs",
    "//own/api/v1/namespaces/other/secrets/theirs",
    "/api/v1//namespaces/other/secrets/theirs",
    "/api//v1/namespaces/other/secrets/theirs",
    "/api/v1/./namespaces/other/secrets/theirs",
    "/%61pi/v1/namespaces/other/secrets/theirs",
    "/api/%76%31/namespaces/other/secrets/theirs",
    "/api/v1/%6eamespaces/other/secrets/theirs",
    "/api/v1/namespaces/other/%73ecrets/theirs",
    "/api/v1/watch/namespaces/other/secrets/theirs",
    "/api/v1/watch/secrets",
    "/api/v1/proxy/namespaces/other/secrets/theirs",
    "/apis/v1/namespaces/other/secrets/theirs",
    "/apis//v1/namespaces/other/secrets/theirs",
    "/healthz/../api/v1/namespaces/other/secrets/theirs",
    "/healthz/..%2fapi/v1/namespaces/other/secrets/theirs",
    "/version/../metrics",
    "/metrics",
    "/metrics/",
    "//metrics",
    "/%6detrics",
    "/healthz/../metrics",
    "https://127.0.0.1/api/v1/namespaces/other/secrets/theirs",
    "https://own/api/v1/secrets",
    "*",
    f"{OWN}?fieldSelector=metadata.name%3Dhidden",
    f"{OWN}?fieldSelector=metadata.name!%3Dmine",
    f"{OWN}?fieldSelector=metadata.name%3Dmine%2Cmetadata.name%3Dhidden",
    f"{OWN}?fieldSelector=metadata.name%3Dmine&fieldSelector=metadata.name%3Dhidden",
    f"{OWN}?fieldSelector=metadata.name%3Dhidden&fieldSelector=metadata.name%3Dmine",
    f"{OWN}?fieldSelector=metadata.name%3Dmine&watch=true&timeoutSeconds=1",
    f"{OWN}?namespace=other",
    f"{OWN}/mine?name=hidden&namespace=other",
    f"{OWN}/hidden?fieldSelector=metadata.name%3Dmine",
)
METHODS = ("GET", "HEAD", "LIST", "get", "CONNECT", "OPTIONS", "TRACE", "PROPFIND")
HEADERS = (
    ("X-Remote-User", "boss"),
    ("X-Remote-Group", "system:masters"),
    ("X-Forwarded-User", "boss"),
    ("X-Forwarded-For", "127.0.0.1"),
    ("X-Forwarded-Client-Cert", "Subject=CN=boss,O=system:masters"),
    ("X-Ssl-Client-S-Dn", "CN=boss"),
    ("X-Original-Url", OTHER),
    ("X-Rewrite-Url", OTHER),
    ("X-Http-Method-Override", "GET"),
    ("Impersonate-User", "boss"),
    ("impersonate-user", "boss"),
    ("Impersonate_User", "boss"),
    ("Impersonate-Group", "system:masters"),
    ("Impersonate-Uid", "0"),
    ("Impersonate-Extra-Scopes", "all"),
    ("Impersonate-User", "system:serviceaccount:kube-system:default"),
    ("Authorization", f"Bearer {FOREIGN_ADMIN}"),
    ("Proxy-Authorization", f"Bearer {FOREIGN_ADMIN}"),
    ("Cookie", f"token={FOREIGN_ADMIN}"),
    ("Host", "kubernetes.default.svc"),
    ("Host", f"127.0.0.1{OTHER}"),
    ("Upgrade", "websocket"),
    ("Sec-Websocket-Protocol", f"base64url.bearer.authorization.k8s.io.{FOREIGN_ADMIN}"),
)


class Wire:
    """Sends requests byte by byte as they are written."""

    def __init__(self, host: str, port: int, context: Any) -> None:
        self._to = (host, port)
        self._context = context

    async def __call__(self, method: str, target: str, *headers: tuple[str, str]) -> str:
        """Return the whole response to a request of the limited user."""
        reader, writer = await asyncio.open_connection(*self._to, ssl=self._context)
        lines = [
            f"{method} {target} HTTP/1.1",
            f"Authorization: Bearer {LIMITED}",
            *(f"{name}: {value}" for name, value in headers),
            *(() if any(name == "Host" for name, _ in headers) else ("Host: localhost",)),
            "Connection: close",
            "",
            "",
        ]
        writer.write("\r\n".join(lines).encode())
        try:
            async with asyncio.timeout(20):
                return (await reader.read()).decode("utf-8", "replace")
        finally:
            writer.close()


async def prepare(api: Api) -> None:
    read = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"]}
    rules = [
        {**read, "verbs": ["get", "list", "watch", "deletecollection"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
    ]
    role = {"metadata": {"name": "limited"}, "rules": rules}
    binding = {
        "metadata": {"name": "limited"},
        "subjects": [{"kind": "User", "name": "limited", "apiGroup": RBAC}],
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "limited"},
    }
    objects: list[tuple[str, Any]] = [
        ("/api/v1/namespaces", {"metadata": {"name": "own"}}),
        ("/api/v1/namespaces", {"metadata": {"name": "other"}}),
        (OWN, {"metadata": {"name": "mine"}, "data": {"a": "b2s="}}),
        (OWN, {"metadata": {"name": "hidden"}, "data": {"a": MARK}}),
        ("/api/v1/namespaces/other/secrets", {"metadata": {"name": "theirs"}, "data": {"a": MARK}}),
        (
            "/api/v1/namespaces/other/configmaps",
            {"metadata": {"name": "theirs"}, "data": {"a": MARK}},
        ),
        (f"/apis/{RBAC}/v1/namespaces/own/roles", role),
        (f"/apis/{RBAC}/v1/namespaces/own/rolebindings", binding),
    ]
    for url, body in objects:
        answer = await api("POST", url, body)
        assert answer.status == 201, answer.body


@contextlib.asynccontextmanager
async def wire(directory: Path) -> AsyncIterator[Wire]:
    async with listening(directory, Settings(static_tokens=TOKENS)) as (connection, opened):
        await prepare(Api(opened))
        limited = User("limited", frozenset({"system:authenticated"}))
        policy = opened.authorizer.policy
        # Its own rules come after those of all users.
        await waiting.until(
            lambda: any("mine" in rule.resource_names for rule in policy.rules(limited, "own")),
            "the role of the limited user",
        )
        host, _, port = connection.server.removeprefix("https://").rpartition(":")
        context = rest.tls_context(connection, b"", b"")
        context.check_hostname = False
        yield Wire(host, int(port), context)


def leaks(response: str) -> bool:
    body = response.partition("\r\n\r\n")[2]
    return MARK in response or "apiserver_request_total" in body


def status(response: str) -> str:
    return " ".join(response.split("\r\n", 1)[0].split()[1:2])


def test_what_the_user_may_read_it_can_read(tmp_path: Path) -> None:
    """Without this, the tests below would prove nothing."""

    async def run() -> tuple[str, str, str]:
        async with wire(tmp_path) as send:
            selected = f"{OWN}?fieldSelector=metadata.name%3Dmine"
            admin = ("Authorization", f"Bearer {FOREIGN_ADMIN}")
            assert leaks(MARK)
            return (
                status(await send("GET", f"{OWN}/mine")),
                status(await send("GET", selected)),
                status(await send("GET", OTHER, admin)),
            )

    assert asyncio.run(run()) == ("200", "200", "403")


@pytest.mark.parametrize("method", METHODS)
def test_no_path_and_method_shows_another_object(tmp_path: Path, method: str) -> None:
    async def run() -> dict[str, str]:
        async with wire(tmp_path) as send:
            answers = {target: await send(method, target) for target in (*PATHS, f"{OWN}/mine")}
            return {
                target: answer
                for target, answer in answers.items()
                if leaks(answer) or status(answer).startswith("5")
            }

    assert asyncio.run(run()) == {}


def test_no_header_makes_somebody_else_of_the_user(tmp_path: Path) -> None:
    async def run() -> dict[str, str]:
        async with wire(tmp_path) as send:
            found = {str(one): await send("GET", OTHER, one) for one in HEADERS}
            found |= {
                f"{one} {two}": await send("GET", OTHER, one, two)
                for one in HEADERS
                for two in HEADERS
                if one[0] != two[0] or one[0].lower().startswith("impersonate")
            }
            return {
                name: answer
                for name, answer in found.items()
                if leaks(answer) or status(answer) not in ("400", "401", "403", "404")
            }

    assert asyncio.run(run()) == {}


def test_no_continue_token_leads_to_another_namespace(tmp_path: Path) -> None:
    starts = (
        "/core/configmaps/other/", "/core/configmaps/", "/core/", "/", "../other/", "../", "a", "",
        "/core/configmaps/own/a", "\x00", "other/a\x00", "../other/theirs\x00",
    )  # fmt: skip

    async def run() -> dict[str, str]:
        async with wire(tmp_path) as send:
            tokens = [reads.make_continue(-1, start) for start in starts]
            url = "/api/v1/namespaces/own/configmaps?limit=5"
            found = {token: await send("GET", f"{url}&continue={token}") for token in tokens}
            assert "200" in map(status, found.values())
            return {
                start: answer
                for start, answer in found.items()
                if leaks(answer) or status(answer).startswith("5")
            }

    assert asyncio.run(run()) == {}
