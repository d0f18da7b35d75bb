"""Quantities ("1Gi", "100m"): exact value, canonical text and arithmetic of Kubernetes.

Every quantity is a whole number of nano units, so `nano` is its exact value and equality, order and
hash look at nothing else: `parse("1Gi") == parse("1024Mi")`. `str()` gives the canonical text.

Upstream (apimachinery pkg/api/resource) holds a number as a 64-bit integer times a power of ten
while it fits, and as an arbitrary decimal afterwards. Which of the two shows in `as_int64`,
`as_float` and `scaled_value`; `exponent` and `is_decimal` keep that.
"""

from __future__ import annotations

import decimal
import enum
import functools
import math
import re
from dataclasses import dataclass
from typing import NamedTuple

FORMAT_WRONG = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
NUMERIC = "unable to parse numeric part of quantity"
SUFFIX = "unable to parse quantity's suffix"

NANO, MICRO, MILLI, UNIT = -9, -6, -3, 0
"""Scales, as powers of ten."""

_UNIT_NANO = 10**9
_MAXIMUM_INT64 = 2**63 - 1
_MINIMUM_INT64 = -(2**63)

# Upstream has no limit and would run for hours on "1e2000000000"; nothing real comes close to this.
_MAXIMUM_DIGITS = 4000


class QuantityError(ValueError):
    """The text is not a quantity; the message is upstream's."""


class Format(enum.Enum):
    """The suffixes of a quantity's canonical text."""

    DECIMAL_EXPONENT = "DecimalExponent"
    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"


_DECIMAL_SUFFIXES = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX_OF = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_SUFFIX_OF = ("", *_BINARY_SUFFIXES)

_PARTS = re.compile(
    r"([+-]?)0*+([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[-+]?+[0-9]*+)", re.ASCII
)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An immutable quantity. Compare quantities with each other, or their `nano` with integers."""

    nano: int
    format: Format
    exponent: int = UNIT
    is_decimal: bool = False
    text: str | None = None
    """What was parsed, where upstream repeats it instead of computing the canonical text."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __le__(self, other: Quantity) -> bool:
        return self.nano <= other.nano

    def __gt__(self, other: Quantity) -> bool:
        return self.nano > other.nano

    def __ge__(self, other: Quantity) -> bool:
        return self.nano >= other.nano

    def compare(self, other: Quantity) -> int:
        """Return -1, 0 or 1 if this quantity is less than, equal to or greater than `other`."""
        return (self.nano > other.nano) - (self.nano < other.nano)

    def __add__(self, other: Quantity) -> Quantity:
        """Return the sum, in this quantity's format, or in the other's when this one is zero."""
        return self._plus(other.nano, other)

    def __sub__(self, other: Quantity) -> Quantity:
        return self._plus(-other.nano, other)

    def _plus(self, nano: int, other: Quantity) -> Quantity:
        total = self.nano + nano
        result_format = self.format if self.nano else other.format
        if not (self.is_decimal or other.is_decimal):
            if not nano:
                return Quantity(total, result_format, self.exponent)
            if not self.nano:
                return Quantity(total, result_format, other.exponent)
        exponent = min(self.exponent, other.exponent)
        is_decimal = (
            self.is_decimal
            or other.is_decimal
            or not all(_fits(_at(number, exponent)) for number in (self.nano, nano, total))
        )
        return Quantity(total, result_format, exponent, is_decimal)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.format, self.exponent, self.is_decimal)

    def sign(self) -> int:
        return (self.nano > 0) - (self.nano < 0)

    def is_integer(self) -> bool:
        """Return whether upstream can give this as an int64: "1000m" and "0.5Mi" it cannot."""
        return self.as_int64() is not None

    def as_int64(self) -> int | None:
        if self.is_decimal or self.exponent < 0:
            return None
        value = self.nano // _UNIT_NANO
        return value if _fits(value) else None

    def as_float(self) -> float:
        """Return upstream's float: the product of two rounded factors, or infinity."""
        try:
            base = float(_at(self.nano, self.exponent))
        except OverflowError:
            base = math.copysign(math.inf, self.nano)
        return base * _power_of_ten(self.exponent) if self.exponent else base

    def value(self) -> int:
        """Return the value in whole units, rounded up; see `scaled_value`."""
        return self.scaled_value(UNIT)

    def milli_value(self) -> int:
        return self.scaled_value(MILLI)

    def scaled_value(self, scale: int) -> int:
        """Return the value in units of 10**scale as an int64, rounded up.

        Overflows as upstream does.

        Negative numbers round away from zero while they are held as integers (amount.go
        AsScaledInt64); as decimals they are truncated and then raised (scale_int.go scaledValue).
        """
        if self.is_decimal:
            return self._scaled_decimal(scale)
        if self.exponent >= scale:
            return _scale_up(_at(self.nano, self.exponent), self.exponent - scale)
        magnitude = -(-abs(self.nano) // _ten_to(scale - NANO))
        return magnitude if self.nano > 0 else -magnitude

    def _scaled_decimal(self, scale: int) -> int:
        unscaled = _at(self.nano, self.exponent)
        shift = scale - self.exponent
        if shift <= 0:
            factor = _ten_to(-shift) if shift > -19 else _MINIMUM_INT64
            return _wrap(_wrap(unscaled) * factor) if shift else _wrap(unscaled)
        if unscaled < _MAXIMUM_INT64 and shift < 19:
            narrow = _wrap(unscaled)
            quotient = abs(narrow) // _ten_to(shift)
            return (quotient if narrow > 0 else -quotient) + (narrow % _ten_to(shift) != 0)
        return _wrap(-(-unscaled // _ten_to(shift)))

    def __str__(self) -> str:
        return self.text if self.text is not None else self.canonical_text()

    def canonical_text(self) -> str:
        """Format without fraction or loss of precision, with the largest possible suffix.

        Upstream loses the suffix beyond 999E and 1023Ei ("1000E" becomes "1"); here it stays.
        """
        if not self.nano:
            return "0"
        if self.format is Format.BINARY_SI and self._is_written_in_binary():
            return _binary_text(self.nano // _UNIT_NANO)
        return _decimal_text(self.nano, self.format)

    def _is_written_in_binary(self) -> bool:
        return abs(self.nano) >= 1024 * _UNIT_NANO and self.nano % _UNIT_NANO == 0


ZERO = Quantity(0, Format.DECIMAL_SI, text="0")


def of(value: int, result_format: Format = Format.DECIMAL_SI) -> Quantity:
    """Return the quantity of a whole number of units that fits 64 bits."""
    return Quantity(value * _UNIT_NANO, result_format)


def of_milli(value: int, result_format: Format = Format.DECIMAL_SI) -> Quantity:
    return Quantity(value * 10**6, result_format, MILLI)


def parse(text: str) -> Quantity:
    """Parse a quantity. Raises QuantityError."""
    return _parse(text)


@functools.lru_cache(maxsize=16384)
def _parse(text: str) -> Quantity:
    parts = _PARTS.fullmatch(text)
    if not parts or not text:
        raise QuantityError(FORMAT_WRONG)
    if text == "0":
        return ZERO
    if len(text) > _MAXIMUM_DIGITS:
        raise QuantityError(NUMERIC)
    sign, whole, fraction, suffix = parts.groups(default="")
    number = _Number(text, -1 if sign == "-" else 1, whole or "0", fraction, parts.start(4))
    if suffix in _BINARY_SUFFIXES:
        return _parse_binary(number, _BINARY_SUFFIXES[suffix])
    if suffix in _DECIMAL_SUFFIXES:
        return _parse_decimal(number, _DECIMAL_SUFFIXES[suffix], Format.DECIMAL_SI)
    return _parse_decimal(number, _parse_exponent(suffix), Format.DECIMAL_EXPONENT)


class _Number(NamedTuple):
    """The digits before the suffix; `whole` has no leading zeros."""

    text: str
    sign: int
    whole: str
    fraction: str
    end: int

    def require_digits(self) -> None:
        # Only upstream's slow path looks: "Ki" is zero, "Ei" is an error.
        if not self.text[: self.end].strip("+-."):
            raise QuantityError(NUMERIC)


def _parse_exponent(suffix: str) -> int:
    match = _EXPONENT.fullmatch(suffix)
    exponent = int(match[1]) if match else None
    if exponent is None or not _fits(exponent):
        raise QuantityError(SUFFIX)
    # Upstream keeps 32 bits of it.
    return (exponent + 2**31) % 2**32 - 2**31


def _parse_decimal(number: _Number, suffix_exponent: int, result_format: Format) -> Quantity:
    digits = number.whole + number.fraction
    exponent = suffix_exponent - len(number.fraction)
    unscaled = number.sign * int(digits)
    if not unscaled:
        exponent = min(exponent, _MAXIMUM_DIGITS)
    elif len(digits) + exponent > _MAXIMUM_DIGITS:
        raise QuantityError(NUMERIC)
    if len(digits) > 18 or exponent < NANO:
        number.require_digits()
        return Quantity(_rounded_to_nano(unscaled, exponent), result_format, NANO, True)
    nano = unscaled * _ten_to(exponent - NANO)
    is_canonical = exponent % 3 == 0 and digits[0] != "0" and not digits.endswith("000")
    return Quantity(nano, result_format, exponent, text=number.text if is_canonical else None)


def _parse_binary(number: _Number, exponent: int) -> Quantity:
    # Upstream's estimate of what fits 64 bits (quantity.go ParseQuantity).
    if not number.fraction and len(number.whole) + exponent * 3 // 10 <= 14:
        value = int(number.whole)
        nano = number.sign * (value << exponent) * _UNIT_NANO
        return Quantity(nano, Format.BINARY_SI, text=number.text if value & 7 else None)
    number.require_digits()
    unscaled = int(number.whole + number.fraction) << exponent
    magnitude = _rounded_to_nano(unscaled, -len(number.fraction))
    if magnitude > _MAXIMUM_INT64 * _UNIT_NANO:
        return Quantity(
            number.sign * _MAXIMUM_INT64 * _UNIT_NANO, Format.BINARY_SI, UNIT, is_decimal=True
        )
    result_format = Format.DECIMAL_SI if 0 < magnitude < _UNIT_NANO else Format.BINARY_SI
    return Quantity(number.sign * magnitude, result_format, NANO, is_decimal=True)


def _rounded_to_nano(unscaled: int, exponent: int) -> int:
    """Return `unscaled * 10**exponent` in nano units, rounded away from zero."""
    if exponent >= NANO:
        return unscaled * _ten_to(exponent - NANO)
    if NANO - exponent > _MAXIMUM_DIGITS:
        return (unscaled > 0) - (unscaled < 0)
    magnitude = -(-abs(unscaled) // _ten_to(NANO - exponent))
    return magnitude if unscaled > 0 else -magnitude


def _decimal_text(nano: int, result_format: Format) -> str:
    digits = _digits(nano)
    stripped = digits.rstrip("0")
    exponent = len(digits) - len(stripped) + NANO
    if result_format is not Format.DECIMAL_EXPONENT:
        exponent = min(exponent, 18)
    exponent -= exponent % 3
    number = digits[: len(digits) - (exponent - NANO)]
    if result_format is Format.DECIMAL_EXPONENT:
        return f"{number}e{exponent}" if exponent else number
    return number + _DECIMAL_SUFFIX_OF[exponent]


def _binary_text(value: int) -> str:
    power = 0
    while value % 1024 == 0 and power < len(_BINARY_SUFFIXES):
        value //= 1024
        power += 1
    return _digits(value) + _BINARY_SUFFIX_OF[power]


def _digits(number: int) -> str:
    """Return `str(number)` without the interpreter's limit on its length."""
    return str(number) if number.bit_length() < 10000 else format(decimal.Decimal(number), "f")


def _ten_to(power: int) -> int:
    return int(10**power)


def _at(nano: int, exponent: int) -> int:
    """Return `nano` as a multiple of 10**exponent; exact if the quantity has that exponent."""
    return nano // _ten_to(exponent - NANO)


def _fits(number: int) -> bool:
    return _MINIMUM_INT64 <= number <= _MAXIMUM_INT64


def _wrap(number: int) -> int:
    return (number - _MINIMUM_INT64) % 2**64 + _MINIMUM_INT64


def _scale_up(value: int, power: int) -> int:
    """Return `value * 10**power`; past 64 bits it wraps or is zero (math.go positiveScaleInt64)."""
    product = value * _ten_to(power)
    if _fits(product):
        return product
    return _wrap(product) if power in (1, 2, 3, 6, 9) else 0


def _power_of_ten(exponent: int) -> float:
    """Return Go's math.Pow10: the product of two table entries."""
    if exponent > 308:
        return math.inf
    if exponent < 0:
        return 1 / float(f"1e{-exponent}")
    return float(f"1e{exponent - exponent % 32}") * float(f"1e{exponent % 32}")
