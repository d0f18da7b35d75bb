"""Devices as slices publish them: the capacity and counters that allocations use up.

Of a device that slices of several generations publish, the newest counts, also while the newest
generation of its pool is incomplete: a device does not lose its counters while it is published
again. Slices are decoded when one of their devices is first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dray.api.ids import DeviceId, PoolId
from dray.api.types import dra
from dray.api.types.meta import Wire
from dray.apiserver.storage.lookup import Reader
from dray.store.store import Entry, Guard


class _Pool(Wire, frozen=True):
    name: str = ""
    generation: int = 0


class _HeaderSpec(Wire, frozen=True):
    driver: str = ""
    pool: _Pool = _Pool()


class _Header(Wire, frozen=True):
    spec: _HeaderSpec = _HeaderSpec()


class ConsumableDevice(Wire, frozen=True):
    """The fields of a device that say what an allocation uses up."""

    name: str = ""
    capacity: dict[str, dra.Counter] = {}
    consumes_counters: tuple[dra.DeviceCounterConsumption, ...] = ()
    allow_multiple_allocations: bool | None = None


class _Spec(Wire, frozen=True):
    devices: tuple[ConsumableDevice, ...] = ()
    shared_counters: tuple[dra.CounterSet, ...] = ()


class _Content(Wire, frozen=True):
    spec: _Spec = _Spec()


_HEADERS = Reader(_Header)
_CONTENTS = Reader(_Content)


class _Slice:
    """One slice, decoded when needed."""

    def __init__(self, entry: Entry) -> None:
        spec = _HEADERS.read(entry).spec
        self.guard = Guard(entry.key, entry.revision)
        self.pool = PoolId(spec.driver, spec.pool.name)
        self.generation = spec.pool.generation
        self._entry: Entry | None = entry
        self._devices: Mapping[str, ConsumableDevice] = {}
        self._counters: Mapping[str, Mapping[str, dra.Counter]] = {}

    @property
    def devices(self) -> Mapping[str, ConsumableDevice]:
        self._decode()
        return self._devices

    @property
    def counters(self) -> Mapping[str, Mapping[str, dra.Counter]]:
        self._decode()
        return self._counters

    def _decode(self) -> None:
        if self._entry is None:
            return
        spec = _CONTENTS.read(self._entry).spec
        self._devices = {device.name: device for device in spec.devices}
        self._counters = {item.name: item.counters for item in spec.shared_counters}
        self._entry = None


class Published(NamedTuple):
    """A device, and a guard that its slice has not changed."""

    device: ConsumableDevice
    guard: Guard


class PublishedCounters(NamedTuple):
    """The counters of a set, and a guard that their slice has not changed."""

    counters: Mapping[str, dra.Counter]
    guard: Guard


class PublishedPools:
    """All slices by pool."""

    def __init__(self) -> None:
        self._slices: dict[str, _Slice] = {}
        self._pools: dict[PoolId, list[_Slice]] = {}

    def put(self, entry: Entry) -> None:
        new = _Slice(entry)
        self.remove(entry.key)
        self._slices[entry.key] = new
        members = self._pools.setdefault(new.pool, [])
        members.append(new)
        members.sort(key=lambda item: -item.generation)

    def remove(self, key: str) -> None:
        old = self._slices.pop(key, None)
        if old is None:
            return
        members = self._pools[old.pool]
        members.remove(old)
        if not members:
            del self._pools[old.pool]

    def device(self, id: DeviceId) -> Published | None:
        for item in self._pools.get(id.pool_id, ()):
            device = item.devices.get(id.device)
            if device is not None:
                return Published(device, item.guard)
        return None

    def counters(self, pool: PoolId, name: str) -> PublishedCounters | None:
        for item in self._pools.get(pool, ()):
            counters = item.counters.get(name)
            if counters is not None:
                return PublishedCounters(counters, item.guard)
        return None
