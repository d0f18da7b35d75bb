"""Events: told once, counted after that, and never without end."""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from dray.api import kinds
from dray.api.http_messages import User
from dray.api.types.core import ObjectReference
from dray.client import events
from dray.client.api_client import Client, InProcessTransport
from dray.client.events import Recorder
from dray.store import memory
from tests.unit.client import servers

POD = ObjectReference(kind="Pod", namespace="default", name="p", uid="1", api_version="v1")
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def recording(
    test: Callable[[Recorder, Client], Awaitable[None]], **options: Any
) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(_run())

    async def _run() -> None:
        async with memory.open() as store:
            app = servers.open_to_all(store)
            client = Client(InProcessTransport(app.handle, User("admin")))
            await test(Recorder(client, "tester", now=lambda: NOW, **options), client)

    run.__name__ = getattr(test, "__name__", "test")
    return run


async def written(client: Client) -> list[dict[str, Any]]:
    page = await client.list(kinds.EVENT)
    return [msgspec.json.decode(item) for item in page.items]


@recording
async def test_an_event_has_the_older_form_without_an_action(
    recorder: Recorder, client: Client
) -> None:
    recorder.record(POD, events.WARNING, "Failed", "it did not work")
    await recorder.flush()
    (event,) = await written(client)
    assert event["message"] == "it did not work"
    assert (event["count"], event["firstTimestamp"]) == (1, "2026-01-01T00:00:00Z")
    assert event["source"] == {"component": "tester"}
    assert event["metadata"]["name"].startswith("p.")


@recording
async def test_an_event_with_an_action_has_the_newer_form(
    recorder: Recorder, client: Client
) -> None:
    recorder.record(POD, events.NORMAL, "Scheduled", "assigned", action="Binding")
    await recorder.flush()
    (event,) = await written(client)
    assert event["eventTime"] == "2026-01-01T00:00:00.000000Z"
    assert (event["action"], event["reportingComponent"]) == ("Binding", "tester")
    found = await client.list(kinds.served("events.k8s.io", "Event"))
    assert msgspec.json.decode(found.items[0])["note"] == "assigned"


@recording
async def test_what_happens_again_is_counted_not_told_again(
    recorder: Recorder, client: Client
) -> None:
    recorder.record(POD, events.WARNING, "Failed", "same")
    await recorder.flush()
    for _ in range(1000):
        recorder.record(POD, events.WARNING, "Failed", "same")
        await recorder.flush()
    (event,) = await written(client)
    assert event["count"] == 1
    for record in recorder._unwritten.values():
        record.not_before = 0.0
    await recorder.flush()
    (event,) = await written(client)
    assert event["count"] == 1001


@recording
async def test_many_notes_of_one_reason_are_combined(recorder: Recorder, client: Client) -> None:
    for number in range(100):
        recorder.record(POD, events.NORMAL, "SuccessfulCreate", f"Created pod: {number}")
    await recorder.flush()
    notes = [event["message"] for event in await written(client)]
    assert len(notes) == events.MAX_SIMILAR
    assert notes[-1] == "(combined from similar events): Created pod: 99"


@recording
async def test_a_note_that_replaces_keeps_one_event(recorder: Recorder, client: Client) -> None:
    for number in range(3):
        recorder.record(
            POD, events.WARNING, "FailedScheduling", f"0/{number}", action="S", replace=True
        )
    await recorder.flush()
    (event,) = await written(client)
    assert event["message"] == "0/2"
    assert event["series"]["count"] == 3


def test_what_is_remembered_is_bounded() -> None:
    async def test(recorder: Recorder, client: Client) -> None:
        for number in range(100):
            about = msgspec.structs.replace(POD, name=f"p{number}", uid=str(number))
            recorder.record(about, events.WARNING, "Failed", "x")
        assert len(recorder) == 10
        await recorder.flush()
        assert len(await written(client)) == 10

    recording(test, capacity=10)()


@pytest.mark.parametrize("length", [events.MAX_NOTE_CHARACTERS, events.MAX_NOTE_CHARACTERS + 1])
def test_long_notes_are_cut(length: int) -> None:
    async def test(recorder: Recorder, client: Client) -> None:
        recorder.record(POD, events.WARNING, "Failed", "x" * length)
        await recorder.flush()
        (event,) = await written(client)
        assert len(event["message"]) == events.MAX_NOTE_CHARACTERS

    recording(test)()


@recording
async def test_events_give_way_while_others_are_busy_and_are_written_after(
    recorder: Recorder, client: Client
) -> None:
    for number in range(60):
        about = msgspec.structs.replace(POD, uid=str(number))
        recorder.record(about, events.NORMAL, "Scheduled", "assigned")
    async with asyncio.TaskGroup() as group:
        writing = group.create_task(recorder.flush())
        for _ in range(30):
            _work_for(0.01)
            await asyncio.sleep(0)
        assert len(await written(client)) < 30
        await writing
    assert len(await written(client)) == 60


def _work_for(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
