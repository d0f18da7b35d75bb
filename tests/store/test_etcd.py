"""What only the etcd store promises: several servers, TLS, logins, lost connections."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from aetcd import rpc

from dray.apiserver.access import certificates
from dray.store import etcd as etcd_store
from dray.store import store
from dray.store.etcd_connection import Access, Login, Tls
from tests import etcd
from tests.store.steps import DEADLINE_SECONDS, keys, put, take, values

ROOT = "/servers"


class Cable:
    """A connection to a server that can be cut and mended."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._streams: set[asyncio.StreamWriter] = set()
        self.is_cut = False
        self.port = etcd.free_port()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._streams |= {writer, far_writer}
        await asyncio.gather(_carry(reader, far_writer), _carry(far_reader, writer))

    def cut(self) -> None:
        self.is_cut = True
        for stream in self._streams:
            stream.transport.abort()
        self._streams.clear()

    def mend(self) -> None:
        self.is_cut = False


async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(2**16):
            target.write(data)
    target.close()


@contextlib.asynccontextmanager
async def cable_to(server: etcd.Server) -> AsyncIterator[Cable]:
    cable = Cable(server.port)
    listening = await asyncio.start_server(cable.accept, "127.0.0.1", cable.port)
    async with listening:
        yield cable
        cable.cut()


def access(server: etcd.Server) -> Access:
    return Access((server.endpoint,))


async def test_two_servers_see_one_order(etcd_server: etcd.Server) -> None:
    async def write(target: store.Store, name: str) -> list[int]:
        return [await put(target, f"/pods/a/{name}", b"%d" % i) for i in range(25)]

    async with (
        etcd_store.open(access(etcd_server), root=f"{ROOT}/order") as one,
        etcd_store.open(access(etcd_server), root=f"{ROOT}/order") as two,
    ):
        start = await one.revision()
        watchers = [await target.watch("/", start) for target in (one, two)]
        written = await asyncio.gather(
            write(one, "a"), write(two, "b"), write(one, "c"), write(two, "d")
        )
        first, second = [await take(watcher, 100) for watcher in watchers]
        assert first == second
        assert [event.revision for event in first] == sorted(itertools.chain(*written))
        assert await one.list("/") == await two.list("/")


async def test_two_servers_cannot_give_one_device_twice(etcd_server: etcd.Server) -> None:
    async with (
        etcd_store.open(access(etcd_server), root=f"{ROOT}/device") as one,
        etcd_store.open(access(etcd_server), root=f"{ROOT}/device") as two,
    ):
        servers = [one, two] * 10
        outcomes = await asyncio.gather(
            *(put(t, f"/claims/{i}", holds=("gpu-0",)) for i, t in enumerate(servers)),
            return_exceptions=True,
        )
        assert sum(isinstance(outcome, int) for outcome in outcomes) == 1
        (owner,) = await keys(one)
        with pytest.raises(store.TokenAlreadyHeld) as refusal:
            await put(two, "/claims/other", holds=("gpu-0",))
        assert refusal.value.owner == owner


async def test_newer_format_is_refused(etcd_server: etcd.Server) -> None:
    async with etcd_store.open(access(etcd_server), root=f"{ROOT}/format"):
        pass
    async with grpc.aio.insecure_channel(etcd_server.endpoint) as channel:
        mark = rpc.PutRequest(key=f"{ROOT}/format/entries/".encode(), value=b'{"format": 3}')
        await rpc.KVStub(channel).Put(mark)
    with pytest.raises(store.StoreUnusable, match="format 3"):
        async with etcd_store.open(access(etcd_server), root=f"{ROOT}/format"):
            pass


async def test_revision_before_the_first_has_expired(etcd_server: etcd.Server) -> None:
    async with etcd_store.open(access(etcd_server), root=f"{ROOT}/first") as target:
        await put(target, "/pods/a/x")
        with pytest.raises(store.RevisionExpired):
            await target.list("/pods/", revision=0)


async def test_member_that_does_not_answer_is_passed_over(etcd_server: etcd.Server) -> None:
    endpoints = (f"127.0.0.1:{etcd.free_port()}", etcd_server.endpoint)
    async with etcd_store.open(Access(endpoints), root=f"{ROOT}/members") as target:
        with await target.watch("/", await target.revision()) as watcher:
            revision = await put(target, "/pods/a/x")
            assert [event.revision for event in await take(watcher, 1)] == [revision]


async def test_unreachable_cluster_cannot_be_opened() -> None:
    with pytest.raises(store.Unavailable):
        async with etcd_store.open(Access((f"127.0.0.1:{etcd.free_port()}",))):
            pass


async def test_watch_goes_on_after_the_connection_was_cut(etcd_server: etcd.Server) -> None:
    async with (
        cable_to(etcd_server) as cable,
        etcd_store.open(Access((f"127.0.0.1:{cable.port}",)), root=f"{ROOT}/cut") as cut_off,
        etcd_store.open(access(etcd_server), root=f"{ROOT}/cut") as other,
    ):
        watcher = await cut_off.watch("/pods/", await cut_off.revision())
        revisions = [await put(cut_off, "/pods/a/x", b"before")]
        cable.cut()
        with pytest.raises(store.Unavailable):
            await put(cut_off, "/pods/a/x", b"during")
        health = cut_off.health()
        assert not health.writable
        assert health.reason
        revisions += [await put(other, "/pods/a/x", b"%d" % i) for i in range(5)]
        cable.mend()
        events = await take(watcher, 6)
        assert [event.revision for event in events] == revisions
        assert await values(cut_off) == {"/pods/a/x": b"4"}
        assert cut_off.health().writable


async def test_watch_expires_if_history_went_while_it_was_cut_off(
    etcd_server: etcd.Server,
) -> None:
    async with (
        cable_to(etcd_server) as cable,
        etcd_store.open(Access((f"127.0.0.1:{cable.port}",)), root=f"{ROOT}/lost") as cut_off,
        etcd_store.open(access(etcd_server), root=f"{ROOT}/lost") as other,
    ):
        watcher = await cut_off.watch("/pods/", await cut_off.revision())
        await put(other, "/pods/a/x", b"seen")
        await take(watcher, 1)
        cable.cut()
        for i in range(5):
            last = await put(other, "/pods/a/x", b"%d" % i)
        await other.compact(last)
        cable.mend()
        with pytest.raises(store.RevisionExpired):
            await take(watcher, 1)
        with await cut_off.watch("/pods/", await cut_off.revision()) as watcher:
            revision = await put(other, "/pods/a/x", b"after")
            assert [event.revision for event in await take(watcher, 1)] == [revision]


async def test_full_database_refuses_writes_and_serves_reads(tmp_path: Path) -> None:
    with etcd.running(tmp_path, "--quota-backend-bytes", str(2**20)) as server:
        async with etcd_store.open(access(server)) as target:
            await put(target, "/pods/a/x", b"small")
            with pytest.raises(store.ReadOnly, match="space"):
                await _put_for_ever(target, "/pods/b/x", bytes(200_000))
            # etcd looks at the size of each write, until its alarm is raised.
            with pytest.raises(store.ReadOnly, match="space"):
                await _put_for_ever(target, "/pods/b/y", b"")
            assert "space" in target.health().reason
            assert await values(target, "/pods/a/") == {"/pods/a/x": b"small"}
            assert not target.health().writable


@pytest.fixture
def authority(tmp_path: Path) -> certificates.Authority:
    return certificates.Authority.load_or_create(tmp_path / "ca")


def tls_options(
    directory: Path, authority: certificates.Authority, name: str = "127.0.0.1"
) -> list[str]:
    pair = authority.server_pair([name])
    (directory / "server.crt").write_bytes(pair.certificate)
    (directory / "server.key").write_bytes(pair.key)
    return [
        *("--cert-file", str(directory / "server.crt")),
        *("--key-file", str(directory / "server.key")),
        *("--trusted-ca-file", str(directory / "ca" / "ca.crt"), "--client-cert-auth"),
    ]


async def test_servers_and_clients_know_each_other_by_certificate(
    tmp_path: Path, authority: certificates.Authority
) -> None:
    pair = authority.client_pair("root")
    known = Tls(authority.certificate, pair.certificate, pair.key)
    stranger = certificates.Authority.load_or_create(tmp_path / "stranger")
    foreign = stranger.client_pair("root")
    strangers = [
        Tls(stranger.certificate, pair.certificate, pair.key),
        Tls(authority.certificate, foreign.certificate, foreign.key),
        Tls(authority.certificate),
        None,
    ]
    with etcd.running(tmp_path, *tls_options(tmp_path, authority), scheme="https") as server:
        async with etcd_store.open(Access((server.endpoint,), known)) as target:
            with await target.watch("/", await target.revision()) as watcher:
                revision = await put(target, "/pods/a/x")
                assert [event.revision for event in await take(watcher, 1)] == [revision]
        for tls in strangers:
            with pytest.raises(store.Unavailable):
                async with etcd_store.open(Access((server.endpoint,), tls)):
                    pass


async def test_server_with_the_certificate_of_another_name_is_refused(
    tmp_path: Path, authority: certificates.Authority
) -> None:
    options = tls_options(tmp_path, authority, "etcd.example.com")
    pair = authority.client_pair("root")
    tls = Tls(authority.certificate, pair.certificate, pair.key)
    with etcd.running(tmp_path, *options, scheme="https") as server:
        assert await is_refused(Access((server.endpoint,), tls))


async def is_refused(access: Access) -> bool:
    try:
        async with etcd_store.open(access):
            return False
    except store.Unavailable:
        return True


async def test_server_of_an_authority_that_nobody_named_is_refused(
    tmp_path: Path, authority: certificates.Authority
) -> None:
    pair = authority.client_pair("root")
    with etcd.running(tmp_path, *tls_options(tmp_path, authority), scheme="https") as server:
        tls = Tls(None, pair.certificate, pair.key)
        assert await is_refused(Access((server.endpoint,), tls))


async def test_data_of_the_first_format_is_opened(etcd_server: etcd.Server) -> None:
    root = f"{ROOT}/first"
    async with grpc.aio.insecure_channel(etcd_server.endpoint) as channel:
        for key, value in ((b"/", b'{"format": 1}'), (b"/pods/a/x", b"kept")):
            request = rpc.PutRequest(key=f"{root}/entries".encode() + key, value=value)
            await rpc.KVStub(channel).Put(request)
    async with etcd_store.open(access(etcd_server), root=root) as target:
        assert await values(target) == {"/pods/a/x": b"kept"}


async def test_login_is_renewed_when_it_has_run_out(tmp_path: Path) -> None:
    with etcd.running(tmp_path) as server:
        await _require_login(server, "root", "secret")
        login = Access((server.endpoint,), login=Login("root", "secret"))
        async with etcd_store.open(login) as target:
            watcher = await target.watch("/pods/", await target.revision())
            first = await put(target, "/pods/a/x")
            await take(watcher, 1)
            # Logins live in the server's memory only.
            server.kill()
            server.start()
            second = await _put_when_back(target, "/pods/a/y")
            assert await keys(target) == ["/pods/a/x", "/pods/a/y"]
            assert [event.revision for event in await take(watcher, 1)] == [second]
            assert second > first
        for refused in (Login("root", "wrong"), None):
            with pytest.raises(store.Unavailable):
                async with etcd_store.open(Access((server.endpoint,), login=refused)):
                    pass
    assert "secret" not in repr(login)


async def _require_login(server: etcd.Server, user: str, password: str) -> None:
    async with grpc.aio.insecure_channel(server.endpoint) as channel:
        users = rpc.AuthStub(channel)
        await users.UserAdd(rpc.AuthUserAddRequest(name=user, password=password))
        await users.RoleAdd(rpc.AuthRoleAddRequest(name="root"))
        await users.UserGrantRole(rpc.AuthUserGrantRoleRequest(user=user, role="root"))
        await users.AuthEnable(rpc.AuthEnableRequest())


async def _put_for_ever(target: store.Store, key: str, value: bytes) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            await put(target, key, value)


async def _put_when_back(target: store.Store, key: str) -> int:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            try:
                return await put(target, key)
            except store.Unavailable:
                await asyncio.sleep(0.05)
