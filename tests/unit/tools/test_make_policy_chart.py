"""The picture in the documentation is the one that the code draws."""

from __future__ import annotations

from tools import make_policy_chart


def test_the_picture_is_up_to_date() -> None:
    kept = make_policy_chart.TARGET.read_text("utf-8")
    assert kept == make_policy_chart.drawn(), "run `make generate`"
