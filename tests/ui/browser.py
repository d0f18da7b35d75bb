"""A browser as far as the server sees one: a cookie, headers, and a stream of events."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

SECONDS: Final = 30.0


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return str(self.document["message"])


class Event(NamedTuple):
    """One event of the stream."""

    name: str
    id: str
    data: Any


class Browser:
    """One browser at one dashboard; `context` is for HTTPS."""

    def __init__(self, url: str, context: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "", parts.port or 0
        self.is_secure, self._context = parts.scheme == "https", context
        self.cookie = ""
        self.session: dict[str, Any] = {}

    @property
    def origin(self) -> str:
        return f"{'https' if self.is_secure else 'http'}://{self.host}:{self.port}"

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request over a connection of its own."""
        connection = self._connection()
        try:
            own = {"Cookie": self.cookie} if self.cookie else {}
            connection.request(method, path, body, {**own, **(headers or {})})
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", f"/ui/api/{path}", headers=headers)

    def post(self, path: str, document: Any, **headers: str) -> Answer:
        """Send JSON, with the token of the session if there is one."""
        csrf = {"X-Dray-Csrf": self.session["csrf"]} if self.session else {}
        given = {"Content-Type": "application/json", "Origin": self.origin, **csrf, **headers}
        return self.send("POST", f"/ui/api/{path}", json.dumps(document).encode(), given)

    def log_in(self, **given: Any) -> Answer:
        answer = self.post("login", given)
        if answer.status == 200:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
            self.session = answer.document
        return answer

    def stream(self, last: str = "") -> Stream:
        connection = self._connection()
        headers = {"Cookie": self.cookie, "Accept": "text/event-stream"}
        if last:
            headers["Last-Event-ID"] = last
        connection.request("GET", "/ui/api/stream", headers=headers)
        return Stream(connection)

    def device(self, key: str) -> Any:
        return self.get(f"device?key={quote(key, safe='')}").document

    def _connection(self) -> http.client.HTTPConnection:
        if self.is_secure:
            return http.client.HTTPSConnection(
                self.host, self.port, timeout=SECONDS, context=self._context
            )
        return http.client.HTTPConnection(self.host, self.port, timeout=SECONDS)


class Stream:
    """An open stream, and the state that its events add up to."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection
        self.response = connection.getresponse()
        self.state: dict[str, Any] = {}
        self.last = ""

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.response.close()
        self.connection.close()

    def events(self) -> Iterator[Event]:
        """Yield events, and follow them, until the server ends the stream."""
        fields: dict[str, str] = {}
        for raw in self.response:
            line = raw.decode().rstrip("\n")
            name, _, value = line.partition(": ")
            if line:
                fields[name] = value
            elif "event" in fields:
                is_json = fields["event"] != "alive"
                data = json.loads(fields["data"]) if is_json else fields["data"]
                event = Event(fields["event"], fields.get("id", ""), data)
                fields = {}
                self._follow(event)
                yield event

    def until(self, wanted: Any, what: str = "") -> dict[str, Any]:
        """Follow until the state is as wanted; return it."""
        deadline = time.monotonic() + SECONDS
        if self.state and wanted(self.state):
            return self.state
        for _ in self.events():
            if self.state and wanted(self.state):
                return self.state
            assert time.monotonic() < deadline, f"waited in vain for {what}: {self.state}"
        raise AssertionError(f"the stream ended before {what}")

    def first(self) -> dict[str, Any]:
        """Return the state of the snapshot."""
        return self.until(lambda _: True, "a snapshot")

    def _follow(self, event: Event) -> None:
        if event.name == "snapshot":
            self.state = event.data
        elif event.name == "change":
            assert event.data["seq"] == self.state["seq"] + 1
            for part in ("shapes", "nodes", "cells", "waiting"):
                for key, value in event.data.get(part, {}).items():
                    if value is None:
                        self.state[part].pop(key, None)
                    else:
                        self.state[part][key] = value
            for part in ("seq", "time", "counts", "unreadable", "outage"):
                if part in event.data:
                    self.state[part] = event.data[part]
        self.last = event.id or self.last


def link_in(text: str) -> tuple[str, str]:
    """Return the URL and the key of the link that a command has printed."""
    found = re.search(r"(http://[^/\s]+)/ui/#key=(\S+)", text)
    assert found is not None, text
    return found[1], found[2]


def raw(host: str, port: int, text: bytes) -> bytes:
    """Send bytes as they are; return the beginning of the answer."""
    with socket.create_connection((host, port), timeout=SECONDS) as connection:
        connection.sendall(text)
        received = b""
        while b"\r\n\r\n" not in received:
            data = connection.recv(65536)
            if not data:
                break
            received += data
        return received
