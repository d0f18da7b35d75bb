"""Claims parsed into requests with their alternatives, and the signature of claims.

The pods of one Deployment have claims that differ only in their names. `signature` returns the same
key for them, so that results can be cached. Whatever depends on a node or on feature gates is
checked in `dray.allocator.problem`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dray.api.ids import RequestName
from dray.api.types import dra

EXACT_COUNT = "ExactCount"
ALL = "All"

Signature = tuple[bytes, ...]


class Alternative(msgspec.Struct, frozen=True, eq=False):
    """One way to satisfy a request: the request itself, or one of its subrequests."""

    name: RequestName
    device_class: str
    selectors: tuple[str | None, ...]
    """CEL expressions; None for a selector of an unknown kind."""
    mode: str
    count: int
    tolerations: tuple[dra.DeviceToleration, ...]
    capacity: Mapping[str, str] | None
    derived: Mapping[str, str]
    admin_access: bool | None = None

    @property
    def is_all(self) -> bool:
        return self.mode == ALL

    @property
    def own_name(self) -> str:
        """Return the name for upstream's messages: that of a subrequest is without its parent."""
        return self.name.sub or self.name.parent

    def is_named(self, names: Sequence[str]) -> bool:
        """Return whether the alternative or its parent request is one of `names`."""
        return self.name.parent in names or (bool(self.name.sub) and str(self.name) in names)


class ParsedRequest(msgspec.Struct, frozen=True, eq=False):
    name: str
    alternatives: tuple[Alternative, ...]
    is_prioritized: bool
    """firstAvailable: the first alternative that fits is used."""


class ParsedClaim(msgspec.Struct, frozen=True, eq=False):
    """The spec of one claim, in the form that the allocator works with."""

    requests: tuple[ParsedRequest, ...]
    constraints: tuple[dra.DeviceConstraint, ...]
    config: tuple[dra.DeviceClaimConfiguration, ...]


_encode = msgspec.msgpack.Encoder().encode


def signature(claims: Sequence[dra.ResourceClaim]) -> Signature:
    """Return a key that is equal for claims with equal specs, whatever their names."""
    return tuple([_encode(claim.spec.devices) for claim in claims])


def parse_claim(spec: dra.DeviceClaim) -> ParsedClaim:
    return ParsedClaim(tuple(map(_request, spec.requests)), spec.constraints, spec.config)


def _request(request: dra.DeviceRequest) -> ParsedRequest:
    if request.first_available:
        alternatives = tuple(
            _alternative(RequestName(request.name, sub.name), sub)
            for sub in request.first_available
        )
        return ParsedRequest(request.name, alternatives, is_prioritized=True)
    exactly = request.exactly or dra.ExactDeviceRequest()
    alternative = _alternative(RequestName(request.name), exactly, exactly.admin_access)
    return ParsedRequest(request.name, (alternative,), is_prioritized=False)


def _alternative(
    name: RequestName,
    spec: dra.ExactDeviceRequest | dra.DeviceSubRequest,
    admin_access: bool | None = None,
) -> Alternative:
    return Alternative(
        name,
        spec.device_class_name,
        tuple(selector.cel.expression if selector.cel else None for selector in spec.selectors),
        spec.allocation_mode,
        spec.count,
        spec.tolerations,
        spec.capacity.requests if spec.capacity else None,
        {derived.name: derived.expression for derived in spec.derived_attributes},
        admin_access,
    )
