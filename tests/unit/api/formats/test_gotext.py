"""Text as Go prints it."""

from __future__ import annotations

import pytest

from dray.api.formats import gotext


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", '""'),
        ("a b", '"a b"'),
        ('say "hi"', r'"say \"hi\""'),
        ("back\\slash", r'"back\\slash"'),
        ("\n\t\x00\x7f", r'"\n\t\x00\x7f"'),
        ("é世", '"é世"'),
        ("\u200b\U000e0001", r'"\u200b\U000e0001"'),
        ("\u00a0", r'"\u00a0"'),
    ],
)
def test_quote(text: str, quoted: str) -> None:
    assert gotext.quote(text) == quoted


def test_quoted_list() -> None:
    assert gotext.quoted_list(["a", 'b"']) == r'"a", "b\""'


@pytest.mark.parametrize(
    ("messages", "text"), [(["a"], "a"), (["a", "a"], "a"), (["b", "a", "b"], "[b, a]")]
)
def test_aggregate_names_each_message_once(messages: list[str], text: str) -> None:
    assert gotext.aggregate(messages) == text
