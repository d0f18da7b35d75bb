"""The limits of the server: sizes, times and numbers, in total and for each user."""

from __future__ import annotations

import logging
import resource
from dataclasses import dataclass

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 3 * 2**20
MAX_LINE_BYTES = 2**16
"""Limit of the request line and of each header: selectors and tokens may be long."""
MAX_HEADERS = 64
READ_BYTES = 2**15
"""What is read of a body ahead, for each connection."""
KEPT_DESCRIPTORS = 128
"""Descriptors that connections leave for the store, for logs and for requests to nodes."""


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


ANONYMOUS = UserLimits(running=4, waiting=256, watches=16, sessions=4, connections=256)
"""All requests without credentials together."""
ORDINARY = UserLimits(running=16, waiting=512, watches=1000, sessions=50, connections=1000)
SYSTEM = UserLimits(running=64, waiting=2000, watches=5000, sessions=500, connections=4000)
"""Nodes and components. The group system:masters has no limits, as in Kubernetes."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    body_bytes: int = MAX_BODY_BYTES
    watches: int = 20_000
    slow_client_seconds: float = 30.0
    """The time in which a client must send a body, or read a chunk."""
    head_seconds: float = 10.0
    """The time for the handshake of TLS and the first request, and for the head of each request."""
    idle_seconds: float = 120.0
    """The time that a connection may stay open between requests."""
    wait_seconds: float = 15.0
    """The time that a request may wait in its user's queue."""
    new_connections: int = 512
    """Connections that have not yet sent a request with valid credentials, or without any."""
    connections: int = 16_000
    shutdown_seconds: float = 10.0
    anonymous: UserLimits = ANONYMOUS
    ordinary: UserLimits = ORDINARY
    system: UserLimits = SYSTEM


DEFAULT_LIMITS = ServerLimits()


def raise_descriptor_limit() -> int:
    """Raise the limit of open files as far as is allowed; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError) as error:
        log.warning("the limit of %d open files cannot be raised: %s", soft, error)
        return soft
    return hard


def connection_limit(limits: ServerLimits, descriptors: int) -> int:
    """Return how many connections may be open; they leave descriptors for everything else."""
    kept = min(KEPT_DESCRIPTORS, descriptors // 2)
    return min(limits.connections, descriptors - kept)
