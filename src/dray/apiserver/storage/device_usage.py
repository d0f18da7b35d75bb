"""Usage of devices by claims: shares of them, and counters that they have in common.

Claims are the only record of it. Each shared device and each counter set has a key besides, its
usage key, which every allocation that uses it up writes in its own transaction. An allocation that
was checked here is committed only if these keys are as they were then: so nothing else was
allocated meanwhile, on whichever server. To release a device needs no such write.

All of it comes from one watch, in the order of commits: the usage keys are never newer than the
claims.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from dray.api import kinds
from dray.api.ids import DeviceId, PoolId
from dray.api.types.meta import JsonObject, Wire
from dray.apiserver.storage import store_keys
from dray.apiserver.storage.follower import StoreFollower
from dray.apiserver.storage.lookup import Reader
from dray.apiserver.storage.published_pools import PublishedPools
from dray.store.store import (
    ABSENT,
    Delete,
    Entry,
    GuardFailed,
    ReadOnly,
    Store,
    Transaction,
    Unavailable,
)

PREFIX = f"/{kinds.RESOURCE_CLAIM.group}/"
USAGE = f"{PREFIX}device-usage/"
REMOVED_AT_ONCE = 32
_CLAIMS = store_keys.prefix(kinds.RESOURCE_CLAIM)
_SLICES = store_keys.prefix(kinds.RESOURCE_SLICE)


class _Result(Wire, frozen=True):
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, str] = {}


class _Devices(Wire, frozen=True):
    results: tuple[_Result, ...] = ()


class _Allocation(Wire, frozen=True):
    devices: _Devices = _Devices()


class _Status(Wire, frozen=True):
    allocation: _Allocation | None = None


class _Claim(Wire, frozen=True):
    status: _Status = _Status()


_READER = Reader(_Claim)


class DeviceUse(NamedTuple):
    """A device, or a share of it, that a claim has."""

    device: DeviceId
    is_share: bool
    consumed: Mapping[str, str]


class CachedClaim(NamedTuple):
    """The devices that a claim uses as of a revision."""

    revision: int
    uses: tuple[DeviceUse, ...]


def device_key(id: DeviceId) -> str:
    return f"{USAGE}{id.pool_id}/devices/{id.device}"


def counters_key(pool: PoolId, name: str) -> str:
    return f"{USAGE}{pool}/counters/{name}"


def _pool_of(usage_key: str) -> PoolId:
    driver, _, pool = usage_key.removeprefix(USAGE).rsplit("/", 2)[0].partition("/")
    return PoolId(driver, pool)


def uses_of(document: JsonObject | None) -> tuple[DeviceUse, ...]:
    """Return what a claim uses; admin access uses nothing."""
    status = (document or {}).get("status") or {}
    if not status.get("allocation"):
        return ()
    return _uses(_READER.convert({"status": {"allocation": status["allocation"]}}))


def _uses(claim: _Claim) -> tuple[DeviceUse, ...]:
    if claim.status.allocation is None:
        return ()
    return tuple(
        DeviceUse(
            DeviceId(result.driver, result.pool, result.device),
            result.share_id is not None,
            result.consumed_capacity,
        )
        for result in claim.status.allocation.devices.results
        if not result.admin_access
    )


class DeviceUsage:
    """The slices, the uses of all claims, and the revisions of the usage keys."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.published = PublishedPools()
        self.follower = StoreFollower(store, PREFIX, self)
        self._claims: dict[str, CachedClaim] = {}
        self._users: dict[PoolId, dict[str, dict[str, tuple[DeviceUse, ...]]]] = {}
        """By pool, device and key of the claim."""
        self._revisions: dict[str, int] = {}

    def put(self, entry: Entry) -> None:
        if entry.key.startswith(_CLAIMS):
            # Most claims are only just created, and decoding takes longest.
            has_devices = b'"allocation"' in entry.value
            claim = CachedClaim(entry.revision, _uses(_READER.read(entry)) if has_devices else ())
            self._forget(entry.key)
            self._claims[entry.key] = claim
            for device, uses in _by_device(claim.uses):
                in_pool = self._users.setdefault(device.pool_id, {})
                in_pool.setdefault(device.device, {})[entry.key] = uses
        elif entry.key.startswith(_SLICES):
            self.published.put(entry)
        elif entry.key.startswith(USAGE):
            self._revisions[entry.key] = entry.revision

    def remove(self, key: str) -> None:
        if key.startswith(_CLAIMS):
            self._forget(key)
        elif key.startswith(_SLICES):
            self.published.remove(key)
        elif key.startswith(USAGE):
            self._revisions.pop(key, None)

    def _forget(self, key: str) -> None:
        old = self._claims.pop(key, None)
        for device, _ in _by_device(old.uses if old else ()):
            in_pool = self._users[device.pool_id]
            users = in_pool[device.device]
            users.pop(key, None)
            if not users:
                del in_pool[device.device]
            if not in_pool:
                del self._users[device.pool_id]

    async def remove_unused(self) -> None:
        """Remove the usage keys of pools that no claim uses; pools come and go with their nodes.

        The guard says that nothing was allocated there since. For a server that still knows the
        key, its absence means the same: all that it has not seen is released again. Keys that
        cannot be removed now stay until the next start.
        """
        unused = [
            Delete(key, revision)
            for key, revision in self._revisions.items()
            if _pool_of(key) not in self._users
        ]
        for start in range(0, len(unused), REMOVED_AT_ONCE):
            with contextlib.suppress(GuardFailed, ReadOnly, Unavailable):
                await self._store.commit(
                    Transaction(tuple(unused[start : start + REMOVED_AT_ONCE]))
                )

    def revision(self, usage_key: str) -> int:
        return self._revisions.get(usage_key, ABSENT)

    def claim_revision(self, key: str) -> int:
        """Return the revision of a claim as far as it is known here."""
        claim = self._claims.get(key)
        return claim.revision if claim else ABSENT

    def users(self, device: DeviceId, except_claim: str) -> dict[str, tuple[DeviceUse, ...]]:
        """Return what other claims have of a device, by their keys."""
        users = self._users.get(device.pool_id, {}).get(device.device, {})
        return {key: uses for key, uses in users.items() if key != except_claim}

    def used_devices(self, pool: PoolId, except_claim: str) -> Iterator[tuple[DeviceId, list[str]]]:
        """Yield the devices of a pool that other claims have, with the keys of these claims."""
        for name, users in self._users.get(pool, {}).items():
            others = [key for key in users if key != except_claim]
            if others:
                yield DeviceId(*pool, name), others


def _by_device(uses: tuple[DeviceUse, ...]) -> Iterator[tuple[DeviceId, tuple[DeviceUse, ...]]]:
    if len(uses) == 1:
        yield uses[0].device, uses
        return
    ordered = sorted(uses, key=lambda use: use.device)
    for device, group in itertools.groupby(ordered, key=lambda use: use.device):
        yield device, tuple(group)
