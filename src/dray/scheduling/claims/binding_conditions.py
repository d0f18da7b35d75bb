"""Binding conditions: whether the devices of a claim are ready for the pod to be bound.

https://github.com/kubernetes/kubernetes/blob/release-1.37/pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go
(isClaimReadyForBinding, isClaimTimeout)
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
    """A binding failure condition is true, or the conditions did not become true in time."""

    message: str


def has_conditions(claim: ResourceClaim) -> bool:
    return any(result.binding_conditions for result in _results(claim))


def state_of(claim: ResourceClaim, now: datetime.datetime) -> bool | Failed:
    """Return whether every device of the claim is ready, or Failed if one never will be."""
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
    """Return the time that the driver has left, negative after its end."""
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
    for status in claim.status.devices:
        if status.device_id == result.device_id:
            return status
    return None


def _first_true(conditions: Iterable[Condition], names: Iterable[str]) -> Condition | None:
    types = set(names)
    return next(
        (
            condition
            for condition in conditions
            if condition.type in types and condition.status == "True"
        ),
        None,
    )


def _is_true(conditions: Iterable[Condition], name: str) -> bool:
    return any(condition.type == name and condition.status == "True" for condition in conditions)
