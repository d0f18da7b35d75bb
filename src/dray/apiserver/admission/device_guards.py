"""Refuses allocations that would use up more of a device or counter set than there is.

An exclusive use of a device is guarded by a token of the store (`storage.device_holds`). This rule
guards the rest: shares of a device, the counters that devices have in common, and that nobody
shares a device that another claim has for itself. See `storage.device_usage` for how.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

import msgspec

from dray.api import errors, kinds
from dray.api.features import Features
from dray.api.ids import PoolId
from dray.apiserver.admission.admission_chain import (
    NO_LOCK,
    AdmissionRequest,
    AdmissionRule,
    CommitRequirements,
)
from dray.apiserver.storage import device_limits, device_usage, store_keys
from dray.apiserver.storage.device_limits import Overuse
from dray.apiserver.storage.device_usage import DeviceUsage, DeviceUse
from dray.store.store import ABSENT, Guard, Put, Store

CATCH_UP_SECONDS = 5.0
MAX_LOOKS = 3
"""How often holders are read again before a refusal."""
_SLICES = store_keys.prefix(kinds.RESOURCE_SLICE)


class _UsageKeys(NamedTuple):
    """The usage keys of an allocation: those it writes, and those it only compares."""

    written: frozenset[str]
    compared: frozenset[str]


class DeviceGuards(AdmissionRule):
    about = frozenset({"ResourceClaim"})

    def __init__(self, store: Store, usage: DeviceUsage, features: Features) -> None:
        self._store, self._usage = store, usage
        self._is_on = features.exclusive_devices
        self._features = features
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    def concerns(self, admission: AdmissionRequest) -> bool:
        """Return whether a change allocates devices to a claim."""
        if not self._is_on or not admission.is_about("resource.k8s.io", "ResourceClaim", "status"):
            return False
        new = ((admission.new or {}).get("status") or {}).get("allocation")
        old = ((admission.old or {}).get("status") or {}).get("allocation")
        return bool(new) and new != old

    def commit_lock(
        self, admission: AdmissionRequest
    ) -> contextlib.AbstractAsyncContextManager[None]:
        """Serialize the allocations of one shared device or counter set on this server.

        They are guarded anyway: without the lock, many at once would only fail each other.
        """
        keys = self._keys(device_usage.uses_of(admission.new)).written
        return self._all_locked(keys) if keys else NO_LOCK

    @contextlib.asynccontextmanager
    async def _all_locked(self, keys: Iterable[str]) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for key in sorted(keys):
                lock = self._locks.get(key)
                if lock is None:
                    lock = self._locks[key] = asyncio.Lock()
                await stack.enter_async_context(lock)
            yield

    async def validate(self, admission: AdmissionRequest) -> CommitRequirements | None:
        if not self.concerns(admission):
            return None
        uses = device_usage.uses_of(admission.new)
        claim = store_keys.key(admission.kind, admission.name, admission.namespace)
        await self._catch_up(self._keys(uses))
        overuse = await self._confirmed_overuse(claim, uses)
        if overuse is not None:
            raise _conflict(admission, overuse)
        return self._requirements(claim, uses)

    def _keys(self, uses: Iterable[DeviceUse]) -> _UsageKeys:
        written: set[str] = set()
        compared: set[str] = set()
        for use in uses:
            sets = self._counter_sets(use)
            written.update(device_usage.counters_key(pool, name) for pool, name in sets)
            if use.is_share:
                written.add(device_usage.device_key(use.device))
            elif not sets:
                # Others that would share it write the key. With counters they write those of them.
                compared.add(device_usage.device_key(use.device))
        return _UsageKeys(frozenset(written), frozenset(compared - written))

    def _counter_sets(self, use: DeviceUse) -> list[tuple[PoolId, str]]:
        published = self._usage.published.device(use.device)
        if published is None or not self._features.partitionable_devices:
            return []
        consumed = published.device.consumes_counters
        return [(use.device.pool_id, item.counter_set) for item in consumed]

    async def _catch_up(self, keys: _UsageKeys) -> None:
        """Wait until the cache has the allocations of others, and the slices, that are stored."""
        needed = self._store.changed_at(_SLICES) or 0
        known = {key for key in keys.compared if self._usage.revision(key) != ABSENT}
        for key in keys.written | known:
            entry = await self._store.get(key)
            if entry is None:
                self._usage.remove(key)
            elif entry.revision != self._usage.revision(key):
                needed = max(needed, entry.revision)
        if self._usage.follower.has_reached(needed):
            return
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                await self._usage.follower.reach(needed)
        except TimeoutError as error:
            raise errors.service_unavailable(
                "the watch of allocated devices lags behind the store; try again"
            ) from error

    async def _confirmed_overuse(self, claim: str, uses: tuple[DeviceUse, ...]) -> Overuse | None:
        """Return what would be used up by claims that really have it; a release may be unseen."""
        overuse = None
        for _ in range(MAX_LOOKS):
            overuse = device_limits.find_overuse(self._usage, self._features, claim, uses)
            if overuse is None or not await self._refresh(overuse.holders):
                break
        return overuse

    async def _refresh(self, claims: Iterable[str]) -> bool:
        """Read claims again. Returns whether one of them has changed."""
        has_changed = False
        for key in claims:
            entry = await self._store.get(key)
            if entry is None:
                self._usage.remove(key)
                has_changed = True
            elif entry.revision > self._usage.claim_revision(key):
                self._usage.put(entry)
                has_changed = True
        return has_changed

    def _requirements(self, claim: str, uses: tuple[DeviceUse, ...]) -> CommitRequirements:
        keys = self._keys(uses)
        guards = {Guard(key, self._usage.revision(key)) for key in keys.compared}
        for use in uses:
            published = self._usage.published.device(use.device)
            if published is not None:
                guards.add(published.guard)
            for pool, name in self._counter_sets(use):
                counters = self._usage.published.counters(pool, name)
                if counters is not None:
                    guards.add(counters.guard)
        value = msgspec.json.encode({"claim": claim})
        return CommitRequirements(
            tuple(Put(key, value, self._usage.revision(key)) for key in sorted(keys.written)),
            tuple(sorted(guards, key=lambda guard: guard.key)),
            tuple(dict.fromkeys(str(use.device) for use in uses if use.is_share)),
        )


def _conflict(admission: AdmissionRequest, overuse: Overuse) -> errors.Conflict:
    holders = ", ".join("/".join(key.rsplit("/", 2)[-2:]) for key in overuse.holders)
    held = f"; allocated to the claims {holders}" if holders else ""
    return errors.conflict(
        store_keys.group_resource(admission.kind),
        admission.name,
        f"{overuse.what}{held}; choose another device or wait until a claim is deallocated",
    )
