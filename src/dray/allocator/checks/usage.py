"""Exclusive use and admin access: what claims hold, and what this search has picked.

`PoolHolders` is one pool's part of the allocated state. Its journal of changed devices lets each
node that sees the pool update itself when it is needed (`NodeInventory.sync`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping

import msgspec

from dray.allocator.model import rejections
from dray.allocator.model.candidates import Candidate, Check, Slot
from dray.allocator.model.rejections import DeviceRejection
from dray.allocator.model.trail import Trail
from dray.api.ids import ClaimKey

_JOURNAL_LIMIT = 64
_NOTHING: Mapping[str, int] = {}

HoldersOf = Callable[[Candidate], tuple[ClaimKey, ...]]


class DeviceHolders(msgspec.Struct, eq=False, gc=False):
    """The claims that hold a device as a whole, or shares of it."""

    owners: tuple[ClaimKey, ...] = ()
    shares: tuple[ClaimKey, ...] = ()
    capacity: Mapping[str, int] = _NOTHING
    """Amounts that the shares consume, in nano units."""

    def claims(self) -> tuple[ClaimKey, ...]:
        """Return every claim that holds the device or a share of it, once."""
        return tuple(dict.fromkeys([*self.owners, *self.shares]))


class PoolHolders:
    """The devices of one pool that claims hold, and which of them changed lately."""

    __slots__ = ("_dropped", "_journal", "by_device")

    def __init__(self) -> None:
        self.by_device: dict[str, DeviceHolders] = {}
        self._journal: list[str] = []
        self._dropped = 0

    @property
    def version(self) -> int:
        return self._dropped + len(self._journal)

    def changed_since(self, version: int) -> Iterable[str] | None:
        """Return the devices that changed since a version, or None if the journal is shorter."""
        if version < self._dropped:
            return None
        return self._journal[version - self._dropped :]

    def take(self, device: str, owner: ClaimKey) -> None:
        holders = self._record_change(device)
        holders.owners = (*holders.owners, owner)

    def release(self, device: str, owner: ClaimKey) -> None:
        holders = self._record_change(device)
        holders.owners = _without_one(holders.owners, owner)
        self._drop_if_free(device, holders)

    def take_share(self, device: str, owner: ClaimKey, capacity: Mapping[str, int]) -> None:
        holders = self._record_change(device)
        holders.shares = (*holders.shares, owner)
        holders.capacity = _sum(holders.capacity, capacity, 1)

    def release_share(self, device: str, owner: ClaimKey, capacity: Mapping[str, int]) -> None:
        holders = self._record_change(device)
        holders.shares = _without_one(holders.shares, owner)
        holders.capacity = _sum(holders.capacity, capacity, -1)
        self._drop_if_free(device, holders)

    def _record_change(self, device: str) -> DeviceHolders:
        journal = self._journal
        # A reader that is further behind than this compares all devices, which then costs no more.
        if len(journal) >= _JOURNAL_LIMIT + len(self.by_device):
            self._dropped += len(journal)
            journal.clear()
        journal.append(device)
        holders = self.by_device.get(device)
        if holders is None:
            holders = self.by_device[device] = DeviceHolders()
        return holders

    def _drop_if_free(self, device: str, holders: DeviceHolders) -> None:
        if not (holders.owners or holders.shares):
            del self.by_device[device]


def _without_one(holders: tuple[ClaimKey, ...], holder: ClaimKey) -> tuple[ClaimKey, ...]:
    index = holders.index(holder)
    return holders[:index] + holders[index + 1 :]


def _sum(amounts: Mapping[str, int], change: Mapping[str, int], sign: int) -> dict[str, int]:
    result = dict(amounts)
    for name, nano in change.items():
        result[name] = result.get(name, 0) + sign * nano
    return result


class UsageCheck(Check):
    """Checks that a device is free. With admin access, only picks of the same claim count."""

    name = rejections.CheckName.USAGE
    __slots__ = ("_by_claim", "_holders_of", "_taken", "applies_to", "picked")

    def __init__(self, taken: int, claims: int, holders_of: HoldersOf) -> None:
        self._taken = taken
        self._holders_of = holders_of
        self._by_claim = [0] * claims
        self.picked = 0
        self.applies_to = -1

    def blocked(self, slot: Slot) -> int:
        """Return the devices that are not free for the slot."""
        if slot.is_admin:
            return self._by_claim[slot.claim]
        return self._taken | self.picked

    def take(self, slot: Slot, device: Candidate, trail: Trail) -> DeviceRejection | None:
        if self.blocked(slot) & device.bit:
            if self._taken & device.bit and not slot.is_admin:
                return rejections.DeviceInUse(device.id, self._holders_of(device))
            return rejections.DevicePicked(device.id)
        if not device.is_shareable:
            by_claim = self._by_claim[slot.claim]
            trail.push(self._restore, self.picked, slot.claim, by_claim)
            self.picked |= device.bit
            self._by_claim[slot.claim] = by_claim | device.bit
        return None

    def filter_candidates(self, slot: Slot, candidates: int, needed: int) -> int:
        return candidates & ~self.blocked(slot)

    def state_key(self, device: Candidate) -> Hashable:
        bit = device.bit
        return bool(self._taken & bit), tuple([bool(picked & bit) for picked in self._by_claim])

    def _restore(self, picked: int, claim: int, by_claim: int) -> None:
        self.picked = picked
        self._by_claim[claim] = by_claim
