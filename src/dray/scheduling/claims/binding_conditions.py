"""Devices that have to be attached first: what their conditions say about binding.

As plugins/dynamicresources, isClaimReadyForBinding and isClaimTimeout.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import NamedTuple

from dray.api.formats import gotext, gotime
from dray.api.types.dra import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim
from dray.api.types.meta import Condition

TIMEOUT_SECONDS = 600.0
"""DynamicResourcesBindingTimeoutDefault."""


class Failed(NamedTuple):
    """The driver gave up on a device, or did not answer in time."""

    message: str


def has_conditions(claim: ResourceClaim) -> bool:
    return any(result.binding_conditions for result in _results(claim))


def state_of(claim: ResourceClaim, now: datetime.datetime) -> bool | Failed:
    """Whether every device of the claim is ready, or that one never will be."""
    for result in _results(claim):
        if not result.binding_conditions:
            continue
        status = _status_of(claim, result)
        conditions = status.conditions if status else ()
        failure = _first_true(conditions, result.binding_failure_conditions)
        if failure is not None:
            return Failed(
                f"device binding failed: claim={claim.metadata.name}, reason={failure.reason}, "
                f"message={gotext.quote(failure.message)}"
            )
        if not all(_is_true(conditions, name) for name in result.binding_conditions):
            if seconds_left(claim, now) <= 0:
                return Failed(f"device binding timeout: claim={claim.metadata.name}")
            return False
    return True


def seconds_left(claim: ResourceClaim, now: datetime.datetime) -> float:
    """How long the driver may still take."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return TIMEOUT_SECONDS
    since = gotime.parse(allocation.allocation_timestamp)
    return TIMEOUT_SECONDS - (now - since).total_seconds()


def _results(claim: ResourceClaim) -> Iterable[DeviceRequestAllocationResult]:
    allocation = claim.status.allocation
    return allocation.devices.results if allocation else ()


def _status_of(
    claim: ResourceClaim, result: DeviceRequestAllocationResult
) -> AllocatedDeviceStatus | None:
    wanted = (result.driver, result.pool, result.device)
    for status in claim.status.devices:
        if (status.driver, status.pool, status.device) == wanted:
            return status
    return None


def _first_true(conditions: Iterable[Condition], names: Iterable[str]) -> Condition | None:
    wanted = set(names)
    return next(
        (
            condition
            for condition in conditions
            if condition.type in wanted and condition.status == "True"
        ),
        None,
    )


def _is_true(conditions: Iterable[Condition], name: str) -> bool:
    return any(condition.type == name and condition.status == "True" for condition in conditions)
