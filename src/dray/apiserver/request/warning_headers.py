"""Warnings to whoever made a request: the header that carries them.

As apiserver, endpoints/filters/warning.go: each text once, none with control characters, and when
they are too long together, only the beginning of each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

MAX_CHARACTERS = 4096
MAX_CHARACTERS_OF_ONE = 256


def headers(texts: Iterable[str]) -> dict[str, str]:
    """The `warning` header for these texts; none where there are none."""
    told = [text for text in dict.fromkeys(texts) if text.isprintable()]
    if not told:
        return {}
    if sum(map(len, told)) > MAX_CHARACTERS:
        told = list(_shortened(told))
    return {"warning": ", ".join(map(_value, told))}


def joined(headers_: Iterable[str]) -> str:
    """Several values of the header as one."""
    return ", ".join(filter(None, headers_))


def _shortened(texts: Iterable[str]) -> Iterator[str]:
    cut = [text[:MAX_CHARACTERS_OF_ONE] for text in texts]
    before = itertools.accumulate(map(len, cut), initial=0)
    return (text for text, written in zip(cut, before, strict=False) if written < MAX_CHARACTERS)


def _value(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'
