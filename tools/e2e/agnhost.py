#!/usr/bin/env python3
"""Stands in for `/agnhost` of the suite's image: those of its programs that need no other pods.

It needs nothing but Python. A program that it does not have ends with an error.
"""

from __future__ import annotations

import functools
import http.server
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path

CONTAINER_PATH = "/agnhost"
HOSTS = Path("/etc/hosts")
NEW_FILE = "mount-tester new file\n"
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
    """Tell what files are like; `--name=path`, several paths with commas."""
    os.umask(0)
    given = dict(argument.lstrip("-").split("=", 1) for argument in arguments)
    seconds = float(given.pop("retry_time", "180"))
    ends_early = given.pop("break_on_expected_content", "true") == "true"
    # Whatever the order of the options, files are written first.
    for name in sorted(given, key=lambda each: not each.startswith("new_file_")):
        for path in map(Path, given[name].split(",")):
            if name == "file_content_in_loop":
                _print_again_and_again(path, seconds, ends_early=ends_early)
            elif name.startswith("new_file_"):
                _make_file(path, int(name.removeprefix("new_file_"), 8))
            elif name in FILE_REPORTS:
                print(FILE_REPORTS[name](path), flush=True)
            else:
                sys.exit(f"the stand-in cannot tell {name}")


def _content(path: Path) -> str:
    return f'content of file "{path}": {path.read_text("utf-8")}'


def _owner(path: Path) -> str:
    found = path.stat()
    return f'owner UID of "{path}": {found.st_uid}\nowner GID of "{path}": {found.st_gid}'


def _permissions(path: Path) -> str:
    permissions = stat.filemode(stat.S_IMODE(path.stat().st_mode))
    return f'perms of file "{path}": -{permissions[1:]}'


def _make_file(path: Path, mode: int) -> None:
    path.write_text(NEW_FILE, "utf-8")
    path.chmod(mode)
    print(_content(path), flush=True)


def _print_again_and_again(path: Path, seconds: float, *, ends_early: bool) -> None:
    """Print a file for a time, or until its content is that of a new one."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            print(_content(path), flush=True)
            if ends_early and path.read_text("utf-8") == NEW_FILE:
                return
        except FileNotFoundError as error:
            print(f"Error reading file {path}: {error}, retrying", flush=True)
        time.sleep(2.0)


FILE_REPORTS: dict[str, Callable[[Path], str]] = {
    "file_content": _content,
    "file_mode": lambda path: f'mode of file "{path}": {stat.filemode(path.stat().st_mode)}',
    "file_owner": _owner,
    "file_perm": _permissions,
}


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
