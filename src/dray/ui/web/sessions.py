"""Keys that work once, and the sessions of those who have logged in."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dray.ui.people import Person

if TYPE_CHECKING:
    from dray.ui.model.models import Membership

KEY_SECONDS = 900.0
KEY_TRIES = 20
"""Wrong keys after which the key is void."""
SESSION_SECONDS = 12 * 3600.0
SESSIONS_LIMIT = 512
SESSIONS_OF_PERSON = 64
STREAMS_OF_SESSION = 8
REQUESTS_OF_SESSION = 8
TOKEN_TRIES = 100
"""Wrong tokens of an address in `TOKEN_SECONDS` after which it has to wait."""
TOKEN_SECONDS = 60.0


class OneTimeKey:
    """The key of a link: it works once, for some minutes."""

    def __init__(self, now: float) -> None:
        self._key = secrets.token_urlsafe(32)
        self._ends = now + KEY_SECONDS
        self._failures = 0
        self._is_void = False

    @property
    def text(self) -> str:
        """Return the key; "" once it is used or void."""
        return "" if self._is_void else self._key

    def is_spent(self, now: float) -> bool:
        """Return whether the key is used or void, or its time is over."""
        return self._is_void or now > self._ends

    def redeem(self, given: str, now: float) -> bool:
        """Return whether this is the key; it is then used. Each wrong one counts."""
        if self.is_spent(now):
            return False
        if hmac.compare_digest(self._key.encode(), given.encode("utf-8", "surrogatepass")):
            self._is_void = True
            return True
        self._failures += 1
        self._is_void = self._failures >= KEY_TRIES
        return False

    def give_back(self) -> None:
        """Let the key work once more: whoever redeemed it could not be logged in."""
        self._is_void = False


class FailureCounter:
    """Counts the wrong tokens of each address, so that nobody can keep others from logging in."""

    def __init__(self) -> None:
        self._failures: list[tuple[float, str]] = []

    def is_over(self, address: str, now: float) -> bool:
        """Return whether there were too many of late."""
        self._failures = [found for found in self._failures if now - found[0] < TOKEN_SECONDS]
        return sum(own == address for _, own in self._failures) >= TOKEN_TRIES

    def add(self, address: str, now: float) -> None:
        self._failures.append((now, address))


@dataclass(slots=True, eq=False)
class BrowserSession:
    """One who has logged in, in one browser."""

    identity: str
    csrf: str
    person: Person
    member: Membership
    ends: float
    streams: int = 0
    requests: int = 0
    is_over: bool = False
    tasks: set[asyncio.Task[object]] = field(default_factory=set)


class Sessions:
    """The sessions of a dashboard, found by the value of their cookie."""

    def __init__(self) -> None:
        self._by_digest: dict[bytes, BrowserSession] = {}

    def __len__(self) -> int:
        return len(self._by_digest)

    def open(self, person: Person, member: Membership, now: float) -> BrowserSession:
        """Return a new session."""
        identity = secrets.token_urlsafe(32)
        ends = now + SESSION_SECONDS
        session = BrowserSession(identity, secrets.token_urlsafe(32), person, member, ends)
        self._by_digest[_digest(identity)] = session
        return session

    def has_room(self, person: Person) -> bool:
        """Return whether one more session of a person may be opened."""
        own = sum(session.person.key == person.key for session in self._by_digest.values())
        return len(self) < SESSIONS_LIMIT and own < SESSIONS_OF_PERSON

    def find(self, identity: str, now: float) -> BrowserSession | None:
        """Return the session of a cookie, unless it is over."""
        session = self._by_digest.get(_digest(identity)) if identity else None
        if session is None or session.is_over or session.member.is_ended or now >= session.ends:
            return None
        return session

    def close(self, session: BrowserSession) -> None:
        session.is_over = True
        self._by_digest.pop(_digest(session.identity), None)

    def ended(self, now: float) -> list[BrowserSession]:
        """Return the sessions whose time is over, or whose identity is no longer good."""
        return [
            session
            for session in self._by_digest.values()
            if now >= session.ends or session.member.is_ended
        ]


def _digest(identity: str) -> bytes:
    """Return what a session is looked up by: how long that takes says nothing about the value."""
    return hmac.digest(_SALT, identity.encode("utf-8", "surrogatepass"), "sha256")


_SALT = secrets.token_bytes(32)
