"""Names and values similar to one that does not exist, for "did you mean"."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from dray.explain.selectors.expressions import SelectorSubject

_CLOSE = 0.7


def similar(word: str, candidates: Iterable[str]) -> list[str]:
    """Return the candidates that are similar to a word, the most similar first."""
    others = set(candidates) - {word}
    ranked = [(_distance(word, candidate), candidate) for candidate in others]
    return [candidate for distance, candidate in sorted(ranked) if distance <= 1 - _CLOSE]


def by_distance(word: str, candidates: Iterable[str]) -> list[str]:
    """Return all candidates, the most similar first."""
    return sorted(candidates, key=lambda candidate: (_distance(word, candidate), candidate))


def similar_domains(word: str, candidates: Iterable[str]) -> list[str]:
    """Return the similar names of classes or drivers, then those with labels more or fewer."""
    names = sorted(set(candidates) - {word})
    nested = [name for name in names if _is_part(word, name) or _is_part(name, word)]
    return list(dict.fromkeys([*similar(word, names), *nested]))


def _is_part(domain: str, other: str) -> bool:
    return f".{other}.".startswith(f".{domain}.") or f".{other}.".endswith(f".{domain}.")


def same_but_spelling(word: str, candidates: Iterable[str]) -> list[str]:
    """Return the candidates that differ only in case, dashes, underscores, dots and blanks."""
    others = set(candidates) - {word}
    return sorted(candidate for candidate in others if _plain(candidate) == _plain(word))


def parts_in_other_case(part: str, texts: Iterable[str]) -> list[str]:
    """Return how a part of a text is written in the texts that have it in another case."""
    found = (
        text[position : position + len(part)]
        for text in texts
        if part not in text and (position := text.casefold().find(part.casefold())) >= 0
    )
    return list(dict.fromkeys(found))


def similar_subjects(
    subject: SelectorSubject, candidates: Iterable[SelectorSubject]
) -> list[SelectorSubject]:
    """Return the candidates with similar names; of other domains, only equal names."""
    ranked = []
    for candidate in candidates:
        distance = _distance(subject.name, candidate.name)
        is_elsewhere = candidate.domain != subject.domain
        if candidate != subject and distance <= (0 if is_elsewhere else 1 - _CLOSE):
            is_other_field = candidate.field != subject.field
            ranked.append((distance, is_elsewhere, is_other_field, candidate))
    return [candidate for *_, candidate in sorted(ranked)]


def _distance(word: str, other: str) -> float:
    """Return 0 for words that differ only in spelling, up to 1 for unrelated words."""
    one, two = _plain(word), _plain(other)
    return 0.0 if one == two else 1 - difflib.SequenceMatcher(None, one, two).ratio()


def _plain(word: str) -> str:
    return word.casefold().translate(_IGNORED)


_IGNORED = str.maketrans("", "", "-_ .")
