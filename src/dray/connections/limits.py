"""The limits of the connections of a server."""

from __future__ import annotations

import logging
import resource
from dataclasses import dataclass

log = logging.getLogger(__name__)

KEPT_DESCRIPTORS = 128
"""Descriptors that connections leave for the store, for logs and for requests to nodes."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    slow_client_seconds: float = 30.0
    """The time in which a client must send a body, or read a chunk."""
    head_seconds: float = 10.0
    """The time for the handshake of TLS and the first request, and for the head of each request."""
    idle_seconds: float = 120.0
    """The time that a connection may stay open between requests."""
    new_connections: int = 512
    """Connections that have not yet sent a request with valid credentials, or without any."""
    connections: int = 16_000


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


def connection_limit(limits: ConnectionLimits, descriptors: int) -> int:
    """Return how many connections may be open; they leave descriptors for everything else."""
    kept = min(KEPT_DESCRIPTORS, descriptors // 2)
    return min(limits.connections, descriptors - kept)
