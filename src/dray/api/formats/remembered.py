"""A bounded cache for functions of a text that clients choose.

`functools.lru_cache` bounds the number of results, and not the size of the texts that it keeps:
a few thousand texts of a megabyte each would fill the memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

MAX_CHARACTERS = 256

P = ParamSpec("P")
T = TypeVar("T")
TextFunction = Callable[Concatenate[str, P], T]


def for_short_texts(maxsize: int) -> Callable[[TextFunction[P, T]], TextFunction[P, T]]:
    """Return a decorator that caches results where the first argument is not a long text."""

    def decorate(function: TextFunction[P, T]) -> TextFunction[P, T]:
        cached = functools.lru_cache(maxsize)(function)

        @functools.wraps(function)
        def call(text: str, /, *args: P.args, **kwargs: P.kwargs) -> T:
            if len(text) > MAX_CHARACTERS:
                return function(text, *args, **kwargs)
            return cached(text, *args, **kwargs)  # type: ignore[arg-type]

        return call

    return decorate
