"""Network addresses as Kubernetes reads them: octets of IPv4 may have leading zeros."""

from __future__ import annotations

import ipaddress

from dray.api.formats import gonumbers, remembered
from dray.validation import fields

_IPV4_BITS = 32
_IPV6_BITS = 128


@remembered.for_short_texts(1024)
def parse(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an address; IPv4 may be written as IPv6 (::ffff:10.0.0.1)."""
    if "%" in text:
        return None
    try:
        address = ipaddress.ip_address(_without_leading_zeros(text))
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


def _without_leading_zeros(text: str) -> str:
    groups, colon, octets = text.rpartition(":")
    if "." not in octets:
        return text
    plain = ".".join(octet.lstrip("0") or octet[:1] for octet in octets.split("."))
    return f"{groups}{colon}{plain}"


def canonical_interface_address(text: str) -> str | None:
    """Return `address/prefix length` in canonical form, or None for another text."""
    written, slash, prefix = text.partition("/")
    address = parse(written)
    if not slash or address is None or not (prefix.isascii() and prefix.isdigit()):
        return None
    bits, available = gonumbers.int64_or_none(prefix), _IPV6_BITS if ":" in written else _IPV4_BITS
    if bits is None or bits > available:
        return None
    if address.version == 4 and bits > _IPV4_BITS:
        bits -= _IPV6_BITS - _IPV4_BITS
    return f"{address}/{bits}"


def address(text: str, path: fields.Path) -> fields.Errors:
    """Check that an address is in canonical form, which all parsers read alike."""
    if parse(text) is None:
        detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        yield fields.invalid(path, text, detail)
        return
    if text != _without_leading_zeros(text):
        yield fields.invalid(path, text, "must not have leading 0s")
    elif ":" in text and ipaddress.IPv6Address(text).ipv4_mapped:
        detail = "must not be an IPv4-mapped IPv6 address"
        yield fields.invalid(path, text, detail)
