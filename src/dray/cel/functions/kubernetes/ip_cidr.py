"""Kubernetes' IP and CIDR libraries (apiserver, cel/library/ip.go and cidr.go)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from dray.api.formats import gotext
from dray.cel.functions import cost_estimates, prices, runtime_costs
from dray.cel.functions.dispatching import accepts, charged, function
from dray.cel.functions.overloads import (
    CallEstimate,
    Function,
    Library,
    Operand,
    Overload,
    Range,
    member,
)
from dray.cel.functions.prices import Price
from dray.cel.runtime import ip_addresses
from dray.cel.runtime.ip_addresses import Address, AddressError, Prefix
from dray.cel.runtime.values import EvaluationError
from dray.cel.types import BOOL, CIDR, INT, IP, STRING, Type

_ADDRESS_SIZE = Range(4, 16)
_COMPARISON = _ADDRESS_SIZE.add(_ADDRESS_SIZE).scale(runtime_costs.STRING_FACTOR)


def parse_ip(text: str) -> Address:
    try:
        address = ip_addresses.parse_address(text)
    except AddressError as error:
        raise EvaluationError(
            f"IP Address {gotext.quote(text)} parse error during conversion from string: {error}"
        ) from None
    if address.zone:
        raise EvaluationError(f"IP address {gotext.quote(text)} with zone value is not allowed")
    if address.is_mapped():
        raise EvaluationError(f"IPv4-mapped IPv6 address {gotext.quote(text)} is not allowed")
    return address


def is_canonical(text: str) -> bool:
    return str(parse_ip(text)) == text


def family(address: Address) -> int:
    return 4 if address.bits == 32 else 6


def parse_cidr(text: str) -> Prefix:
    # Upstream adds the same words twice to what netip says.
    words = "network address parse error during conversion from string"
    try:
        prefix = ip_addresses.parse_prefix(text)
    except AddressError as error:
        raise EvaluationError(f"{words}: {words}: {error}") from None
    if prefix.address.is_mapped():
        mapped = f"IPv4-mapped IPv6 address {gotext.quote(text)} is not allowed"
        raise EvaluationError(f"{words}: {mapped}")
    return prefix


def contains_ip_text(prefix: Prefix, text: str) -> bool:
    return prefix.contains(parse_ip(text))


def contains_cidr_text(prefix: Prefix, text: str) -> bool:
    return prefix.contains_prefix(parse_cidr(text))


def _contains_ip_estimate(operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(_COMPARISON)


def _contains_cidr_estimate(operands: Sequence[Operand]) -> CallEstimate:
    masking = _ADDRESS_SIZE.scale(runtime_costs.STRING_FACTOR).add(cost_estimates.ONE)
    return CallEstimate(_COMPARISON.add(masking))


def _contains_ip_cost(arguments: Sequence[Any], result: Any) -> int:
    return math.ceil(2 * runtime_costs.size(arguments[0]) * runtime_costs.STRING_FACTOR)


def _contains_cidr_cost(arguments: Sequence[Any], result: Any) -> int:
    masking = math.ceil(runtime_costs.size(arguments[0]) * runtime_costs.STRING_FACTOR)
    return _contains_ip_cost(arguments, result) + masking + 1


def _with_parsing(price: Price) -> Price:
    """Add the cost of parsing the second operand to a price."""
    estimate, cost = price

    def parsing_estimate(operands: Sequence[Operand]) -> CallEstimate:
        return CallEstimate(estimate(operands).cost.add(cost_estimates.scan_second(operands).cost))

    def parsing_cost(arguments: Sequence[Any], result: Any) -> int:
        return cost(arguments, result) + runtime_costs.scan_second(arguments, result)

    return parsing_estimate, parsing_cost


def _from_text(name: str, id: str, result: Type, call: Callable[[str], Any]) -> Function:
    return charged(name, Overload(id, (STRING,), result, call, *prices.SCAN))


def _accessor(name: str, id: str, type: Type, result: Type, call: Callable[[Any], Any]) -> Function:
    return function(name, member(id, (type,), result, call))


def _ip_test(name: str, id: str, call: Callable[[Address], bool]) -> Function:
    return _accessor(name, id, IP, BOOL, call)


def _containment(
    id: str, part: Type, call: Callable[[Prefix, Any], bool], price: Price
) -> Overload:
    return member(id, (CIDR, part), BOOL, call, *price)


_IP_PRICE = (_contains_ip_estimate, _contains_ip_cost)
_CIDR_PRICE = (_contains_cidr_estimate, _contains_cidr_cost)
_IP_TEXT_PRICE = _with_parsing(_IP_PRICE)
_CIDR_TEXT_PRICE = _with_parsing(_CIDR_PRICE)

IP_LIBRARY: Library = (
    _from_text("ip", "string_to_ip", IP, parse_ip),
    _from_text("isIP", "is_ip", BOOL, accepts(parse_ip)),
    charged(
        "ip.isCanonical",
        Overload("ip_is_canonical", (STRING,), BOOL, is_canonical, *prices.SCAN_TWICE),
    ),
    _accessor("family", "ip_family", IP, INT, family),
    _ip_test("isUnspecified", "ip_is_unspecified", Address.is_unspecified),
    _ip_test("isLoopback", "ip_is_loopback", Address.is_loopback),
    _ip_test("isLinkLocalMulticast", "ip_is_link_local_multicast", Address.is_link_local_multicast),
    _ip_test("isLinkLocalUnicast", "ip_is_link_local_unicast", Address.is_link_local_unicast),
    _ip_test("isGlobalUnicast", "ip_is_global_unicast", Address.is_global_unicast),
    function("string", Overload("ip_to_string", (IP,), STRING, str)),
)

CIDR_LIBRARY: Library = (
    _from_text("cidr", "string_to_cidr", CIDR, parse_cidr),
    _from_text("isCIDR", "is_cidr", BOOL, accepts(parse_cidr)),
    function(
        "containsIP",
        _containment("cidr_contains_ip_string", STRING, contains_ip_text, _IP_TEXT_PRICE),
        _containment("cidr_contains_ip_ip", IP, Prefix.contains, _IP_PRICE),
        dispatch_cost=_contains_ip_cost,
    ),
    function(
        "containsCIDR",
        _containment("cidr_contains_cidr_string", STRING, contains_cidr_text, _CIDR_TEXT_PRICE),
        _containment("cidr_contains_cidr", CIDR, Prefix.contains_prefix, _CIDR_PRICE),
        dispatch_cost=_contains_cidr_cost,
    ),
    _accessor("ip", "cidr_ip", CIDR, IP, operator.attrgetter("address")),
    _accessor("prefixLength", "cidr_prefix_length", CIDR, INT, operator.attrgetter("length")),
    _accessor("masked", "cidr_masked", CIDR, CIDR, Prefix.masked),
    function("string", Overload("cidr_to_string", (CIDR,), STRING, str)),
)
