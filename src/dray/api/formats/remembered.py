"""A bounded cache for functions of a text that clients choose.

`functools.lru_cache` bounds the number of results, and not the size of the texts that it keeps:
a few thousand texts of a megabyte each would fill the memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

MAX_CHARACTERS = 256

P = ParamSpec("P")
T = TypeVar("T")


def for_short_texts(maxsize: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that caches results where no argument is a long text."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        cached = functools.lru_cache(maxsize)(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            for value in args:
                if isinstance(value, str) and len(value) > MAX_CHARACTERS:
                    return function(*args, **kwargs)
            return cached(*args, **kwargs)  # type: ignore[arg-type]

        return call

    return decorate
