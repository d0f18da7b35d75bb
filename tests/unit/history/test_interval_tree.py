"""The interval tree: the ancestors of a time find all periods that contain it, and no others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dray.history import interval_tree

TIMES = st.integers(0, 2**42)


@given(TIMES, TIMES)
def test_a_fork_lies_in_its_period_above_both_ends(one: int, other: int) -> None:
    since, until = sorted((one, other))
    fork = interval_tree.fork(since, until)
    assert since <= fork <= until
    if since < until:
        assert fork in interval_tree.ancestors(since).later
        assert fork in interval_tree.ancestors(until).earlier


@given(TIMES, TIMES, TIMES)
def test_ancestors_find_a_period_if_it_contains_the_time(one: int, other: int, time: int) -> None:
    since, until = sorted((one, other))
    fork = interval_tree.fork(since, until)
    later, earlier = interval_tree.ancestors(time)
    is_found = (fork in later and since <= time) or (fork in earlier and until > time)
    assert is_found == (since <= time < until)


def test_a_time_has_few_ancestors() -> None:
    assert sum(map(len, interval_tree.ancestors(1_763_520_000_123))) <= interval_tree.LEVELS + 1
