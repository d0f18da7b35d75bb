"""Expands partition requests when a claim or a template is written."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable, Sequence

from dray.api import kinds
from dray.api.features import Features
from dray.api.ids import GroupKind
from dray.api.types.dra import DeviceClass, ResourceSlice
from dray.api.types.meta import JsonObject
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import AdmissionRequest, AdmissionRule
from dray.apiserver.request import validation
from dray.apiserver.storage.lookup import Lookup, Reader
from dray.apiserver.storage.slice_cache import PublishedSlices
from dray.cel import device as cel
from dray.partitions import expansion, profiles
from dray.partitions.profiles import PartitionDevice
from dray.store.store import Entry, Store
from dray.validation import fields

GROUP = "resource.k8s.io"
SLICES_AT_ONCE = 2
MAX_CACHED = 64
_MARK = b'"consumesCounters"'
_PATHS = {"ResourceClaim": fields.SPEC, "ResourceClaimTemplate": fields.SPEC.child("spec")}


class PartitionRequests(AdmissionRule):
    about = frozenset(_PATHS)

    def __init__(self, store: Store, published: PublishedSlices, features: Features) -> None:
        self._classes = Lookup(store, kinds.DEVICE_CLASS, DeviceClass)
        self._store = store
        self._published = published
        self._is_on = features.partition_request
        self._reader = Reader(ResourceSlice)
        self._cached: dict[tuple[str, ...], list[PartitionDevice]] = {}
        self._generation = -1

    async def mutate(self, admission: AdmissionRequest) -> None:
        document = admission.new
        path = _PATHS.get(admission.kind.kind) if admission.kind.group == GROUP else None
        if not self._is_on or path is None or document is None or admission.subresource:
            return
        requested = expansion.requested_partitions(document)
        if not requested:
            return
        spec = expansion.claim_spec(document)
        classes = [stored.value for stored in await self._classes.all()]
        old = admission.old or {}
        is_update = admission.operation == admission_chain.UPDATE
        if is_update and requested == expansion.requested_partitions(old):
            spec = expansion.keep_previous_expansion(spec, expansion.claim_spec(old), classes)
        expressions = _expressions(spec, requested, classes)
        is_pending = bool(expansion.pending(spec, requested))
        devices = await self._cached_devices(expressions) if is_pending else []
        expanded = expansion.expand(spec, requested, devices, classes, path)
        if expanded.errors and is_pending:
            # The cache is a moment behind the store, and a driver may just have published.
            page = await self._store.list(PublishedSlices.prefix)
            devices = await self._gather(expressions, page.entries)
            expanded = expansion.expand(spec, requested, devices, classes, path)
        group_kind = GroupKind(admission.kind.group, admission.kind.kind)
        validation.refuse(group_kind, admission.name, expanded.errors)
        parent = document["spec"] if document["kind"] == "ResourceClaimTemplate" else document
        parent["spec"] = expanded.spec
        admission.warnings.extend(expanded.remarks)

    async def _cached_devices(self, expressions: tuple[str, ...]) -> list[PartitionDevice]:
        generation = self._published.generation
        if generation != self._generation or len(self._cached) >= MAX_CACHED:
            self._cached.clear()
            self._generation = generation
        cached = self._cached.get(expressions)
        if cached is None:
            cached = await self._gather(expressions, self._published.entries)
            if generation == self._published.generation == self._generation:
                self._cached[expressions] = cached
        return cached

    async def _gather(
        self, expressions: tuple[str, ...], published: Iterable[Entry]
    ) -> list[PartitionDevice]:
        """Return one partition of each kind that the selectors can distinguish."""
        compiled = [cel.compile_selector(expression, stored=True) for expression in expressions]
        selectors = [selector for selector in compiled if selector.error is None]
        by_key: dict[Hashable, PartitionDevice] = {}
        entries = [entry for entry in published if _MARK in entry.value]
        for number, entry in enumerate(entries):
            if number % SLICES_AT_ONCE == 0:
                await asyncio.sleep(0)
            for partition in profiles.partition_devices(self._reader.read(entry)):
                by_key.setdefault(_distinct_key(partition, selectors), partition)
        return list(by_key.values())


def _expressions(
    spec: JsonObject, requested: JsonObject, classes: Iterable[DeviceClass]
) -> tuple[str, ...]:
    """Return the selectors of the requests that are to be expanded, and of their classes."""
    partitions = expansion.PublishedPartitions((), classes)
    found = {
        expression
        for request in expansion.pending(spec, requested)
        for expression in expansion.expressions(request, partitions)
    }
    return tuple(sorted(found))


def _distinct_key(partition: PartitionDevice, selectors: Sequence[cel.Selector]) -> Hashable:
    view = cel.view(partition.driver, partition.device)
    sizes = tuple(
        (name, capacity.value) for name, capacity in sorted(partition.device.capacity.items())
    )
    shapes = tuple(selector.shape(view) for selector in selectors)
    return partition.driver, partition.type_name, sizes, shapes
