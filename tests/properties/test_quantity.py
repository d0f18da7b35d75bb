"""Quantity arithmetic agrees with fractions; its text survives a round trip."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from dray.api.formats import quantity

FACTORS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
    "e5": Fraction(10**5),
    "E-2": Fraction(1, 100),
}
MAXIMUM_BINARY = Fraction(2**63 - 1)


@st.composite
def written_quantities(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A text and the value it stands for."""
    sign = draw(st.sampled_from(["", "+", "-"]))
    whole = str(draw(st.integers(0, 10**20)))
    fraction = draw(st.sampled_from(["", "5", "25", "125", "000000001", "0000000000001"]))
    suffix = draw(st.sampled_from(sorted(FACTORS)))
    value = Fraction(f"{whole}.{fraction or 0}") * FACTORS[suffix]
    nano = -(-value * 10**9 // 1)
    value = Fraction(nano, 10**9)
    if suffix.endswith("i"):
        value = min(value, MAXIMUM_BINARY)
    point = f".{fraction}" if fraction else ""
    return f"{sign}{whole}{point}{suffix}", -value if sign == "-" else value


def value_of(held: quantity.Quantity) -> Fraction:
    return Fraction(held.nano, 10**9)


@given(written_quantities())
def test_parsing_is_exact_to_a_nano_unit(written: tuple[str, Fraction]) -> None:
    text, value = written
    assert value_of(quantity.parse(text)) == value


@given(written_quantities())
def test_canonical_text_round_trips_and_is_a_fixed_point(written: tuple[str, Fraction]) -> None:
    first = quantity.parse(written[0])
    again = quantity.parse(first.canonical_text())
    assert again == first
    assert again.canonical_text() == first.canonical_text()
    assert str(again) == first.canonical_text()


@given(written_quantities(), written_quantities())
def test_sum_difference_and_order_agree_with_fractions(
    left: tuple[str, Fraction], right: tuple[str, Fraction]
) -> None:
    one, other = quantity.parse(left[0]), quantity.parse(right[0])
    assert value_of(one + other) == left[1] + right[1]
    assert value_of(one - other) == left[1] - right[1]
    assert value_of(-one) == -left[1]
    assert (one < other) is (left[1] < right[1])
    assert one.compare(other) == (left[1] > right[1]) - (left[1] < right[1])
    assert one.sign() == (left[1] > 0) - (left[1] < 0)


@given(written_quantities(), written_quantities())
def test_sums_keep_their_text_through_a_round_trip(
    left: tuple[str, Fraction], right: tuple[str, Fraction]
) -> None:
    total = quantity.parse(left[0]) + quantity.parse(right[0])
    if abs(total.nano) <= (2**63 - 1) * 10**9:
        assert quantity.parse(str(total)) == total


@given(written_quantities())
def test_integers_are_exact(written: tuple[str, Fraction]) -> None:
    held = quantity.parse(written[0])
    integer = held.as_int64()
    assert integer is None or integer == written[1]
    assert held.is_integer() is (integer is not None)


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP ", max_size=12))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        held = quantity.parse(text)
    except quantity.QuantityError:
        return
    assert quantity.parse(held.canonical_text()) == held
