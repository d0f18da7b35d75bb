"""The mix of requests, and the score of growth."""

from __future__ import annotations

import pytest

from dray.allocator.fragmentation import mix


def test_rare_requests_are_left_out() -> None:
    assert mix.most_common({"a": 60, "b": 38, "c": 2}, str) == {"a": 60 / 98, "b": 38 / 98}


def test_the_order_decides_between_equal_counts() -> None:
    assert list(mix.most_common({"b": 1, "a": 1, "c": 2}, str)) == ["c", "a", "b"]
    assert mix.most_common({}, str) == {}


def test_less_growth_scores_higher() -> None:
    assert mix.score(0, 100) == 50
    assert mix.score(1, 100) == pytest.approx(26.894, abs=0.001)
    assert mix.score(100_000, 100) == pytest.approx(0)
    assert mix.score(-1, 100) == pytest.approx(73.106, abs=0.001)
