"""exec in SPDY: the streams of a client against the channels of an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from dray.api import remote_command
from dray.api.http_messages import MessageSocket, Upgrade
from dray.apiserver.subresources import spdy_sessions
from dray.client import websockets
from dray.client.spdy import SpdyConnection, SpdyStream
from tests.waiting import until

SECONDS = 20.0
Talk = Callable[[SpdyConnection], Awaitable[None]]


class Agent:
    """Notes what it gets, and ends after the input with an exit status."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.has_ended = False

    async def converse(self, there: MessageSocket) -> None:
        try:
            await self._answer(there)
        finally:
            self.has_ended = True

    async def _answer(self, there: MessageSocket) -> None:
        await there.send(remote_command.message(remote_command.STDOUT, b""))
        while (message := await there.receive()) is not None:
            self.messages.append(message)
            if message == remote_command.closing(remote_command.STDIN):
                await there.send(remote_command.message(remote_command.STDOUT, b"out"))
                await there.send(remote_command.message(remote_command.STDERR, b"err"))
                await there.send(remote_command.exit_status(3))
                return


def converse(stream_types: set[str], talk: Talk, agent: Agent | None = None) -> Agent:
    """Let a client talk to an agent; return the agent."""
    agent = agent or Agent()

    async def run() -> None:
        near, far = websockets.pipe()
        upgrade = spdy_sessions.translated(Upgrade("", agent.converse), stream_types)
        assert upgrade.protocol == "SPDY/3.1+v4.channel.k8s.io"
        serving = asyncio.ensure_future(upgrade.converse(far))
        client = SpdyConnection(near)
        reading = asyncio.create_task(client.run())
        await talk(client)
        await near.close()
        await serving
        reading.cancel()

    asyncio.run(asyncio.wait_for(run(), SECONDS))
    return agent


async def _all(stream: SpdyStream) -> bytes:
    parts = []
    while chunk := await stream.receive():
        parts.append(chunk)
    return b"".join(parts)


def test_streams_are_channels_and_the_exit_status_is_last() -> None:
    async def talk(client: SpdyConnection) -> None:
        # In an order that no client has.
        stderr = await client.open(streamtype="stderr")
        stdin = await client.open(streamtype="stdin")
        stdout = await client.open(streamtype="stdout")
        error = await client.open(streamtype="error")
        await stdin.send(b"typed")
        await stdin.close()
        assert await _all(stdout) == b"out"
        assert await _all(stderr) == b"err"
        assert remote_command.outcome(await _all(error)).code == 3

    agent = converse({"stdin", "stdout", "stderr"}, talk)
    assert agent.messages == [b"\x00typed", remote_command.closing(remote_command.STDIN)]


def test_the_size_of_a_terminal_may_come_in_pieces() -> None:
    async def talk(client: SpdyConnection) -> None:
        resize = await client.open(streamtype="resize")
        stdin = await client.open(streamtype="stdin")
        error = await client.open(streamtype="error")
        await resize.send(b'{"Width":80,')
        await resize.send(b'"Height":24}\n{"Width":8')
        await resize.send(b'1,"Height":25}\n')
        await resize.close()
        await until(lambda: len(agent.messages) == 2)
        await stdin.close()
        await _all(error)

    agent = Agent()
    converse({"stdin", "resize"}, talk, agent)
    sizes = [remote_command.size(message[1:]) for message in agent.messages[:2]]
    assert sizes == [(24, 80), (25, 81)]


def test_a_stream_that_was_not_asked_for_is_refused() -> None:
    async def talk(client: SpdyConnection) -> None:
        for type_ in ("stderr", "stdin", "", "data"):
            stream = await client.open(streamtype=type_)
            if type_ != "stdin":
                assert await stream.receive() == b""
        twice = await client.open(streamtype="stdin")
        assert await twice.receive() == b""

    agent = converse({"stdin"}, talk)
    assert agent.messages == []
    assert agent.has_ended


def test_the_agent_is_told_when_the_client_leaves() -> None:
    async def talk(client: SpdyConnection) -> None:
        await client.open(streamtype="error")
        stdin = await client.open(streamtype="stdin")
        await stdin.send(b"x")

    assert converse({"stdin"}, talk).has_ended


def test_a_client_that_opens_no_streams_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spdy_sessions, "OPENING_SECONDS", 0.01)

    async def talk(client: SpdyConnection) -> None:
        await client.open(streamtype="stdin")

    assert converse({"stdin"}, talk).messages == []
