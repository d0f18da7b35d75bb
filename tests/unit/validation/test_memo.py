"""Rules that are asked once about what is the same, and again about all that is not."""

from __future__ import annotations

from collections.abc import Mapping
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


class MemberRule:
    """Records the members that it is asked about; finds fault with those called bad."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, members: Mapping[str, Any]) -> fields.Errors:
        self.asked += members
        for name in members:
            if name.startswith("bad"):
                yield fields.required(fields.SPEC.key(name))


def check_members(valid: memo.ValidMemberCache, rule: MemberRule, **members: object) -> list[str]:
    return [error.field for error in valid.check(members, rule)]


def test_only_new_members_are_asked_about() -> None:
    valid, rule = memo.ValidMemberCache(), MemberRule()
    check_members(valid, rule, model="h100", index=0)
    check_members(valid, rule, model="h100", index=1)
    check_members(valid, rule, model="h100", index=1)
    assert rule.asked == ["model", "index", "index"]


def test_a_member_is_asked_about_by_its_name_too() -> None:
    valid, rule = memo.ValidMemberCache(), MemberRule()
    check_members(valid, rule, good="x")
    assert check_members(valid, rule, good="x", bad="x") == ["spec[bad]"]


def test_bad_members_are_bad_every_time() -> None:
    valid, rule = memo.ValidMemberCache(), MemberRule()
    found = [check_members(valid, rule, good="x", bad="y") for _ in range(2)]
    assert found == [["spec[bad]"], ["spec[bad]"]]


def test_large_members_are_not_kept() -> None:
    valid, rule = memo.ValidMemberCache(), MemberRule()
    for _ in range(2):
        check_members(valid, rule, small="x", large="x" * 2**20)
    assert rule.asked == ["small", "large", "large"]


def test_the_number_of_members_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo, "MAX_REMEMBERED", 2)
    valid, rule = memo.ValidMemberCache(), MemberRule()
    for name in ("a", "b", "c", "c", "a"):
        check_members(valid, rule, **{name: "x"})
    assert rule.asked == ["a", "b", "c", "a"]
