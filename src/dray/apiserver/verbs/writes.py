"""create, update and patch, generic over kinds: from a body to a committed transaction.

An update reads, changes, checks and writes under the guard of the revision it read; where the
client named no resourceVersion it is tried again when somebody else was faster.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

from dray.api import errors, http_messages
from dray.api.conversion import canonical, defaults, versions
from dray.api.features import Features
from dray.api.formats import gotext, gotime
from dray.api.http_messages import Response
from dray.api.ids import GroupKind
from dray.api.semantics import deletion
from dray.api.types.meta import JsonObject
from dray.apiserver.admission import admission_chain, claim_warnings, partition_expansion
from dray.apiserver.admission.admission_chain import (
    AdmissionChain,
    AdmissionRequest,
    CommitRequirements,
)
from dray.apiserver.patching import managed_fields, patches
from dray.apiserver.request import bodies, validation, warning_headers, write_options
from dray.apiserver.request.call import Call
from dray.apiserver.request.write_options import WriteOptions
from dray.apiserver.storage import codec, device_holds, store_keys
from dray.apiserver.strategies import kind_strategies
from dray.apiserver.verbs import reads
from dray.store.store import ABSENT, Delete, Entry, GuardFailed, Put, Store, Transaction
from dray.store.store import TokenAlreadyHeld as DeviceHeld

Change = Callable[[JsonObject], Awaitable[JsonObject]]
"""What to make of the current object, in the storage version; that one stays as it is."""

NAME_ATTEMPTS = 8
UPDATE_ATTEMPTS = 10
_STATUS_PARTS = ("kind", "apiVersion", "metadata", "status")
"""What an update of the status is about: everything else stays as it was."""
MAX_GENERATED_PREFIX = 58


class Written(NamedTuple):
    """An object as it was stored; without an entry where nothing of it is in the store."""

    document: JsonObject
    entry: Entry | None = None


@dataclass(frozen=True, slots=True)
class Writer:
    """Everything a write needs beside the request."""

    store: Store
    features: Features
    chain: AdmissionChain
    new_uid: Callable[[], str]
    new_suffix: Callable[[], str]

    async def create(self, call: Call) -> Response:
        chosen = write_options.parse(call.request, "CreateOptions")
        body = self._read(call, chosen)
        warnings = [*body.warnings, *claim_warnings.zero_counts(body.document)]
        document = self.to_storage(call, body.document)
        written = await self.create_document(call, document, chosen, warnings)
        return answered(call, written, warnings, 201)

    async def create_document(
        self,
        call: Call,
        document: JsonObject,
        chosen: WriteOptions,
        warnings: list[str],
        owns_fields: bool = False,
    ) -> Written:
        """Create an object that is in the storage version; the stored one comes back."""
        _check_namespace(call, document)
        metadata = document["metadata"]
        if metadata.get("resourceVersion") and not chosen.dry_run:
            # Not a proper answer in Kubernetes either.
            raise errors.InternalError(
                "resourceVersion should not be set on objects to be created", reason=""
            )
        generate = not metadata.get("name") and metadata.get("generateName", "")
        for attempt in range(NAME_ATTEMPTS):
            candidate = codec.copied(document) if generate else document
            if generate:
                prefix = generate[:MAX_GENERATED_PREFIX]
                candidate["metadata"]["name"] = prefix + self.new_suffix()
            try:
                return await self._create_named(call, candidate, chosen, warnings, owns_fields)
            except errors.AlreadyExists as error:
                name = candidate["metadata"]["name"]
                resource = store_keys.group_resource(call.kind)
                if not generate:
                    raise
                if attempt + 1 == NAME_ATTEMPTS:
                    raise errors.generated_name_exists(resource, name) from error
        raise AssertionError("unreachable")

    async def _create_named(
        self,
        call: Call,
        document: JsonObject,
        chosen: WriteOptions,
        warnings: list[str],
        owns_fields: bool,
    ) -> Written:
        metadata = document["metadata"]
        for key in kind_strategies.SYSTEM_METADATA:
            metadata.pop(key, None)
        metadata["uid"] = self.new_uid()
        metadata["creationTimestamp"] = gotime.write(call.now)
        name = metadata.get("name") or ""
        document = self.canonical(call, document)
        if not owns_fields:
            # What rules add below is theirs, not the client's.
            managed_fields.track(call, None, document, chosen)
        action = AdmissionRequest(
            admission_chain.CREATE,
            call.kind,
            call.user,
            call.namespace,
            name,
            document,
            dry_run=chosen.dry_run,
            warnings=warnings,
        )
        await self.chain.mutate(action)
        kind_strategies.prepare_create(call.kind, document, self.features)
        causes = await self.chain.field_errors(action)
        causes += validation.on_create(call.kind, document, self.features, call.info.version)
        self._raise(call, name, causes)
        key = store_keys.key(call.kind, name, call.namespace)
        put = Put(
            key,
            codec.to_stored(document),
            ABSENT,
            device_holds.of(call.kind, document, self.features),
        )
        return await self._admit(call, action, document, put, chosen)

    async def _admit(
        self,
        call: Call,
        action: AdmissionRequest,
        document: JsonObject,
        put: Put,
        chosen: WriteOptions,
    ) -> Written:
        """Write what the rules let pass; ask them again where what they rely on has changed."""
        for _ in range(UPDATE_ATTEMPTS):
            async with self.chain.turn(action):
                also = await self.chain.validate(action)
                transaction = Transaction((put, *also.operations), also.guards)
                try:
                    return await self._commit(call, document, transaction, chosen)
                except GuardFailed as failure:
                    if failure.key == put.key:
                        raise
        raise errors.conflict(store_keys.group_resource(call.kind), action.name)

    async def _commit(
        self,
        call: Call,
        document: JsonObject,
        transaction: Transaction,
        chosen: WriteOptions,
        created: int = ABSENT,
    ) -> Written:
        """Write a document; `created` is the revision of its creation, unless that is now."""
        put = transaction.operations[0]
        assert isinstance(put, Put)
        key = put.key
        name = document["metadata"]["name"]
        if chosen.dry_run:
            if put.expect == ABSENT and await self.store.get(key):
                raise await self._already_exists(call, key, name)
            return Written(document)
        try:
            with store_keys.translated():
                revision = await self.store.commit(transaction)
        except GuardFailed as failure:
            if failure.key == key and failure.expected == ABSENT:
                raise await self._already_exists(call, key, name) from failure
            raise
        except DeviceHeld as held:
            raise device_holds.conflict(call.kind, name, held) from held
        document["metadata"]["resourceVersion"] = str(revision)
        return Written(document, Entry(key, put.value, revision, created or revision))

    async def _already_exists(self, call: Call, key: str, name: str) -> errors.AlreadyExists:
        found = errors.already_exists(store_keys.group_resource(call.kind), name)
        with store_keys.translated():
            entry = await self.store.get(key)
        if entry is None:
            return found
        document = codec.from_stored(entry, store_keys.storage_gvk(call.kind))
        if not document["metadata"].get("deletionTimestamp"):
            return found
        return errors.AlreadyExists(f"object is being deleted: {found.message}", found.details)

    async def update(self, call: Call) -> Response:
        chosen = write_options.parse(call.request, "UpdateOptions")
        body = self._read(call, chosen)
        wanted = in_storage_version(body.document)
        check_name(call, wanted)
        _check_namespace(call, wanted)
        warnings = list(body.warnings)

        async def replace(_old: JsonObject) -> JsonObject:
            _check_revision_is_named(call, wanted)
            return wanted

        try:
            written = await self.update_document(call, replace, chosen, warnings)
        except errors.NotFound:
            if call.info.subresource or not kind_strategies.of(call.kind).creates_on_update:
                raise
            wanted["metadata"].pop("resourceVersion", None)
            defaults.fill(wanted, gotime.write(call.now))
            written = await self.create_document(call, wanted, chosen, warnings)
            return answered(call, written, warnings, 201)
        return answered(call, written, warnings)

    async def patch(self, call: Call) -> Response:
        media_type = patch_type(call)
        chosen = write_options.parse(call.request, "PatchOptions")
        warnings: list[str] = []
        patch = patches.parse(call, media_type, chosen, warnings, self._lift)

        async def apply(old: JsonObject) -> JsonObject:
            shown = versions.from_storage(old, call.gvk.api_version)
            patched = patch(shown)
            _check_identity(call, patched, old)
            return in_storage_version(patched)

        try:
            written = await self.update_document(call, apply, chosen, warnings, patch.owns_fields)
        except errors.NotFound:
            if media_type != http_messages.APPLY_PATCH or call.info.subresource:
                raise
            applied = patch(None)
            warnings += claim_warnings.zero_counts(applied)
            document = self.to_storage(call, applied)
            written = await self.create_document(call, document, chosen, warnings, True)
            return answered(call, written, warnings, 201)
        return answered(call, written, warnings)

    async def update_document(
        self,
        call: Call,
        change: Change,
        chosen: WriteOptions,
        warnings: list[str],
        owns_fields: bool = False,
    ) -> Written:
        """Change the current object; again where another writer came between and none was named."""
        for _ in range(UPDATE_ATTEMPTS):
            with store_keys.translated():
                entry = await self.store.get(call.key)
            if entry is None:
                raise call.not_found()
            old = codec.from_stored(entry, store_keys.storage_gvk(call.kind))
            new = self._own_copy(call, await change(old), old, owns_fields)
            check_preconditions(call, new, old)
            new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
            try:
                return await self._update_from(call, entry, old, new, chosen, warnings, owns_fields)
            except GuardFailed:
                # Whoever named a revision is refused by the next look at the object.
                continue
        raise errors.conflict(store_keys.group_resource(call.kind), call.info.name)

    async def _update_from(
        self,
        call: Call,
        entry: Entry,
        old: JsonObject,
        new: JsonObject,
        chosen: WriteOptions,
        warnings: list[str],
        owns_fields: bool,
    ) -> Written:
        action = AdmissionRequest(
            admission_chain.UPDATE,
            call.kind,
            call.user,
            call.namespace,
            call.info.name,
            new,
            old,
            call.info.subresource,
            chosen.dry_run,
            warnings,
            call.info.verb,
        )
        await self.chain.mutate(action)
        new = self._prepared(call, new, old)
        if not owns_fields:
            managed_fields.track(call, old, new, chosen)
        action.new = new
        causes = await self.chain.field_errors(action)
        self._raise(call, call.info.name, [*causes, *self._field_errors(call, new, old)])
        async with self.chain.turn(action):
            return await self._replace(call, action, entry, new, chosen)

    def _own_copy(
        self, call: Call, changed: JsonObject, old: JsonObject, owns_fields: bool
    ) -> JsonObject:
        """What an update made of `old`, with its defaults, sharing nothing with it that rules may
        change in place. Managed fields that the client left alone stay out: they are noted anew."""
        is_status = call.info.subresource == "status"
        parts = {key: changed[key] for key in _STATUS_PARTS if key in changed}
        new = dict(parts if is_status else changed)
        metadata = new["metadata"]
        is_tracked = is_status or _same_managers(metadata, old["metadata"])
        if is_tracked and not owns_fields:
            new["metadata"] = {key: metadata[key] for key in metadata if key != "managedFields"}
        new = codec.copied(new)
        defaults.fill(new, gotime.write(call.now))
        if not is_status:
            return new
        kept = {key: old[key] for key in old if key in parts or key not in _STATUS_PARTS}
        return {**kept, **{key: new[key] for key in parts}}

    async def _replace(
        self,
        call: Call,
        action: AdmissionRequest,
        entry: Entry,
        new: JsonObject,
        chosen: WriteOptions,
    ) -> Written:
        also = await self.chain.validate(action)
        if deletion.is_fully_deleted(new):
            return await self._delete(call, entry, new, also, chosen)
        stored = codec.to_stored(new)
        if stored == entry.value or _only_times_differ(new, action.old):
            return Written(codec.from_stored(entry, store_keys.storage_gvk(call.kind)), entry)
        put = Put(call.key, stored, entry.revision, device_holds.of(call.kind, new, self.features))
        transaction = Transaction((put, *also.operations), also.guards)
        return await self._commit(call, new, transaction, chosen, entry.created)

    async def _delete(
        self,
        call: Call,
        entry: Entry,
        document: JsonObject,
        also: CommitRequirements,
        chosen: WriteOptions,
    ) -> Written:
        """What waited only for its finalizers is gone with the last of them."""
        document["metadata"]["resourceVersion"] = str(entry.revision)
        if not chosen.dry_run:
            delete = Delete(call.key, entry.revision)
            with store_keys.translated():
                await self.store.commit(Transaction((delete, *also.operations), also.guards))
        return Written(document)

    def _read(self, call: Call, chosen: WriteOptions) -> bodies.Body:
        return bodies.read(
            call.request.body, content_type(call), call.gvk, chosen.field_validation, self._lift
        )

    @property
    def _lift(self) -> bodies.Lift:
        if self.features.partition_request:
            return partition_expansion.move_to_annotation
        return bodies.lift_nothing

    def _field_errors(self, call: Call, new: JsonObject, old: JsonObject) -> list[errors.Cause]:
        check = (
            validation.on_status_update
            if call.info.subresource == "status"
            else validation.on_update
        )
        return check(call.kind, new, old, self.features, call.info.version)

    def to_storage(self, call: Call, document: JsonObject) -> JsonObject:
        """The wire version with its defaults, as it is stored."""
        stored = in_storage_version(document)
        defaults.fill(stored, gotime.write(call.now))
        return stored

    def canonical(self, call: Call, document: JsonObject) -> JsonObject:
        gvk = store_keys.storage_gvk(call.kind)
        return canonical.write(gvk.schema_type, document)

    def _prepared(self, call: Call, new: JsonObject, old: JsonObject) -> JsonObject:
        """The new object, canonical, with what the client may not change as it was."""
        if call.info.subresource != "status":
            new = self._canonical_update(call, new, old)
            kind_strategies.prepare_update(call.kind, new, old, self.features, call.now)
            return new
        kind_strategies.prepare_status_update(call.kind, new, old, self.features, call.now)
        return self._canonical_update(call, new, old)

    def _canonical_update(self, call: Call, new: JsonObject, old: JsonObject) -> JsonObject:
        """What is as it was stored is canonical already."""
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
    """What a client sent, in the version that is stored; metadata may be missing there."""
    if document.get("metadata") is None:
        document["metadata"] = {}
    return versions.to_storage(document)


def answered(call: Call, written: Written, warnings: list[str], status: int = 200) -> Response:
    """A stored object as the client sees it, with what there is to warn of."""
    headers = warning_headers.headers(warnings)
    if written.entry is not None:
        return reads.respond_stored(call, written.entry, status, headers)
    shown = versions.from_storage(written.document, call.gvk.api_version)
    return reads.respond(call, shown, status, headers)


def _same_managers(new: JsonObject, old: JsonObject) -> bool:
    """Whether a client says nothing new about who manages what; few ever do."""
    return new.get("managedFields") in (None, old.get("managedFields"))


def _only_times_differ(new: JsonObject, old: JsonObject | None) -> bool:
    """Whether nothing changes but when fields were last applied: not worth a revision."""
    return (
        old is not None
        and _without_metadata(new) == _without_metadata(old)
        and _timeless(new["metadata"]) == _timeless(old["metadata"])
    )


def _without_metadata(document: JsonObject) -> JsonObject:
    return {key: document[key] for key in document if key != "metadata"}


def _timeless(metadata: JsonObject) -> JsonObject:
    entries = metadata.get("managedFields") or ()
    managers = [{key: entry[key] for key in entry if key != "time"} for entry in entries]
    return {**metadata, "managedFields": managers, "resourceVersion": ""}


def content_type(call: Call) -> str:
    return call.request.headers.get("content-type", "")


def patch_type(call: Call) -> str:
    """Which of the ways to patch the client has chosen; 415 where it is none of them."""
    media_type = content_type(call).split(";", 1)[0].strip()
    if media_type not in patches.MEDIA_TYPES:
        raise errors.UnsupportedMediaType("415: Unsupported Media Type", errors.Details())
    if media_type == http_messages.APPLY_PATCH:
        write_options.require_manager(call.request)
    else:
        write_options.refuse_force(call.request)
    return media_type


def _check_namespace(call: Call, document: JsonObject) -> None:
    metadata = document["metadata"]
    if not call.kind.namespaced:
        metadata.pop("namespace", None)
        return
    if metadata.get("namespace", call.namespace) not in ("", call.namespace):
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = call.namespace


def check_name(call: Call, document: JsonObject) -> None:
    name = (document.get("metadata") or {}).get("name")
    if not name:
        raise errors.bad_request(
            "the name of the object must be set: metadata.name: Required value: name is required"
        )
    if name != call.info.name:
        raise errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({call.info.name})"
        )


def _check_identity(call: Call, patched: JsonObject, old: JsonObject) -> None:
    """A patch leaves the object what it is."""
    metadata = patched.get("metadata") or {}
    name, uid = metadata.get("name"), metadata.get("uid")
    if not name:
        raise errors.bad_request(
            f"the name of the object ({call.info.name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if name != call.info.name:
        raise errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({call.info.name})"
        )
    if uid and uid != old["metadata"]["uid"]:
        message = f"Invalid value: {gotext.quote(uid)}: field is immutable"
        cause = errors.Cause("metadata.uid", "FieldValueInvalid", message)
        raise errors.invalid(store_keys.group_kind(call.kind), call.info.name, [cause])


def _check_revision_is_named(call: Call, document: JsonObject) -> None:
    if document["metadata"].get("resourceVersion", "0") not in ("", "0"):
        return
    if call.info.version in kind_strategies.of(call.kind).revision_is_named_in:
        message = "Invalid value: 0: must be specified for an update"
        cause = errors.Cause("metadata.resourceVersion", "FieldValueInvalid", message)
        resource = GroupKind(call.kind.group, call.kind.plural)
        raise errors.invalid(resource, call.info.name, [cause])


def check_preconditions(call: Call, new: JsonObject, old: JsonObject) -> bool:
    """Whether the client said which revision it means; 409 where that is not the current one."""
    wanted, current = new["metadata"], old["metadata"]
    if wanted.get("uid") and wanted["uid"] != current["uid"]:
        raise errors.conflict(
            store_keys.group_resource(call.kind),
            call.info.name,
            f"Precondition failed: UID in precondition: {wanted['uid']}, "
            f"UID in object meta: {current['uid']}",
        )
    revision = wanted.get("resourceVersion")
    if not revision or revision == "0":
        return False
    if revision != current["resourceVersion"]:
        raise errors.conflict(store_keys.group_resource(call.kind), call.info.name)
    return True
