"""The undo log."""

from __future__ import annotations

from dray.allocator.model.trail import Trail


def test_unwinding_takes_back_the_latest_change_first() -> None:
    trail = Trail()
    done: list[str] = []
    trail.push(done.append, "first")
    trail.push(done.append, "second")
    trail.unwind(0)
    assert done == ["second", "first"]


def test_unwinding_to_a_mark_keeps_what_was_before_it() -> None:
    trail = Trail()
    done: list[str] = []
    trail.push(done.append, "kept")
    mark = trail.mark()
    trail.push(done.append, "taken back")
    trail.unwind(mark)
    assert done == ["taken back"]
    assert trail.mark() == mark
