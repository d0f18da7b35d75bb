"""Sockets and limits: what happens around requests rather than in them."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from dray.api.http_messages import Request
from dray.apiserver import server
from dray.apiserver.server import RunningServer, Settings
from dray.apiserver.serving.limits import ServerLimits
from dray.client import rest
from dray.client.kubeconfig import ClusterConnection
from dray.store import memory, watch
from tests.waiting import until
from tests.wire.serving import ADMIN, Api, listening

PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECONDS = 20.0

Test = Callable[[aiohttp.ClientSession, ClusterConnection, RunningServer], Awaitable[None]]


def tls(connection: ClusterConnection) -> ssl.SSLContext:
    return rest.tls_context(connection, connection.client_certificate, connection.client_key)


def serve(directory: Path, test: Test, **limits: Any) -> None:
    async def run() -> None:
        settings = Settings(limits=ServerLimits(**limits))
        async with asyncio.timeout(SECONDS), listening(directory, settings) as (where, opened):
            connector = aiohttp.TCPConnector(ssl=tls(where))
            async with aiohttp.ClientSession(where.server, connector=connector) as session:
                await test(session, where, opened)

    asyncio.run(run())


def open_watches(opened: RunningServer) -> float:
    return opened.app.metrics.watches.value("pods")


def test_whoever_leaves_takes_his_watch_along(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def leave(
        session: aiohttp.ClientSession, _where: ClusterConnection, opened: RunningServer
    ) -> None:
        answer = await session.get(f"{PODS}?watch=true")
        await until(lambda: open_watches(opened) == 1)
        answer.close()
        await until(lambda: open_watches(opened) == 0)

    serve(tmp_path, leave)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_watch_ends_in_order_when_the_server_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> bytes:
        async with listening(tmp_path) as (where, opened):
            session = aiohttp.ClientSession(
                where.server, connector=aiohttp.TCPConnector(ssl=tls(where))
            )
            answer = await session.get(f"{PODS}?watch=true")
            await until(lambda: open_watches(opened) == 1)
        async with session:
            # A stream that is cut, and not ended, would raise here.
            return await answer.read()

    assert asyncio.run(asyncio.wait_for(run(), SECONDS)) == b""
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_requests_in_flight_are_answered_before_the_server_ends(tmp_path: Path) -> None:
    async def run() -> list[int]:
        body = {"metadata": {"generateName": "x-"}}
        async with listening(tmp_path) as (where, _opened):
            session = aiohttp.ClientSession(
                where.server, connector=aiohttp.TCPConnector(ssl=tls(where))
            )
            await session.get("/readyz")
            asked = [asyncio.ensure_future(session.post(CONFIG_MAPS, json=body)) for _ in range(5)]
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        async with session:
            # Those whose connections were not established yet fail, and fail at once.
            await asyncio.wait(asked)
            return [each.result().status for each in asked if not each.exception()]

    assert 201 in asyncio.run(asyncio.wait_for(run(), SECONDS))


def test_a_body_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    async def send(
        session: aiohttp.ClientSession, _where: ClusterConnection, _opened: RunningServer
    ) -> None:
        body = {"metadata": {"name": "large"}, "data": {"a": "x" * 5000}}
        async with session.post(CONFIG_MAPS, json=body) as answer:
            assert answer.status == 413
            assert (await answer.json())["reason"] == "RequestEntityTooLarge"

    serve(tmp_path, send, body_bytes=4096)


@pytest.mark.parametrize("token", [b"\xff\xfe", "é".encode(), b"a.b.c", b"[" * 4000])
def test_a_token_that_is_none_is_unauthorized(tmp_path: Path, token: bytes) -> None:
    async def send(
        _session: aiohttp.ClientSession, where: ClusterConnection, _opened: RunningServer
    ) -> None:
        parts = urlsplit(where.server)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=tls(where))
        head = f"GET {PODS} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "
        writer.write(head.encode() + token + b"\r\n\r\n")
        response = await reader.read()
        writer.close()
        assert response.startswith(b"HTTP/1.1 401 ")
        assert json.loads(response.partition(b"\r\n\r\n")[2])["reason"] == "Unauthorized"

    serve(tmp_path, send)


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    async def dawdle(
        _session: aiohttp.ClientSession, where: ClusterConnection, _opened: RunningServer
    ) -> None:
        parts = urlsplit(where.server)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=tls(where))
        writer.write(
            f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{{".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        writer.close()

    serve(tmp_path, dawdle, slow_client_seconds=0.2)


def test_watches_beyond_the_limit_are_put_off(tmp_path: Path) -> None:
    async def watch(
        session: aiohttp.ClientSession, _where: ClusterConnection, opened: RunningServer
    ) -> None:
        first = await session.get(f"{PODS}?watch=true")
        await until(lambda: open_watches(opened) == 1)
        async with session.get(f"{PODS}?watch=true") as second:
            assert second.status == 429
            assert second.headers["Retry-After"] == "1"
        first.close()

    serve(tmp_path, watch, watches=1)


def test_what_is_no_http_is_answered_and_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def babble(
        _session: aiohttp.ClientSession, where: ClusterConnection, _opened: RunningServer
    ) -> None:
        parts = urlsplit(where.server)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=tls(where))
        writer.write(b"\x00\x01\x02 nonsense\r\n\r\n")
        assert b" 400 Bad Request" in await reader.read(2**16)
        writer.close()

    serve(tmp_path, babble)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_without_credentials_one_sees_health_and_version_only(tmp_path: Path) -> None:
    async def ask(
        _session: aiohttp.ClientSession, where: ClusterConnection, _opened: RunningServer
    ) -> None:
        context = ssl.create_default_context(cadata=where.certificate_authority.decode())
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(where.server, connector=connector) as nobody:
            for path, status in (("/readyz", 200), ("/version", 200), (PODS, 403), ("/apis", 403)):
                async with nobody.get(path) as answer:
                    assert answer.status == status, path
            headers = {"Authorization": "Bearer wrong"}
            async with nobody.get("/version", headers=headers) as answer:
                assert answer.status == 401

    serve(tmp_path, ask)


def test_impersonation_needs_a_permission(tmp_path: Path) -> None:
    async def ask(
        session: aiohttp.ClientSession, _where: ClusterConnection, _opened: RunningServer
    ) -> None:
        headers = {"Impersonate-User": "jane", "Impersonate-Group": "developers"}
        async with session.get(PODS, headers=headers) as answer:
            assert answer.status == 403
            assert 'User "jane" cannot list' in (await answer.json())["message"]
        headers = {"Impersonate-Group": "system:masters"}
        async with session.get(PODS, headers=headers) as answer:
            assert answer.status == 400

    serve(tmp_path, ask)


def test_curl_gets_readable_json(tmp_path: Path) -> None:
    async def ask(
        session: aiohttp.ClientSession, _where: ClusterConnection, _opened: RunningServer
    ) -> None:
        async with session.get("/version", headers={"User-Agent": "curl/8"}) as answer:
            text = await answer.text()
            assert text.startswith('{\n  "major"')
        async with session.get("/version") as answer:
            assert json.loads(await answer.text()) == json.loads(text)

    serve(tmp_path, ask)


def test_a_watch_that_falls_behind_ends_without_an_error(tmp_path: Path) -> None:
    """Its client goes on from the last event, as with Kubernetes."""

    async def run() -> None:
        limits = watch.WatchLimits(buffered_events=3)
        async with (
            asyncio.timeout(SECONDS),
            memory.open(limits) as store,
            server.open_server(store, signer=server.signer_in(tmp_path)) as opened,
        ):
            api = Api(opened)
            revision = (await api("GET", CONFIG_MAPS)).json["metadata"]["resourceVersion"]
            query = (("watch", "true"), ("resourceVersion", revision))
            answer = await opened.app.handle(Request("GET", CONFIG_MAPS, query), ADMIN)
            assert answer.stream is not None
            await api("POST", CONFIG_MAPS, {"metadata": {"name": "first"}})
            chunks = [await anext(answer.stream)]
            # None of these is read before all are written.
            for number in range(8):
                await api("POST", CONFIG_MAPS, {"metadata": {"name": f"c{number}"}})
            chunks += [chunk async for chunk in answer.stream]
            types = [json.loads(line)["type"] for line in b"".join(chunks).splitlines()]
            assert set(types) == {"ADDED"}
            assert len(types) < 8

    asyncio.run(run())
