"""What the search puts together: a device of a node, numbered, and the slot it may fill.

Every concept of the allocator is a `Check` on such pairs; `search` runs the checks, and that is all
it knows.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, Protocol

import msgspec

from dray.allocator.model import rejections
from dray.allocator.model.requests import Alternative
from dray.allocator.model.trail import Trail
from dray.api.ids import DeviceId
from dray.api.types.dra import Device, DeviceTaint, ResourceSlice


class Candidate(msgspec.Struct, eq=False, gc=False):
    """A device as one node sees it. Its number is its place in upstream's visiting order."""

    index: int
    bit: int
    pool_index: int
    """The number of the device's pool on the node."""
    driver: str
    resource_slice: ResourceSlice
    device: Device
    taints: tuple[DeviceTaint, ...] = ()
    """Its own and those that rules add."""
    need: int = 0
    """The counters that it takes, packed (see `counters`)."""
    is_shareable: bool = False
    """Several claims may hold shares of it."""

    @property
    def id(self) -> DeviceId:
        return DeviceId(self.driver, self.resource_slice.spec.pool.name, self.device.name)


class Slot:
    """One device that is wanted: the `ordinal`-th of a request, or of a subrequest."""

    __slots__ = ("alternative", "claim", "is_admin", "ordinal")

    def __init__(self, claim: int, alternative: Alternative, ordinal: int) -> None:
        self.claim = claim
        self.alternative = alternative
        self.ordinal = ordinal
        self.is_admin = bool(alternative.admin_access)


class DeviceMatches(NamedTuple):
    """Which devices something accepts, and on which it fails."""

    matching: int
    failing: int = 0


class Check(Protocol):
    """One DRA concept. A refused device leaves no trace."""

    name: rejections.CheckName
    applies_to: int
    """The devices for which `take` has anything to do."""

    def take(
        self, slot: Slot, device: Candidate, trail: Trail
    ) -> rejections.DeviceRejection | None:
        """Claim `device` for `slot`, or say why not."""

    def filter_candidates(self, slot: Slot, candidates: int, needed: int) -> int:
        """The candidates that `take` would not refuse now, found quickly and without reasons.

        May keep some that it would refuse, never drops one that it would take. Zero if fewer than
        `wanted` of them can be taken together.
        """

    def can_conflict(
        self, slot: Slot, candidates: int, other: Alternative, picked: Candidate
    ) -> bool:
        """Whether `picked` for `other` can be a reason to refuse a candidate for `slot`."""

    def state_key(self, device: Candidate) -> Hashable:
        """What the picks so far mean for a device, to tell it from others that look the same."""
