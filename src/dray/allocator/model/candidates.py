"""Devices and slots, which the search pairs, and the interface of checks on such pairs.

Every DRA rule that depends on other picks is a `Check`. The search runs them and knows no rule.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import msgspec

from dray.allocator.model.rejections import CheckName, DeviceRejection
from dray.allocator.model.requests import Alternative
from dray.allocator.model.trail import Trail
from dray.api.ids import DeviceId
from dray.api.types.dra import ALLOCATION_RESULTS_MAX_SIZE, Device, DeviceTaint, ResourceSlice


class Candidate(msgspec.Struct, eq=False, gc=False):
    """A device of one node. Its index is its place in upstream's visiting order."""

    index: int
    bit: int
    pool_index: int
    """The index of the device's pool on the node."""
    driver: str
    resource_slice: ResourceSlice
    device: Device
    taints: tuple[DeviceTaint, ...] = ()
    """The device's own taints and those of DeviceTaintRules."""
    need: int = 0
    """The counters that it consumes, packed (see `checks.counters`)."""
    is_shareable: bool = False
    """Several claims may hold shares of it."""

    @property
    def id(self) -> DeviceId:
        return DeviceId(self.driver, self.resource_slice.spec.pool.name, self.device.name)


class Slot:
    """A place for one device: the `ordinal`-th of a request or subrequest."""

    __slots__ = ("alternative", "claim", "is_admin", "ordinal")

    def __init__(self, claim: int, alternative: Alternative, ordinal: int) -> None:
        self.claim = claim
        self.alternative = alternative
        self.ordinal = ordinal
        self.is_admin = bool(alternative.admin_access)


def slots_for(claim: int, alternative: Alternative, count: int) -> list[Slot]:
    """Return a slot for every device, at most as many as a claim can have."""
    ordinals = range(min(count, ALLOCATION_RESULTS_MAX_SIZE))
    return [Slot(claim, alternative, ordinal) for ordinal in ordinals]


class DeviceMatches(NamedTuple):
    """The devices that match, and those on which evaluation returns an error."""

    matching: int
    failing: int = 0


class Check:
    """One DRA rule. A rejected device leaves the state of the check as it was."""

    __slots__ = ()

    name: CheckName
    applies_to: int
    """The devices on which the rule bears; `take` is not called for others."""

    def take(self, slot: Slot, device: Candidate, trail: Trail) -> DeviceRejection | None:
        """Take `device` for `slot` and return None, or return why not."""
        raise NotImplementedError

    def filter_candidates(self, slot: Slot, candidates: int, needed: int) -> int:
        """Return the candidates that `take` would not reject now, quickly and without reasons.

        May keep some that it would reject, never drops one that it would take. May return 0 if
        fewer than `needed` of them can be taken together; the user is told why only where
        `search/infeasibility.py` proves it too.
        """
        return candidates

    def can_conflict(
        self, slot: Slot, candidates: int, other: Alternative, picked: Candidate
    ) -> bool:
        """Return whether `picked` for `other` can be a reason to reject a candidate for `slot`."""
        return bool(candidates & picked.bit)

    def state_key(self, device: Candidate) -> Hashable:
        """Return what the picks so far mean for a device; it differs where the check does."""
        return None
