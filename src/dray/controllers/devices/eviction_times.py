"""Computes when device taints evict a pod, and which rules cause it.

As claimEvictionTime and podEvictionTime of pkg/controller/devicetainteviction. Taints of a slice
count only in the newest generation of its pool.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from dray.allocator.checks import taints
from dray.api import well_known
from dray.api.formats import gotime
from dray.api.semantics import pools
from dray.api.types import dra
from dray.api.types.dra import DeviceTaint, DeviceTaintRule, ResourceClaim
from dray.controllers.slim_types import TaintedDevice, TaintedSlice

LONG_AGO = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Eviction(NamedTuple):
    """The time of an eviction. `rules` are the uids of the DeviceTaintRules among its causes."""

    when: datetime.datetime
    rules: frozenset[str] = frozenset()


def soonest(evictions: Iterable[Eviction | None]) -> Eviction | None:
    """Return the earliest time with the rules of all evictions, or None without any."""
    pending = [eviction for eviction in evictions if eviction is not None]
    if not pending:
        return None
    rules = frozenset().union(*(eviction.rules for eviction in pending))
    return Eviction(min(eviction.when for eviction in pending), rules)


def of_claim(
    claim: ResourceClaim, slices: Sequence[TaintedSlice], rules: Sequence[DeviceTaintRule]
) -> Eviction | None:
    """Return when the consumers of a claim are evicted, or None.

    `slices` are those of the pools that the claim has devices of.
    """
    if claim.status.allocation is None:
        return None
    return soonest(
        _of_taint(taint, rule, result.tolerations)
        for result in claim.status.allocation.devices.results
        for taint, rule in _taints(result, slices, rules)
    )


def _taints(
    result: dra.DeviceRequestAllocationResult,
    slices: Sequence[TaintedSlice],
    rules: Sequence[DeviceTaintRule],
) -> Iterator[tuple[DeviceTaint, str]]:
    """Yield the evicting taints of an allocated device, with the uid of the rule or ""."""
    for device in current_devices(result.driver, result.pool, slices):
        if device.name == result.device:
            yield from ((taint, "") for taint in device.taints if evicts(taint))
    for rule in rules:
        if evicts(rule.spec.taint) and selects(rule, result.driver, result.pool, result.device):
            yield rule.spec.taint, rule.metadata.uid


def evicts(taint: DeviceTaint) -> bool:
    return taint.effect == well_known.NO_EXECUTE


def selects(rule: DeviceTaintRule, driver: str, pool: str, device: str) -> bool:
    """Return whether the rule selects the device. A rule without a selector selects none."""
    selector = rule.spec.device_selector
    return (
        selector is not None
        and selector.driver in (None, driver)
        and selector.pool in (None, pool)
        and selector.device in (None, device)
    )


def current_devices(
    driver: str, pool: str, slices: Iterable[TaintedSlice]
) -> Iterator[TaintedDevice]:
    """Yield the devices of the newest generation of one pool; other pools are left out."""
    of_pool = [item for item in slices if item.pool_id == (driver, pool)]
    for resource_slice in pools.current_slices(of_pool):
        yield from resource_slice.spec.devices


def _of_taint(
    taint: DeviceTaint, rule: str, tolerations: Iterable[dra.DeviceToleration]
) -> Eviction | None:
    """Return the eviction by one taint, or None if it is tolerated for ever."""
    seconds = taints.tolerated_seconds(taint, tolerations)
    if seconds is None:
        return None
    since = gotime.parse(taint.time_added) if taint.time_added else LONG_AGO
    reasons = frozenset({rule}) if rule else frozenset()
    return Eviction(since + datetime.timedelta(seconds=seconds), reasons)
