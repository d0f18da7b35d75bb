"""Divides each round of the event loop between users.

All requests share one thread. In one round, the event loop works on everything that has arrived;
hundreds of small requests of one user would make everybody else wait for a long round. So each
user has some time in a round, and what does not fit waits for the next.
"""

from __future__ import annotations

import asyncio
from collections import deque

REQUEST_SECONDS = 0.0002
"""What a request takes besides its steps: TLS, HTTP, credentials."""
_NEWEST_SHARE = 0.125


class RoundShare:
    """The time that one user has used of a round, and the requests that wait for the next."""

    __slots__ = ("delayed", "limit", "seconds", "typical")

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.seconds = 0.0
        self.typical = REQUEST_SECONDS
        """The time of a request, averaged over the last few."""
        self.delayed: deque[asyncio.Future[None]] = deque()


class Rounds:
    """The shares of all users."""

    def __init__(self) -> None:
        self._used: list[RoundShare] = []
        self._is_counting = False

    async def enter(self, share: RoundShare) -> None:
        """Wait until the user has some time left in a round."""
        if share.delayed or share.seconds >= share.limit:
            place = asyncio.get_running_loop().create_future()
            share.delayed.append(place)
            await place
        self._use(share, REQUEST_SECONDS)

    def charge(self, share: RoundShare, seconds: float) -> None:
        """Count the time of one step."""
        share.typical += (seconds + REQUEST_SECONDS - share.typical) * _NEWEST_SHARE
        self._use(share, seconds)

    def _use(self, share: RoundShare, seconds: float) -> None:
        if not share.seconds:
            self._used.append(share)
        share.seconds += seconds
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Begin a round; as many delayed requests go on as presumably fit."""
        used, self._used = self._used, []
        self._is_counting = False
        for share in used:
            share.seconds = 0.0
            fitting = max(int(share.limit / share.typical), 1)
            while share.delayed and fitting:
                place = share.delayed.popleft()
                if not place.done():
                    fitting -= 1
                    place.set_result(None)
            if share.delayed:
                # There is a next round even if those that go on take no time.
                self._use(share, REQUEST_SECONDS)
