"""The log of changes, keys that work once, and sessions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dray.client.api_client import Transport
from dray.ui.model import change_log
from dray.ui.model.change_log import SentChanges, StreamPosition
from dray.ui.people import Person
from dray.ui.web import sessions
from dray.ui.web.sessions import FailureCounter, OneTimeKey, Sessions


class Member:
    """Stands for the place of a person at a model."""

    is_ended = False


def person(name: str = "ada") -> Person:
    transport: Transport = None  # type: ignore[assignment]
    return Person(name, name, transport)


def opened(kept: Sessions, now: float, who: Person | None = None) -> Any:
    member: Any = Member()
    return kept.open(who or person(), member, now)


def filled(number: int, size: int = 1) -> SentChanges:
    log = SentChanges(lambda: b"everything")
    for _ in range(number):
        log.next_number()
        log.add(b"x" * size)
    return log


def test_readers_get_what_is_kept_after_their_position() -> None:
    log = filled(10)
    assert log.since(StreamPosition(log.name, 10)) == []
    assert log.since(StreamPosition(log.name, 7)) == [b"x"] * 3
    assert log.since(StreamPosition(log.name, 0)) == [b"x"] * 10
    assert log.since(StreamPosition("another", 7)) is None
    assert log.since(StreamPosition(log.name, 11)) is None


def test_the_log_is_bounded() -> None:
    log = filled(change_log.KEPT_CHANGES + 50)
    assert log.since(StreamPosition(log.name, 49)) is None
    assert len(log.since(StreamPosition(log.name, 50)) or ()) == change_log.KEPT_CHANGES
    large = filled(20, change_log.KEPT_BYTES // 10)
    assert len(large.since(StreamPosition(large.name, 10)) or ()) == 10
    assert large.since(StreamPosition(large.name, 9)) is None


def test_a_snapshot_is_encoded_once_until_something_changes() -> None:
    encoded: list[int] = []

    def encode() -> bytes:
        encoded.append(1)
        return b"state"

    log = SentChanges(encode)
    assert log.snapshot() == (StreamPosition(log.name, 0), b"state")
    log.snapshot()
    assert len(encoded) == 1
    log.next_number()
    log.add(b"change")
    assert log.snapshot()[0].number == 1
    assert len(encoded) == 2


def test_readers_wait_for_what_comes() -> None:
    async def story() -> None:
        log = filled(1)
        await log.wait(StreamPosition(log.name, 0))
        waiting = asyncio.create_task(log.wait(StreamPosition(log.name, 1)))
        await asyncio.sleep(0)
        assert not waiting.done()
        log.next_number()
        log.add(b"later")
        await waiting
        waiting = asyncio.create_task(log.wait(StreamPosition(log.name, 2)))
        await asyncio.sleep(0)
        log.close()
        await waiting

    asyncio.run(story())


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "x-", "x-y", "x--1", "x-1.5", "x-１", f"x-{'9' * 16}", "x-1 "]
)
def test_wrong_positions_are_none(text: str) -> None:
    assert change_log.position_of(text) is None


def test_a_position_is_its_text() -> None:
    assert change_log.position_of(str(StreamPosition("ab12", 17))) == ("ab12", 17)


def test_a_key_works_once() -> None:
    key = OneTimeKey(0.0)
    text = key.text
    assert len(text) >= 43
    assert not key.redeem("", 1.0)
    assert not key.redeem(text[:-1], 1.0)
    assert not key.redeem(text + "x", 1.0)
    assert not key.redeem("\ud83d", 1.0)
    assert key.redeem(text, 1.0)
    assert not key.redeem(text, 1.0)
    assert key.text == ""


def test_a_key_that_logged_nobody_in_works_once_more() -> None:
    key = OneTimeKey(0.0)
    text = key.text
    assert key.redeem(text, 1.0)
    assert not key.redeem(text, 1.0)
    key.give_back()
    assert key.redeem(text, 1.0)
    assert not key.redeem(text, 1.0)
    key.give_back()
    assert not key.redeem(text, sessions.KEY_SECONDS + 1)


def test_a_key_ends() -> None:
    key = OneTimeKey(0.0)
    assert not key.redeem(key.text, sessions.KEY_SECONDS + 1)


def test_guesses_void_a_key() -> None:
    key = OneTimeKey(0.0)
    text = key.text
    for _ in range(sessions.KEY_TRIES - 1):
        assert not key.redeem("guess", 0.0)
    assert key.text == text
    assert not key.redeem("guess", 0.0)
    assert not key.redeem(text, 0.0)


def test_keys_are_different() -> None:
    assert len({OneTimeKey(0.0).text for _ in range(100)}) == 100


def test_wrong_tokens_are_counted_for_a_while() -> None:
    counter = FailureCounter()
    for _ in range(sessions.TOKEN_TRIES):
        assert not counter.is_over("192.0.2.1", 0.0)
        counter.add("192.0.2.1", 0.0)
    assert counter.is_over("192.0.2.1", 1.0)
    assert not counter.is_over("192.0.2.2", 1.0)
    assert not counter.is_over("192.0.2.1", sessions.TOKEN_SECONDS)


def test_a_session_is_found_until_it_ends() -> None:
    kept = Sessions()
    session = opened(kept, 0.0)
    assert kept.find(session.identity, 1.0) == session
    assert kept.find("", 1.0) is None
    assert kept.find(session.identity + "x", 1.0) is None
    assert kept.find(session.identity, sessions.SESSION_SECONDS) is None
    assert kept.ended(sessions.SESSION_SECONDS) == [session]
    session.member.is_ended = True
    assert kept.find(session.identity, 1.0) is None
    assert kept.ended(1.0) == [session]
    session.member.is_ended = False
    kept.close(session)
    assert kept.find(session.identity, 1.0) is None
    assert len(kept) == 0


def test_sessions_are_few() -> None:
    kept = Sessions()
    for _ in range(sessions.SESSIONS_OF_PERSON):
        assert kept.has_room(person())
        opened(kept, 0.0)
    assert not kept.has_room(person())
    number = 0
    while kept.has_room(person(f"user-{number}")):
        opened(kept, 0.0, person(f"user-{number}"))
        number += 1
    assert len(kept) == sessions.SESSIONS_LIMIT
