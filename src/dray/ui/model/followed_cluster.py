"""A cluster as people with the same rights see it: caches, what is drawn of them, and the stream.

The caches are read with the identity of one of these people, and of another when that one leaves.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import msgspec

from dray import supervision
from dray.api import kinds
from dray.api.features import Features
from dray.api.formats import gotime
from dray.api.http_messages import Request, Response
from dray.api.ids import ClaimKey
from dray.api.kinds import Kind
from dray.api.types.core import Namespace, ResourceQuota
from dray.api.types.dra import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.client.api_client import Client, ObjectSelection, Transport
from dray.client.cache import Cache, ObjectChange
from dray.clock import utc_now
from dray.explain.pod.pod_context import OTHER_NAMESPACES
from dray.ui.model.change_log import SentChanges
from dray.ui.model.entries import Cell, CellShape, NodeCard, WaitingEntry
from dray.ui.model.fleet_state import FleetState
from dray.ui.model.reported_health import ReportedHealth
from dray.ui.model.rights import EVERYWHERE, Rights
from dray.ui.model.waiting_state import WaitingState

log = logging.getLogger(__name__)

ACTIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"
PAGE_SIZE = 100
"""Objects that are read at once, which bounds the memory that reading them takes."""
JOIN_SECONDS = 0.1
"""Changes are joined for as long as this, so that a burst is one message."""
TYPES: dict[str, type[Any]] = {
    "Node": Node,
    "ResourceSlice": ResourceSlice,
    "DeviceClass": DeviceClass,
    "DeviceTaintRule": DeviceTaintRule,
    "ResourceClaim": ResourceClaim,
    "Pod": Pod,
    "ResourceClaimTemplate": ResourceClaimTemplate,
    "ResourceQuota": ResourceQuota,
    "Namespace": Namespace,
}
"""The type of each kind that is followed, in the order in which they are taken over."""

Changed = Callable[[ObjectChange[Any]], None]


class Outage(msgspec.Struct, frozen=True):
    """The time since when the API server cannot be followed, and what it says."""

    since: str
    reason: str


class State(msgspec.Struct, frozen=True):
    """Everything that the page draws, as it is on the wire."""

    seq: int
    time: str
    shapes: dict[str, CellShape]
    nodes: dict[str, NodeCard]
    cells: dict[str, Cell]
    waiting: dict[str, WaitingEntry]
    counts: dict[str, int]
    unreadable: list[str]
    outage: Outage | None


class DrawnChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """The differences from the state before; null is gone."""

    seq: int
    time: str
    shapes: dict[str, CellShape | None] = {}
    nodes: dict[str, NodeCard | None] = {}
    cells: dict[str, Cell | None] = {}
    waiting: dict[str, WaitingEntry | None] = {}
    counts: dict[str, int] | None = None
    unreadable: list[str] | None = None
    outage: Outage | msgspec.UnsetType | None = msgspec.UNSET


class SharedTransport:
    """Sends requests with the identity of one of several readers."""

    def __init__(self) -> None:
        self.readers: dict[Hashable, Transport] = {}

    async def send(self, request: Request) -> Response:
        return await next(iter(self.readers.values())).send(request)


class FollowedCluster:
    """Follows a cluster with some rights.

    `observer` reads all claims, for the devices that claims hold which the person may not see.
    """

    def __init__(
        self,
        rights: Rights,
        features: Features,
        *,
        observer: Client | None = None,
    ) -> None:
        self.rights, self.features = rights, features
        self.transport = SharedTransport()
        self.client = Client(self.transport)
        # Who may not read devices does not learn from claims which there are.
        self._shows_devices = bool(rights.of(kinds.RESOURCE_SLICE))
        sees_all_claims = tuple(rights.of(kinds.RESOURCE_CLAIM)) == EVERYWHERE
        self._observer = observer if self._shows_devices and not sees_all_claims else None
        knows_nodes = bool(rights.of(kinds.NODE))
        self.fleet = FleetState(features, knows_nodes=knows_nodes)
        self.waiting = WaitingState()
        self._health = ReportedHealth(self.fleet, self._claim_of)
        self.caches: dict[str, list[Cache[Any]]] = {}
        self.log = SentChanges(self._snapshot)
        self.synced = asyncio.Event()
        self.listeners: list[Callable[[Kind, ObjectChange[Any]], None]] = []
        """Called with every change of a followed object after the model has taken it over."""
        self._dirty = asyncio.Event()
        self._counts: dict[str, int] = {}
        self._outage: Outage | None = None
        self._sent_outage: Outage | None = None

    @property
    def unreadable(self) -> list[str]:
        """Return what is missing, a kind and the reason in each line."""
        rights = self.rights
        lines = [f"{kind}: {message}" for kind, message in sorted(rights.unread.items())]
        lines += [
            f"{kind}{OTHER_NAMESPACES}: {message}"
            for kind, message in sorted(rights.partly_read.items())
        ]
        return lines

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            watched = list(self._watched())
            for cache, _ in watched:
                name = f"dashboard-{cache.kind.plural}"
                group.create_task(supervision.run_forever(name, cache.run), name=name)
            for cache, _ in watched:
                await cache.synced.wait()
            for cache, changed in watched:
                cache.subscribe(functools.partial(self._take_over, cache.kind, changed))
                await asyncio.sleep(0)
            # Even if there is nothing that may be read.
            self._dirty.set()
            while True:
                await self._dirty.wait()
                if self.synced.is_set():
                    await asyncio.sleep(JOIN_SECONDS)
                self._dirty.clear()
                await self._update()
                self.synced.set()

    def objects(self, kind: Kind) -> Iterator[Any]:
        """Yield the followed objects of a kind that the person may see."""
        for cache in self.caches.get(kind.kind, ()):
            yield from cache

    def find(self, kind: Kind, name: str, namespace: str = "") -> Any | None:
        """Return a followed object; None if it is not there, or may not be seen."""
        for cache in self.caches.get(kind.kind, ()):
            found = cache.get(name, namespace)
            if found is not None:
                return found
        return None

    def something_changed(self) -> None:
        """Publish soon what is different."""
        self._dirty.set()

    async def _update(self) -> None:
        for _ in self.fleet.update():
            await asyncio.sleep(0)
        self._publish()

    def _publish(self) -> None:
        fleet, shapes = self.fleet.take(), dict(self.fleet.table.changes())
        waiting = self.waiting.take()
        is_said = self._outage == self._sent_outage
        if is_said and not (fleet.nodes or fleet.cells or shapes or waiting):
            return
        counts = dict(self.fleet.counts)
        change = DrawnChange(
            self.log.next_number(),
            _now(),
            shapes,
            fleet.nodes,
            fleet.cells,
            waiting,
            counts if counts != self._counts else None,
            outage=msgspec.UNSET if is_said else self._outage,
        )
        self._counts, self._sent_outage = counts, self._outage
        self.log.add(msgspec.json.encode(change))

    def _snapshot(self) -> bytes:
        state = State(
            self.log.number,
            _now(),
            dict(self.fleet.table.shapes),
            self.fleet.nodes,
            self.fleet.cells,
            self.waiting.entries,
            dict(self.fleet.counts),
            self.unreadable,
            self._outage,
        )
        return msgspec.json.encode(state)

    def _watched(self) -> Iterator[tuple[Cache[Any], Changed]]:
        """Yield the caches in the order in which they are taken over, with what that does."""
        does: dict[str, Changed] = {
            "Node": self.fleet.node_changed,
            "ResourceSlice": self.fleet.slice_changed,
            "DeviceClass": self.fleet.class_changed,
            "DeviceTaintRule": self.fleet.rule_changed,
            "ResourceClaim": self._claim_changed,
            "Pod": self._pod_changed,
        }
        by_name = {kind.kind: (kind, namespaces) for kind, namespaces in self.rights.namespaces}
        for name, type_ in TYPES.items():
            kind, namespaces = by_name.get(name, (None, ()))
            if kind is None:
                continue
            for namespace in namespaces:
                cache = self._cache(kind, type_, namespace)
                self.caches.setdefault(name, []).append(cache)
                yield cache, does.get(name, _nothing)
            if self._observer is not None and kind == kinds.RESOURCE_CLAIM:
                yield Cache(self._observer, kind, type_, page_size=PAGE_SIZE), self._hidden_changed

    def _cache(self, kind: Kind, type_: type[Any], namespace: str) -> Cache[Any]:
        fields = ACTIVE_PODS if kind == kinds.POD else ""
        selection = ObjectSelection(namespace, field_selector=fields)
        cache = Cache(self.client, kind, type_, selection, page_size=PAGE_SIZE)
        cache.problem_changed = self._problem_changed
        return cache

    def _problem_changed(self) -> None:
        """Find out whether the server can be followed; what is seen is old while it cannot."""
        every = (cache.problem for own in self.caches.values() for cache in own)
        reason = next(filter(None, every), "")
        if not reason:
            self._outage = None
        elif self._outage is None or self._outage.reason != reason:
            since = self._outage.since if self._outage is not None else _now()
            self._outage = Outage(since, reason)
        self._dirty.set()

    def _take_over(self, kind: Kind, changed: Changed, change: ObjectChange[Any]) -> None:
        changed(change)
        if changed != self._hidden_changed:
            for listener in self.listeners:
                listener(kind, change)
        self._dirty.set()

    def _claim_changed(self, change: ObjectChange[ResourceClaim]) -> None:
        if self._shows_devices:
            self.fleet.claim_changed(change)
        self.waiting.claim_changed(change)

    def _hidden_changed(self, change: ObjectChange[ResourceClaim]) -> None:
        """Take over a claim of the observer, unless the person may see it."""
        if change.key.namespace not in self.rights.of(kinds.RESOURCE_CLAIM):
            self.fleet.claim_changed(change, is_visible=False)

    def _pod_changed(self, change: ObjectChange[Pod]) -> None:
        self.waiting.pod_changed(change)
        if self._shows_devices:
            self._health.pod_changed(change)

    def _claim_of(self, key: ClaimKey) -> ResourceClaim | None:
        found: ResourceClaim | None = self.find(kinds.RESOURCE_CLAIM, key.name, key.namespace)
        return found


def _nothing(_: ObjectChange[Any]) -> None:
    """Keep a copy only."""


def _now() -> str:
    return gotime.write(utc_now())
