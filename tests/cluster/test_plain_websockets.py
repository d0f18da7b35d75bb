"""exec and logs over WebSockets in the protocols of simple clients."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence

import aiohttp
import pytest

from dray.apiserver.access.certificates import Authority
from tests.cluster.site import Site, client_tls, container, needs_sandbox, pod, with_node

pytestmark = needs_sandbox

POD = "/api/v1/namespaces/default/pods/p"
PRINTS = "echo alive; exec sleep 600"
Story = Callable[[str, ssl.SSLContext], Awaitable[None]]


@pytest.mark.parametrize("protocols", [("channel.k8s.io",), ()])
def test_exec_without_an_exit_status(protocols: Sequence[str]) -> None:
    async def story(url: str, tls: ssl.SSLContext) -> None:
        command = "echo out; echo err >&2; exit 3"
        query = [("stdout", "1"), ("stderr", "1"), ("container", "main")]
        query += [("command", part) for part in ("sh", "-c", command)]
        printed: dict[int, bytes] = {}
        for message in await _messages(url, f"{POD}/exec", query, tls, protocols):
            printed[message[0]] = printed.get(message[0], b"") + message[1:]
        failure = b"command terminated with non-zero exit code: exit status 3"
        assert {channel: text for channel, text in printed.items() if text} == {
            1: b"out\n",
            2: b"err\n",
            3: failure,
        }
        query[-1] = ("command", "echo fine")
        messages = await _messages(url, f"{POD}/exec", query, tls, protocols)
        assert [message for message in messages if message[1:]] == [b"\x01fine\n"]

    _with_pod(story)


@pytest.mark.parametrize("protocols", [("binary.k8s.io",), ()])
@pytest.mark.parametrize("follow", [False, True])
def test_a_log_is_one_message_after_another(protocols: Sequence[str], follow: bool) -> None:
    async def story(url: str, tls: ssl.SSLContext) -> None:
        query = [("follow", "true")] if follow else []
        # A followed log does not end: the client leaves after the first line.
        messages = await _messages(url, f"{POD}/log", query, tls, protocols, until=b"alive\n")
        assert b"".join(messages) == b"alive\n"

    _with_pod(story)


@pytest.mark.parametrize(
    ("what", "supported"),
    [
        ("exec", "v5.channel.k8s.io and v4.channel.k8s.io and channel.k8s.io"),
        ("log", "binary.k8s.io"),
    ],
)
def test_other_protocols_are_refused_by_name(what: str, supported: str) -> None:
    async def story(here: Site) -> None:
        await here.world.create(pod("p", container(PRINTS)))
        await here.output("p")
        headers = {"upgrade": "websocket", "sec-websocket-protocol": "other.k8s.io"}
        response = await here.ask("p", what, ("command", "true"), **headers)
        assert response.status == 400
        assert f"{what} speaks {supported}, not other.k8s.io" in response.body.decode()

    with_node(story)


def _with_pod(story: Story) -> None:
    async def listening(here: Site) -> None:
        authority = Authority.load_or_create(here.folder)
        pair = authority.server_pair(("127.0.0.1",))
        server = here.world.cluster.opened.server
        await here.world.create(pod("p", container(PRINTS)))
        await here.output("p")
        async with server.listening("127.0.0.1", 0, pair, authority.certificate) as url:
            await story(url, client_tls(here.folder, url, "system:masters"))

    with_node(listening)


async def _messages(
    url: str,
    path: str,
    query: list[tuple[str, str]],
    tls: ssl.SSLContext,
    protocols: Sequence[str],
    until: bytes = b"",
) -> list[bytes]:
    """Return all messages of a WebSocket, or those up to a text."""
    received: list[bytes] = []
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url + path, params=query, protocols=protocols, ssl=tls) as socket,
    ):
        assert socket.protocol == (protocols[0] if protocols else None)
        async for message in socket:
            received.append(message.data)
            if until and b"".join(received) == until:
                break
    return received
