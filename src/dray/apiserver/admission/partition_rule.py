"""Expands partition requests when a claim or a template is written."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable, Sequence

from dray.api import errors, kinds
from dray.api.features import Features
from dray.api.ids import GroupKind
from dray.api.types.dra import DeviceClass, ResourceSlice
from dray.api.types.meta import JsonObject
from dray.apiserver.admission import admission_chain, partition_expansion, partition_profiles
from dray.apiserver.admission.admission_chain import AdmissionRequest, AdmissionRule
from dray.apiserver.admission.partition_profiles import PartitionDevice
from dray.apiserver.request import validation
from dray.apiserver.storage.lookup import Lookup, Reader
from dray.apiserver.storage.slice_cache import PublishedSlices
from dray.cel import device as cel
from dray.store.store import Store
from dray.validation import fields

GROUP = "resource.k8s.io"
SLICES_AT_ONCE = 2
MAX_REMEMBERED = 64
_MARK = b'"consumesCounters"'
_PATHS = {"ResourceClaim": fields.SPEC, "ResourceClaimTemplate": fields.SPEC.child("spec")}


class PartitionRequests(AdmissionRule):
    about = frozenset(_PATHS)

    def __init__(self, store: Store, published: PublishedSlices, features: Features) -> None:
        self._classes = Lookup(store, kinds.served(GROUP, "DeviceClass"), DeviceClass)
        self._published = published
        self._is_on = features.partition_request
        self._reader = Reader(ResourceSlice)
        self._remembered: dict[tuple[str, ...], list[PartitionDevice]] = {}
        self._generation = -1

    async def mutate(self, action: AdmissionRequest) -> None:
        document = action.new
        path = _PATHS.get(action.kind.kind) if action.kind.group == GROUP else None
        if not self._is_on or path is None or document is None or action.subresource:
            return
        asked = partition_expansion.requested_partitions(document)
        if not asked:
            return
        spec = partition_expansion.claim_spec(document)
        classes = [found.value for found in await self._classes.all()]
        if (
            action.operation == admission_chain.UPDATE
            and asked == partition_expansion.requested_partitions(action.old or {})
        ):
            before = partition_expansion.claim_spec(action.old or {})
            spec = partition_expansion.keep_previous_expansion(spec, before, classes)
        offers = await self._offers(spec, asked, classes)
        expansion = partition_expansion.expand(spec, asked, offers, classes, path)
        if expansion.errors:
            group_kind = GroupKind(action.kind.group, action.kind.kind)
            raise errors.invalid(group_kind, action.name, validation.causes(expansion.errors))
        _replace_spec(document, expansion.spec)
        action.warnings.extend(expansion.remarks)

    async def _offers(
        self, spec: JsonObject, asked: JsonObject, classes: Iterable[DeviceClass]
    ) -> list[PartitionDevice]:
        """One partition of every sort that the selectors in question can tell apart."""
        market = partition_expansion.PublishedPartitions((), classes)
        pending = partition_expansion.pending(spec, asked)
        if not pending:
            return []
        expressions = {
            expression
            for request in pending
            for expression in partition_expansion.expressions(request, market)
        }
        return await self._sorts(tuple(sorted(expressions)))

    async def _sorts(self, expressions: tuple[str, ...]) -> list[PartitionDevice]:
        generation = self._published.generation
        if generation != self._generation or len(self._remembered) >= MAX_REMEMBERED:
            self._remembered.clear()
            self._generation = generation
        known = self._remembered.get(expressions)
        if known is None:
            known = await self._gather(expressions)
            if generation == self._published.generation == self._generation:
                self._remembered[expressions] = known
        return known

    async def _gather(self, expressions: tuple[str, ...]) -> list[PartitionDevice]:
        compiled = [cel.compile_selector(expression, stored=True) for expression in expressions]
        selectors = [selector for selector in compiled if selector.error is None]
        found: dict[Hashable, PartitionDevice] = {}
        entries = [entry for entry in self._published.entries if _MARK in entry.value]
        for number, entry in enumerate(entries):
            if number % SLICES_AT_ONCE == 0:
                await asyncio.sleep(0)
            for offer in partition_profiles.offers(self._reader.read(entry)):
                found.setdefault(_sort_of(offer, selectors), offer)
        return list(found.values())


def _sort_of(offer: PartitionDevice, selectors: Sequence[cel.Selector]) -> Hashable:
    view = cel.view(offer.driver, offer.device)
    sizes = tuple((name, each.value) for name, each in sorted(offer.device.capacity.items()))
    shapes = tuple(selector.shape(view) for selector in selectors)
    return offer.driver, offer.type_name, sizes, shapes


def _replace_spec(document: JsonObject, spec: JsonObject) -> None:
    if document["kind"] == "ResourceClaimTemplate":
        document["spec"]["spec"] = spec
    else:
        document["spec"] = spec
