"""Parts of documents: each below its size, and together the whole document."""

from __future__ import annotations

import json
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from dray.cli.mcp import paging
from dray.cli.mcp.paging import DocumentPart, Place
from tests import rounds

BUDGET = 600

texts = st.text(max_size=40) | st.text(min_size=300, max_size=900)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts
documents = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=6), inner, max_size=12)
    ),
    max_leaves=60,
)


def cursor_of(place: Place, start: int) -> str:
    return f"{'.'.join(map(str, place))}:{start}"


def read(document: Any, place: Place = (), start: int = 0) -> Any:
    """A part of a document, with all that its cuts lead to."""
    part = paging.part_of(document, place, start)
    shown, cuts = paging.page(part, BUDGET, cursor_of)
    size = len(paging.render(shown)) + sum(len(paging.render(cut._asdict())) + 1 for cut in cuts)
    assert size <= BUDGET
    for cut in cuts:
        positions, _, behind = cut.cursor.partition(":")
        where = tuple(map(int, filter(None, positions.split("."))))
        assert (int(behind), where) > (start, place) or len(where) > len(place)
        shown = extended(shown, where[len(place) :], start, read(document, where, int(behind)))
    return shown


def extended(value: Any, steps: Place, start: int, rest: Any) -> Any:
    if not steps:
        return {**value, **rest} if isinstance(value, dict) else value + rest
    number = steps[0] - start
    if isinstance(value, dict):
        key = list(value)[number]
        return {**value, key: extended(value[key], steps[1:], 0, rest)}
    changed = extended(value[number], steps[1:], 0, rest)
    return [*value[:number], changed, *value[number + 1 :]]


@rounds.examples(60, long=3000)
@hypothesis.given(documents)
def test_the_parts_are_the_document(document: Any) -> None:
    assert read({"answer": document}) == {"answer": document}


def test_what_fits_is_whole() -> None:
    document = {"answer": [1, {"a": "b"}], "notes": []}
    assert paging.page(DocumentPart(document, (), ""), BUDGET, cursor_of) == (document, [])


def test_short_fields_are_whole_beside_long_ones() -> None:
    document = {"long": ["x" * 50] * 100, "summary": "it waits", "longer": ["y" * 50] * 100}
    shown, cuts = paging.page(DocumentPart(document, (), ""), BUDGET, cursor_of)
    assert shown["summary"] == "it waits"
    assert shown["long"]
    assert shown["longer"]
    assert [(cut.path, cut.of) for cut in cuts] == [("long", 100), ("longer", 100)]


@pytest.mark.parametrize("text", ["\x7f", "\x00", "\u2028", "\U000e0041", "\ud800", "é"])
def test_only_printable_ascii_is_written(text: str) -> None:
    written = paging.render({text: [text]})
    assert all(" " <= character <= "~" for character in written)
    assert json.loads(written) == {text: [text]}
