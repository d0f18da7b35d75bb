"""Did you mean: names and values that come close to one that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from dray.explain.selectors.expressions import SelectorSubject

_CLOSE = 0.7


def similar(word: str, known: Iterable[str]) -> list[str]:
    """The known words that come close, the closest first."""
    ranked = [(_distance(word, each), each) for each in set(known) if each != word]
    return [each for distance, each in sorted(ranked) if distance <= 1 - _CLOSE]


def written_otherwise(word: str, known: Iterable[str]) -> list[str]:
    """The known words that differ only in upper and lower case, dashes, underscores and blanks."""
    return sorted(each for each in set(known) if each != word and _plain(each) == _plain(word))


def similar_subjects(
    subject: SelectorSubject, known: Iterable[SelectorSubject]
) -> list[SelectorSubject]:
    """The known names that come close: of the same domain first, then of others."""
    ranked = []
    for each in known:
        distance = _distance(subject.name, each.name)
        is_elsewhere = each.domain != subject.domain
        if each != subject and distance <= (0 if is_elsewhere else 1 - _CLOSE):
            is_other_field = each.field != subject.field
            ranked.append((distance, is_elsewhere, is_other_field, each))
    return [each for *_, each in sorted(ranked)]


def _distance(word: str, other: str) -> float:
    """0 for the same word written otherwise, up to 1 for words without anything in common."""
    one, two = _plain(word), _plain(other)
    return 0.0 if one == two else 1 - difflib.SequenceMatcher(None, one, two).ratio()


def _plain(word: str) -> str:
    return word.casefold().translate(_IGNORED)


_IGNORED = str.maketrans("", "", "-_ .")
