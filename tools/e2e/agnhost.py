#!/usr/bin/env python3
"""Stands in for `/agnhost` of the suite's image: those of its programs that need no other pods.

It needs nothing but Python. A program that it does not have ends with an error.
"""

from __future__ import annotations

import http.server
import signal
import sys
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path

HEALTHY_SECONDS = 10.0
"""How long the program `liveness` says that it is well."""


def main() -> None:
    name, *arguments = sys.argv[1:] or ["pause"]
    if name not in PROGRAMS:
        sys.exit(f"{sys.argv[0]}: the stand-in has no program {name}")
    PROGRAMS[name](arguments)


def _pause(_arguments: Sequence[str]) -> None:
    # The first process of a container ends by no signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    while True:
        signal.pause()


def _print_command(arguments: Sequence[str]) -> None:
    words = " ".join([sys.argv[0], "entrypoint-tester", *arguments])
    print(f"[{words}]")


def _print_hosts(_arguments: Sequence[str]) -> None:
    print(Path("/etc/hosts").read_text("utf-8"))


def _serve_files(arguments: Sequence[str]) -> None:
    port = int(arguments[-1].rpartition("=")[2]) if arguments else 80
    _serve(port, lambda: HTTPStatus.OK)


def _serve_liveness(_arguments: Sequence[str]) -> None:
    started = time.monotonic()

    def status() -> HTTPStatus:
        is_well = time.monotonic() - started < HEALTHY_SECONDS
        return HTTPStatus.OK if is_well else HTTPStatus.INTERNAL_SERVER_ERROR

    _serve(8080, status)


def _serve(port: int, status: Callable[[], HTTPStatus]) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status())
            self.end_headers()
            self.wfile.write(b"ok\n")

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    http.server.ThreadingHTTPServer(("", port), Handler).serve_forever()


PROGRAMS: dict[str, Callable[[Sequence[str]], None]] = {
    "pause": _pause,
    "entrypoint-tester": _print_command,
    "etc-hosts": _print_hosts,
    "test-webserver": _serve_files,
    "liveness": _serve_liveness,
}

if __name__ == "__main__":
    main()
