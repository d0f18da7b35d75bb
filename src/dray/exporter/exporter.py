"""The exporter: follows a cluster, read only, and shows its figures as metrics.

It lists and watches the objects that figures depend on. The figures are brought up to date when
they are read, from the changes since then.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dray import supervision, telemetry
from dray.api import kinds
from dray.api.features import Features
from dray.api.types.core import Namespace
from dray.api.types.dra import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.api.types.workloads import PodGroup
from dray.client.api_client import Client, ObjectSelection
from dray.client.cache import Cache, ObjectChange
from dray.client.discovery import OptionalKinds
from dray.exporter import figure_metrics, metric_table
from dray.exporter.cluster_figures import ClusterFigures
from dray.exporter.figure_metrics import Samples
from dray.exporter.metric_table import Metric
from dray.exporter.trimming import Trimmer

NAME = "dray-exporter"
ACTIVE_PODS = ObjectSelection(field_selector="status.phase!=Succeeded,status.phase!=Failed")
PAGE_SIZE = 500
"""Objects that are read at once, which bounds the memory that reading them takes."""
FIRST_SECONDS = 5.0
"""How long the first reader waits until all objects are read."""
UPDATE_SECONDS = 3.0
"""How long a reader waits for the latest figures; Prometheus gives up after ten seconds."""

Changed = Callable[[ObjectChange[Any]], None]


class Exporter:
    """Follows the cluster of a client from the first time that figures are read, or `start`."""

    def __init__(
        self,
        client: Client,
        registry: telemetry.Registry,
        *,
        features: Features,
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._client, self._features, self._now = client, features, now
        self._wanted, self._synced = asyncio.Event(), asyncio.Event()
        self._group = asyncio.TaskGroup()
        self._updating: asyncio.Task[None] | None = None
        self._latencies = figure_metrics.latencies()
        self._figures = self._from_nothing()
        self._caches: list[Cache[Any]] = []
        self._contacts: dict[str, float] = {}
        self._changes: Counter[str] = Counter()
        self._updated: float | None = None
        figure_metrics.register(registry, lambda: self._figures)
        registry.register(self._latencies)
        self._register(registry)
        registry.collect_with(self.collect)

    @property
    def is_synced(self) -> bool:
        """Return whether all objects were read once."""
        return self._synced.is_set()

    def start(self) -> None:
        """Do not wait for the first reader."""
        self._wanted.set()

    async def run(self) -> None:
        """Follow the cluster until cancelled. A second call begins from nothing."""
        await self._wanted.wait()
        served = await OptionalKinds.of(self._client, self._features)
        self._synced.clear()
        self._figures = self._from_nothing()
        watched = self._watched(served)
        self._caches = [cache for cache, _ in watched]
        async with asyncio.TaskGroup() as self._group:
            for cache in self._caches:
                name = f"exporter-{cache.kind.plural}"
                self._group.create_task(supervision.run_forever(name, cache.run), name=name)
            for cache in self._caches:
                await cache.synced.wait()
            for cache, changed in watched:
                cache.subscribe(functools.partial(self._count, cache.kind.plural, changed))
            self._changes = Counter({cache.kind.plural: 0 for cache in self._caches})
            self._figures.is_live = True
            await self._update()
            self._synced.set()

    async def collect(self) -> None:
        """Bring the figures up to date, as far as that is done in a moment."""
        self._wanted.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_SECONDS):
                await self._synced.wait()
        if self.is_synced:
            if self._updating is None or self._updating.done():
                self._updating = self._group.create_task(self._update())
            await asyncio.wait([self._updating], timeout=UPDATE_SECONDS)

    async def _update(self) -> None:
        began = self._now().timestamp()
        for _ in self._figures.update():
            await asyncio.sleep(0)
        if self._figures.is_current:
            self._updated = began

    def _watched(self, served: OptionalKinds) -> list[tuple[Cache[Any], Changed]]:
        """Return the caches in the order in which they are taken over, with what that does."""
        figures, client, trimmer = self._figures, self._client, Trimmer()
        slices = Cache(
            client,
            kinds.RESOURCE_SLICE,
            ResourceSlice,
            trim=trimmer.resource_slice,
            page_size=PAGE_SIZE,
        )
        nodes = Cache(client, kinds.NODE, Node, trim=trimmer.node, page_size=PAGE_SIZE)
        pods = Cache(client, kinds.POD, Pod, ACTIVE_PODS, trim=trimmer.pod, page_size=PAGE_SIZE)
        claims = Cache(
            client,
            kinds.RESOURCE_CLAIM,
            ResourceClaim,
            trim=trimmer.claim,
            page_size=PAGE_SIZE,
        )
        watched: list[tuple[Cache[Any], Changed]] = [
            (Cache(client, kinds.NAMESPACE, Namespace), figures.namespace_changed),
            (Cache(client, kinds.DEVICE_CLASS, DeviceClass), figures.class_changed),
            (nodes, figures.node_changed),
            (slices, figures.slice_changed),
            (claims, figures.claim_changed),
            (pods, figures.pod_changed),
        ]
        if served.taint_rules is not None:
            rules = Cache(client, served.taint_rules, DeviceTaintRule)
            watched.append((rules, figures.rule_changed))
        if served.groups is not None:
            groups = Cache(client, served.groups, PodGroup)
            watched.append((groups, figures.group_changed))
        for cache, _ in watched:
            cache.contacted = functools.partial(self._contacted, cache.kind.plural)
        return watched

    def _contacted(self, plural: str) -> None:
        self._contacts[plural] = self._now().timestamp()

    def _count(self, plural: str, changed: Changed, change: ObjectChange[Any]) -> None:
        self._changes[plural] += 1
        changed(change)

    def _from_nothing(self) -> ClusterFigures:
        return ClusterFigures(self._features, self._now, self._latencies.observe)

    def _register(self, registry: telemetry.Registry) -> None:
        """Register what the exporter says about itself."""
        asks: dict[Metric, Callable[[], Samples]] = {
            metric_table.OBJECTS: lambda: self._by_resource(len),
            metric_table.UNREADABLE: lambda: self._by_resource(lambda c: len(c.undecodable)),
            metric_table.CHANGES: lambda: _by_name(self._changes),
            metric_table.LAST_CONTACT: lambda: _by_name(self._contacts),
            metric_table.LAST_UPDATE: self._last_update,
        }
        for metric, ask in asks.items():
            figure_metrics.register_one(registry, metric, ask)

    def _by_resource(self, count: Callable[[Cache[Any]], int]) -> Samples:
        for cache in self._caches:
            yield (cache.kind.plural,), count(cache)

    def _last_update(self) -> Samples:
        if self._updated is not None:
            yield (), self._updated


def _by_name(numbers: Mapping[str, float]) -> Iterator[tuple[telemetry.Labels, float]]:
    for name, number in numbers.items():
        yield (name,), number
