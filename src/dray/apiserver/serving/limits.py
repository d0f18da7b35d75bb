"""The limits of the server: sizes, times and numbers, in total and for each user."""

from __future__ import annotations

from dataclasses import dataclass

from dray.connections.limits import ConnectionLimits

MAX_BODY_BYTES = 3 * 2**20
MAX_LINE_BYTES = 2**16
"""Limit of the request line and of each header: selectors and tokens may be long."""
MAX_HEADERS = 64
READ_BYTES = 2**15
"""What is read of a body ahead, for each connection."""


@dataclass(frozen=True, slots=True)
class UserLimits:
    """The numbers that one user may have at the same time."""

    running: int
    """Requests that are worked on."""
    waiting: int
    """Requests in the user's queue; more are refused with 429."""
    watches: int
    sessions: int
    """exec, attach and followed logs."""
    connections: int
    round_seconds: float = 0.008
    """The time of the user's requests in one round of the event loop."""


ANONYMOUS = UserLimits(
    running=4, waiting=256, watches=16, sessions=4, connections=256, round_seconds=0.001
)
"""All requests without credentials together."""
ORDINARY = UserLimits(running=16, waiting=512, watches=1000, sessions=50, connections=1000)
SYSTEM = UserLimits(
    running=64, waiting=2000, watches=5000, sessions=500, connections=4000, round_seconds=0.01
)
"""Nodes and components. The group system:masters has no limits, as in Kubernetes."""


@dataclass(frozen=True, slots=True)
class ServerLimits(ConnectionLimits):
    body_bytes: int = MAX_BODY_BYTES
    watches: int = 20_000
    wait_seconds: float = 15.0
    """The time that a request may wait in its user's queue."""
    shutdown_seconds: float = 10.0
    anonymous: UserLimits = ANONYMOUS
    ordinary: UserLimits = ORDINARY
    system: UserLimits = SYSTEM


DEFAULT_LIMITS = ServerLimits()
