"""Empties a deleted namespace, pods before everything else.

Behaviour of pkg/controller/namespace/deletion: pods are deleted first, so that the objects they use
stay as long as they run. The namespace goes when it is empty.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping

import msgspec

from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.kinds import Kind
from dray.api.types.core import Namespace, NamespaceCondition
from dray.api.types.meta import ObjectMeta
from dray.client import object_writes
from dray.client.api_client import ObjectSelection
from dray.client.cache import HasMetadata
from dray.controllers import status_patches
from dray.controllers.loops import Context, Loop

FINALIZER = "kubernetes"
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.1, 5.0

CONTENT_REMAINING = "NamespaceContentRemaining"
FINALIZERS_REMAINING = "NamespaceFinalizersRemaining"
_FINE = {
    "NamespaceDeletionDiscoveryFailure": (
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    CONTENT_REMAINING: ("ContentRemoved", "All content successfully removed"),
    FINALIZERS_REMAINING: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}

Remaining = Mapping[Kind, list[ObjectMeta]]


class Namespaces(Loop[str]):
    def __init__(self, context: Context) -> None:
        super().__init__("namespaces", context)
        self._namespaces = context.caches.namespaces
        self._content = [
            kind
            for kind in context.served
            if kind.namespaced and "delete" in kind.verbs and kind.group != "events.k8s.io"
        ]
        self._attempts: Counter[str] = Counter()
        self.follow(self._namespaces, lambda change: self.queue.add(change.key.name))

    def resync(self) -> None:
        for namespace in self._namespaces:
            self.queue.add(namespace.metadata.name)

    async def reconcile(self, key: str) -> float | None:
        namespace = self._namespaces.get(key)
        if namespace is None or not namespace.metadata.deletion_timestamp:
            del self._attempts[key]
            return None
        if FINALIZER not in namespace.spec.finalizers:
            return None
        remaining = await self._empty(key)
        if not remaining:
            await self._finalize(key, namespace.metadata.uid)
            return None
        await self._report(namespace, remaining)
        self._attempts[key] += 1
        return min(FIRST_RETRY_SECONDS * 2.0 ** min(self._attempts[key], 16), MAX_RETRY_SECONDS)

    async def _empty(self, namespace: str) -> dict[Kind, list[ObjectMeta]]:
        """Delete all objects of a namespace. Returns those that remain."""
        pods = await self._delete_all(kinds.POD, namespace)
        if pods:
            return {kinds.POD: pods}
        remaining = {}
        for kind in self._content:
            if kind is not kinds.POD and (left := await self._delete_all(kind, namespace)):
                remaining[kind] = left
        return remaining

    async def _delete_all(self, kind: Kind, namespace: str) -> list[ObjectMeta]:
        for metadata in await self._list(kind, namespace):
            if metadata.deletion_timestamp:
                continue
            with contextlib.suppress(errors.NotFound, errors.Conflict):
                await object_writes.delete(
                    self.client, kind, metadata, propagationPolicy="Background"
                )
        return await self._list(kind, namespace)

    async def _list(self, kind: Kind, namespace: str) -> list[ObjectMeta]:
        page = await self.client.list(kind, ObjectSelection(namespace=namespace))
        return [msgspec.json.decode(item, type=HasMetadata).metadata for item in page.items]

    async def _finalize(self, name: str, uid: str) -> None:
        raw = await self.client.get(kinds.NAMESPACE, name)
        if raw["metadata"]["uid"] != uid:
            return
        spec = raw.get("spec") or {}
        kept = [finalizer for finalizer in spec.get("finalizers") or () if finalizer != FINALIZER]
        with contextlib.suppress(errors.NotFound):
            await self.client.replace(
                kinds.NAMESPACE, {**raw, "spec": {**spec, "finalizers": kept}}, "finalize"
            )

    async def _report(self, namespace: Namespace, remaining: Remaining) -> None:
        """Write into the conditions what remains in the namespace."""
        now = gotime.write(self.now())
        by_type = {condition.type: condition for condition in namespace.status.conditions}
        for new in conditions(remaining):
            before = by_type.get(new.type)
            since = before.last_transition_time if before else now
            if before is not None and before.status != new.status:
                since = now
            by_type[new.type] = msgspec.structs.replace(new, last_transition_time=since)
        status = msgspec.structs.replace(namespace.status, conditions=tuple(by_type.values()))
        with contextlib.suppress(errors.NotFound):
            await status_patches.patch_status(
                self.client, kinds.NAMESPACE, namespace.metadata, namespace.status, status
            )


def conditions(remaining: Remaining) -> list[NamespaceCondition]:
    """Return the conditions about remaining objects, in Kubernetes' words."""
    kinds = sorted(
        f"{kind.plural}.{kind.group} has {len(left)} resource instances"
        for kind, left in remaining.items()
    )
    finalizers = Counter(
        finalizer
        for left in remaining.values()
        for metadata in left
        for finalizer in metadata.finalizers
    )
    message = f"Some resources are remaining: {', '.join(kinds)}"
    troubles = {CONTENT_REMAINING: ("SomeResourcesRemain", message)}
    if finalizers:
        counts = (f"{name} in {count} resource instances" for name, count in finalizers.items())
        listed = ", ".join(sorted(counts))
        message = f"Some content in the namespace has finalizers remaining: {listed}"
        troubles[FINALIZERS_REMAINING] = ("SomeFinalizersRemain", message)
    return [
        NamespaceCondition(
            type=type_,
            status="True" if type_ in troubles else "False",
            reason=reason,
            message=message,
        )
        for type_, (reason, message) in {**_FINE, **troubles}.items()
    ]
