"""Kubernetes' libraries: quantities, versions, addresses, URLs, formats; and optionals, times."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.formats import quantity, semver
from dray.cel.functions.extensions import comprehensions
from dray.cel.functions.kubernetes import ip_cidr, named_formats, quantities, semvers, urls
from dray.cel.functions.standard import optionals, timestamps
from dray.cel.runtime import values
from dray.cel.runtime.ip_addresses import Address
from dray.cel.runtime.times import parse_duration, parse_timestamp
from dray.cel.runtime.values import CostExceeded, EvaluationError, Optional, UInt
from tests.unit.cel.calling import call, cost, failure

GIBIBYTE = quantity.parse("1Gi")


def test_quantities() -> None:
    library = quantities.LIBRARY
    assert call(library, "quantity", "1024Mi") == GIBIBYTE
    assert call(library, "isQuantity", "1Gi")
    assert not call(library, "isQuantity", "Gi1")
    assert call(library, "compareTo", quantity.parse("50k"), quantity.parse("50M")) == -1
    assert call(library, "isGreaterThan", GIBIBYTE, quantity.parse("1G"))
    assert not call(library, "isLessThan", GIBIBYTE, GIBIBYTE)
    assert call(library, "asInteger", GIBIBYTE) == 2**30
    assert call(library, "isInteger", quantity.parse("50m")) is False
    assert call(library, "asApproximateFloat", quantity.parse("50m")) == 0.05
    assert call(library, "sign", quantity.parse("-1")) == -1
    assert str(call(library, "add", GIBIBYTE, quantity.parse("1Gi"))) == "2Gi"
    assert str(call(library, "sub", quantity.parse("0"), 1000)) == "-1e3"


def test_quantity_errors() -> None:
    library = quantities.LIBRARY
    assert failure(library, "quantity", "10Mo") == quantity.FORMAT_WRONG
    assert failure(library, "quantity", "1i") == quantity.SUFFIX
    assert failure(library, "asInteger", quantity.parse("1.5")) == "cannot convert value to integer"
    message = "no such overload: compareTo(kubernetes.Quantity, int)"
    assert failure(library, "compareTo", GIBIBYTE, 5) == message


def test_sums_of_quantities_are_equal_to_others_only_from_the_left() -> None:
    total = call(quantities.LIBRARY, "add", quantity.parse("1"), 1)
    assert values.equal(total, quantity.parse("2"))
    with pytest.raises(EvaluationError, match="no such overload"):
        values.equal(quantity.parse("2"), total)
    assert call(quantities.LIBRARY, "compareTo", quantity.parse("2"), total) == 0


def test_versions() -> None:
    library = semvers.LIBRARY
    one, two = semver.parse("1.2.3"), semver.parse("1.10.0")
    assert call(library, "semver", "1.2.3") == one
    assert call(library, "semver", "v1.2", True) == semver.parse("1.2.0")
    assert call(library, "isSemver", "v1.2") is False
    assert call(library, "isSemver", "v1.2", True) is True
    assert call(library, "isLessThan", one, two)
    assert call(library, "isGreaterThan", two, one)
    assert call(library, "compareTo", one, two) == -1
    assert [call(library, name, one) for name in ("major", "minor", "patch")] == [1, 2, 3]
    assert call(library, "major", semver.parse("18446744073709551615.0.0")) == -1
    assert failure(library, "semver", "1.0") == "No Major.Minor.Patch elements found"
    assert failure(library, "major", "1.2.3") == "no such overload: major(string)"


def test_timestamps() -> None:
    library = timestamps.LIBRARY
    instant = parse_timestamp("2023-01-01T05:30:45.123Z")
    fields = {
        "getFullYear": (2023, 2022),
        "getMonth": (0, 11),
        "getDayOfYear": (0, 364),
        "getDayOfMonth": (0, 30),
        "getDate": (1, 31),
        "getDayOfWeek": (0, 6),
        "getHours": (5, 21),
        "getMinutes": (30, 30),
        "getSeconds": (45, 45),
        "getMilliseconds": (123, 123),
    }
    for name, (in_utc, in_zone) in fields.items():
        assert call(library, name, instant) == in_utc
        assert call(library, name, instant, "America/Los_Angeles") == in_zone
    assert failure(library, "getHours", instant, "Mars") == "unknown time zone Mars"
    assert failure(library, "getHours", 5) == "no such overload: getHours(int)"


def test_durations() -> None:
    library = timestamps.LIBRARY
    span = parse_duration("-3723.456s")
    names = ("getHours", "getMinutes", "getSeconds", "getMilliseconds")
    assert [call(library, name, span) for name in names] == [-1, -62, -3723, -3723456]


def test_optionals() -> None:
    library = optionals.LIBRARY
    assert call(library, "value", Optional(5)) == 5
    assert failure(library, "value", values.NONE) == "optional.none() dereference"
    assert call(library, "hasValue", Optional(None)) is True
    assert call(library, "hasValue", values.NONE) is False
    assert call(library, "orValue", values.NONE, 7) == 7
    assert call(library, "or", Optional(1), values.NONE).value == 1
    assert failure(library, "orValue", 5, 7) == "no such overload"
    assert call(library, "first", [1, 2]).value == 1
    assert call(library, "last", values.Concatenation([1], [2])).value == 2
    assert call(library, "first", []) is values.NONE
    assert call(library, "unwrapOpt", [Optional(1), values.NONE]) == [1]
    assert failure(library, "optional.unwrap", [Optional(1), 5]) == "value 5 is not optional"
    assert call(library, "optional.none") is values.NONE


@pytest.mark.parametrize(
    "value",
    [None, False, 0, UInt(0), 0.0, "", b"", [], (), {}, parse_duration("0"),
     parse_timestamp("0001-01-01T00:00:00Z")],
)  # fmt: skip
def test_zero_values_make_no_optional(value: Any) -> None:
    assert call(optionals.LIBRARY, "optional.ofNonZeroValue", value) is values.NONE


@pytest.mark.parametrize(
    "value", [True, "0", [0], values.NONE, quantity.ZERO, parse_timestamp("1970-01-01T00:00:00Z")]
)
def test_other_values_make_an_optional(value: Any) -> None:
    assert call(optionals.LIBRARY, "optional.ofNonZeroValue", value).has_value


def test_unwrapping_a_list_too_long_to_visit() -> None:
    half = [values.NONE] * 600_000
    with pytest.raises(CostExceeded):
        call(optionals.LIBRARY, "unwrapOpt", values.Concatenation(half, half))


def test_inserting_into_a_map_copies_it() -> None:
    entries = {"a": 1}
    assert call(comprehensions.LIBRARY, "cel.@mapInsert", entries, "b", 2) == {"a": 1, "b": 2}
    assert call(comprehensions.LIBRARY, "cel.@mapInsert", entries, {"c": 3}) == {"a": 1, "c": 3}
    assert entries == {"a": 1}
    message = "insert failed: key 1 already exists"
    assert failure(comprehensions.LIBRARY, "cel.@mapInsert", {1: 1}, UInt(1), 2) == message


def test_addresses() -> None:
    library = ip_cidr.IP_LIBRARY
    assert call(library, "ip", "10.0.0.1") == Address(0x0A000001, 32)
    assert call(library, "isIP", "::1")
    assert not call(library, "isIP", "::ffff:1.2.3.4")
    assert call(library, "ip.isCanonical", "2001:db8::1")
    assert not call(library, "ip.isCanonical", "2001:DB8::1")
    assert call(library, "family", call(library, "ip", "::1")) == 6
    assert call(library, "string", call(library, "ip", "::1")) == "::1"
    assert failure(library, "ip", "::ffff:1.2.3.4") == (
        'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'
    )
    assert failure(library, "ip", "fe80::1%eth0") == (
        'IP address "fe80::1%eth0" with zone value is not allowed'
    )
    assert failure(library, "ip", "1.2.3") == (
        'IP Address "1.2.3" parse error during conversion from string: '
        'ParseAddr("1.2.3"): IPv4 address too short'
    )


def test_prefixes() -> None:
    library = ip_cidr.CIDR_LIBRARY
    network = call(library, "cidr", "192.168.0.7/24")
    assert call(library, "containsIP", network, "192.168.0.255")
    assert not call(library, "containsIP", network, call(ip_cidr.IP_LIBRARY, "ip", "192.168.1.0"))
    assert not call(library, "containsIP", network, "::1")
    assert call(library, "containsCIDR", network, "192.168.0.0/25")
    assert not call(library, "containsCIDR", network, "192.168.0.0/23")
    assert call(library, "prefixLength", network) == 24
    assert call(library, "string", call(library, "masked", network)) == "192.168.0.0/24"
    assert call(library, "string", network) == "192.168.0.7/24"
    assert str(call(library, "ip", network)) == "192.168.0.7"
    words = "network address parse error during conversion from string"
    assert failure(library, "cidr", "x") == f"{words}: {words}: netip.ParsePrefix(\"x\"): no '/'"
    assert failure(library, "cidr", "::ffff:1.2.3.4/120") == (
        f'{words}: IPv4-mapped IPv6 address "::ffff:1.2.3.4/120" is not allowed'
    )


def test_network_costs_follow_the_size_of_the_prefix() -> None:
    network = call(ip_cidr.CIDR_LIBRARY, "cidr", "2001:db8::/65")
    assert cost(ip_cidr.CIDR_LIBRARY, "cidr_contains_ip_string", network, "2001:db8::1") == 4
    assert cost(ip_cidr.CIDR_LIBRARY, "cidr_contains_cidr", network, network) == 4
    assert cost(ip_cidr.IP_LIBRARY, "ip_is_canonical", "10.0.0.1") == 2


def test_urls() -> None:
    library = urls.LIBRARY
    url = call(library, "url", "https://user@example.com:80/p%20a/?k=a&k=b&q=1+2#f")
    assert call(library, "getScheme", url) == "https"
    assert call(library, "getHost", url) == "example.com:80"
    assert call(library, "getHostname", url) == "example.com"
    assert call(library, "getPort", url) == "80"
    assert call(library, "getEscapedPath", url) == "/p%20a/"
    assert call(library, "getQuery", url) == {"k": ["a", "b"], "q": ["1 2"]}
    assert call(library, "isURL", "/absolute/path")
    assert not call(library, "isURL", "relative/path")
    assert failure(library, "url", "d.example.com") == (
        "URL parse error during conversion from string: "
        'parse "d.example.com": invalid URI for request'
    )


@pytest.mark.parametrize(
    ("name", "good", "bad", "complaint"),
    [
        ("dns1123Label", "my-name", "My.name", "a lowercase RFC 1123 label must consist of"),
        ("dns1123Label", "my-name", "my.name", "must not contain dots"),
        ("dns1123Subdomain", "my.name", "my..name", "a lowercase RFC 1123 subdomain must"),
        ("dns1035Label", "name", "1name", "a DNS-1035 label must consist of"),
        ("dns1123LabelPrefix", "name-", "name--.", "a lowercase RFC 1123 label must consist of"),
        ("qualifiedName", "example.com/Name", "a/b/c", "a valid label key must consist of"),
        ("labelValue", "", "a b", "a valid label must be an empty string or consist of"),
        ("uri", "http://example.com", "example", 'parse "example": invalid URI for request'),
        ("uuid", "123E4567-e89b-12d3-a456-426614174000", "123", "does not match the UUID format"),
        ("byte", "aGVsbG8=", "aGVsbG8", "invalid base64"),
        ("date", "2020-02-29", "2021-02-29", "invalid date"),
        ("date", "0000-01-01", "2021-1-1", "invalid date"),
        ("datetime", "2020-02-29t23:59:59.5z", "2020-02-29T24:00:00Z", "invalid datetime"),
    ],
)
def test_named_formats(name: str, good: str, bad: str, complaint: str) -> None:
    chosen = call(named_formats.LIBRARY, "format.named", name).value
    assert call(named_formats.LIBRARY, f"format.{name}") == chosen
    assert call(named_formats.LIBRARY, "validate", chosen, good) is values.NONE
    (error,) = call(named_formats.LIBRARY, "validate", chosen, bad).value
    assert error.startswith(complaint)


def test_unknown_formats_are_none() -> None:
    assert call(named_formats.LIBRARY, "format.named", "email") is values.NONE


def test_validation_costs_the_size_of_the_formats_expression() -> None:
    label = call(named_formats.LIBRARY, "format.dns1123Label")
    assert cost(named_formats.LIBRARY, "format-validate", label, "a" * 15) == 16
