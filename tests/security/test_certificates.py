"""Client certificates that must not be accepted: expired, foreign, revoked, for another use."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dray.api import remote_command
from dray.apiserver import server
from dray.apiserver.access import certificates
from dray.apiserver.access.certificates import Authority, KeyPair, Lifetime
from dray.apiserver.access.renewal import RenewedPair
from dray.client import rest
from dray.client.kubeconfig import ClusterConnection
from dray.clock import utc_now
from dray.node.endpoint import Endpoint, Identity
from dray.node.node_status import AgentAddress
from dray.store import memory
from tests import waiting
from tests.wire.serving import Api, listening

T = TypeVar("T")
HOUR = datetime.timedelta(hours=1)
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
NOT_CONNECTED = 0


class Site(NamedTuple):
    """A server on a socket, and the authority that it trusts."""

    api: Api
    connection: ClusterConnection
    authority: Authority

    async def status(self, pair: KeyPair | None) -> int:
        """Return the status of a question who one is; 0 where the connection is refused."""
        certificate, key = (pair.certificate, pair.key) if pair else (b"", b"")
        trusted = rest.tls_context(self.connection, certificate, key)
        connector = aiohttp.TCPConnector(ssl=trusted)
        async with aiohttp.ClientSession(connector=connector) as session:
            try:
                async with session.post(self.connection.server + WHOAMI, json={}) as answer:
                    return answer.status
            except (aiohttp.ClientError, ssl.SSLError, ConnectionError):
                return NOT_CONNECTED

    async def revoke(self, **values: str) -> None:
        body = {"metadata": {"name": "dray-revoked"}, "data": {"one": json.dumps(values)}}
        answer = await self.api("POST", CONFIG_MAPS, body)
        assert answer.status == 201, answer.body


@contextlib.asynccontextmanager
async def site(directory: Path) -> AsyncIterator[Site]:
    async with listening(directory) as (connection, opened):
        yield Site(Api(opened), connection, Authority.load_or_create(directory))


def on_site(tmp_path: Path, test: Callable[[Site], Awaitable[T]]) -> T:
    async def run() -> T:
        async with site(tmp_path) as made:
            return await test(made)

    return asyncio.run(run())


def signed(
    authority: Authority | None,
    *,
    usage: Any = ExtendedKeyUsageOID.CLIENT_AUTH,
    is_authority: bool = False,
    signed_by: ec.EllipticCurvePrivateKey | None = None,
) -> KeyPair:
    """Return a certificate of an administrator; without an authority it signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters"),
            x509.NameAttribute(NameOID.COMMON_NAME, "mallory"),
        ]
    )
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(authority._certificate.subject if authority else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - HOUR)
        .not_valid_after(now + HOUR)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    )
    signing: Any = signed_by or (authority._key if authority else key)
    return certificates._pair(builder.sign(signing, hashes.SHA256()), key)


def below_a_leaf(made: Site) -> KeyPair:
    """Return a certificate that an ordinary user has signed with its own key, with its chain."""
    leaf = made.authority.client_pair("alice")
    user = Authority(leaf)
    pair = signed(user)
    return KeyPair(pair.certificate + leaf.certificate, pair.key)


REFUSED: dict[str, Callable[[Site, Path], KeyPair]] = {
    "expired": lambda made, _: made.authority.client_pair(
        "alice", ["system:masters"], Lifetime(-HOUR, 2 * HOUR)
    ),
    "from the future": lambda made, _: made.authority.client_pair(
        "alice", ["system:masters"], Lifetime(2 * HOUR, -HOUR)
    ),
    "for servers": lambda made, _: made.authority.server_pair(["127.0.0.1"]),
    "for signing code": lambda made, _: signed(
        made.authority, usage=ExtendedKeyUsageOID.CODE_SIGNING
    ),
    "self-signed": lambda made, _: signed(None),
    "self-signed authority": lambda made, _: signed(None, is_authority=True),
    "of another authority of the same name": lambda made, other: Authority.load_or_create(
        other
    ).client_pair("alice", ["system:masters"]),
    "naming the authority, signed by another key": lambda made, _: signed(
        made.authority, signed_by=ec.generate_private_key(ec.SECP256R1())
    ),
    "signed by an ordinary user": lambda made, _: below_a_leaf(made),
}


def test_a_right_certificate_is_accepted_and_none_is_anonymous(tmp_path: Path) -> None:
    async def check(made: Site) -> tuple[int, int]:
        right = made.authority.client_pair("alice")
        return await made.status(right), await made.status(None)

    # 403: whoever is anonymous may not even ask who it is.
    assert on_site(tmp_path, check) in ((201, 403), (201, 401))


@pytest.mark.parametrize("name", REFUSED)
def test_a_certificate_that_is_not_valid_gets_no_connection(tmp_path: Path, name: str) -> None:
    async def check(made: Site) -> int:
        return await made.status(REFUSED[name](made, tmp_path / "other"))

    assert on_site(tmp_path, check) == NOT_CONNECTED


def test_a_certificate_without_a_name_is_unauthorized(tmp_path: Path) -> None:
    assert on_site(tmp_path, lambda made: made.status(made.authority.client_pair("\u200b"))) == 201

    async def check(made: Site) -> int:
        return await made.status(nameless(made.authority))

    assert on_site(tmp_path, check) == 401


def nameless(authority: Authority) -> KeyPair:
    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters")])
    usage = ExtendedKeyUsageOID.CLIENT_AUTH
    return authority._issue(subject, usage, None, certificates.USER_LIFETIME)


def serial_of(pair: KeyPair) -> str:
    return f"{x509.load_pem_x509_certificate(pair.certificate).serial_number:x}"


def test_a_revoked_certificate_is_unauthorized_also_on_open_connections(tmp_path: Path) -> None:
    async def check(made: Site) -> None:
        lost, kept = (made.authority.client_pair("alice") for _ in range(2))
        trusted = rest.tls_context(made.connection, lost.certificate, lost.key)
        connector = aiohttp.TCPConnector(ssl=trusted, limit=1)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def ask() -> int:
                async with session.post(made.connection.server + WHOAMI, json={}) as answer:
                    return answer.status

            assert await ask() == 201
            await made.revoke(serial=serial_of(lost))

            async def is_refused() -> bool:
                return await ask() == 401

            await waiting.until_answered(is_refused, "the revocation")
        assert await made.status(lost) == 401
        assert await made.status(kept) == 201

    on_site(tmp_path, check)


def test_all_certificates_of_a_user_from_before_a_time_can_be_revoked(tmp_path: Path) -> None:
    async def check(made: Site) -> None:
        old = made.authority.client_pair("alice", (), Lifetime(datetime.timedelta(days=1), HOUR))
        new, other = made.authority.client_pair("alice"), made.authority.client_pair("bob")
        before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=1)
        await made.revoke(user="alice", before=before.strftime("%Y-%m-%dT%H:%M:%SZ"))

        async def is_refused() -> bool:
            return await made.status(old) == 401

        await waiting.until_answered(is_refused, "the revocation")
        assert await made.status(new) == 201
        assert await made.status(other) == 201
        # Whoever takes the revocation back has the user back.
        await made.api("DELETE", f"{CONFIG_MAPS}/dray-revoked")

        async def is_accepted() -> bool:
            return await made.status(old) == 201

        await waiting.until_answered(is_accepted, "the end of the revocation")

    on_site(tmp_path, check)


class Clock:
    """A clock that is set forward by hand."""

    def __init__(self) -> None:
        self.ahead = datetime.timedelta()

    def __call__(self) -> datetime.datetime:
        return utc_now() + self.ahead


def short_lived(authority: Authority, clock: Clock) -> RenewedPair:
    lifetime = Lifetime(datetime.timedelta(minutes=10))
    return RenewedPair(lambda: authority.server_pair(["127.0.0.1"], lifetime), clock)


class Connection:
    """One TLS connection, which shows the certificate of its server."""

    def __init__(self, url: str, trusted: bytes, client: KeyPair) -> None:
        self._url = urlsplit(url)
        self._context = ssl.create_default_context(cadata=trusted.decode())
        self._context.check_hostname = False
        self._context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        rest.load_pair(self._context, client.certificate, client.key)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self) -> tuple[int, bytes]:
        """Return the status of a request, and the server's certificate."""
        if self._streams is None:
            host, port = self._url.hostname, self._url.port
            self._streams = await asyncio.open_connection(host, port, ssl=self._context)
        reader, writer = self._streams
        writer.write(f"GET {self._url.path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        await reader.readexactly(length)
        return int(head.split()[1]), writer.get_extra_info("ssl_object").getpeercert(True)

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._streams is not None:
            self._streams[1].close()


def der(pem: bytes) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem.decode())


def test_the_certificate_of_a_running_api_server_is_replaced(tmp_path: Path) -> None:
    async def run() -> None:
        authority, clock = Authority.load_or_create(tmp_path), Clock()
        pair, admin = short_lived(authority, clock), authority.client_pair("a", ["system:masters"])
        async with (
            memory.open() as store,
            server.open_server(store, signer=server.signer_in(tmp_path)) as opened,
            opened.server.listening("127.0.0.1", 0, pair, authority.certificate) as url,
        ):
            before = pair.certificate
            trusted = authority.certificate
            async with (
                Connection(f"{url}/readyz", trusted, admin) as old,
                Connection(f"{url}/readyz", trusted, admin) as new,
            ):
                assert await old.ask() == (200, der(before))
                clock.ahead = datetime.timedelta(minutes=8)
                await pair.renew()
                assert pair.certificate != before
                # Open connections go on, new ones get the new certificate.
                assert await old.ask() == (200, der(before))
                assert await new.ask() == (200, der(pair.certificate))

    asyncio.run(run())


def test_the_certificate_of_a_running_agent_is_replaced_once_its_node_says_so(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        authority, clock = Authority.load_or_create(tmp_path), Clock()
        pair = short_lived(authority, clock)
        caller = authority.client_pair(remote_command.API_SERVER_NAME)
        endpoint = Endpoint(lambda _namespace, _pod: None, Identity(pair, authority.certificate))
        async with endpoint.listening("127.0.0.1") as port:
            url = f"https://127.0.0.1:{port}/containerLogs/a/b/c"
            before = pair.certificate
            address = AgentAddress("127.0.0.1", port, before)
            pinned: list[bytes] = []

            async def report() -> None:
                pinned.append(address.certificate)
                # Whoever trusts what the Node has by now still reaches the agent.
                async with Connection(url, address.certificate, caller) as other:
                    assert await other.ask() == (404, der(before))

            address.reports.append(report)
            clock.ahead = datetime.timedelta(minutes=8)
            await pair.renew(address.publish)
            assert pinned == [pair.certificate + before]
            async with Connection(url, pinned[0], caller) as connection:
                assert await connection.ask() == (404, der(pair.certificate))

    asyncio.run(run())


@pytest.mark.parametrize(
    "who", ["admin", "system:node:a", "kubernetes-admin", "dray-apiserver ", "DRAY-APISERVER"]
)
def test_an_agent_answers_api_servers_only(tmp_path: Path, who: str) -> None:
    async def run() -> None:
        authority = Authority.load_or_create(tmp_path)
        pair = short_lived(authority, Clock())
        endpoint = Endpoint(lambda _namespace, _pod: None, Identity(pair, authority.certificate))
        async with endpoint.listening("127.0.0.1") as port:
            url = f"https://127.0.0.1:{port}/exec/a/b/c"
            client = authority.client_pair(who, ["system:masters"])
            async with Connection(url, pair.certificate, client) as connection:
                assert (await connection.ask())[0] == 403

    asyncio.run(run())


@pytest.mark.parametrize("name", [name for name in REFUSED if name != "for servers"])
def test_an_agent_refuses_certificates_that_are_not_valid(tmp_path: Path, name: str) -> None:
    async def run(made: Site) -> None:
        pair = short_lived(made.authority, Clock())
        identity = Identity(pair, made.authority.certificate, ("mallory", "alice"))
        endpoint = Endpoint(lambda _namespace, _pod: None, identity)
        async with endpoint.listening("127.0.0.1") as port:
            client = REFUSED[name](made, tmp_path / "other")
            url = f"https://127.0.0.1:{port}/exec/a/b/c"
            async with Connection(url, pair.certificate, client) as connection:
                with pytest.raises((OSError, asyncio.IncompleteReadError)):
                    await connection.ask()

    on_site(tmp_path, run)
