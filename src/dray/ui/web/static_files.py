"""The files of the page: read once, from the package, wherever it is installed."""

from __future__ import annotations

import gzip
import hashlib
import importlib.resources
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

INDEX: Final = "index.html"
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
    "webmanifest": "application/manifest+json",
    "json": "application/json",
    "txt": "text/plain; charset=utf-8",
}
"""By the end of the name; other files, such as types for editors, are not served."""
_COMPRESSED: Final = ("text/", "image/svg", "application/")


class StaticFile(NamedTuple):
    body: bytes
    compressed: bytes
    """The same with gzip; empty where that is not shorter."""
    content_type: str
    etag: str


def load() -> dict[str, StaticFile]:
    """Return every file of the page by its path below `static`."""
    root = importlib.resources.files("dray.ui") / "static"
    return dict(_files(root, ""))


def _files(directory: Traversable, prefix: str) -> Iterator[tuple[str, StaticFile]]:
    if not directory.is_dir():
        return
    for entry in directory.iterdir():
        path = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _files(entry, f"{path}/")
        elif (content_type := _TYPES.get(entry.name.rpartition(".")[2])) is not None:
            yield path, _file(entry.read_bytes(), content_type)


def _file(body: bytes, content_type: str) -> StaticFile:
    compressed = b""
    if content_type.startswith(_COMPRESSED):
        compressed = gzip.compress(body, mtime=0)
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    shorter = compressed if len(compressed) < len(body) else b""
    return StaticFile(body, shorter, content_type, etag)
