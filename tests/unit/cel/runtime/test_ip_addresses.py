"""IP addresses and prefixes are read as Go's package net/netip does."""

from __future__ import annotations

import pytest

from dray.cel.runtime import ip_addresses
from dray.cel.runtime.ip_addresses import AddressError


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1.2.3.4", "1.2.3.4"),
        ("0.0.0.0", "0.0.0.0"),
        ("::", "::"),
        ("::1", "::1"),
        ("1::", "1::"),
        ("2001:0DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
        ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
        ("1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"),
        ("::1.2.3.4", "::102:304"),
        ("0:1:2:3:4:5:6::", "0:1:2:3:4:5:6:0"),
    ],
)
def test_addresses(text: str, canonical: str) -> None:
    assert str(ip_addresses.parse_address(text)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "unable to parse IP"),
        ("bad", "unable to parse IP"),
        ("%eth0", "missing IPv6 address"),
        ("1.2.3", "IPv4 address too short"),
        ("1.2.3.4.5", "IPv4 address too long"),
        ("1.2.3.256", "IPv4 field has value >255"),
        ("1.02.3.4", "IPv4 field has octet with leading zero"),
        ("1..3.4", 'IPv4 field must have at least one digit (at ".3.4")'),
        ("1.2.3.", 'IPv4 field must have at least one digit (at ".")'),
        (".1.2.3", 'IPv4 field must have at least one digit (at ".1.2.3")'),
        ("1.2.3.x", 'unexpected character (at "x")'),
        ("fe80::1%", "zone must be a non-empty string"),
        ("12345::", 'each group must have 4 or fewer digits (at "12345::")'),
        ("1:::2", 'each colon-separated field must have at least one digit (at ":2")'),
        ("1::2::3", 'multiple :: in address (at ":3")'),
        ("1:2", "address string too short"),
        ("1:2:", 'colon must be followed by more characters (at ":")'),
        ("1g::", 'unexpected character, want colon (at "g::")'),
        ("1:2:3:4:5:6:7:8:9", 'trailing garbage after address (at "9")'),
        ("1:2:3:4:5:6:7::8", "the :: must expand to at least one field of zeros"),
        (
            "1:1.2.3.4",
            'embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")',
        ),
        ("::1.2.3", "IPv4 address too short"),
    ],
)
def test_texts_that_are_no_address(text: str, message: str) -> None:
    with pytest.raises(AddressError) as caught:
        ip_addresses.parse_address(text)
    assert str(caught.value) == f'ParseAddr("{text}"): {message}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.2.3.4", "no '/'"),
        ("1.2.3/8", 'ParseAddr("1.2.3"): IPv4 address too short'),
        ("fe80::1%a/64", "IPv6 zones cannot be present in a prefix"),
        ("1.2.3.4/", 'bad bits after slash: ""'),
        ("1.2.3.4/08", 'bad bits after slash: "08"'),
        ("1.2.3.4/+8", 'bad bits after slash: "+8"'),
        ("1.2.3.4/33", "prefix length out of range"),
    ],
)
def test_texts_that_are_no_prefix(text: str, message: str) -> None:
    with pytest.raises(AddressError) as caught:
        ip_addresses.parse_prefix(text)
    assert str(caught.value) == f'netip.ParsePrefix("{text}"): {message}'


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("0.0.0.0", {"unspecified"}),
        ("127.1.2.3", {"loopback"}),
        ("224.0.0.251", {"multicast", "link_local_multicast"}),
        ("224.0.1.1", {"multicast"}),
        ("169.254.0.1", {"link_local_unicast"}),
        ("255.255.255.255", set()),
        ("10.0.0.1", {"global_unicast"}),
        ("::", {"unspecified"}),
        ("::1", {"loopback"}),
        ("ff02::1", {"multicast", "link_local_multicast"}),
        ("ff05::1", {"multicast"}),
        ("febf::1", {"link_local_unicast"}),
        ("fd00::1", {"global_unicast"}),
    ],
)
def test_properties(text: str, properties: set[str]) -> None:
    address = ip_addresses.parse_address(text)
    found = {
        "unspecified": address.is_unspecified(),
        "loopback": address.is_loopback(),
        "multicast": address.is_multicast(),
        "link_local_multicast": address.is_link_local_multicast(),
        "link_local_unicast": address.is_link_local_unicast(),
        "global_unicast": address.is_global_unicast(),
    }
    assert {name for name, holds in found.items() if holds} == properties


def test_a_prefix_of_no_bits_contains_its_family() -> None:
    everything = ip_addresses.parse_prefix("0.0.0.0/0")
    assert everything.contains(ip_addresses.parse_address("8.8.8.8"))
    assert not everything.contains(ip_addresses.parse_address("::1"))
    assert everything.cel_size == 0
