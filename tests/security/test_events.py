"""Events do not fill the store: they go, also where two servers delete them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dray.apiserver import server
from dray.apiserver.server import Settings
from dray.store import memory
from tests import waiting
from tests.wire.serving import Api

EVENTS = "/api/v1/namespaces/default/events"


def event(name: str, **fields: str) -> dict[str, object]:
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    return {"metadata": {"name": name}, "involvedObject": about, **fields}


def test_events_expire_on_two_servers_with_one_store(tmp_path: Path) -> None:
    async def run() -> None:
        settings, signer = Settings(event_seconds=1.0), server.signer_in(tmp_path)
        async with (
            memory.open() as store,
            server.open_server(store, signer=signer, settings=settings) as first,
            server.open_server(store, signer=signer, settings=settings) as second,
        ):
            apis = (Api(first), Api(second))
            for number in range(120):
                # A time in the future, which a client may write, does not keep an Event.
                late = {"lastTimestamp": "9999-01-01T00:00:00Z"} if number % 2 else {}
                answer = await apis[number % 2]("POST", EVENTS, event(f"e{number}", **late))
                assert answer.status == 201, answer.body

            async def are_gone() -> bool:
                return not (await apis[0]("GET", EVENTS)).json["items"]

            await waiting.until_answered(are_gone, "the end of all events")

    asyncio.run(run())
