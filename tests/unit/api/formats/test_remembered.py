"""A cache for functions of short texts."""

from __future__ import annotations

from dray.api.formats import remembered


def test_only_results_for_short_texts_are_kept() -> None:
    calls: list[str] = []

    @remembered.for_short_texts(8)
    def upper(text: str, suffix: str = "") -> str:
        calls.append(text)
        return text.upper() + suffix

    assert [upper("a"), upper("a"), upper("a", suffix="!")] == ["A", "A", "A!"]
    assert calls == ["a", "a"]
    long = "b" * (remembered.MAX_CHARACTERS + 1)
    assert upper(long) == upper(long) == long.upper()
    assert calls == ["a", "a", long, long]
