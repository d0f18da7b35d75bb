#!/usr/bin/env python3
"""Stands in for `/hostpathplugin` of the suite's image: a proxy between a socket and a TCP port.

The suite runs the driver itself and reaches the kubelet through this program. Whoever connects to
`--endpoint` is joined with the next connection to `--proxy-endpoint`. It needs nothing but Python.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import threading


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--v", help="ignored: nothing is logged")
    parser.add_argument("--endpoint", required=True, metavar="PATH")
    parser.add_argument("--proxy-endpoint", required=True, metavar="tcp://:PORT")
    options = parser.parse_args()
    path = options.endpoint.removeprefix("unix://")
    serve(path, int(options.proxy_endpoint.rpartition(":")[2]))


def serve(path: str, port: int) -> None:
    """Join connections to the socket with connections to the port, until the process ends."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with socket.create_server(("127.0.0.1", port)) as far, socket.socket(socket.AF_UNIX) as near:
        near.bind(path)
        near.listen()
        while True:
            _join(near.accept()[0], far.accept()[0])


def _join(first: socket.socket, second: socket.socket) -> None:
    for source, target in ((first, second), (second, first)):
        threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    # The end of one direction ends both: neither side of gRPC goes on alone.
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    main()
