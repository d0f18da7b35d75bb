"""The verbs of the Kubernetes API over any transport: requests out, objects or errors back."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias
from urllib.parse import quote

import msgspec

from dray.api import errors, http_messages
from dray.api.http_messages import Handler, Request, Response, User
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject


class InProcessTransport:
    def __init__(self, handler: Handler, user: User) -> None:
        self._handler = handler
        self._user = user

    async def send(self, request: Request) -> Response:
        return await self._handler(request, self._user)


Query = list[tuple[str, str]]
Lines: TypeAlias = list[bytes]


class Transport(Protocol):
    async def send(self, request: Request) -> Response: ...


class WatchEvent(msgspec.Struct, frozen=True):
    """One line of a watch. The object stays encoded: the type is the caller's choice."""

    type: str
    object: msgspec.Raw


class ListPage(msgspec.Struct, frozen=True, rename="camel"):
    """A list whose items stay encoded."""

    metadata: dict[str, Any] = {}
    items: list[msgspec.Raw] = []

    @property
    def resource_version(self) -> str:
        return str(self.metadata.get("resourceVersion", ""))

    @property
    def rest(self) -> str:
        """Return the token of the next page, or an empty text after the last."""
        return str(self.metadata.get("continue", ""))


@dataclass(frozen=True, slots=True)
class ObjectSelection:
    """The objects of a list or a watch: a namespace and selectors."""

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""

    def query(self) -> Query:
        pairs = (("labelSelector", self.label_selector), ("fieldSelector", self.field_selector))
        return [pair for pair in pairs if pair[1]]


EVERYTHING = ObjectSelection()

_pages = msgspec.json.Decoder(ListPage)
_events = msgspec.json.Decoder(WatchEvent)


class Client:
    """Create, read, change, delete and watch. Raises the classes of `api.errors`."""

    def __init__(self, transport: Transport, *, field_manager: str = "dray") -> None:
        self._transport = transport
        self._field_manager = field_manager

    def managed_by(self, field_manager: str) -> Client:
        """Return the same client with another field manager."""
        return Client(self._transport, field_manager=field_manager)

    def wrapped(self, wrap: Callable[[Transport], Transport]) -> Client:
        """Return the same client over a transport that `wrap` makes of its own."""
        return Client(wrap(self._transport), field_manager=self._field_manager)

    async def get(
        self, kind: Kind, name: str, namespace: str = "", subresource: str = ""
    ) -> JsonObject:
        return await self._object("GET", object_path(kind, name, namespace, subresource))

    async def list(
        self, kind: Kind, selection: ObjectSelection = EVERYTHING, *, resource_version: str = ""
    ) -> ListPage:
        return await self._page(kind, selection, resourceVersion=resource_version)

    async def pages(
        self, kind: Kind, selection: ObjectSelection = EVERYTHING, *, limit: int
    ) -> AsyncIterator[ListPage]:
        """Yield a list in pages; the next one is requested while the caller has one.

        Raises Expired if the server no longer has the revision of the first page.
        """
        size = {"limit": str(limit)}
        page = await self._page(kind, selection, **size)
        while page.rest:
            following = self._page(kind, selection, **size, **{"continue": page.rest})
            ahead = asyncio.ensure_future(following)
            try:
                # Lets the request start before the caller keeps the loop busy.
                await asyncio.sleep(0)
                yield page
                page = await ahead
            finally:
                ahead.cancel()
        yield page

    async def _page(self, kind: Kind, selection: ObjectSelection, **parameters: str) -> ListPage:
        query = [*selection.query(), *((key, value) for key, value in parameters.items() if value)]
        path = collection_path(kind, selection.namespace)
        return _pages.decode((await self._send("GET", path, query=query)).body)

    async def create(
        self, kind: Kind, body: JsonObject, namespace: str = "", *, dry_run: bool = False
    ) -> JsonObject:
        path = collection_path(kind, namespace)
        return await self._object("POST", path, body, self._write_query(dry_run))

    async def create_subresource(
        self, kind: Kind, name: str, subresource: str, body: JsonObject, namespace: str = ""
    ) -> JsonObject:
        path = object_path(kind, name, namespace, subresource)
        return await self._object("POST", path, body, self._write_query(False))

    async def replace(self, kind: Kind, body: JsonObject, subresource: str = "") -> JsonObject:
        metadata = body["metadata"]
        path = object_path(kind, metadata["name"], metadata.get("namespace", ""), subresource)
        return await self._object("PUT", path, body, self._write_query(False))

    async def patch(
        self,
        kind: Kind,
        name: str,
        patch: Any,
        namespace: str = "",
        *,
        subresource: str = "",
        patch_type: str = http_messages.MERGE_PATCH,
        force: bool = False,
    ) -> JsonObject:
        query = self._write_query(False)
        if force:
            query.append(("force", "true"))
        path = object_path(kind, name, namespace, subresource)
        return await self._object("PATCH", path, patch, query, patch_type)

    async def delete(
        self, kind: Kind, name: str, namespace: str = "", options: JsonObject | None = None
    ) -> JsonObject:
        return await self._object("DELETE", object_path(kind, name, namespace), options)

    async def delete_collection(self, kind: Kind, selection: ObjectSelection) -> None:
        path = collection_path(kind, selection.namespace)
        await self._send("DELETE", path, query=selection.query())

    async def watch(
        self,
        kind: Kind,
        selection: ObjectSelection = EVERYTHING,
        *,
        resource_version: str = "",
        timeout_seconds: int | None = None,
    ) -> AsyncIterator[WatchEvent]:
        """Yield events after `resource_version`, and bookmarks. Raises Expired if it is too old."""
        received = self.watch_lines(
            kind, selection, resource_version=resource_version, timeout_seconds=timeout_seconds
        )
        async for together in received:
            for line in together:
                yield watch_event(line)

    async def watch_lines(
        self,
        kind: Kind,
        selection: ObjectSelection = EVERYTHING,
        *,
        resource_version: str = "",
        timeout_seconds: int | None = None,
    ) -> AsyncIterator[Lines]:
        """Yield the lines of a watch, those together that come together."""
        query = [("watch", "true"), ("allowWatchBookmarks", "true"), *selection.query()]
        if resource_version:
            query.append(("resourceVersion", resource_version))
        if timeout_seconds is not None:
            query.append(("timeoutSeconds", str(timeout_seconds)))
        path = collection_path(kind, selection.namespace)
        response = await self._send("GET", path, query=query)
        if response.stream is None:
            return
        async for together in _lines_together(response.stream):
            yield together

    async def raw(self, request: Request) -> Response:
        """Send any request as it is, and return the response whatever its status."""
        return await self._transport.send(request)

    async def send(self, request: Request) -> Response:
        """Send any request as it is. Raises the error that a response of status 400 or more is."""
        response = await self._transport.send(request)
        if response.status >= 400:
            raise error_of(response)
        return response

    def _write_query(self, dry_run: bool) -> Query:
        query = [("fieldManager", self._field_manager)]
        if dry_run:
            query.append(("dryRun", "All"))
        return query

    async def _object(self, method: str, path: str, *content: Any) -> JsonObject:
        """Send a request, and return the object of the response; `content` is as for `_send`."""
        response = await self._send(method, path, *content)
        document: JsonObject = msgspec.json.decode(response.body)
        return document

    async def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Query | None = None,
        content_type: str = http_messages.JSON,
    ) -> Response:
        headers, encoded = {"accept": http_messages.JSON}, b""
        if body is not None:
            headers["content-type"] = content_type
            encoded = msgspec.json.encode(body)
        return await self.send(Request(method, path, tuple(query or ()), headers, encoded))


def error_of(response: Response) -> errors.StatusError:
    """Return the error of a response, also of a proxy that sent no Status."""
    try:
        status = msgspec.json.decode(response.body)
    except msgspec.DecodeError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return errors.from_status(status)
    text = response.body[:2048].decode("utf-8", "replace")
    return errors.from_response(response.status, text)


def collection_path(kind: Kind, namespace: str = "") -> str:
    root = f"/apis/{kind.group}" if kind.group else "/api"
    middle = f"/namespaces/{_escaped(namespace)}" if namespace else ""
    return f"{root}/{kind.versions[0]}{middle}/{kind.plural}"


@functools.lru_cache(maxsize=1024)
def _escaped(name: str) -> str:
    return quote(name, safe="")


def object_path(kind: Kind, name: str, namespace: str = "", subresource: str = "") -> str:
    path = f"{collection_path(kind, namespace)}/{_escaped(name)}"
    return f"{path}/{subresource}" if subresource else path


def watch_event(line: bytes) -> WatchEvent:
    """Return the event of a line. Raises the error that it may be."""
    event = _events.decode(line)
    if event.type == "ERROR":
        raise errors.from_status(msgspec.json.decode(event.object))
    return event


async def lines(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the lines of a stream, except for empty ones."""
    async for together in _lines_together(stream):
        for line in together:
            yield line


async def _lines_together(stream: AsyncIterator[bytes]) -> AsyncIterator[Lines]:
    rest = b""
    async for chunk in stream:
        *complete, rest = (rest + chunk).split(b"\n")
        together = [line for line in complete if line]
        if together:
            yield together
    if rest.strip():
        yield [rest]
