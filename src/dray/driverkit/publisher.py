"""Publishes pools as ResourceSlices, and keeps the slices in sync with them.

The caller describes a pool on request (`describe`), and calls `refresh` when that has changed.
Slices that another client changes or deletes are restored; slices of pools that are no longer
described are deleted. Only one small mark per slice is kept, so that a process can publish the
pools of thousands of nodes.

A pool's generation grows when devices move between its slices, come or go. An allocation then never
mixes the old pool and the new. A change inside one slice is atomic without that.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from dray.api import errors, kinds
from dray.api.conversion import canonical
from dray.api.ids import PoolId
from dray.api.types.dra import Device, ResourcePool, ResourceSlice, ResourceSliceSpec
from dray.api.types.meta import JsonObject, ObjectMeta, OwnerReference, Wire
from dray.client.api_client import EVERYTHING, Client, ObjectSelection
from dray.client.cache import Cache, ObjectChange
from dray.client.controller import Controller
from dray.driverkit import pool_layout
from dray.driverkit.pool_layout import PublishedPool

_BY_POOL = "pool"


class PoolToPublish(NamedTuple):
    """A pool to publish, and the object it goes away with."""

    pool: PublishedPool
    owner: OwnerReference | None = None


class _SummarySpec(Wire, frozen=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()


class _Summary(Wire, frozen=True):
    """The part of a published slice that is cached: all but its devices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _SummarySpec = _SummarySpec()

    @property
    def pool_id(self) -> PoolId:
        return PoolId(self.spec.driver, self.spec.pool.name)


class _Mark(NamedTuple):
    """Identifies the content of a slice, and the set of its devices and counters."""

    content: int
    arrangement: int


class _Written(NamedTuple):
    object_generation: int
    mark: _Mark


class Publisher:
    """Keeps every slice in `selection` in sync, as their only publisher. Run it until cancelled.

    It changes nothing while it is paused, because another process publishes the same slices.
    """

    def __init__(
        self,
        client: Client,
        describe: Callable[[PoolId], PoolToPublish | None],
        *,
        selection: ObjectSelection = EVERYTHING,
        labels: Mapping[str, str] | None = None,
        workers: int = 8,
        is_paused: Callable[[], bool] = lambda: False,
    ) -> None:
        self._client = client
        self._describe = describe
        self._is_paused = is_paused
        self._labels = dict(labels or {})
        self._written: dict[str, _Written] = {}
        self._being_written: dict[str, _Summary | None] = {}
        """Slices whose response has not come yet, with what their events showed meanwhile."""
        self._slices: Cache[_Summary] = Cache(
            client,
            kinds.RESOURCE_SLICE,
            _Summary,
            selection,
            {_BY_POOL: lambda one: (one.pool_id,)},
        )
        self._slices.subscribe(self._slice_changed)
        self._controller: Controller[PoolId] = Controller(
            "publisher", self._reconcile, workers=workers
        )

    def refresh(self, pool: PoolId) -> None:
        """Compare the slices of a pool with its description again."""
        self._controller.queue.add(pool)

    @property
    def is_settled(self) -> bool:
        """Whether every description so far is published."""
        return self._slices.synced.is_set() and self._controller.queue.is_idle

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._slices.run(), name="publisher-slices")
            await self._slices.synced.wait()
            await self._controller.run()

    def _slice_changed(self, change: ObjectChange[_Summary]) -> None:
        name = change.key.name
        if change.new is None:
            self._written.pop(name, None)
            if change.old is not None:
                self.refresh(change.old.pool_id)
        elif name in self._being_written:
            self._being_written[name] = change.new
        else:
            self._restore(change.new)

    def _restore(self, summary: _Summary) -> None:
        """Look at the pool of a slice again if the slice is not as we wrote it."""
        if not self._is_ours(summary):
            self.refresh(summary.pool_id)

    @contextlib.contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        """Judge the events of a slice when the response to our write has come."""
        self._being_written[name] = None
        try:
            yield
        finally:
            if (seen := self._being_written.pop(name)) is not None:
                self._restore(seen)

    def _is_ours(self, summary: _Summary) -> bool:
        written = self._written.get(summary.metadata.name)
        return written is not None and written.object_generation == summary.metadata.generation

    async def _reconcile(self, pool_id: PoolId) -> None:
        if self._is_paused():
            return
        published = self._slices.find(_BY_POOL, pool_id)
        existing = {summary.metadata.name: summary for summary in published}
        offer = self._describe(pool_id)
        slices = pool_layout.lay_out(offer.pool, 0, offer.owner) if offer else ()
        desired = {one.metadata.name: one for one in slices}
        marks = {name: await self._mark_of(summary) for name, summary in existing.items()}
        generation = _generation(existing.values(), marks, desired)
        # A slice that exists though the cache does not show it yet is an error here: the pool is
        # looked at again, because those written before it may have got a newer generation.
        for name, one in desired.items():
            resource_slice = _with_generation(one, generation)
            current = existing.get(name)
            if current is None:
                await self._create(resource_slice)
            elif marks[name] != _mark(one.spec) or current.spec.pool != resource_slice.spec.pool:
                await self._replace(resource_slice)
        for name in existing.keys() - desired.keys():
            with contextlib.suppress(errors.NotFound):
                await self._client.delete(kinds.RESOURCE_SLICE, name)

    async def _mark_of(self, summary: _Summary) -> _Mark | None:
        """Return the mark of a slice: cached for its revision, else read from the server."""
        name = summary.metadata.name
        if self._is_ours(summary):
            return self._written[name].mark
        try:
            document = await self._client.get(kinds.RESOURCE_SLICE, name)
        except errors.NotFound:
            return None
        self._remember(document)
        return self._written[name].mark

    async def _create(self, one: ResourceSlice) -> None:
        """Create a slice with its driver as field manager; one process may publish for many."""
        body = _body(one)
        if self._labels:
            body["metadata"]["labels"] = self._labels
        client = self._client.managed_by(one.spec.driver)
        with self._writing(one.metadata.name):
            created = await client.create(kinds.RESOURCE_SLICE, body)
            self._remember(created, one.spec)

    async def _replace(self, one: ResourceSlice) -> None:
        """Replace the spec and keep the metadata that other clients wrote."""
        body = await self._client.get(kinds.RESOURCE_SLICE, one.metadata.name)
        body["spec"] = _body(one)["spec"]
        client = self._client.managed_by(one.spec.driver)
        with self._writing(one.metadata.name):
            replaced = await client.replace(kinds.RESOURCE_SLICE, body)
            self._remember(replaced, one.spec)

    def _remember(self, document: JsonObject, spec: ResourceSliceSpec | None = None) -> None:
        """Cache the mark of what was sent: a server may leave out fields that it does not know."""
        metadata = document["metadata"]
        actual = spec or msgspec.convert(canonical.prune_nulls(document), ResourceSlice).spec
        self._written[metadata["name"]] = _Written(metadata.get("generation", 0), _mark(actual))


def _generation(
    existing: Iterable[_Summary],
    marks: Mapping[str, _Mark | None],
    desired: Mapping[str, ResourceSlice],
) -> int:
    current = max((summary.spec.pool.generation for summary in existing), default=0)
    if not current:
        return 1
    if len(marks) == len(desired) == 1 and marks.keys() == desired.keys():
        return current
    before = {name: mark.arrangement if mark else None for name, mark in marks.items()}
    after = {name: _mark(one.spec).arrangement for name, one in desired.items()}
    return current if before == after else current + 1


def _with_generation(one: ResourceSlice, generation: int) -> ResourceSlice:
    pool = msgspec.structs.replace(one.spec.pool, generation=generation)
    return msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, pool=pool))


def _mark(spec: ResourceSliceSpec) -> _Mark:
    names = tuple(device.name for device in spec.devices)
    counters = tuple(counter_set.name for counter_set in spec.shared_counters)
    bare = msgspec.structs.replace(
        spec, pool=ResourcePool(), devices=tuple(map(_without_times, spec.devices))
    )
    return _Mark(hash(msgspec.json.encode(bare, order="deterministic")), hash((names, counters)))


def _without_times(device: Device) -> Device:
    """Return the device without the times of its taints, which are no reason to write."""
    if not device.taints:
        return device
    taints = tuple(msgspec.structs.replace(taint, time_added=None) for taint in device.taints)
    return msgspec.structs.replace(device, taints=taints)


def _body(one: ResourceSlice) -> JsonObject:
    body: JsonObject = msgspec.to_builtins(one)
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", **body}
