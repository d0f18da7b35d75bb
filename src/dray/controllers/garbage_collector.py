"""Deletes objects with their owners: after them, before them (foreground), or not (orphan).

A graph of all objects by uid, kept current by watches of their metadata. Behaviour of
pkg/controller/garbagecollector. An owner that is not in the graph counts as absent only if the API
server confirms it, and an owner of an unknown kind counts as present.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from dray.api import errors, kinds
from dray.api.kinds import Kind
from dray.api.types.meta import ObjectMeta, OwnerReference
from dray.client import object_writes
from dray.client.cache import Cache, HasMetadata, ObjectChange
from dray.controllers import caches, status_patches
from dray.controllers.loops import Context, Loop

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
MAX_ABSENT = 10_000

_DELETED_BY_NOBODY = frozenset({"events"})
"""There are many events, and they neither own nor are owned."""


@dataclass(frozen=True, slots=True)
class OwnedObject:
    kind: Kind
    metadata: ObjectMeta

    @property
    def is_deleted(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def waits_for_dependents(self) -> bool:
        return self.is_deleted and FOREGROUND in self.metadata.finalizers

    @property
    def orphans_dependents(self) -> bool:
        return self.is_deleted and ORPHAN in self.metadata.finalizers

    def reference_to(self, uid: str) -> OwnerReference | None:
        references = (item for item in self.metadata.owner_references if item.uid == uid)
        return next(references, None)


class OwnerState(enum.Enum):
    """The state of an owner, as far as it matters for its dependent."""

    SOLID = "keeps it"
    DANGLING = "is gone"
    WAITING = "waits for it to go first"


class Graph:
    """The owner references between all objects."""

    def __init__(self) -> None:
        self._nodes: dict[str, OwnedObject] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        self._absent: OrderedDict[str, None] = OrderedDict()

    def get(self, uid: str) -> OwnedObject | None:
        return self._nodes.get(uid)

    def put(self, node: OwnedObject) -> OwnedObject | None:
        """Add or replace a node. Returns the previous one, or None."""
        uid = node.metadata.uid
        before = self._nodes.get(uid)
        if before is not None:
            self._untie(before)
        self._nodes[uid] = node
        for owner in node.metadata.owner_references:
            self._dependents.setdefault(owner.uid, {})[uid] = None
        return before

    def remove(self, uid: str) -> None:
        node = self._nodes.pop(uid, None)
        if node is not None:
            self._untie(node)
        self.note_absent(uid)

    def _untie(self, node: OwnedObject) -> None:
        for owner in node.metadata.owner_references:
            siblings = self._dependents.get(owner.uid, {})
            siblings.pop(node.metadata.uid, None)
            if not siblings:
                self._dependents.pop(owner.uid, None)

    def dependents(self, uid: str) -> list[OwnedObject]:
        return [self._nodes[dependent] for dependent in self._dependents.get(uid, ())]

    def note_absent(self, uid: str) -> None:
        self._absent[uid] = None
        while len(self._absent) > MAX_ABSENT:
            self._absent.popitem(last=False)

    def is_absent(self, uid: str) -> bool:
        return uid in self._absent

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._nodes))


class Garbage(Loop[str]):
    """The loop that deletes dependents. Keys are uids."""

    def __init__(self, context: Context) -> None:
        super().__init__("garbage", context, workers=8)
        self._graph = Graph()
        self._caches: list[Cache[Any]] = []
        for kind in context.served:
            if kind.plural not in _DELETED_BY_NOBODY and "delete" in kind.verbs:
                cache = context.caches.of(kind)
                self._caches.append(cache)
                self.follow(cache, self._handler(kind, cache))

    async def synced(self) -> None:
        for cache in self._caches:
            await cache.synced.wait()

    def resync(self) -> None:
        for uid in self._graph:
            self.queue.add(uid)

    def _handler(self, kind: Kind, cache: Cache[Any]) -> Callable[[ObjectChange[Any]], None]:
        def changed(change: ObjectChange[Any]) -> None:
            old, new = change.old, change.new
            if old is not None and _is_gone(cache, change):
                self._removed(old.metadata.uid)
            if new is not None:
                self._put(OwnedObject(kind, new.metadata))

        return changed

    def _put(self, node: OwnedObject) -> None:
        uid = node.metadata.uid
        before = self._graph.put(node)
        if node.waits_for_dependents or node.orphans_dependents:
            self.queue.add(uid)
            for dependent in self._graph.dependents(uid):
                self.queue.add(dependent.metadata.uid)
        elif any(self._may_go_with(owner) for owner in node.metadata.owner_references):
            self.queue.add(uid)
        owners = node.metadata.owner_references
        if before is not None and before.metadata.owner_references != owners:
            self._wake_waiting_owners(before)

    def _may_go_with(self, owner: OwnerReference) -> bool:
        owner_node = self._graph.get(owner.uid)
        return owner_node is None or owner_node.waits_for_dependents

    def _removed(self, uid: str) -> None:
        node = self._graph.get(uid)
        dependents = self._graph.dependents(uid)
        self._graph.remove(uid)
        for dependent in dependents:
            self.queue.add(dependent.metadata.uid)
        if node is not None:
            self._wake_waiting_owners(node)

    def _wake_waiting_owners(self, node: OwnedObject) -> None:
        for reference in node.metadata.owner_references:
            owner = self._graph.get(reference.uid)
            if owner is not None and owner.waits_for_dependents:
                self.queue.add(reference.uid)

    async def reconcile(self, key: str) -> None:
        node = self._graph.get(key)
        if node is None:
            return
        if node.orphans_dependents:
            await self._orphan_dependents(node)
        elif node.waits_for_dependents:
            await self._await_dependents(node)
        elif not node.is_deleted and node.metadata.owner_references:
            await self._follow_owners(node)

    async def _orphan_dependents(self, node: OwnedObject) -> None:
        uid = node.metadata.uid
        for dependent in self._graph.dependents(uid):
            await self._drop_references(dependent, {uid})
        await self._remove_finalizer(node, ORPHAN)

    async def _await_dependents(self, node: OwnedObject) -> None:
        uid = node.metadata.uid
        blocking = [
            dependent
            for dependent in self._graph.dependents(uid)
            if (reference := dependent.reference_to(uid)) and reference.block_owner_deletion
        ]
        if not blocking:
            await self._remove_finalizer(node, FOREGROUND)
        for dependent in blocking:
            if not dependent.waits_for_dependents:
                self.queue.add(dependent.metadata.uid)

    async def _follow_owners(self, node: OwnedObject) -> None:
        states = {
            owner.uid: await self._owner_state(node, owner)
            for owner in node.metadata.owner_references
        }
        loose = {uid for uid, state in states.items() if state is not OwnerState.SOLID}
        if not loose:
            return
        if len(loose) < len(states):
            await self._drop_references(node, loose)
            return
        dependents = self._graph.dependents(node.metadata.uid)
        if OwnerState.WAITING in states.values() and dependents:
            if any(dependent.waits_for_dependents for dependent in dependents):
                await self._stop_blocking(node)
            await self._delete(node, "Foreground")
        else:
            await self._delete(node, _own_policy(node))

    async def _owner_state(self, node: OwnedObject, owner: OwnerReference) -> OwnerState:
        owner_node = self._graph.get(owner.uid)
        if owner_node is not None:
            return OwnerState.WAITING if owner_node.waits_for_dependents else OwnerState.SOLID
        if self._graph.is_absent(owner.uid):
            return OwnerState.DANGLING
        group, _ = kinds.parse_api_version(owner.api_version)
        kind = kinds.by_kind(group, owner.kind)
        if kind is None or (kind.namespaced and not node.metadata.namespace):
            return OwnerState.SOLID
        namespace = node.metadata.namespace if kind.namespaced else ""
        try:
            live = await self.client.get(kind, owner.name, namespace)
        except errors.NotFound:
            live = None
        if live is not None and live["metadata"]["uid"] == owner.uid:
            return OwnerState.SOLID
        self._graph.note_absent(owner.uid)
        return OwnerState.DANGLING

    async def _drop_references(self, node: OwnedObject, uids: set[str]) -> None:
        kept = [
            msgspec.to_builtins(reference)
            for reference in node.metadata.owner_references
            if reference.uid not in uids
        ]
        await self._change(node, {"ownerReferences": kept or None})

    async def _stop_blocking(self, node: OwnedObject) -> None:
        """Remove a blocking reference, so that objects in a cycle do not wait for each other."""
        references = [
            {**msgspec.to_builtins(reference), "blockOwnerDeletion": False}
            for reference in node.metadata.owner_references
        ]
        await self._change(node, {"ownerReferences": references})

    async def _remove_finalizer(self, node: OwnedObject, finalizer: str) -> None:
        kept = [name for name in node.metadata.finalizers if name != finalizer]
        await self._change(node, {"finalizers": kept or None})

    async def _change(self, node: OwnedObject, change: dict[str, Any]) -> None:
        try:
            raw = await object_writes.patch_metadata(self.client, node.kind, node.metadata, change)
        except errors.NotFound:
            self._removed(node.metadata.uid)
            return
        # Known at once, so that the next look does not act on the object as it was.
        metadata = status_patches.decode(raw, HasMetadata).metadata
        if self._graph.get(metadata.uid) is not None:
            self._graph.put(OwnedObject(node.kind, metadata))

    async def _delete(self, node: OwnedObject, policy: str) -> None:
        metadata = node.metadata
        exact = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        options = {"propagationPolicy": policy, "preconditions": exact}
        try:
            await object_writes.delete(self.client, node.kind, metadata, **options)
        except errors.NotFound:
            self._removed(metadata.uid)


def _own_policy(node: OwnedObject) -> str:
    """Return the deletion propagation policy that the finalizers of an object set."""
    if ORPHAN in node.metadata.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in node.metadata.finalizers else "Background"


def _is_gone(cache: Cache[Any], change: ObjectChange[Any]) -> bool:
    """Return whether the object was deleted, or replaced by one of the same name."""
    if change.new is None:
        return caches.is_gone(cache, change.key)
    return change.old is not None and change.new.metadata.uid != change.old.metadata.uid
