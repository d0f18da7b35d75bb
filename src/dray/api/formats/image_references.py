"""References to container images: `registry.example.com:5000/team/app:1.2@sha256:…`.

The grammar and the short names of Docker Hub are those of github.com/distribution/reference.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from dray.api.formats import remembered

DEFAULT_DOMAIN = "docker.io"
DEFAULT_TAG = "latest"

_DOMAIN_PART = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_DOMAIN = rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PATH_PART = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?P<path>{_PATH_PART}(?:/{_PATH_PART})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    "(?:@(?P<digest>sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}))?",
    re.ASCII,
)
_DOMAIN_PATTERN = re.compile(_DOMAIN, re.ASCII)
_BARE_DIGEST = re.compile("[a-f0-9]{64}", re.ASCII)
_MAXIMUM_PATH_BYTES = 255


class ImageReference(NamedTuple):
    """Registry, repository, tag and digest of an image; `tag` is empty only with a digest."""

    domain: str
    path: str
    tag: str
    digest: str


@remembered.for_short_texts(1024)
def parse(text: str) -> ImageReference | None:
    """Parse an image reference. Returns None if `text` is not one."""
    if _BARE_DIGEST.fullmatch(text):
        return None
    domain, remainder = _split_domain(text)
    match = _REFERENCE.fullmatch(remainder)
    if not match or not _DOMAIN_PATTERN.fullmatch(domain):
        return None
    path, tag, digest = match["path"], match["tag"] or "", match["digest"] or ""
    if len(path) > _MAXIMUM_PATH_BYTES:
        return None
    return ImageReference(domain, path, tag or ("" if digest else DEFAULT_TAG), digest)


def _split_domain(text: str) -> tuple[str, str]:
    first, slash, rest = text.partition("/")
    if not slash:
        return DEFAULT_DOMAIN, f"library/{text}"
    is_domain = first == "localhost" or "." in first or ":" in first or first != first.lower()
    domain, path = (first, rest) if is_domain else (DEFAULT_DOMAIN, text)
    if domain == "index.docker.io":
        domain = DEFAULT_DOMAIN
    if domain == DEFAULT_DOMAIN and "/" not in path:
        path = f"library/{path}"
    return domain, path
