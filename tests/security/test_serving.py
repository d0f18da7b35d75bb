"""Slow clients, many clients, and one user who asks for everything at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from dray import metrics_http, telemetry
from dray.api.http_messages import Response, User
from dray.apiserver import standalone
from dray.apiserver.request.call import Call
from dray.apiserver.server import RunningServer, Settings
from dray.apiserver.serving.limits import ServerLimits, UserLimits
from dray.client import rest
from dray.client.kubeconfig import ClusterConnection
from tests import rounds
from tests.robustness.server_process import ServerProcess
from tests.security import attack, attack_requests
from tests.waiting import block_until, until, until_answered
from tests.wire.serving import listening

SECONDS = 60.0
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
COMPLAINT = "no connection can be accepted"
FEW = UserLimits(running=1, waiting=2, watches=2, sessions=1, connections=4)


class Server:
    """A server in this process, and ways to reach it."""

    def __init__(self, directory: Path, admin: ClusterConnection, opened: RunningServer) -> None:
        self._directory = directory
        self.admin = admin
        self.opened = opened
        parts = urlsplit(admin.server)
        self.address = (str(parts.hostname), int(parts.port or 0))

    def user(self, name: str) -> ClusterConnection:
        return standalone.connection(self._directory, self.admin.server, name)

    def tls(self, connection: ClusterConnection | None = None) -> ssl.SSLContext:
        """Return a context for a user; without one, for nobody."""
        if connection is None:
            return ssl.create_default_context(cadata=self.admin.certificate_authority.decode())
        return rest.tls_context(connection, connection.client_certificate, connection.client_key)

    async def open(
        self, connection: ClusterConnection | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.address, ssl=self.tls(connection))

    @contextlib.asynccontextmanager
    async def session(
        self, connection: ClusterConnection | None = None
    ) -> AsyncIterator[aiohttp.ClientSession]:
        connector = aiohttp.TCPConnector(ssl=self.tls(connection), limit=0)
        async with aiohttp.ClientSession(self.admin.server, connector=connector) as session:
            yield session

    async def is_alive(self) -> bool:
        async with self.session() as session, session.get("/readyz") as answer:
            return answer.status == 200

    async def allow(self, user: str) -> None:
        async with self.session(self.admin) as session:
            path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
            async with session.post(path, json=attack_requests.binding(user)) as answer:
                assert answer.status == 201
        async with self.session(self.user(user)) as session:
            await until_answered(lambda: _is_ok(session, CONFIG_MAPS), "the right to list")


async def _is_ok(session: aiohttp.ClientSession, path: str) -> bool:
    async with session.get(path) as answer:
        return answer.status == 200


def serve(
    directory: Path,
    test: Callable[[Server], Awaitable[None]],
    audit_log: Path | None = None,
    **limits: Any,
) -> None:
    async def run() -> None:
        settings = Settings(limits=ServerLimits(**limits), audit_log=audit_log)
        async with asyncio.timeout(SECONDS), listening(directory, settings) as (where, opened):
            await test(Server(directory, where, opened))

    asyncio.run(run())


async def closed(reader: asyncio.StreamReader) -> bytes:
    """Read until the server closes the connection."""
    try:
        return await reader.read()
    except (ConnectionError, ssl.SSLError):
        return b""


@pytest.mark.parametrize(
    "sent", [b"", b"GET ", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n"]
)
def test_a_head_that_does_not_come_is_not_waited_for(tmp_path: Path, sent: bytes) -> None:
    async def dawdle(server: Server) -> None:
        reader, writer = await server.open()
        writer.write(sent)
        await closed(reader)
        writer.transport.abort()

    serve(tmp_path, dawdle, head_seconds=0.2)


def test_the_head_of_a_later_request_is_not_waited_for_either(tmp_path: Path) -> None:
    async def dawdle(server: Server) -> None:
        reader, writer = await server.open()
        assert await attack_requests.exchange(reader, writer, "GET", "/version") == 200
        writer.write(b"GET /version HTTP/1.1\r\n")
        await closed(reader)
        writer.transport.abort()

    serve(tmp_path, dawdle, head_seconds=0.2)


def test_a_handshake_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    async def dawdle(server: Server) -> None:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(b"\x16\x03\x01")
        await closed(reader)
        writer.transport.abort()

    serve(tmp_path, dawdle, head_seconds=0.2)


def test_a_connection_without_requests_is_closed(tmp_path: Path) -> None:
    async def idle(server: Server) -> None:
        reader, writer = await server.open()
        assert await attack_requests.exchange(reader, writer, "GET", "/version") == 200
        await closed(reader)
        writer.transport.abort()

    serve(tmp_path, idle, idle_seconds=0.2)


def test_half_open_connections_keep_nobody_out(tmp_path: Path) -> None:
    async def flood(server: Server) -> None:
        sockets = [socket.create_connection(server.address) for _ in range(200)]
        try:
            for _ in range(5):
                assert await server.is_alive()
            assert server.opened.server.connection_count <= 32
        finally:
            for each in sockets:
                each.close()

    serve(tmp_path, flood, new_connections=16)


def test_when_all_places_are_taken_the_user_with_the_most_connections_loses_one(
    tmp_path: Path,
) -> None:
    async def flood(server: Server) -> None:
        mallory, alice = server.user("mallory"), server.user("alice")
        reader, writer = await server.open(alice)
        await attack_requests.exchange(reader, writer, "GET", "/version")
        taken = []
        for _ in range(12):
            taken.append(await server.open(mallory))
            await attack_requests.exchange(*taken[-1], "GET", "/version")
        await closed(taken[0][0])
        # Hers is older than all of his, and still open.
        assert await attack_requests.exchange(reader, writer, "GET", "/version") == 200
        for each in (writer, *(other for _, other in taken)):
            each.transport.abort()

    serve(tmp_path, flood, connections=8)


def test_connections_of_one_user_are_limited(tmp_path: Path) -> None:
    async def flood(server: Server) -> None:
        mallory = server.user("mallory")
        taken = [await server.open(mallory) for _ in range(FEW.connections + 1)]
        statuses = [await attack_requests.exchange(*each, "GET", "/version") for each in taken]
        assert statuses == [200] * FEW.connections + [429]
        await closed(taken[-1][0])
        assert await server.is_alive()
        for _, writer in taken:
            writer.transport.abort()

    serve(tmp_path, flood, ordinary=FEW)


def test_requests_beyond_the_queue_of_a_user_are_refused(tmp_path: Path) -> None:
    async def flood(server: Server) -> None:
        await server.allow("mallory")
        # Its body never comes: it is worked on until the test ends, and others wait behind it.
        blocked = [await server.open(server.user("mallory")) for _ in range(3)]
        for _, writer in blocked:
            start = f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{{"
            writer.write(start.encode())
        flow = server.opened.server.dispatcher.flow_of
        user = User("mallory")
        await until(lambda: flow(user).running == 1 and len(flow(user).waiting) == FEW.waiting)
        reader, writer = await server.open(server.user("mallory"))
        writer.write(f"GET {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 429 ")
        assert b"\r\nretry-after: 1\r\n" in head.lower()
        status = json.loads(body)
        assert (status["kind"], status["reason"]) == ("Status", "TooManyRequests")
        # Others do not notice.
        assert await server.is_alive()
        await server.allow("alice")
        for _, other in (*blocked, (reader, writer)):
            other.transport.abort()
        await until(lambda: flow(user).running == 0 and not flow(user).waiting)

    serve(tmp_path, flood, ordinary=FEW)


def test_a_request_that_waits_too_long_in_its_queue_is_refused(tmp_path: Path) -> None:
    async def flood(server: Server) -> None:
        mallory = server.user("mallory")
        _, blocking = await server.open(mallory)
        head = f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{{"
        blocking.write(head.encode())
        user = User("mallory")
        await until(lambda: server.opened.server.dispatcher.flow_of(user).running == 1)
        reader, writer = await server.open(mallory)
        assert await attack_requests.exchange(reader, writer, "GET", "/version") == 429
        blocking.transport.abort()
        writer.transport.abort()

    serve(tmp_path, flood, ordinary=FEW, wait_seconds=0.2)


def test_watches_of_one_user_are_limited(tmp_path: Path) -> None:
    async def flood(server: Server) -> None:
        for name in ("mallory", "alice"):
            await server.allow(name)
        async with server.session(server.user("mallory")) as session:
            answers = [await session.get(f"{CONFIG_MAPS}?watch=true") for _ in range(3)]
            assert [answer.status for answer in answers] == [200, 200, 429]
            async with server.session(server.user("alice")) as other:
                answers.append(await other.get(f"{CONFIG_MAPS}?watch=true"))
                assert answers[-1].status == 200
                for answer in answers:
                    answer.close()

    serve(tmp_path, flood, ordinary=FEW)


def test_sessions_of_one_user_are_limited(tmp_path: Path) -> None:
    async def follow(_call: Call) -> Response:
        async def lines() -> AsyncIterator[bytes]:
            yield b"a line\n"
            await asyncio.Event().wait()

        return Response(200, {"content-type": "text/plain"}, stream=lines())

    async def flood(server: Server) -> None:
        for name in ("mallory", "alice"):
            await server.allow(name)
        subresources = dict(server.opened.app.subresources)
        object.__setattr__(
            server.opened.app, "subresources", {**subresources, ("GET", "pods", "log"): follow}
        )
        path = "/api/v1/namespaces/default/pods/p/log?follow=true"
        async with (
            server.session(server.user("mallory")) as session,
            server.session(server.user("alice")) as other,
        ):
            first = await session.get(path)
            refused = await session.get(path)
            assert [first.status, refused.status] == [200, 429]
            assert refused.headers["Retry-After"] == "1"
            assert "too many open sessions" in await refused.text()
            third = await other.get(path)
            assert third.status == 200
            first.close()
            flow = server.opened.server.dispatcher.flow_of(User("mallory"))
            await until(lambda: flow.sessions == 0)
            fourth = await session.get(path)
            assert fourth.status == 200
            third.close()
            fourth.close()

    serve(tmp_path, flood, ordinary=FEW)


def test_a_refused_request_is_audited_with_its_user(tmp_path: Path) -> None:
    audit_log = tmp_path / "audit.log"

    async def flood(server: Server) -> None:
        await server.allow("mallory")
        async with server.session(server.user("mallory")) as session:
            answers = [await session.get(f"{CONFIG_MAPS}?watch=true") for _ in range(3)]
            assert answers[-1].status == 429
            for answer in answers:
                answer.close()
        lines = [json.loads(line) for line in audit_log.read_text().splitlines()]
        refused = [line for line in lines if line["responseStatus"]["code"] == 429]
        assert [line["user"]["username"] for line in refused] == ["mallory"]

    serve(tmp_path, flood, audit_log, ordinary=FEW)


def test_a_client_that_does_not_read_a_long_list_is_disconnected(tmp_path: Path) -> None:
    async def dawdle(server: Server) -> None:
        async with server.session(server.admin) as session:
            for number in range(12):
                body = {"metadata": {"name": f"c{number}"}, "data": {"a": "x" * 10**6}}
                async with session.post(CONFIG_MAPS, json=body) as answer:
                    assert answer.status == 201
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect(server.address)
        raw.setblocking(False)
        await server.allow("mallory")
        context = server.tls(server.user("mallory"))
        _reader, writer = await asyncio.open_connection(
            sock=raw, ssl=context, server_hostname=server.address[0], limit=1024
        )
        writer.write(f"GET {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        flow = server.opened.server.dispatcher.flow_of(User("mallory"))
        await until(lambda: flow.unsent_bytes > 10**7, "the list to be sent")
        await until(lambda: flow.unsent_bytes == 0 and flow.running == 0, "the client to be cut")
        writer.transport.abort()

    serve(tmp_path, dawdle, slow_client_seconds=0.3)


def test_pipelined_requests_are_answered_in_order_and_one_at_a_time(tmp_path: Path) -> None:
    async def pipeline(server: Server) -> None:
        reader, writer = await server.open(server.user("mallory"))
        count = 3000
        writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n" * count)
        user = User("mallory")
        for _ in range(count):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
            assert server.opened.server.dispatcher.flow_of(user).running <= 1
        writer.transport.abort()

    serve(tmp_path, pipeline)


MALFORMED = [
    b"\x00" * 100 + b"\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /version HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"GET /version HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"POST /version HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /version HTTP/1.1\r\n" + b"a: b\r\n" * 5000 + b"\r\n",
    b"GET /version HTTP/1.1\r\nA: " + b"b" * 200_000 + b"\r\n\r\n",
    b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\n\r\n",
    b"GET /version HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    b"GET /version HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET http://[::1/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"FOO /version HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /version%ff%00 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /version?a=%ff&b=%zz HTTP/1.1\r\nHost: x\r\n\r\n",
]


@pytest.mark.parametrize("sent", MALFORMED)
def test_what_is_malformed_leaves_no_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    async def send(server: Server) -> None:
        reader, writer = await server.open()
        writer.write(sent)
        answer = await reader.read(9)
        assert answer in (b"", b"HTTP/1.1 ", b"HTTP/1.0 ")
        writer.transport.abort()
        assert await server.is_alive()

    serve(tmp_path, send, head_seconds=5.0)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_plain_http_and_old_tls_are_refused_silently(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def send(server: Server) -> None:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await closed(reader)
        writer.transport.abort()
        context = server.tls()
        with pytest.warns(DeprecationWarning, match="deprecated"):
            context.minimum_version = ssl.TLSVersion.TLSv1
        with pytest.warns(DeprecationWarning, match="deprecated"):
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(*server.address, ssl=context)
        assert await server.is_alive()

    serve(tmp_path, send)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_anonymous_requests_leave_the_memory_as_it_was(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path)
    server.start()
    try:
        asyncio.run(_ask_for_many_names(server))
    finally:
        server.stop()


async def _ask_for_many_names(server: ServerProcess) -> None:
    where = server.connection()
    context = ssl.create_default_context(cadata=where.certificate_authority.decode())
    parts = urlsplit(where.server)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=context)

    async def ask(numbers: range) -> None:
        for number in numbers:
            path = f"/api/v1/namespaces/n{number}/pods/{'x' * 3000}{number}"
            assert await attack_requests.exchange(reader, writer, "GET", path) == 403

    await ask(range(1000))
    before = server.resident_bytes()
    await ask(range(1000, 6000))
    assert server.resident_bytes() - before < 8 * 2**20
    writer.transport.abort()


def test_a_server_without_free_descriptors_waits_and_recovers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server = ServerProcess(tmp_path)
    server.start()
    try:
        where = server.connection()
        parts = urlsplit(where.server)
        address = (str(parts.hostname), int(parts.port or 0))
        open_now = server.open_files()
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (open_now + 10, open_now + 10))
        sockets = [socket.create_connection(address) for _ in range(40)]
        shown: list[str] = []

        def has_complained() -> bool:
            shown.append(capfd.readouterr().err)
            return COMPLAINT in "".join(shown)

        block_until(has_complained, "a line in the log")
        for each in sockets:
            each.close()
        asyncio.run(_is_answered(where))
    finally:
        assert server.stop() == 0
    whole = "".join(shown) + capfd.readouterr().err
    assert whole.count(COMPLAINT) == 1
    assert "Traceback" not in whole


async def _is_answered(where: ClusterConnection) -> None:
    context = rest.tls_context(where, where.client_certificate, where.client_key)
    async with aiohttp.ClientSession(where.server) as session:

        async def ask() -> bool:
            try:
                async with session.get("/readyz", ssl=context) as answer:
                    return answer.status == 200
            except aiohttp.ClientError:
                return False

        await until_answered(ask, "an answer")


@pytest.mark.random
@pytest.mark.parametrize(("who", "kind"), [("user", "costly"), ("user", "slow"), ("anonymous", "")])
def test_one_user_does_not_stop_another(
    who: str, kind: str, record_property: Callable[[str, object], None]
) -> None:
    seconds = rounds.count(8, long=600)
    outcome = attack.attack(who, seconds, 200, attack.names(kind), rounds.count(300, long=3000))
    record_property("p99 ms", round(outcome.quantile(0.99) * 1000, 1))
    print(outcome.report())
    assert not outcome.failures
    assert outcome.seconds
    assert outcome.peak < attack.RSS_LIMIT_BYTES


def test_idle_connections_do_not_keep_the_metrics_from_being_read() -> None:
    async def run() -> None:
        registry = telemetry.Registry()
        async with metrics_http.serving(registry, "127.0.0.1", 0, lambda: True) as port:
            idle = [
                await asyncio.open_connection("127.0.0.1", port)
                for _ in range(metrics_http.MAX_CONNECTIONS + 5)
            ]
            url = f"http://127.0.0.1:{port}/readyz"
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                assert answer.status == 200
            assert await closed(idle[0][0]) == b""
            for _, writer in idle:
                writer.transport.abort()

    asyncio.run(asyncio.wait_for(run(), SECONDS))
