"""One HTTP exchange as plain values, so that a socket is only one of the ways to carry it.

`client` makes requests and reads responses; `apiserver` does the reverse. Neither knows whether
the other is behind TLS or in the same process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import msgspec

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class User(msgspec.Struct, frozen=True):
    """Who asks: a name, groups, and what authentication said besides."""

    name: str
    groups: frozenset[str] = frozenset()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Request(msgspec.Struct, frozen=True):
    """Header names are lower case; a query parameter may occur more than once."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = {}
    body: bytes = b""

    def parameter(self, name: str, default: str = "") -> str:
        for key, value in self.query:
            if key == name:
                return value
        return default


class Response(msgspec.Struct, frozen=True):
    """`stream` takes the place of `body` for a watch: one chunk per event, until it ends."""

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None


Handler = Callable[[Request, User], Awaitable[Response]]
"""The API server's request path behind authentication, as the in-process client calls it."""
