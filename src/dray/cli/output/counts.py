"""Numbers of things in words."""

from __future__ import annotations

from collections.abc import Mapping


def number_of(number: int, noun: str) -> str:
    """Return `1 machine`, `3 machines` or `no machines`."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def counted(counts: Mapping[str, int], noun: str = "") -> str:
    """Return `3 nodes (2 ready, 1 not ready)`, `2 nodes (all ready)` or `1 node (ready)`.

    Without a noun, only `3 (2 ready, 1 not ready)`.
    """
    words = {word: number for word, number in counts.items() if number}
    total = sum(words.values())
    named = number_of(total, noun) if noun else str(total)
    if not total:
        return named
    if len(words) == 1:
        inside = next(iter(words)) if total == 1 else f"all {next(iter(words))}"
    else:
        inside = ", ".join(f"{number} {word}" for word, number in words.items())
    return f"{named} ({inside})"
