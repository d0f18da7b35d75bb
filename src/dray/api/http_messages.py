"""One HTTP exchange as plain values, so that a socket is only one of the ways to carry it.

`client` makes requests and reads responses; `apiserver` does the reverse. Neither knows whether
the other is behind TLS or in the same process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class User(msgspec.Struct, frozen=True, cache_hash=True):
    """An authenticated user: name, groups, and further facts from authentication."""

    name: str
    groups: frozenset[str] = frozenset()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    impersonator: User | None = None
    """Who really asks, where it is somebody else."""


class Request(msgspec.Struct, frozen=True):
    """Header names are lower case; a query parameter may occur more than once."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = {}
    body: bytes = b""
    source: str = ""
    """The address it came from; empty within a process."""

    def parameter(self, name: str, default: str = "") -> str:
        for key, value in self.query:
            if key == name:
                return value
        return default

    def flag(self, name: str) -> bool:
        """Return a parameter as a boolean: true unless its value means no, as in Kubernetes."""
        return self.parameter(name, "false").lower() not in ("false", "0")


class MessageSocket(Protocol):
    """One end of a conversation in messages, such as a WebSocket."""

    async def receive(self) -> bytes | None:
        """The next message; None when the other side has left."""

    async def send(self, message: bytes) -> None: ...


class Upgrade(msgspec.Struct, frozen=True):
    """A conversation that takes the place of a response, in the protocol that was agreed on."""

    protocol: str
    converse: Callable[[MessageSocket], Awaitable[None]]


class Response(msgspec.Struct, frozen=True):
    """`stream` takes the place of `body` for a watch: one chunk per event, until it ends."""

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None
    upgrade: Upgrade | None = None


Handler = Callable[[Request, User], Awaitable[Response]]
"""The API server's request path behind authentication, as the in-process client calls it."""
