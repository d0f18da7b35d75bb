"""The header of warnings in a response.

As apiserver, endpoints/filters/warning.go: each text once, none with control characters, and when
they are too long together, only the beginning of each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

MAX_CHARACTERS = 4096
MAX_CHARACTERS_OF_ONE = 256


def headers(texts: Iterable[str]) -> dict[str, str]:
    """Return the `warning` header for these texts; empty without any."""
    printable = [text for text in dict.fromkeys(texts) if text.isprintable()]
    if not printable:
        return {}
    if sum(map(len, printable)) > MAX_CHARACTERS:
        printable = list(_shortened(printable))
    return {"warning": ", ".join(map(_value, printable))}


def joined(headers_: Iterable[str]) -> str:
    """Join several values of the header."""
    return ", ".join(filter(None, headers_))


def _shortened(texts: Iterable[str]) -> Iterator[str]:
    cut = [text[:MAX_CHARACTERS_OF_ONE] for text in texts]
    before = itertools.accumulate(map(len, cut), initial=0)
    return (text for text, written in zip(cut, before, strict=False) if written < MAX_CHARACTERS)


def _value(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'
