"""Lists in parts: nothing is left out, and the next part is asked for in good time."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from dray.api import errors, kinds
from dray.api.http_messages import Request, Response
from dray.client.api_client import Client, ObjectSelection
from tests import loop


class Server:
    """Lists numbers, as many at a time as it is asked for; the token is where to go on."""

    def __init__(self, count: int, expires_after: int | None = None) -> None:
        self.count, self.expires_after = count, expires_after
        self.asked: list[dict[str, str]] = []

    async def send(self, request: Request) -> Response:
        query = dict(request.query)
        self.asked.append(query)
        start = int(query.get("continue", "0"))
        if self.expires_after is not None and start >= self.expires_after:
            status = errors.to_status(errors.Expired("too old", errors.Details()))
            return Response(410, {}, msgspec.json.encode(status))
        end = min(start + int(query["limit"]), self.count)
        rest = {"continue": str(end)} if end < self.count else {}
        body = {"metadata": rest, "items": list(range(start, end))}
        return Response(200, {}, msgspec.json.encode(body))


async def parts(server: Server, limit: int) -> list[list[int]]:
    pages = Client(server).pages(kinds.POD, ObjectSelection(label_selector="a=b"), limit=limit)
    return [[msgspec.json.decode(item) for item in page.items] async for page in pages]


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, [[]]), (2, [[0, 1]]), (5, [[0, 1], [2, 3], [4]])],
    ids=["nothing", "one part", "three parts"],
)
def test_parts_are_the_whole_list(count: int, expected: list[list[int]]) -> None:
    server = Server(count)
    assert loop.run(parts(server, 2)) == expected
    assert len(server.asked) == len(expected)
    assert {query["labelSelector"] for query in server.asked} == {"a=b"}


def test_the_next_part_is_asked_for_before_the_caller_looks_at_one() -> None:
    server = Server(4)

    async def steps() -> list[int]:
        return [len(server.asked) async for _ in Client(server).pages(kinds.POD, limit=2)]

    assert loop.run(steps()) == [2, 2]


def test_who_stops_looking_leaves_no_request_behind() -> None:
    async def steps() -> None:
        before = asyncio.all_tasks()
        pages = Client(Server(4)).pages(kinds.POD, limit=2)
        await anext(pages)
        await pages.aclose()  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before

    loop.run(steps())


def test_a_list_that_cannot_go_on_says_so() -> None:
    with pytest.raises(errors.Expired):
        loop.run(parts(Server(6, expires_after=2), 2))
