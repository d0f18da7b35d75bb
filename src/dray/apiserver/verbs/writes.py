"""create, update and patch for every kind: from a body to a committed transaction.

An update reads, changes, checks and writes under the guard of the revision that it read. If
another writer commits in between, it is repeated, unless the client named a resourceVersion.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dray.api import errors, http_messages
from dray.api.conversion import canonical, defaults, versions
from dray.api.features import Features
from dray.api.formats import gotime, json_equality
from dray.api.http_messages import Response
from dray.api.kinds import GroupVersionKind, Kind
from dray.api.semantics import deletion
from dray.api.strategies import kind_strategies
from dray.api.types.meta import JsonObject
from dray.apiserver.access.rbac import Authorize
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import AdmissionChain, AdmissionRequest
from dray.apiserver.patching import managed_fields, patches
from dray.apiserver.request import (
    bodies,
    offloading,
    validation,
    warning_headers,
    write_options,
)
from dray.apiserver.request.bodies import BodyHooks
from dray.apiserver.request.call import Call
from dray.apiserver.request.write_options import WriteOptions
from dray.apiserver.storage import codec, device_holds, store_keys
from dray.apiserver.verbs import reads, write_checks
from dray.store.store import ABSENT, Delete, Entry, GuardFailed, Put, Store, Transaction
from dray.store.store import TokenAlreadyHeld as DeviceHeld

Change = Callable[[JsonObject], Awaitable[JsonObject]]
"""Returns the new object for the current one, which it does not change; in the storage version."""

NAME_ATTEMPTS = 8
UPDATE_ATTEMPTS = 10
_STATUS_PARTS = ("kind", "apiVersion", "metadata", "status")
"""The members that an update of the status reads; the others stay as they are."""
MAX_GENERATED_PREFIX = 58


class Written(NamedTuple):
    """An object as it was stored; without an entry if it is not in the store."""

    document: JsonObject
    entry: Entry | None = None


class PendingWrite(NamedTuple):
    """One create, update or patch on its way to the store.

    `warnings` grows on the way. With `owns_fields`, the document already has its managed fields.
    `view` returns the body of a subresource that is not the object itself.
    """

    call: Call
    options: WriteOptions
    warnings: list[str]
    owns_fields: bool = False
    view: Callable[[JsonObject], JsonObject] | None = None


@dataclass(frozen=True, slots=True)
class Writer:
    """Creates, updates and patches objects of every kind."""

    store: Store
    features: Features
    chain: AdmissionChain
    authorize: Authorize
    new_uid: Callable[[], str]
    new_suffix: Callable[[], str]
    body_hooks: Mapping[tuple[str, str], BodyHooks] = field(default_factory=dict)
    """By group and kind."""

    async def create(self, call: Call) -> Response:
        options = write_options.parse(call.request, "CreateOptions")
        hooks = self._hooks(call)
        is_large = has_large_body(call)
        body = await offloading.call(is_large, read_body, call, call.gvk, options, hooks)
        warnings = [*body.warnings, *hooks.creation_warnings(body.document)]
        document = await offloading.call(is_large, self.to_storage, call, body.document)
        written = await self.create_document(PendingWrite(call, options, warnings), document)
        return answered(call, written, warnings, 201)

    async def create_document(self, write: PendingWrite, document: JsonObject) -> Written:
        """Create an object that is in the storage version, and return it as stored."""
        call = write.call
        write_checks.check_namespace(call, document)
        metadata = document["metadata"]
        generate = not metadata.get("name") and metadata.get("generateName", "")
        for attempt in range(NAME_ATTEMPTS):
            candidate = document
            if generate:
                candidate = codec.copied(document)
                candidate["metadata"]["name"] = generate[:MAX_GENERATED_PREFIX] + self.new_suffix()
            try:
                return await self._create_named(write, candidate)
            except errors.AlreadyExists as error:
                if not generate:
                    raise
                if attempt + 1 == NAME_ATTEMPTS:
                    resource = store_keys.group_resource(call.kind)
                    name = candidate["metadata"]["name"]
                    raise errors.generated_name_exists(resource, name) from error
        raise AssertionError("unreachable")

    async def _create_named(self, write: PendingWrite, document: JsonObject) -> Written:
        call = write.call
        metadata = document["metadata"]
        for key in kind_strategies.SYSTEM_METADATA:
            metadata.pop(key, None)
        metadata["uid"] = self.new_uid()
        metadata["creationTimestamp"] = gotime.write(call.now)
        name = metadata.get("name") or ""
        is_large = has_large_body(call)
        document = await offloading.call(is_large, self._tracked, write, document)
        admission = AdmissionRequest(
            operation=admission_chain.CREATE,
            kind=call.kind,
            user=call.user,
            namespace=call.namespace,
            name=name,
            new=document,
            dry_run=write.options.dry_run,
            warnings=write.warnings,
            version=call.gvk.version,
            options=write.options.document("CreateOptions"),
            notes=call.notes,
        )
        await self.chain.mutate(admission)
        kind_strategies.prepare_create(call.kind, document, self.features)
        causes = await self.chain.field_errors(admission)
        causes += await offloading.call(
            is_large,
            validation.on_create,
            *(call.kind, document, self.features, call.info.version),
        )
        self._raise(call, name, causes)
        key = store_keys.key(call.kind, name, call.namespace)
        tokens = device_holds.of(call.kind, document, self.features)
        put = Put(key, codec.to_stored(document), ABSENT, tokens)
        return await self._admit(write, admission, document, put)

    def _tracked(self, write: PendingWrite, document: JsonObject) -> JsonObject:
        """Return a new object in canonical form, with its managed fields."""
        document = self.canonical(write.call, document)
        if not write.owns_fields:
            # Before admission: fields that rules add are not managed by the client.
            managed_fields.track(write.call, None, document, write.options)
        return document

    async def _admit(
        self, write: PendingWrite, admission: AdmissionRequest, document: JsonObject, put: Put
    ) -> Written:
        """Commit what the rules admit; repeat where a guard of theirs has failed meanwhile."""
        for _ in range(UPDATE_ATTEMPTS):
            async with self.chain.commit_lock(admission):
                requirements = await self.chain.validate(admission)
                try:
                    return await self._commit(write, document, requirements.transaction(put))
                except GuardFailed as failure:
                    if failure.key == put.key:
                        raise
        raise errors.conflict(store_keys.group_resource(write.call.kind), admission.name)

    async def _commit(
        self,
        write: PendingWrite,
        document: JsonObject,
        transaction: Transaction,
        created: int = ABSENT,
    ) -> Written:
        """Write a document; `created` is the revision of its creation, unless that is now."""
        put = transaction.operations[0]
        assert isinstance(put, Put)
        kind, key, name = write.call.kind, put.key, document["metadata"]["name"]
        if write.options.dry_run:
            if put.expect == ABSENT and await self.store.get(key):
                raise await self._already_exists(kind, key, name)
            return Written(document)
        if put.expect == ABSENT and document["metadata"].get("resourceVersion"):
            # After admission, and an internal error, as in Kubernetes.
            raise errors.InternalError(
                "resourceVersion should not be set on objects to be created", reason=""
            )
        try:
            with store_keys.translated():
                revision = await self.store.commit(transaction)
        except GuardFailed as failure:
            if failure.key == key and failure.expected == ABSENT:
                raise await self._already_exists(kind, key, name) from failure
            raise
        except DeviceHeld as conflict:
            raise device_holds.conflict(kind, name, conflict) from conflict
        document["metadata"]["resourceVersion"] = str(revision)
        return Written(document, Entry(key, put.value, revision, created or revision))

    async def _already_exists(self, kind: Kind, key: str, name: str) -> errors.AlreadyExists:
        error = errors.already_exists(store_keys.group_resource(kind), name)
        with store_keys.translated():
            entry = await self.store.get(key)
        if entry is None:
            return error
        document = codec.from_stored(entry, store_keys.storage_gvk(kind))
        if not document["metadata"].get("deletionTimestamp"):
            return error
        return errors.AlreadyExists(f"object is being deleted: {error.message}", error.details)

    async def update(self, call: Call) -> Response:
        options = write_options.parse(call.request, "UpdateOptions")
        is_large = has_large_body(call)
        body = await offloading.call(
            is_large, read_body, call, call.gvk, options, self._hooks(call)
        )
        document = in_storage_version(body.document)
        write_checks.check_name(call, document)
        write_checks.check_namespace(call, document)
        write = PendingWrite(call, options, list(body.warnings))

        async def replace(_old: JsonObject) -> JsonObject:
            write_checks.check_revision_is_named(call, document)
            return document

        try:
            written = await self.update_document(write, replace)
        except errors.NotFound:
            if call.info.subresource or not kind_strategies.of(call.kind).creates_on_update:
                raise
            write_checks.check_may_create(call, self.authorize)
            document["metadata"].pop("resourceVersion", None)
            defaults.fill(document, gotime.write(call.now))
            written = await self.create_document(write, document)
            return answered(call, written, write.warnings, 201)
        return answered(call, written, write.warnings)

    async def patch(self, call: Call) -> Response:
        media_type = patch_type(call)
        options = write_options.parse(call.request, "PatchOptions")
        warnings: list[str] = []
        hooks = self._hooks(call)
        is_large = has_large_body(call)
        patch = await offloading.call(
            is_large, patches.parse, call, media_type, options, warnings, hooks
        )
        write = PendingWrite(call, options, warnings, patch.owns_fields)

        async def apply(old: JsonObject) -> JsonObject:
            shown = versions.from_storage(old, call.gvk.api_version)
            patched = await offloading.call(is_large, patch, shown)
            if patched.get("metadata"):
                write_checks.check_namespace(call, patched)
            write_checks.check_identity(call, patched, old)
            return in_storage_version(patched)

        try:
            written = await self.update_document(write, apply)
        except errors.NotFound:
            if media_type != http_messages.APPLY_PATCH or call.info.subresource:
                raise
            write_checks.check_may_create(call, self.authorize)
            applied = await offloading.call(is_large, patch, None)
            warnings += hooks.creation_warnings(applied)
            written = await self.create_document(write, self.to_storage(call, applied))
            return answered(call, written, warnings, 201)
        return answered(call, written, warnings)

    async def update_document(self, write: PendingWrite, change: Change) -> Written:
        """Change the current object and return it as stored.

        Repeats after another writer's commit. A client that named a revision then fails in
        `check_preconditions`, with 409.
        """
        call = write.call
        for _ in range(UPDATE_ATTEMPTS):
            entry, old = await reads.stored_object(call, self.store)
            is_large = has_large_body(call) or len(entry.value) > offloading.LARGE_BYTES
            new = await offloading.call(is_large, self._own_copy, write, await change(old), old)
            write_checks.check_preconditions(call, new, old)
            new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
            with contextlib.suppress(GuardFailed):
                return await self._update_from(write, entry, old, new)
        raise errors.conflict(store_keys.group_resource(call.kind), call.info.name)

    async def _update_from(
        self, write: PendingWrite, entry: Entry, old: JsonObject, new: JsonObject
    ) -> Written:
        call = write.call
        admission = AdmissionRequest(
            operation=admission_chain.UPDATE,
            kind=call.kind,
            user=call.user,
            namespace=call.namespace,
            name=call.info.name,
            new=new,
            old=old,
            subresource=call.info.subresource,
            dry_run=write.options.dry_run,
            warnings=write.warnings,
            verb=call.info.verb,
            version=call.gvk.version,
            options=write.options.document("UpdateOptions"),
            body_kind=call.body_kind,
            view=write.view,
            notes=call.notes,
        )
        is_large = has_large_body(call) or len(entry.value) > offloading.LARGE_BYTES
        await self.chain.mutate(admission)
        new = await offloading.call(is_large, self._prepared, call, new, old)
        if not write.owns_fields:
            await offloading.call(is_large, managed_fields.track, call, old, new, write.options)
        admission.new = new
        causes = await self.chain.field_errors(admission)
        is_status = call.info.subresource == "status"
        check = validation.on_status_update if is_status else validation.on_update
        causes += await offloading.call(
            is_large, check, call.kind, new, old, self.features, call.info.version
        )
        self._raise(call, call.info.name, causes)
        async with self.chain.commit_lock(admission):
            return await self._replace(write, admission, entry, new)

    def _own_copy(self, write: PendingWrite, changed: JsonObject, old: JsonObject) -> JsonObject:
        """Return a copy of `changed` with its defaults, which rules may change in place.

        Managed fields that the client left alone are removed: they are tracked again.
        """
        call = write.call
        is_status = call.info.subresource == "status"
        parts = {key: changed[key] for key in _STATUS_PARTS if key in changed}
        new = dict(parts if is_status else changed)
        metadata = new["metadata"]
        is_tracked = is_status or _same_managers(metadata, old["metadata"])
        if is_tracked and not write.owns_fields:
            new["metadata"] = {key: metadata[key] for key in metadata if key != "managedFields"}
        new = codec.copied(new)
        defaults.fill(new, gotime.write(call.now))
        if not is_status:
            return new
        defaults.fill_labels(new, changed.get("spec"), old.get("spec"))
        kept = {key: old[key] for key in old if key in parts or key not in _STATUS_PARTS}
        return {**kept, **{key: new[key] for key in parts}}

    async def _replace(
        self, write: PendingWrite, admission: AdmissionRequest, entry: Entry, new: JsonObject
    ) -> Written:
        call = write.call
        requirements = await self.chain.validate(admission)
        if deletion.is_fully_deleted(new):
            # It has lost its last finalizer.
            new["metadata"]["resourceVersion"] = str(entry.revision)
            if not write.options.dry_run:
                delete = Delete(call.key, entry.revision)
                with store_keys.translated():
                    await self.store.commit(requirements.transaction(delete))
            return Written(new)
        stored = codec.to_stored(new)
        if stored == entry.value or _only_times_differ(new, admission.old):
            return Written(codec.from_stored(entry, store_keys.storage_gvk(call.kind)), entry)
        put = Put(call.key, stored, entry.revision, device_holds.of(call.kind, new, self.features))
        return await self._commit(write, new, requirements.transaction(put), entry.created)

    def _hooks(self, call: Call) -> BodyHooks:
        return self.body_hooks.get((call.kind.group, call.kind.kind), bodies.NO_HOOKS)

    def to_storage(self, call: Call, document: JsonObject) -> JsonObject:
        """Return an object in the storage version, with its defaults."""
        stored = in_storage_version(document)
        defaults.fill(stored, gotime.write(call.now))
        return stored

    def canonical(self, call: Call, document: JsonObject) -> JsonObject:
        gvk = store_keys.storage_gvk(call.kind)
        return canonical.write(gvk.schema_type, document)

    def _prepared(self, call: Call, new: JsonObject, old: JsonObject) -> JsonObject:
        """Return the new object, canonical, with fields restored that the client may not change."""
        new = self._canonical_update(call, new, old)
        is_status = call.info.subresource == "status"
        prepare = (
            kind_strategies.prepare_status_update if is_status else kind_strategies.prepare_update
        )
        prepare(call.kind, new, old, self.features, call.now)
        return new

    def _canonical_update(self, call: Call, new: JsonObject, old: JsonObject) -> JsonObject:
        """Return the canonical form; members that are as stored have it already."""
        touched = {key: value for key, value in new.items() if value != old.get(key)}
        written = self.canonical(call, touched)
        kept = {
            key: written.get(key) if key in touched else value
            for key, value in new.items()
            if key in written or key not in touched
        }
        return {**written, **kept} if written.keys() - kept.keys() else kept

    def _raise(self, call: Call, name: str, causes: list[errors.Cause]) -> None:
        if causes:
            raise errors.invalid(store_keys.group_kind(call.kind), name, causes)


def in_storage_version(document: JsonObject) -> JsonObject:
    """Return a client's object in the storage version, with metadata."""
    if document.get("metadata") is None:
        document["metadata"] = {}
    return versions.to_storage(document)


def answered(call: Call, written: Written, warnings: list[str], status: int = 200) -> Response:
    """Return the response with a stored object and warnings."""
    headers = warning_headers.headers(warnings)
    if written.entry is not None:
        return reads.respond_stored(call, written.entry, status, headers)
    shown = versions.from_storage(written.document, call.gvk.api_version)
    return reads.respond(call, shown, status, headers)


def _same_managers(new: JsonObject, old: JsonObject) -> bool:
    """Return whether a client left the managed fields as they are; nearly all do."""
    return new.get("managedFields") in (None, old.get("managedFields"))


def _only_times_differ(new: JsonObject, old: JsonObject | None) -> bool:
    """Return whether only the times of managed fields differ: not worth a revision."""
    return (
        old is not None
        and _timeless(new["metadata"]) == _timeless(old["metadata"])
        and json_equality.are_equal(_without_metadata(new), _without_metadata(old))
    )


def _without_metadata(document: JsonObject) -> JsonObject:
    return {key: document[key] for key in document if key != "metadata"}


def _timeless(metadata: JsonObject) -> JsonObject:
    entries = metadata.get("managedFields") or ()
    managers = [{key: entry[key] for key in entry if key != "time"} for entry in entries]
    return {**metadata, "managedFields": managers, "resourceVersion": ""}


def has_large_body(call: Call) -> bool:
    return len(call.request.body) > offloading.LARGE_BYTES


def read_body(
    call: Call, gvk: GroupVersionKind, options: WriteOptions, hooks: BodyHooks = bodies.NO_HOOKS
) -> bodies.Body:
    return bodies.read(call.request.body, call.content_type, gvk, options.field_validation, hooks)


def read_form(call: Call, gvk: GroupVersionKind, options: WriteOptions) -> JsonObject:
    """Return a body that is not stored, such as a review, as wire structs need it: no nulls."""
    return canonical.without_nulls(gvk.schema_type, read_body(call, gvk, options).document)


def patch_type(call: Call) -> str:
    """Return the patch type of a request. Raises 415."""
    media_type = call.content_type.split(";", 1)[0].strip()
    if media_type not in patches.MEDIA_TYPES:
        raise errors.UnsupportedMediaType("415: Unsupported Media Type", errors.Details())
    if media_type == http_messages.APPLY_PATCH:
        write_options.require_manager(call.request)
    else:
        write_options.refuse_force(call.request)
    return media_type
