"""Quantities behave as apimachinery's, corner cases included."""

from __future__ import annotations

import math

import pytest

from dray.api.formats import quantity
from dray.api.formats.quantity import QuantityFormat


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", "0"),
        ("0Ki", "0"),
        ("00", "0"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Mi", "512Ki"),
        ("8Ki", "8Ki"),
        ("1025Ki", "1025Ki"),
        ("1023", "1023"),
        ("1000M", "1G"),
        ("0.001T", "1G"),
        ("1.5", "1500m"),
        ("1080000000n", "1080m"),
        ("100000", "100k"),
        ("-1000m", "-1"),
        (".001e12", "1e9"),
        ("1000e-12", "1e-9"),
        ("1e14", "100e12"),
        ("1e21", "1e21"),
        (".001Ki", "1024m"),
        ("100.035Ki", "102435840m"),
        ("12345678901234567890123", "12345678901234567890123"),
        ("999999999999999999999k", "999999999999999999999k"),
    ],
)
def test_canonical_text_has_no_fraction_and_the_largest_suffix(text: str, expected: str) -> None:
    assert str(quantity.parse(text)) == expected


@pytest.mark.parametrize("text", ["+5", "1.500", "1.G", "007", "5E3", "5e0", "1.Ki"])
def test_text_that_passes_for_canonical_is_repeated(text: str) -> None:
    assert str(quantity.parse(text)) == text


@pytest.mark.parametrize("text", ["-", "+", ".", "-.", "k", "Ki", "-m", ".M"])
def test_missing_digits_are_zero_where_upstream_does_not_look(text: str) -> None:
    assert quantity.parse(text) == quantity.ZERO


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", quantity.FORMAT_WRONG),
        ("1.1.M", quantity.FORMAT_WRONG),
        ("1+1.0M", quantity.FORMAT_WRONG),
        ("Non-Numeric", quantity.FORMAT_WRONG),
        (" 1", quantity.FORMAT_WRONG),
        ("1 ", quantity.FORMAT_WRONG),
        ("1\n", quantity.FORMAT_WRONG),
        ("١", quantity.FORMAT_WRONG),
        ("0.1mi", quantity.SUFFIX),
        ("1i", quantity.SUFFIX),
        ("1K", quantity.SUFFIX),
        ("1+1", quantity.SUFFIX),
        ("1e", quantity.SUFFIX),
        ("-3.01e-", quantity.SUFFIX),
        ("1e9223372036854775808", quantity.SUFFIX),
        ("Ei", quantity.NUMERIC),
        (".Pi", quantity.NUMERIC),
        ("e-10", quantity.NUMERIC),
    ],
)
def test_malformed_text_is_refused_in_upstream_words(text: str, message: str) -> None:
    with pytest.raises(quantity.QuantityError) as caught:
        quantity.parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["1e2000000000", "1" * 5000, "0." + "0" * 5000 + "1"])
def test_numbers_too_long_to_compute_with_are_refused(text: str) -> None:
    with pytest.raises(quantity.QuantityError, match=quantity.NUMERIC):
        quantity.parse(text)


def test_exponents_keep_32_bits() -> None:
    assert quantity.parse("1e4294967299") == quantity.parse("1e3")


@pytest.mark.parametrize(
    ("text", "nano", "result_format"),
    [
        ("3.001n", 4, QuantityFormat.DECIMAL_SI),
        ("-3.001n", -4, QuantityFormat.DECIMAL_SI),
        ("0.0000000001", 1, QuantityFormat.DECIMAL_SI),
        ("1.1E-9", 2, QuantityFormat.DECIMAL_EXPONENT),
        ("1e-2000000000", 1, QuantityFormat.DECIMAL_EXPONENT),
        ("0.00000012345", 124, QuantityFormat.DECIMAL_SI),
        ("0.000000000001Ki", 2, QuantityFormat.DECIMAL_SI),
    ],
)
def test_more_than_nine_decimal_places_round_away_from_zero(
    text: str, nano: int, result_format: QuantityFormat
) -> None:
    parsed = quantity.parse(text)
    assert (parsed.nano, parsed.format) == (nano, result_format)


@pytest.mark.parametrize("text", ["8Ei", "9Ei", "9223372036854775807Ki", "99999999999999999999Ki"])
def test_binary_quantities_are_capped_at_63_bits(text: str) -> None:
    assert str(quantity.parse(text)) == "9223372036854775807"
    assert str(quantity.parse("-" + text)) == "-9223372036854775807"


def test_decimal_quantities_are_not_capped() -> None:
    assert quantity.parse("12E").nano == 12 * 10**27


@pytest.mark.parametrize(
    ("value", "result_format", "expected"),
    [
        (10**30, QuantityFormat.DECIMAL_SI, "1000E"),
        (10**31, QuantityFormat.DECIMAL_SI, "10000E"),
        (2**70 * 10**9, QuantityFormat.BINARY_SI, "1024Ei"),
        (1024 * 10**9, QuantityFormat.BINARY_SI, "1Ki"),
        (1023 * 10**9, QuantityFormat.BINARY_SI, "1023"),
        (1024 * 10**9 + 1, QuantityFormat.BINARY_SI, "1024000000001n"),
        (1024 * 10**9, QuantityFormat.DECIMAL_SI, "1024"),
        (1024 * 10**9, QuantityFormat.DECIMAL_EXPONENT, "1024"),
    ],
)
def test_text_of_each_format(value: int, result_format: QuantityFormat, expected: str) -> None:
    assert str(quantity.Quantity(value, result_format)) == expected


def test_text_longer_than_the_interpreter_converts() -> None:
    assert str(quantity.Quantity(10**5009, QuantityFormat.DECIMAL_EXPONENT)) == "100e4998"


@pytest.mark.parametrize(
    ("left", "right", "total"),
    [
        ("1Gi", "1Gi", "2Gi"),
        ("1Gi", "1G", "2073741824"),
        ("1G", "1Gi", "2073741824"),
        ("1Ki", "1m", "1024001m"),
        ("0", "1Gi", "1Gi"),
        ("100m", "0", "100m"),
        ("1e3", "1k", "2e3"),
        ("9223372036854775807", "1", "9223372036854775808"),
        ("1E", "1n", "1000000000000000000000000001n"),
    ],
)
def test_a_sum_has_the_format_of_its_first_term_unless_that_is_zero(
    left: str, right: str, total: str
) -> None:
    assert str(quantity.parse(left) + quantity.parse(right)) == total


def test_zero_minus_a_quantity_has_its_format() -> None:
    assert str(quantity.parse("0") - quantity.parse("1Gi")) == "-1Gi"


def test_equality_and_hash_look_at_the_value_only() -> None:
    assert quantity.parse("1Gi") == quantity.parse("1073741824")
    assert len({quantity.parse("1k"), quantity.parse("1000"), quantity.parse("1e3")}) == 1
    assert quantity.parse("1") != 1


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [("100m", "50m", 1), ("50m", "100m", -1), ("10000T", "100Gi", 1), ("1Ki", "1024", 0)],
)
def test_compare(left: str, right: str, expected: int) -> None:
    assert quantity.parse(left).compare(quantity.parse(right)) == expected
    assert quantity.parse(right).compare(quantity.parse(left)) == -expected
    assert (quantity.parse(left) < quantity.parse(right)) is (expected < 0)
    assert (quantity.parse(left) >= quantity.parse(right)) is (expected >= 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("50k", 50000),
        ("9E", 9 * 10**18),
        ("1Ti", 2**40),
        ("0", 0),
        ("-3", -3),
        ("1000m", None),
        ("0m", None),
        ("1.0", None),
        ("10E", None),
        ("0.5Mi", None),
        ("1Pi", None),
        ("1000000000000000000", None),
    ],
)
def test_integers_are_those_upstream_holds_as_int64(text: str, expected: int | None) -> None:
    assert quantity.parse(text).as_int64() == expected
    assert quantity.parse(text).is_integer() is (expected is not None)


def test_a_sum_that_leaves_int64_is_no_integer_even_when_it_returns() -> None:
    maximum = quantity.of(2**63 - 1)
    one = quantity.of(1)
    assert (maximum - one).is_integer()
    assert not (maximum + one - one).is_integer()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.5", 1.5),
        ("1Ki", 1024.0),
        (".000001Ki", 1024000 * 1e-9),
        ("1e300", 1e300),
        ("1e309", math.inf),
        ("-1e309", -math.inf),
    ],
)
def test_float_is_the_product_of_two_rounded_factors(text: str, expected: float) -> None:
    assert quantity.parse(text).as_float() == expected


def test_float_of_a_zero_with_a_huge_exponent_is_not_a_number() -> None:
    assert math.isnan(quantity.parse("0e400").as_float())


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("1", 1, 1000),
        ("1500m", 2, 1500),
        ("-1500m", -2, -1500),
        ("1n", 1, 1),
        ("0.5Mi", 2**19, 2**19 * 1000),
        ("9224372036854776E3", 9224372036854776000 - 2**64, 9224372036854776000000 - 500 * 2**64),
        ("9223372036854775807", 2**63 - 1, -1000),
        ("1e21", 0, 0),
    ],
)
def test_values_round_up_and_overflow_as_upstream(text: str, value: int, milli: int) -> None:
    parsed = quantity.parse(text)
    assert (parsed.value(), parsed.milli_value()) == (value, milli)


def test_negative_decimals_lose_their_whole_unit_too() -> None:
    held_as_decimal = quantity.parse("-0.0000000015") - quantity.parse("1.5")
    assert held_as_decimal.value() == 0


def test_made_from_integers() -> None:
    assert str(quantity.of(2048, QuantityFormat.BINARY_SI)) == "2Ki"
    assert str(quantity.of_milli(2500)) == "2500m"
