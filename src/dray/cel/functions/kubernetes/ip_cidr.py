"""Kubernetes' IP and CIDR libraries (apiserver, cel/library/ip.go and cidr.go)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from dray.api.formats import gotext
from dray.cel import types
from dray.cel.functions import cost_estimates, dispatching, runtime_costs
from dray.cel.functions.overloads import CallEstimate, Function, Library, Operand, Overload, Range
from dray.cel.runtime import ip_addresses
from dray.cel.runtime.ip_addresses import Address, AddressError, Prefix
from dray.cel.runtime.values import EvaluationError
from dray.cel.types import Type

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


def is_ip(text: str) -> bool:
    try:
        parse_ip(text)
    except EvaluationError:
        return False
    return True


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


def is_cidr(text: str) -> bool:
    try:
        parse_cidr(text)
    except EvaluationError:
        return False
    return True


def contains_ip_text(prefix: Prefix, text: str) -> bool:
    return prefix.contains(parse_ip(text))


def contains_cidr_text(prefix: Prefix, text: str) -> bool:
    return prefix.contains_prefix(parse_cidr(text))


def address_of(prefix: Prefix) -> Address:
    return prefix.address


def prefix_length(prefix: Prefix) -> int:
    return prefix.length


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


def _parsing(estimate: cost_estimates.Estimate) -> cost_estimates.Estimate:
    """Add the cost of parsing the second operand to an estimate."""

    def with_parsing(operands: Sequence[Operand]) -> CallEstimate:
        return CallEstimate(estimate(operands).cost.add(cost_estimates.scan_second(operands).cost))

    return with_parsing


def _parsing_cost(cost: runtime_costs.Cost) -> runtime_costs.Cost:
    return lambda arguments, result: (
        cost(arguments, result) + runtime_costs.scan_second(arguments, result)
    )


def _from_text(id: str, result: Type, call: Callable[[str], Any]) -> Overload:
    return Overload(
        id, (types.STRING,), result, call, estimate=cost_estimates.scan, cost=runtime_costs.scan
    )


def _test(name: str, id: str, call: Callable[[str], bool]) -> Function:
    return dispatching.function(
        name, _from_text(id, types.BOOL, call), dispatch_cost=runtime_costs.scan
    )


def _accessor(name: str, id: str, type: Type, result: Type, call: Callable[[Any], Any]) -> Function:
    return dispatching.function(name, Overload(id, (type,), result, call, member=True))


def _ip_test(name: str, id: str, call: Callable[[Address], bool]) -> Function:
    return _accessor(name, id, types.IP, types.BOOL, call)


def _containment(
    id: str,
    part: Type,
    call: Callable[[Prefix, Any], bool],
    estimate: cost_estimates.Estimate,
    cost: runtime_costs.Cost,
) -> Overload:
    return Overload(id, (types.CIDR, part), types.BOOL, call, True, estimate, cost)


_IP_COSTS = (_contains_ip_estimate, _contains_ip_cost)
_PARSED_IP = (_parsing(_contains_ip_estimate), _parsing_cost(_contains_ip_cost))
_CIDR_COSTS = (_contains_cidr_estimate, _contains_cidr_cost)
_PARSED_CIDR = (_parsing(_contains_cidr_estimate), _parsing_cost(_contains_cidr_cost))

IP_LIBRARY = Library(
    "IP addresses",
    (
        dispatching.function(
            "ip", _from_text("string_to_ip", types.IP, parse_ip), dispatch_cost=runtime_costs.scan
        ),
        _test("isIP", "is_ip", is_ip),
        dispatching.function(
            "ip.isCanonical",
            Overload(
                "ip_is_canonical",
                (types.STRING,),
                types.BOOL,
                is_canonical,
                estimate=cost_estimates.scan_twice,
                cost=runtime_costs.scan_twice,
            ),
            dispatch_cost=runtime_costs.scan_twice,
        ),
        _accessor("family", "ip_family", types.IP, types.INT, family),
        _ip_test("isUnspecified", "ip_is_unspecified", Address.is_unspecified),
        _ip_test("isLoopback", "ip_is_loopback", Address.is_loopback),
        _ip_test(
            "isLinkLocalMulticast", "ip_is_link_local_multicast", Address.is_link_local_multicast
        ),
        _ip_test("isLinkLocalUnicast", "ip_is_link_local_unicast", Address.is_link_local_unicast),
        _ip_test("isGlobalUnicast", "ip_is_global_unicast", Address.is_global_unicast),
        dispatching.function("string", Overload("ip_to_string", (types.IP,), types.STRING, str)),
    ),
)

CIDR_LIBRARY = Library(
    "CIDR prefixes",
    (
        dispatching.function(
            "cidr",
            _from_text("string_to_cidr", types.CIDR, parse_cidr),
            dispatch_cost=runtime_costs.scan,
        ),
        _test("isCIDR", "is_cidr", is_cidr),
        dispatching.function(
            "containsIP",
            _containment("cidr_contains_ip_string", types.STRING, contains_ip_text, *_PARSED_IP),
            _containment("cidr_contains_ip_ip", types.IP, Prefix.contains, *_IP_COSTS),
            dispatch_cost=_contains_ip_cost,
        ),
        dispatching.function(
            "containsCIDR",
            _containment(
                "cidr_contains_cidr_string", types.STRING, contains_cidr_text, *_PARSED_CIDR
            ),
            _containment("cidr_contains_cidr", types.CIDR, Prefix.contains_prefix, *_CIDR_COSTS),
            dispatch_cost=_contains_cidr_cost,
        ),
        _accessor("ip", "cidr_ip", types.CIDR, types.IP, address_of),
        _accessor("prefixLength", "cidr_prefix_length", types.CIDR, types.INT, prefix_length),
        _accessor("masked", "cidr_masked", types.CIDR, types.CIDR, Prefix.masked),
        dispatching.function(
            "string", Overload("cidr_to_string", (types.CIDR,), types.STRING, str)
        ),
    ),
)
