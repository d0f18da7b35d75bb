"""Decide whether all requests can be served at once, with a limit on the uses of each device.

This is a maximum flow from requests to devices: necessary for a solution, and quick to decide where
trying every combination is not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence


def has_assignment(
    eligible: Sequence[int], counts: Sequence[int], uses_of: Callable[[int], int]
) -> bool:
    """Return whether every request can get `counts` different devices of its set `eligible`.

    `uses_of` returns how many requests may use a device, given its bit.
    """
    network = _FlowNetwork(eligible, uses_of)
    return all(
        network.augment(request) for request, count in enumerate(counts) for _ in range(count)
    )


class _FlowNetwork:
    """An assignment of devices to requests that grows by one device at a time."""

    def __init__(self, eligible: Sequence[int], uses_of: Callable[[int], int]) -> None:
        self._eligible = eligible
        self._assigned = [0] * len(eligible)
        """The devices of each request."""
        self._users: dict[int, list[int]] = {}
        """The requests that use a device, by its bit."""
        self._full = 0
        """The devices that cannot be used once more."""
        self._uses_of = uses_of

    def augment(self, request: int) -> bool:
        """Assign one more device to a request, reassigning others; return whether that is possible.

        A breadth-first search for an augmenting path: from a request to a full device, from there
        to a request that could give it up for another device, and so on to a device that is free.
        """
        reached_from: dict[int, tuple[int, int]] = {}
        queue = deque([(request, 0)])
        # The devices of one step are one set of bits, so a step costs a few operations on integers
        # and not one for each pair of request and device.
        seen = 0
        while queue:
            mover, leaving = queue.popleft()
            candidates = self._eligible[mover] & ~self._assigned[mover] & ~seen
            free = candidates & ~self._full
            if free:
                self._reassign(free & -free, mover, leaving, reached_from)
                return True
            seen |= candidates
            while candidates:
                bit = candidates & -candidates
                candidates ^= bit
                reached_from[bit] = (mover, leaving)
                queue.extend((other, bit) for other in self._users[bit])
        # Without such a path the flow is maximal (Ford and Fulkerson): no assignment serves all
        # requests so far and this one too.
        return False

    def _reassign(
        self, bit: int, mover: int, leaving: int, reached_from: dict[int, tuple[int, int]]
    ) -> None:
        """Walk the path back to its start: each request takes a device and leaves another one."""
        while True:
            self._assign(mover, bit)
            if not leaving:
                return
            self._unassign(mover, leaving)
            bit = leaving
            mover, leaving = reached_from[bit]

    def _assign(self, request: int, bit: int) -> None:
        users = self._users.setdefault(bit, [])
        users.append(request)
        self._assigned[request] |= bit
        if len(users) >= self._uses_of(bit):
            self._full |= bit

    def _unassign(self, request: int, bit: int) -> None:
        self._users[bit].remove(request)
        self._assigned[request] &= ~bit
        self._full &= ~bit
