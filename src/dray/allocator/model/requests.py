"""Claims to requests that have to be satisfied, and their signature.

The pods of one Deployment ask the same question with other names. `signature` gives equal keys to
equal questions; `parse` reads one claim's question. What depends on a node or on the gates is
checked in `problems`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dray.api.ids import RequestName
from dray.api.types.dra import (
    DeviceClaim,
    DeviceClaimConfiguration,
    DeviceConstraint,
    DeviceRequest,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)

EXACT_COUNT = "ExactCount"
ALL = "All"

Signature = tuple[bytes, ...]


class Alternative(msgspec.Struct, frozen=True, eq=False):
    """One way to satisfy a request: the request itself, or one of its subrequests."""

    name: RequestName
    device_class: str
    selectors: tuple[str | None, ...]
    """Expressions; None stands for a selector of a kind we do not know."""
    mode: str
    count: int
    tolerations: tuple[DeviceToleration, ...]
    capacity: Mapping[str, str] | None
    derived: Mapping[str, str]
    admin_access: bool | None = None

    @property
    def is_all(self) -> bool:
        return self.mode == ALL

    @property
    def own_name(self) -> str:
        """Upstream's messages name a subrequest without its parent."""
        return self.name.sub or self.name.parent


class Request(msgspec.Struct, frozen=True, eq=False):
    name: str
    options: tuple[Alternative, ...]
    is_prioritized: bool
    """firstAvailable: the first option that works is taken."""


class ParsedClaim(msgspec.Struct, frozen=True, eq=False):
    """What one claim asks for."""

    requests: tuple[Request, ...]
    constraints: tuple[DeviceConstraint, ...]
    config: tuple[DeviceClaimConfiguration, ...]


_encode = msgspec.msgpack.Encoder().encode


def signature(claims: Sequence[ResourceClaim]) -> Signature:
    """Equal for claims that ask for the same, whatever they are called."""
    return tuple([_encode(claim.spec.devices) for claim in claims])


def parse_claim(asked: DeviceClaim) -> ParsedClaim:
    return ParsedClaim(
        tuple(_request(request) for request in asked.requests), asked.constraints, asked.config
    )


def _request(request: DeviceRequest) -> Request:
    if request.first_available:
        options = tuple(
            _option(RequestName(request.name, sub.name), sub) for sub in request.first_available
        )
        return Request(request.name, options, is_prioritized=True)
    exactly = request.exactly or ExactDeviceRequest()
    option = _option(RequestName(request.name), exactly, exactly.admin_access)
    return Request(request.name, (option,), is_prioritized=False)


def _option(
    name: RequestName,
    asked: ExactDeviceRequest | DeviceSubRequest,
    admin_access: bool | None = None,
) -> Alternative:
    return Alternative(
        name,
        asked.device_class_name,
        tuple(selector.cel.expression if selector.cel else None for selector in asked.selectors),
        asked.allocation_mode,
        asked.count,
        asked.tolerations,
        asked.capacity.requests if asked.capacity else None,
        {derived.name: derived.expression for derived in asked.derived_attributes},
        admin_access,
    )
