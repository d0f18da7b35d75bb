"""Draws a card: its slices in a row, with the partitions that lie on them."""

from __future__ import annotations

from collections.abc import Sequence

from dray.planner.capacity.cards import Card, PlacedPartition

_MIN_CELL, _MAX_CELL = 3, 10
_ASCII = str.maketrans("┌┬┐└┴┘─│", "+++++" + "+" + "-|")


def drawing(card: Card, width: int, *, is_ascii: bool) -> list[str]:
    """Return the lines of a drawing that fits in `width` characters, if that is enough for it."""
    cell = min(max((width - 1) // card.slices - 1, _MIN_CELL), _MAX_CELL)
    numbers = "".join(f" {number:<{cell}}" for number in range(card.slices)).rstrip()
    lines = [
        numbers,
        _border("┌┬┐", card, cell),
        _content(card, cell),
        _border("└┴┘", card, cell),
    ]
    return [line.translate(_ASCII) if is_ascii else line for line in lines]


def _border(corners: str, card: Card, cell: int) -> str:
    return corners[0] + corners[1].join(["─" * cell] * card.slices) + corners[2]


def _content(card: Card, cell: int) -> str:
    starting = {part.start: part for part in card.held}
    texts: list[str] = []
    number = 0
    while number < card.slices:
        part = starting.get(number)
        size = part.size if part is not None else 1
        width = size * (cell + 1) - 1
        texts.append(_text(part, width))
        number += max(size, 1)
    return f"│{'│'.join(texts)}│"


def _text(part: PlacedPartition | None, width: int) -> str:
    name = part.profile if part is not None else ""
    # A name that does not fit still shows that the slice is in use.
    return f"{name[:width]:^{width}}"


def in_order(cards: Sequence[Card]) -> list[Card]:
    """Return the cards that are in use in part, those with a profile that has no place first."""
    shown = [card for card in cards if card.held and card.slices and card.free_slices]
    return sorted(shown, key=lambda card: not card.blocked)
