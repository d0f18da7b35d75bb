"""Passes connections of a pod on to the API server, and to nothing else.

The pod connects to a port of its own loopback. The process that accepts there is outside, without
rights, knows one address and ends with the pod. Imports nothing but Python's own library, as the
shim does.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from typing import Final, NoReturn

MAX_CONNECTIONS: Final = 64
"""More wait until one of these ends."""
CONNECT_SECONDS: Final = 10.0
_CHUNK_BYTES: Final = 65536
_BACKLOG: Final = 16


def listen(port: int) -> socket.socket:
    """Listen on the loopback of the network namespace that this process is in."""
    return socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)


def run(listener: socket.socket, address: tuple[str, int], pod: int) -> NoReturn:
    """Pass connections on to an address until the process behind a pidfd ends."""
    threading.Thread(target=_end_with, args=(pod,), daemon=True).start()
    free = threading.BoundedSemaphore(MAX_CONNECTIONS)
    while True:
        free.acquire()
        try:
            inner, _ = listener.accept()
        except OSError:
            # The client has left already, or there is no descriptor free.
            free.release()
            continue
        threading.Thread(target=_pass_on, args=(inner, address, free), daemon=True).start()


def _end_with(pod: int) -> None:
    waiting = select.poll()
    waiting.register(pod, select.POLLIN)
    waiting.poll()
    os._exit(0)


def _pass_on(
    inner: socket.socket, address: tuple[str, int], free: threading.BoundedSemaphore
) -> None:
    try:
        # Not create_connection: it imports modules, which this user may have no right to read.
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        with inner, contextlib.suppress(OSError), socket.socket(family) as outer:
            outer.settimeout(CONNECT_SECONDS)
            outer.connect(address)
            outer.settimeout(None)
            sending = threading.Thread(target=_copy, args=(inner, outer), daemon=True)
            sending.start()
            _copy(outer, inner)
            sending.join()
    finally:
        free.release()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy until the end, and pass the end on."""
    with contextlib.suppress(OSError):
        while chunk := source.recv(_CHUNK_BYTES):
            target.sendall(chunk)
    for made, how in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
        with contextlib.suppress(OSError):
            made.shutdown(how)
