"""Rules that are asked once about what is the same, and again about all that is not."""

from __future__ import annotations

from typing import Any

import pytest

from dray.validation import fields, memo


class Rule:
    """Counts how often it is asked; finds fault with what is called bad."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, value: Any) -> fields.Errors:
        self.asked += 1
        if value == {"name": "bad"}:
            yield fields.required(fields.SPEC)


def check(sound: memo.ValidValueCache, rule: Rule, value: Any, circumstances: str = "") -> int:
    return len(list(sound.check(value, circumstances, lambda: rule(value))))


def test_what_is_sound_is_asked_about_once() -> None:
    sound, rule = memo.ValidValueCache(), Rule()
    assert [check(sound, rule, {"name": "good"}) for _ in range(3)] == [0, 0, 0]
    assert rule.asked == 1


def test_what_is_wrong_is_wrong_every_time() -> None:
    sound, rule = memo.ValidValueCache(), Rule()
    assert [check(sound, rule, {"name": "bad"}) for _ in range(3)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"count": 1}, {"count": True}, id="equal in Python only"),
        pytest.param({"a": "x", "b": "y"}, {"a": "x", "b": "z"}, id="another value"),
        pytest.param(["ab", "c"], ["a", "bc"], id="the same letters"),
    ],
)
def test_what_reads_differently_is_asked_about(first: Any, second: Any) -> None:
    sound, rule = memo.ValidValueCache(), Rule()
    check(sound, rule, first)
    check(sound, rule, second)
    assert rule.asked == 2


def test_other_circumstances_are_another_question() -> None:
    sound, rule = memo.ValidValueCache(), Rule()
    check(sound, rule, {"name": "good"}, "gate on")
    check(sound, rule, {"name": "good"}, "gate off")
    assert rule.asked == 2


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo, "MAX_REMEMBERED", 2)
    sound, rule = memo.ValidValueCache(), Rule()
    for number in (1, 2, 3, 1):
        check(sound, rule, number)
    assert rule.asked == 4
