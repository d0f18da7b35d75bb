#!/usr/bin/env python3
"""Stands in for `/agnhost` of the suite's image: those of its programs that need no other pods.

It needs nothing but Python. A program that it does not have ends with an error.
"""

from __future__ import annotations

import functools
import http.server
import signal
import stat
import sys
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path

CONTAINER_PATH = "/agnhost"
HOSTS = Path("/etc/hosts")
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
    print("Paused", flush=True)
    while True:
        signal.pause()


def _print_command(arguments: Sequence[str]) -> None:
    words = " ".join([sys.argv[0], "entrypoint-tester", *arguments])
    print(f"[{words}]")


def _print_hosts(_arguments: Sequence[str]) -> None:
    print(HOSTS.read_text("utf-8"))


def _print_files(arguments: Sequence[str]) -> None:
    for argument in arguments:
        name, _, path = argument.lstrip("-").partition("=")
        for one in path.split(","):
            if name == "file_content":
                print(f'content of file "{one}": {Path(one).read_text("utf-8")}')
            elif name == "file_mode":
                print(f'mode of file "{one}": {stat.filemode(Path(one).stat().st_mode)}')
            else:
                sys.exit(f"the stand-in cannot tell {name}")


def _serve_files(arguments: Sequence[str]) -> None:
    port = int(arguments[-1].rpartition("=")[2]) if arguments else 80
    if sys.argv[0] == CONTAINER_PATH:
        # The image has this file, and specs move it away to break a probe.
        Path("/localhost.crt").touch()
    _serve(port, functools.partial(http.server.SimpleHTTPRequestHandler, directory="/"))


def _serve_liveness(_arguments: Sequence[str]) -> None:
    started = time.monotonic()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_well = time.monotonic() - started < HEALTHY_SECONDS
            self.send_response(HTTPStatus.OK if is_well else HTTPStatus.INTERNAL_SERVER_ERROR)
            self.end_headers()

    _serve(8080, Handler)


def _serve(port: int, handler: Callable[..., http.server.BaseHTTPRequestHandler]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    http.server.ThreadingHTTPServer(("", port), handler).serve_forever()


PROGRAMS: dict[str, Callable[[Sequence[str]], None]] = {
    "pause": _pause,
    "entrypoint-tester": _print_command,
    "etc-hosts": _print_hosts,
    "mounttest": _print_files,
    "test-webserver": _serve_files,
    "liveness": _serve_liveness,
}

if __name__ == "__main__":
    main()
