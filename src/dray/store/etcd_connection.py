"""The connection to an etcd cluster: its members in turn, TLS, login and errors.

The messages and stubs are aetcd's; its client is not used, because it supports neither TLS, nor
reads at a revision, nor a new login after the old one has expired.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, NamedTuple, Self

import grpc
import msgspec
from aetcd import rpc

from dray.store import store

TIMEOUT_SECONDS = 5.0

_CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # etcd disconnects clients that ping more often than every five seconds.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.max_pings_without_data", 0),
)

# A member without a leader then ends the stream; otherwise it would serve an old state.
_REQUIRE_LEADER = ("hasleader", "true")

_LOGIN_RAN_OUT = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.INVALID_ARGUMENT}


class Tls(msgspec.Struct, frozen=True):
    """PEM texts: the authority of the servers, and the client's certificate, if it has one.

    Without an authority, those that gRPC brings along count.
    """

    authority: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = None

    def __repr__(self) -> str:
        return "Tls(...)"


class Login(msgspec.Struct, frozen=True):
    """A user of etcd."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.user!r})"


class Access(msgspec.Struct, frozen=True):
    """Address and credentials of a cluster: "host:port" of its members, TLS and login."""

    endpoints: tuple[str, ...]
    tls: Tls | None = None
    login: Login | None = None


class OutOfRange(store.StoreError):
    """The request names a revision that etcd has compacted or not reached."""


class Compacted(store.StoreError):
    """The watch would start before `revision`, up to which history is gone."""

    def __init__(self, revision: int) -> None:
        super().__init__(revision)
        self.revision = revision


class _Member(NamedTuple):
    channel: grpc.aio.Channel
    keys: Any
    watch: Any
    users: Any


Method = Callable[[_Member], Callable[..., Any]]

_RANGE: Method = operator.attrgetter("keys.Range")
_TRANSACT: Method = operator.attrgetter("keys.Txn")
_COMPACT: Method = operator.attrgetter("keys.Compact")


class EtcdConnection:
    """The members of one cluster; requests go to the first one until it fails to answer."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._members = deque(_member(endpoint, access.tls) for endpoint in access.endpoints)
        self._token: str | None = None
        self.trouble = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for member in self._members:
            await member.channel.close()

    async def read(self, request: Any) -> Any:
        """Send a request to one member after the other until one answers."""
        for _ in range(len(self._members) - 1):
            try:
                return await self._ask(_RANGE, request)
            except store.Unavailable:
                continue
        return await self._ask(_RANGE, request)

    async def write(self, request: Any) -> Any:
        """Send a request once: without a response nobody can tell whether it was executed."""
        return await self._ask(_TRANSACT, request)

    async def compact(self, revision: int) -> None:
        await self._ask(_COMPACT, rpc.CompactionRequest(revision=revision))

    async def events(
        self, first_key: bytes, end_key: bytes, start_revision: int
    ) -> AsyncGenerator[Sequence[Any], None]:
        """Yield batches of events in the order of their revisions, each revision complete."""
        creation = rpc.WatchCreateRequest(
            key=first_key, range_end=end_key, start_revision=start_revision, prev_kv=True
        )
        member = self._members[0]
        try:
            metadata = [*await self._metadata(member), _REQUIRE_LEADER]
            stream = member.watch.Watch(metadata=metadata)
            try:
                await stream.write(rpc.WatchRequest(create_request=creation))
                async for response in stream:
                    self._check_stream(response)
                    self.trouble = ""
                    if response.events:
                        yield response.events
            finally:
                stream.cancel()
        except grpc.aio.AioRpcError as error:
            raise self._translate(error) from error
        raise store.Unavailable("etcd ended the watch")

    def _check_stream(self, response: rpc.WatchResponse) -> None:
        if response.compact_revision:
            raise Compacted(response.compact_revision)
        if response.canceled:
            self._token = None
            raise store.Unavailable(response.cancel_reason)

    async def _ask(self, method: Method, request: Any) -> Any:
        try:
            response = await self._ask_member(method, request)
        except grpc.aio.AioRpcError as error:
            raise self._translate(error) from error
        self.trouble = ""
        return response

    async def _ask_member(self, method: Method, request: Any) -> Any:
        member = self._members[0]
        metadata = await self._metadata(member)
        try:
            return await method(member)(request, timeout=TIMEOUT_SECONDS, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            if not metadata or error.code() not in _LOGIN_RAN_OUT:
                raise
        # Rejected before execution: to send it again cannot do it twice.
        self._token = None
        metadata = await self._metadata(member)
        return await method(member)(request, timeout=TIMEOUT_SECONDS, metadata=metadata)

    async def _metadata(self, member: _Member) -> list[tuple[str, str]]:
        login = self._access.login
        if login is None:
            return []
        if self._token is None:
            request = rpc.AuthenticateRequest(name=login.user, password=login.password)
            response = await member.users.Authenticate(request, timeout=TIMEOUT_SECONDS)
            self._token = response.token
        return [("token", self._token)]

    def _translate(self, error: grpc.aio.AioRpcError) -> store.StoreError:
        """Return the store's error; a member that did not answer moves to the end of the list."""
        reason = error.details() or error.code().name
        if error.code() is grpc.StatusCode.OUT_OF_RANGE:
            return OutOfRange(reason)
        self.trouble = reason
        if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
            return store.ReadOnly(reason)
        self._members.rotate(-1)
        return store.Unavailable(reason)


def _member(endpoint: str, tls: Tls | None) -> _Member:
    if tls:
        credentials = grpc.ssl_channel_credentials(tls.authority, tls.key, tls.certificate)
        channel = grpc.aio.secure_channel(endpoint, credentials, options=_CHANNEL_OPTIONS)
    else:
        channel = grpc.aio.insecure_channel(endpoint, options=_CHANNEL_OPTIONS)
    return _Member(channel, rpc.KVStub(channel), rpc.WatchStub(channel), rpc.AuthStub(channel))
