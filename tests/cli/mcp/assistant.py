"""A client of `dray mcp` for tests that do not wait for anything themselves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import mcp_types
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.unit.cli.conftest import DRAY

CALL_SECONDS = 60.0


class Answer(NamedTuple):
    text: str
    is_error: bool

    @property
    def envelope(self) -> dict[str, Any]:
        return json.loads(self.text)  # type: ignore[no-any-return]

    @property
    def quoted(self) -> dict[str, Any]:
        return self.envelope["quoted"]  # type: ignore[no-any-return]

    @property
    def document(self) -> Any:
        return self.quoted["answer"]


class Assistant:
    """Calls tools of one server."""

    def __init__(self, client: Client, loop: asyncio.AbstractEventLoop) -> None:
        self._client, self._loop = client, loop

    def ask(self, tool: str, **arguments: Any) -> Answer:
        call = self._client.call_tool(tool, arguments)
        result = asyncio.run_coroutine_threadsafe(call, self._loop).result(CALL_SECONDS)
        (content,) = result.content
        assert isinstance(content, mcp_types.TextContent)
        return Answer(content.text, result.is_error)

    def whole(self, tool: str, **arguments: Any) -> Any:
        """The document of an answer with everything that was cut from it."""
        answer = self.ask(tool, **arguments)
        quoted = {key: value for key, value in answer.quoted.items() if key != "more"}
        self._complete(quoted, (), 0, answer.quoted.get("more", []))
        return quoted["answer"]

    def _complete(self, value: Any, place: tuple[int, ...], start: int, cuts: list[Any]) -> Any:
        """Put what the cursors lead to behind what was shown."""
        for cut in cuts:
            _, positions, _ = cut["cursor"].split(":")
            steps = tuple(map(int, filter(None, positions.split("."))))[len(place) :]
            rest = self.ask("more", cursor=cut["cursor"]).quoted
            part = self._complete(
                rest["answer"],
                (*place, *steps),
                cut["shown"],
                rest.get("more", []),
            )
            value = _extended(value, steps, start, part)
        return value

    def tools(self) -> list[mcp_types.Tool]:
        listing = asyncio.run_coroutine_threadsafe(self._client.list_tools(), self._loop)
        return listing.result(CALL_SECONDS).tools


def _extended(value: Any, steps: tuple[int, ...], start: int, part: Any) -> Any:
    if not steps:
        return {**value, **part} if isinstance(value, dict) else value + part
    key = list(value)[steps[0] - start] if isinstance(value, dict) else steps[0] - start
    value[key] = _extended(value[key], steps[1:], 0, part)
    return value


@contextlib.contextmanager
def started(*options: str) -> Iterator[Assistant]:
    """A server that has answered the client's first request."""
    loop = asyncio.new_event_loop()
    ready: asyncio.Future[Client] = loop.create_future()
    ended = asyncio.Event()

    async def serve() -> None:
        parameters = StdioServerParameters(command=str(DRAY), args=["mcp", *options])
        async with Client(stdio_client(parameters)) as client:
            ready.set_result(client)
            await ended.wait()

    async def client() -> Client:
        return await ready

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        waiting = asyncio.run_coroutine_threadsafe(client(), loop)
        yield Assistant(waiting.result(CALL_SECONDS), loop)
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(CALL_SECONDS)
        loop.close()
