"""IP addresses and prefixes as Go's package net/netip reads and prints them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import ClassVar

from dray.api.formats import gotext
from dray.cel import types


class AddressError(ValueError):
    """The text is no address or prefix; the message is Go's."""


@dataclass(frozen=True, slots=True)
class Address:
    """An address with `bits` 32 or 128; `zone` is only ever set to be refused."""

    cel_type: ClassVar[types.Type] = types.IP

    number: int
    bits: int
    zone: str = ""

    @property
    def cel_size(self) -> int:
        return self.bits // 8

    def __str__(self) -> str:
        if self.bits == 32:
            return str(ipaddress.IPv4Address(self.number))
        return str(ipaddress.IPv6Address(self.number))

    def starts_with(self, prefix: int, length: int) -> bool:
        return self.number >> (self.bits - length) == prefix

    def is_mapped(self) -> bool:
        """Return whether this is an IPv4 address written as an IPv6 one."""
        return self.bits == 128 and self.starts_with(0xFFFF, 96)

    def is_unspecified(self) -> bool:
        return not self.number

    def is_loopback(self) -> bool:
        return self.starts_with(127, 8) if self.bits == 32 else self.number == 1

    def is_multicast(self) -> bool:
        return self.starts_with(0xE, 4) if self.bits == 32 else self.starts_with(0xFF, 8)

    def is_link_local_multicast(self) -> bool:
        if self.bits == 32:
            return self.starts_with(0xE00000, 24)
        return self.number >> 112 & 0xFF0F == 0xFF02

    def is_link_local_unicast(self) -> bool:
        if self.bits == 32:
            return self.starts_with(0xA9FE, 16)
        return self.starts_with(0xFE80 >> 6, 10)

    def is_global_unicast(self) -> bool:
        return not (
            self.is_unspecified()
            or self.is_loopback()
            or self.is_multicast()
            or self.is_link_local_unicast()
            or (self.bits == 32 and self.number == 0xFFFFFFFF)
        )


@dataclass(frozen=True, slots=True)
class Prefix:
    """An address and how many of its bits count; the others need not be zero."""

    cel_type: ClassVar[types.Type] = types.CIDR

    address: Address
    length: int

    @property
    def cel_size(self) -> int:
        return -(-self.length // 8)

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"

    def contains(self, address: Address) -> bool:
        return self._agrees(address, self.length)

    def contains_prefix(self, other: Prefix) -> bool:
        return self.length <= other.length and self._agrees(other.address, self.length)

    def _agrees(self, address: Address, length: int) -> bool:
        shift = self.address.bits - length
        is_same_family = self.address.bits == address.bits
        return is_same_family and self.address.number >> shift == address.number >> shift

    def masked(self) -> Prefix:
        shift = self.address.bits - self.length
        number = self.address.number >> shift << shift
        return Prefix(Address(number, self.address.bits), self.length)


def parse_address(text: str) -> Address:
    """Parse as Go's netip.ParseAddr."""
    for character in text:
        if character == ".":
            return Address(_parse_ipv4(text, text), 32)
        if character == ":":
            return _parse_ipv6(text)
        if character == "%":
            raise _error(text, "missing IPv6 address")
    raise _error(text, "unable to parse IP")


def parse_prefix(text: str) -> Prefix:
    """Parse as Go's netip.ParsePrefix."""
    before, slash, length = text.rpartition("/")
    if not slash:
        raise _prefix_error(text, "no '/'")
    try:
        address = parse_address(before)
    except AddressError as error:
        raise _prefix_error(text, str(error)) from None
    if address.zone:
        raise _prefix_error(text, "IPv6 zones cannot be present in a prefix")
    is_number = length.isascii() and length.isdigit() and (length == "0" or length[0] != "0")
    if not is_number or len(length) > 18:
        raise _prefix_error(text, f"bad bits after slash: {gotext.quote(length)}")
    if int(length) > address.bits:
        raise _prefix_error(text, "prefix length out of range")
    return Prefix(address, int(length))


def _error(text: str, message: str, place: str = "") -> AddressError:
    where = f" (at {gotext.quote(place)})" if place else ""
    return AddressError(f"ParseAddr({gotext.quote(text)}): {message}{where}")


def _prefix_error(text: str, message: str) -> AddressError:
    return AddressError(f"netip.ParsePrefix({gotext.quote(text)}): {message}")


def _parse_ipv4(whole: str, text: str) -> int:
    """Parse four decimal fields; `whole` is the text for messages."""
    number = value = fields = digits = 0
    for position, character in enumerate(text):
        if "0" <= character <= "9":
            if digits == 1 and not value:
                raise _error(whole, "IPv4 field has octet with leading zero")
            value, digits = value * 10 + int(character), digits + 1
            if value > 255:
                raise _error(whole, "IPv4 field has value >255")
        elif character == ".":
            if not digits or position == len(text) - 1:
                raise _error(whole, "IPv4 field must have at least one digit", text[position:])
            if fields == 3:
                raise _error(whole, "IPv4 address too long")
            number, value, fields, digits = number << 8 | value, 0, fields + 1, 0
        else:
            raise _error(whole, "unexpected character", text[position:])
    if fields < 3:
        raise _error(whole, "IPv4 address too short")
    return number << 8 | value


def _parse_ipv6(text: str) -> Address:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _error(text, "zone must be a non-empty string")
    return Address(_Ipv6Fields(text, rest).parse(), 128, zone)


class _Ipv6Fields:
    """Reads the 16-bit fields of an IPv6 address, the first `::` and an IPv4 address at the end."""

    def __init__(self, whole: str, rest: str) -> None:
        self._whole = whole
        self._rest = rest
        self._fields: list[int] = []
        self._ellipsis: int | None = None

    def parse(self) -> int:
        if self._rest.startswith("::"):
            self._ellipsis = 0
            self._rest = self._rest[2:]
        while self._rest and len(self._fields) < 8:
            self._read_field()
        if not self._rest and self._ellipsis is None and len(self._fields) < 8:
            raise self._error("address string too short", located=False)
        if self._rest:
            raise self._error("trailing garbage after address")
        return self._number()

    def _error(self, message: str, located: bool = True) -> AddressError:
        return _error(self._whole, message, self._rest if located else "")

    def _read_field(self) -> None:
        digits = self._leading_digits()
        if self._rest[len(digits) : len(digits) + 1] == ".":
            self._read_ipv4()
            return
        self._fields.append(int(digits, 16))
        self._rest = self._rest[len(digits) :]
        if self._rest:
            self._read_colon()

    def _leading_digits(self) -> str:
        rest = self._rest
        count = 0
        while count < len(rest) and rest[count] in "0123456789abcdefABCDEF":
            count += 1
            if count > 4:
                raise self._error("each group must have 4 or fewer digits")
        if not count:
            raise self._error("each colon-separated field must have at least one digit")
        return rest[:count]

    def _read_ipv4(self) -> None:
        if self._ellipsis is None and len(self._fields) != 6:
            raise self._error(
                "embedded IPv4 address must replace the final 2 fields of the address"
            )
        if len(self._fields) > 6:
            raise self._error(
                "too many hex fields to fit an embedded IPv4 at the end of the address"
            )
        number = _parse_ipv4(self._whole, self._rest)
        self._fields += (number >> 16, number & 0xFFFF)
        self._rest = ""

    def _read_colon(self) -> None:
        if self._rest[0] != ":":
            raise self._error("unexpected character, want colon")
        if len(self._rest) == 1:
            raise self._error("colon must be followed by more characters")
        self._rest = self._rest[1:]
        if self._rest[0] == ":":
            if self._ellipsis is not None:
                raise self._error("multiple :: in address")
            self._ellipsis = len(self._fields)
            self._rest = self._rest[1:]

    def _number(self) -> int:
        fields = self._fields
        if self._ellipsis is not None:
            if len(fields) == 8:
                raise self._error("the :: must expand to at least one field of zeros", False)
            zeros = [0] * (8 - len(fields))
            fields = fields[: self._ellipsis] + zeros + fields[self._ellipsis :]
        number = 0
        for field in fields:
            number = number << 16 | field
        return number
