"""Whole numbers as Go reads them."""

from __future__ import annotations

import pytest

from dray.api.formats import gonumbers


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-1", -1),
        ("+7", 7),
        ("007", 7),
        ("0" * 9_000 + "1", 1),
        (str(2**63 - 1), 2**63 - 1),
    ],
)
def test_numbers(text: str, number: int) -> None:
    assert gonumbers.int64(text) == number


@pytest.mark.parametrize(
    "text", ["", "-", "1_0", " 1", "1.0", "1e3", "\u0661", "0x1", "--1", "+-1"]
)
def test_other_texts(text: str) -> None:
    with pytest.raises(gonumbers.NumberError, match="invalid syntax"):
        gonumbers.int64(text)


@pytest.mark.parametrize("text", [str(2**63), str(-(2**63) - 1), "9" * 5_000, "-" + "9" * 5_000])
def test_more_than_64_bits(text: str) -> None:
    with pytest.raises(gonumbers.NumberError, match="value out of range"):
        gonumbers.int64(text)
    assert gonumbers.int64_or_none(text) is None


def test_numbers_without_a_sign() -> None:
    assert gonumbers.uint64(str(2**64 - 1)) == 2**64 - 1
    with pytest.raises(gonumbers.NumberError, match=r"ParseUint.*value out of range"):
        gonumbers.uint64(str(2**64))
    with pytest.raises(gonumbers.NumberError, match="invalid syntax"):
        gonumbers.uint64("-1")
