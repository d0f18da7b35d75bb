"""How much the selectors of one object may be to compile."""

from __future__ import annotations

from dray.api.types import dra
from dray.validation.dra import classes

LONG = "device.driver == 'a' || " * 425


def _selectors(*expressions: str) -> list[dra.DeviceSelector]:
    return [dra.DeviceSelector(cel=dra.CELDeviceSelector(text)) for text in expressions]


def test_as_many_selectors_as_an_object_may_have_are_not_all_long() -> None:
    expressions = [f"{LONG}{number} == 0" for number in range(classes.SELECTORS_MAX_ITEMS)]
    assert len(expressions[-1]) <= classes.EXPRESSION_MAX_BYTES
    assert classes.is_too_much_work(_selectors(*expressions))
    assert not classes.is_too_much_work(_selectors(*expressions[:8]))


def test_equal_selectors_count_once() -> None:
    assert not classes.is_too_much_work(_selectors(*[f"{LONG}true"] * 1000))


def test_calls_count_more_than_other_text() -> None:
    calls = [" && ".join([f"[{number}].all(x, x == 1)"] * 400) for number in range(7)]
    plain = [text.replace("(", "{") for text in calls]
    assert classes.is_too_much_work(_selectors(*calls))
    assert not classes.is_too_much_work(_selectors(*plain))


def test_many_small_selectors_are_no_problem() -> None:
    text = "device.attributes['x.example'].a{} == 'b' && device.driver == 'x.example'"
    assert not classes.is_too_much_work(_selectors(*map(text.format, range(256))))
