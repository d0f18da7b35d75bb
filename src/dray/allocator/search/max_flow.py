"""Can all requests be served at once, if each device has so many seats?

A maximum flow from requests to devices: necessary for a solution, and quick to decide where trying
every combination is not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence


def has_assignment(
    wishes: Sequence[int], counts: Sequence[int], seats: Callable[[int], int]
) -> bool:
    """Whether each request gets its count of different devices out of its wishes, a set of them."""
    hall = _FlowNetwork(wishes, seats)
    return all(hall.augment(request) for request, count in enumerate(counts) for _ in range(count))


class _FlowNetwork:
    def __init__(self, wishes: Sequence[int], seats: Callable[[int], int]) -> None:
        self._wishes = wishes
        self._uses = [0] * len(wishes)
        """The devices that each request has."""
        self._sitting: dict[int, list[int]] = {}
        """The requests on each device, by its bit."""
        self._full = 0
        self._seats = seats

    def augment(self, request: int) -> bool:
        """Find one more device for a request, moving others where they have a choice."""
        came_from: dict[int, tuple[int, int]] = {}
        waiting = deque([(request, 0)])
        seen = 0
        while waiting:
            mover, leaving = waiting.popleft()
            options = self._wishes[mover] & ~self._uses[mover] & ~seen
            free = options & ~self._full
            if free:
                self._move(free & -free, mover, leaving, came_from)
                return True
            seen |= options
            while options:
                bit = options & -options
                options ^= bit
                came_from[bit] = (mover, leaving)
                waiting.extend((other, bit) for other in self._sitting[bit])
        return False

    def _move(
        self, bit: int, mover: int, leaving: int, came_from: dict[int, tuple[int, int]]
    ) -> None:
        while True:
            self._sit(mover, bit)
            if not leaving:
                return
            self._stand_up(mover, leaving)
            bit = leaving
            mover, leaving = came_from[bit]

    def _sit(self, request: int, bit: int) -> None:
        sitting = self._sitting.setdefault(bit, [])
        sitting.append(request)
        self._uses[request] |= bit
        if len(sitting) >= self._seats(bit):
            self._full |= bit

    def _stand_up(self, request: int, bit: int) -> None:
        self._sitting[bit].remove(request)
        self._uses[request] &= ~bit
        self._full &= ~bit
