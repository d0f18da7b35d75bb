"""Deletes Events some time after they were last seen, as kube-apiserver does with `--event-ttl`.

Several servers on one store may all do so: each deletion is of the revision that was read, so that
an Event that happens again meanwhile stays.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator

from dray.api import kinds
from dray.api.formats import gotime
from dray.api.types.core import CoreEvent
from dray.apiserver.storage import store_keys
from dray.apiserver.storage.lookup import Reader
from dray.store import store
from dray.store.store import Delete, Entry, GuardFailed, Store, Transaction

log = logging.getLogger(__name__)

DEFAULT_SECONDS = 3600.0
ROUNDS_PER_LIFETIME = 12
MAX_PAUSE_SECONDS = 300.0
PAGE, DELETED_AT_ONCE = 500, 50
"""So many Events are read or deleted at once; other requests are served in between."""

_PREFIX = store_keys.prefix(kinds.EVENT)


class EventExpiry:
    """Deletes the Events of a store that were last seen longer ago than `seconds`."""

    def __init__(self, events: Store, seconds: float, now: Callable[[], float]) -> None:
        self._store = events
        self._seconds = seconds
        self._now = now
        self._reader = Reader(CoreEvent)

    async def run(self) -> None:
        """Delete expired Events until the store is closed; return at once if none expires."""
        if not self._seconds:
            return
        with contextlib.suppress(store.Closed):
            while True:
                await asyncio.sleep(min(self._seconds / ROUNDS_PER_LIFETIME, MAX_PAUSE_SECONDS))
                try:
                    await self.delete_expired()
                except (store.Unavailable, store.ReadOnly) as error:
                    log.warning("expired events cannot be deleted yet: %s", error)

    async def delete_expired(self) -> None:
        after = ""
        while True:
            page = await self._store.list(_PREFIX, limit=PAGE, after_key=after)
            expired = [entry for entry in page.entries if self._is_expired(entry)]
            for start in range(0, len(expired), DELETED_AT_ONCE):
                await self._delete(expired[start : start + DELETED_AT_ONCE])
            if len(page.entries) < PAGE:
                return
            after = page.entries[-1].key
            await asyncio.sleep(0)

    async def _delete(self, entries: list[Entry]) -> None:
        """Delete those that have not changed since they were read."""
        while entries:
            deletes = tuple(Delete(entry.key, entry.revision) for entry in entries)
            try:
                await self._store.commit(Transaction(deletes))
                return
            except GuardFailed as failure:
                entries = [entry for entry in entries if entry.key != failure.key]

    def _is_expired(self, entry: Entry) -> bool:
        now = self._now()
        event = self._reader.read(entry)
        # Clients write these times: one that lies in the future keeps no Event alive.
        seen = max((time for time in _times(event) if time <= now), default=0.0)
        return seen < now - self._seconds


def _times(event: CoreEvent) -> Iterator[float]:
    """Yield the times at which an Event was seen; those that cannot be read are left out."""
    observed = event.series.last_observed_time if event.series else None
    times = (event.metadata.creation_timestamp, event.last_timestamp, event.event_time, observed)
    for time in filter(None, times):
        with contextlib.suppress(ValueError):
            yield gotime.parse(time).timestamp()
