"""Binding conditions: whether the devices of a claim are ready for the pod to be bound.

https://github.com/kubernetes/kubernetes/blob/release-1.37/pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go
(isClaimReadyForBinding, isClaimTimeout)
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import NamedTuple

from dray.api.formats import gotext, gotime
from dray.api.ids import DeviceId
from dray.api.semantics.conditions import is_condition_true
from dray.api.types.dra import DeviceRequestAllocationResult, ResourceClaim
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
        conditions = _conditions_of(claim, result.device_id)
        failures = set(result.binding_failure_conditions)
        for failure in conditions:
            if failure.type not in failures or failure.status != "True":
                continue
            return Failed(
                f"device binding failed: claim={claim.metadata.name}, reason={failure.reason}, "
                f"message={gotext.quote(failure.message)}"
            )
        if not all(is_condition_true(conditions, name) for name in result.binding_conditions):
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


def _conditions_of(claim: ResourceClaim, device: DeviceId) -> Iterable[Condition]:
    for status in claim.status.devices:
        if status.device_id == device:
            return status.conditions
    return ()
