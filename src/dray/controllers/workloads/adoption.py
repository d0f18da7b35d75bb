"""Owners take what their selector finds and let go of what it no longer finds.

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
from dray.api.selectors.label_selectors import Selector
from dray.api.semantics import owner_references
from dray.api.types.meta import JsonObject, LabelSelector, ObjectMeta
from dray.client.api_client import Client
from dray.client.cache import Cache, ObjectChange
from dray.controllers import caches, status_patches


class _HasMetadata(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=_HasMetadata)


def possible_owners(change: ObjectChange[T], owners: Cache[Any]) -> Iterator[ObjectKey]:
    """Who might adopt an object that has just become free."""
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
    """As the selector says; most of them are turned down without being compiled."""
    if selector is None or not selector.match_labels.items() <= labels.items():
        return False
    return label_selectors.label_selector(selector).matches(labels)


class Adopter(Generic[T]):
    """Adopts and releases objects of one kind for owners of another.

    With a `finalizer`, owners also hold on to what is theirs until they have counted it.
    """

    def __init__(self, client: Client, kind: Kind, owner_kind: Kind, finalizer: str = "") -> None:
        self._client = client
        self._kind, self._owner_kind = kind, owner_kind
        self._finalizer = finalizer

    async def claim(
        self, owner: ObjectMeta, selector: Selector, owned: Iterable[T], orphans: Iterable[T]
    ) -> list[T]:
        """What belongs to the owner, with what it adopts here."""
        kept = []
        for each in owned:
            if selector.matches(each.metadata.labels):
                kept.append(each)
            elif not owner.deletion_timestamp:
                await self._release(owner, each.metadata)
        wanted = [
            orphan
            for orphan in orphans
            if selector.matches(orphan.metadata.labels) and not orphan.metadata.deletion_timestamp
        ]
        if wanted and not owner.deletion_timestamp and await self._is_still_there(owner):
            for each in wanted:
                kept.append(
                    status_patches.decode(await self._adopt(owner, each.metadata), type(each))
                )
        return kept

    async def _is_still_there(self, owner: ObjectMeta) -> bool:
        """Ask the server: an owner deleted meanwhile must not take anything along."""
        try:
            raw = await self._client.get(self._owner_kind, owner.name, owner.namespace)
        except errors.NotFound:
            return False
        found = raw["metadata"]
        return found["uid"] == owner.uid and not found.get("deletionTimestamp")

    async def _adopt(self, owner: ObjectMeta, metadata: ObjectMeta) -> JsonObject:
        reference = owner_references.reference(self._owner_kind, owner)
        change: dict[str, Any] = {"ownerReferences": [*_references(metadata), reference]}
        if self._finalizer and self._finalizer not in metadata.finalizers:
            change["finalizers"] = [*metadata.finalizers, self._finalizer]
        return await status_patches.patch_metadata(self._client, self._kind, metadata, change)

    async def _release(self, owner: ObjectMeta, metadata: ObjectMeta) -> None:
        others = [reference for reference in _references(metadata) if reference["uid"] != owner.uid]
        change: dict[str, Any] = {"ownerReferences": others or None}
        if self._finalizer in metadata.finalizers:
            kept = [finalizer for finalizer in metadata.finalizers if finalizer != self._finalizer]
            change["finalizers"] = kept or None
        with contextlib.suppress(errors.NotFound):
            await status_patches.patch_metadata(self._client, self._kind, metadata, change)


def _references(metadata: ObjectMeta) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(reference) for reference in metadata.owner_references]
