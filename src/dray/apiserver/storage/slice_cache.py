"""The published slices as stored entries, with the number of devices and a generation.

For rules that search all devices, and only when slices have changed.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dray.api import kinds
from dray.api.types.meta import Wire
from dray.apiserver.storage import store_keys
from dray.apiserver.storage.follower import StoreFollower
from dray.apiserver.storage.lookup import Reader
from dray.store.store import Entry, Store


class _Spec(Wire, frozen=True):
    devices: tuple[msgspec.Raw, ...] = ()


class _Slice(Wire, frozen=True):
    spec: _Spec = _Spec()


class PublishedSlices:
    """A cache of all slices. `generation` grows with every change to any of them."""

    prefix = store_keys.prefix(kinds.RESOURCE_SLICE)

    def __init__(self) -> None:
        self._reader = Reader(_Slice)
        self._entries: dict[str, Entry] = {}
        self._devices: dict[str, int] = {}
        self.device_count = 0
        self.generation = 0

    @property
    def entries(self) -> Iterable[Entry]:
        return tuple(self._entries.values())

    def follow(self, store: Store) -> StoreFollower:
        return StoreFollower(store, self.prefix, self)

    def put(self, entry: Entry) -> None:
        count = len(self._reader.read(entry).spec.devices)
        self.remove(entry.key)
        self._entries[entry.key] = entry
        self._devices[entry.key] = count
        self.device_count += count

    def remove(self, key: str) -> None:
        self._entries.pop(key, None)
        self.device_count -= self._devices.pop(key, 0)
        self.generation += 1
