"""Adopts objects that an owner's selector matches, and releases those it no longer matches.

As pkg/controller/controller_ref_manager.go.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from dray.api import errors
from dray.api.ids import ObjectKey
from dray.api.kinds import Kind
from dray.api.selectors import label_selectors
from dray.api.selectors.label_selectors import ParsedSelector
from dray.api.semantics import owner_references
from dray.api.types.meta import JsonObject, LabelSelector, ObjectMeta
from dray.client import object_writes
from dray.client.api_client import Client
from dray.client.cache import Cache, ObjectChange
from dray.controllers import caches, status_patches


class _HasMetadata(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=_HasMetadata)


def possible_owners(change: ObjectChange[T], owners: Cache[Any]) -> Iterator[ObjectKey]:
    """Yield the owners that could adopt an object which has just lost its controller."""
    old, new = change.old, change.new
    if new is None or not new.metadata.labels or owner_references.controller_of(new.metadata):
        return
    if old is not None and _ties(old.metadata) == _ties(new.metadata):
        return
    for owner in owners.find(caches.NAMESPACE, change.key.namespace):
        if _selects(owner.spec.selector, new.metadata.labels):
            yield owner.metadata.key


def _ties(metadata: ObjectMeta) -> tuple[Any, ...]:
    return metadata.labels, metadata.owner_references


def _selects(selector: LabelSelector | None, labels: dict[str, str]) -> bool:
    """Return whether the selector matches. Most are ruled out before one is compiled."""
    if selector is None or not selector.match_labels.items() <= labels.items():
        return False
    return label_selectors.label_selector(selector).matches(labels)


class Adopter(Generic[T]):
    """Adopts and releases objects of one kind for owners of another.

    With a `finalizer`, objects stay until their owner has counted them.
    """

    def __init__(self, client: Client, kind: Kind, owner_kind: Kind, finalizer: str = "") -> None:
        self._client = client
        self._kind, self._owner_kind = kind, owner_kind
        self._finalizer = finalizer

    async def claim(
        self, owner: ObjectMeta, selector: ParsedSelector, owned: Iterable[T], orphans: Iterable[T]
    ) -> list[T]:
        """Return the objects of the owner, including those that it adopts now."""
        kept = []
        for item in owned:
            if selector.matches(item.metadata.labels):
                kept.append(item)
            elif not owner.deletion_timestamp:
                await self._release(owner, item.metadata)
        adoptable = [
            orphan
            for orphan in orphans
            if selector.matches(orphan.metadata.labels) and not orphan.metadata.deletion_timestamp
        ]
        if adoptable and not owner.deletion_timestamp and await self._is_still_there(owner):
            for item in adoptable:
                adopted = await self._adopt(owner, item.metadata)
                kept.append(status_patches.decode(adopted, type(item)))
        return kept

    async def _is_still_there(self, owner: ObjectMeta) -> bool:
        """Return whether the owner still exists on the server; a deleted one must not adopt."""
        try:
            raw = await self._client.get(self._owner_kind, owner.name, owner.namespace)
        except errors.NotFound:
            return False
        live = raw["metadata"]
        return live["uid"] == owner.uid and not live.get("deletionTimestamp")

    async def _adopt(self, owner: ObjectMeta, metadata: ObjectMeta) -> JsonObject:
        reference = owner_references.reference(self._owner_kind, owner)
        change: dict[str, Any] = {"ownerReferences": [*_references(metadata), reference]}
        if self._finalizer and self._finalizer not in metadata.finalizers:
            change["finalizers"] = [*metadata.finalizers, self._finalizer]
        return await object_writes.patch_metadata(self._client, self._kind, metadata, change)

    async def _release(self, owner: ObjectMeta, metadata: ObjectMeta) -> None:
        others = [reference for reference in _references(metadata) if reference["uid"] != owner.uid]
        change: dict[str, Any] = {"ownerReferences": others or None}
        if self._finalizer in metadata.finalizers:
            kept = [finalizer for finalizer in metadata.finalizers if finalizer != self._finalizer]
            change["finalizers"] = kept or None
        with contextlib.suppress(errors.NotFound):
            await object_writes.patch_metadata(self._client, self._kind, metadata, change)


def _references(metadata: ObjectMeta) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(reference) for reference in metadata.owner_references]
