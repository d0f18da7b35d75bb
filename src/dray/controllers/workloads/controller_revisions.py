"""ControllerRevisions store earlier pod templates of a workload, for `kubectl rollout undo`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from dray.api import errors, kinds
from dray.api.conversion import canonical, defaults
from dray.api.formats import gojson
from dray.api.ids import ObjectKey
from dray.api.kinds import Kind
from dray.api.selectors import label_selectors
from dray.api.semantics import owner_references
from dray.api.templates.workload_types import DaemonSet, StatefulSet, Template
from dray.api.types.meta import JsonObject
from dray.api.types.workloads import ControllerRevision
from dray.client import object_writes
from dray.client.api_client import Client
from dray.client.cache import Cache
from dray.controllers import caches, status_patches
from dray.controllers.own_writes import OwnWrites
from dray.controllers.workloads.adoption import Adopter

_OFFSET, _PRIME, _MASK = 2166136261, 16777619, 2**32 - 1
_SAFE_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"

_encode = msgspec.json.Encoder(order="deterministic").encode


def short_hash(data: Any, collisions: int | None) -> str:
    """Return FNV-1 over the data as sorted JSON, in characters that form no words.

    For the data of a StatefulSet's revision it is the value that Kubernetes computes
    (pkg/controller/history, HashControllerRevision). Kubernetes hashes templates by a dump of
    the Go structure: for these the values differ, the form does not.
    """
    number = _OFFSET
    for byte in gojson.escaped(_encode(data)) + b"%d" % (collisions or 0):
        number = ((number * _PRIME) & _MASK) ^ byte
    return "".join(_SAFE_CHARACTERS[ord(digit) % len(_SAFE_CHARACTERS)] for digit in str(number))


"""The label of a pod with its revision."""
LONGEST_PREFIX = 223

Workload = StatefulSet | DaemonSet
Data = dict[str, Any]


class Recorded(NamedTuple):
    """The revision of a template, and how many names in total were taken by others."""

    revision: ControllerRevision
    collisions: int


class RevisionHistory:
    """The revisions of the workloads of one kind. Writes are recorded under the owner's key."""

    def __init__(
        self, client: Client, kind: Kind, revisions: Cache[ControllerRevision], hash_label: str
    ) -> None:
        self._client, self._kind, self._revisions = client, kind, revisions
        self._hash_label = hash_label
        self._adopter: Adopter[ControllerRevision] = Adopter(
            client, kinds.CONTROLLER_REVISION, kind
        )
        self.writes: OwnWrites[ObjectKey] = OwnWrites(revisions)

    async def of(self, workload: Workload) -> list[ControllerRevision]:
        """Return the revisions of a workload, the oldest first."""
        metadata = workload.metadata
        revisions = await self._adopter.claim(
            metadata,
            label_selectors.label_selector(workload.spec.selector),
            self._revisions.find(caches.OWNER, metadata.uid),
            self._revisions.find(caches.ORPHAN, metadata.namespace),
        )
        return sorted(revisions, key=_age)

    async def record(self, workload: Workload, revisions: Sequence[ControllerRevision]) -> Recorded:
        """Ensure that the template of the workload has a revision, and that it is the newest."""
        data = patch_to(workload.spec.template)
        equal = [revision for revision in revisions if _has(revision, data)]
        if not equal and revisions and self._restores(revisions[-1], data):
            equal = [revisions[-1]]
        others = (revision.revision for revision in revisions if revision not in equal)
        number = max(others, default=0) + 1
        if not equal:
            return await self._create(workload, data, number)
        newest = equal[-1]
        if newest.revision < number:
            newest = await self._renumber(workload, newest, number)
        return Recorded(newest, workload.status.collision_count or 0)

    def _restores(self, revision: ControllerRevision, data: Data) -> bool:
        """Return whether an older revision gives this template with today's defaults."""
        template = canonical.prune_nulls(template_of(revision))
        restored: JsonObject = {**self._kind.type_meta, "spec": {"template": template}}
        defaults.fill(restored, "")
        written = canonical.without_nulls(self._kind.preferred.schema_type, restored)
        return patch_to(written["spec"]["template"]) == data

    async def _create(self, workload: Workload, data: Data, number: int) -> Recorded:
        collisions = workload.status.collision_count or 0
        while True:
            body = self._body(workload, data, number, short_hash(data, collisions))
            created = await self._create_or_get(body, workload.metadata.namespace)
            revision = status_patches.decode(created, ControllerRevision)
            if _has(revision, data):
                self.writes.record(workload.metadata.key, created)
                return Recorded(revision, collisions)
            collisions += 1

    async def _create_or_get(self, body: JsonObject, namespace: str) -> JsonObject:
        kind = kinds.CONTROLLER_REVISION
        try:
            return await self._client.create(kind, body, namespace)
        except errors.AlreadyExists:
            return await self._client.get(kind, body["metadata"]["name"], namespace)

    def _body(self, workload: Workload, data: Data, number: int, hashed: str) -> JsonObject:
        owner = workload.metadata
        template_metadata = workload.spec.template.get("metadata") or {}
        return {
            **kinds.CONTROLLER_REVISION.type_meta,
            "metadata": {
                "name": f"{owner.name[:LONGEST_PREFIX]}-{hashed}",
                "labels": {**(template_metadata.get("labels") or {}), self._hash_label: hashed},
                "annotations": dict(owner.annotations),
                "ownerReferences": [owner_references.reference(self._kind, owner)],
            },
            "data": msgspec.to_builtins(data, order="deterministic"),
            "revision": number,
        }

    async def _renumber(
        self, workload: Workload, revision: ControllerRevision, number: int
    ) -> ControllerRevision:
        """Make the revision of a template that is used again the newest one."""
        metadata = revision.metadata
        patch = {"metadata": {"resourceVersion": metadata.resource_version}, "revision": number}
        kind = kinds.CONTROLLER_REVISION
        written = await self._client.patch(kind, metadata.name, patch, metadata.namespace)
        self.writes.record(workload.metadata.key, written)
        return status_patches.decode(written, ControllerRevision)

    async def delete(self, workload: Workload, revisions: Iterable[ControllerRevision]) -> None:
        for revision in revisions:
            with contextlib.suppress(errors.NotFound, errors.Conflict):
                deleted = await object_writes.delete(
                    self._client, kinds.CONTROLLER_REVISION, revision.metadata
                )
                self.writes.record(workload.metadata.key, deleted)


def patch_to(template: Template) -> Data:
    """Return the data of a revision: a strategic merge patch that restores the template."""
    return {"spec": {"template": {**canonical.prune_nulls(template), "$patch": "replace"}}}


def template_of(revision: ControllerRevision) -> Template:
    """Return the template that a revision restores, or an empty one if it has none."""
    match revision.data:
        case {"spec": {"template": dict(template)}}:
            return {name: value for name, value in template.items() if name != "$patch"}
    return {}


def _has(revision: ControllerRevision, data: Data) -> bool:
    return bool(canonical.prune_nulls(revision.data) == data)


def _age(revision: ControllerRevision) -> tuple[int, str, str]:
    metadata = revision.metadata
    return revision.revision, metadata.creation_timestamp or "", metadata.name
