"""create, update and patch, generic over kinds: from a body to a committed transaction.

An update reads, changes, checks and writes under the guard of the revision it read; where the
client named no resourceVersion it is tried again when somebody else was faster.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from dray.api import canonical, defaults, errors, exchange, gotime, versions
from dray.api.exchange import Response
from dray.api.features import Features
from dray.api.names import GroupKind
from dray.apiserver import (
    admission,
    bodies,
    checks,
    codec,
    deletion,
    holds,
    options,
    reads,
    storage,
    warningheaders,
)
from dray.apiserver.admission import Action, Also, Chain
from dray.apiserver.options import WriteOptions
from dray.apiserver.patching import managedfields, patches
from dray.apiserver.reads import Call
from dray.apiserver.rules import claimwarnings, partitionrequest
from dray.apiserver.strategies import strategies
from dray.store.store import ABSENT, Delete, Entry, GuardFailed, Put, Store, Transaction
from dray.store.store import HeldElsewhere as DeviceHeld

Object = dict[str, Any]
Change = Callable[[Object], Awaitable[Object]]
"""What to make of the current object, in the storage version."""

NAME_ATTEMPTS = 8
UPDATE_ATTEMPTS = 10
MAX_GENERATED_PREFIX = 58


@dataclass(frozen=True, slots=True)
class Writer:
    """Everything a write needs beside the request."""

    store: Store
    features: Features
    chain: Chain
    new_uid: Callable[[], str]
    new_suffix: Callable[[], str]

    async def create(self, call: Call) -> Response:
        chosen = options.parse(call.request, "CreateOptions")
        body = self._read(call, chosen)
        warnings = [*body.warnings, *claimwarnings.zero_counts(body.document)]
        document = self.to_storage(call, body.document)
        document = await self.create_document(call, document, chosen, warnings)
        return answered(call, document, warnings, 201)

    async def create_document(
        self,
        call: Call,
        document: Object,
        chosen: WriteOptions,
        warnings: list[str],
        owns_fields: bool = False,
    ) -> Object:
        """Create an object that is in the storage version; the stored one comes back."""
        _check_namespace(call, document)
        metadata = document["metadata"]
        if metadata.get("resourceVersion"):
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
                resource = storage.group_resource(call.kind)
                if not generate:
                    raise
                if attempt + 1 == NAME_ATTEMPTS:
                    raise errors.generated_name_exists(resource, name) from error
        raise AssertionError("unreachable")

    async def _create_named(
        self,
        call: Call,
        document: Object,
        chosen: WriteOptions,
        warnings: list[str],
        owns_fields: bool,
    ) -> Object:
        metadata = document["metadata"]
        for key in strategies.SYSTEM_METADATA:
            metadata.pop(key, None)
        metadata["uid"] = self.new_uid()
        metadata["creationTimestamp"] = gotime.write(call.now)
        name = metadata.get("name") or ""
        document = self.canonical(call, document)
        if not owns_fields:
            # What rules add below is theirs, not the client's.
            managedfields.track(call, None, document, chosen)
        action = Action(
            admission.CREATE,
            call.kind,
            call.user,
            call.namespace,
            name,
            document,
            dry_run=chosen.dry_run,
            warnings=warnings,
        )
        await self.chain.mutate(action)
        strategies.prepare_create(call.kind, document, self.features)
        causes = await self.chain.complaints(action)
        causes += checks.on_create(call.kind, document, self.features, call.info.version)
        self._raise(call, name, causes)
        key = storage.key(call.kind, name, call.namespace)
        put = Put(
            key, codec.to_stored(document), ABSENT, holds.of(call.kind, document, self.features)
        )
        return await self._admit(call, action, document, put, chosen)

    async def _admit(
        self, call: Call, action: Action, document: Object, put: Put, chosen: WriteOptions
    ) -> Object:
        """Write what the rules let pass; ask them again where what they rely on has changed."""
        async with self.chain.turn(action):
            for _ in range(UPDATE_ATTEMPTS):
                also = await self.chain.validate(action)
                transaction = Transaction((put, *also.operations), also.guards)
                try:
                    return await self._commit(call, document, transaction, chosen)
                except GuardFailed as failure:
                    if failure.key == put.key:
                        raise
        raise errors.conflict(storage.group_resource(call.kind), action.name)

    async def _commit(
        self, call: Call, document: Object, transaction: Transaction, chosen: WriteOptions
    ) -> Object:
        key = transaction.operations[0].key
        name = document["metadata"]["name"]
        if chosen.dry_run:
            if transaction.operations[0].expect == ABSENT and await self.store.get(key):
                raise errors.already_exists(storage.group_resource(call.kind), name)
            return document
        try:
            with storage.translated():
                revision = await self.store.commit(transaction)
        except GuardFailed as failure:
            if failure.key == key and failure.expected == ABSENT:
                raise errors.already_exists(storage.group_resource(call.kind), name) from failure
            raise
        except DeviceHeld as held:
            raise holds.conflict(call.kind, name, held) from held
        document["metadata"]["resourceVersion"] = str(revision)
        return document

    async def update(self, call: Call) -> Response:
        chosen = options.parse(call.request, "UpdateOptions")
        body = self._read(call, chosen)
        wanted = self.to_storage(call, body.document)
        check_name(call, wanted)
        _check_namespace(call, wanted)
        warnings = list(body.warnings)

        async def replace(_old: Object) -> Object:
            return codec.copied(wanted)

        try:
            document = await self.update_document(call, replace, chosen, warnings)
        except errors.NotFound:
            if call.info.subresource or not strategies.of(call.kind).creates_on_update:
                raise
            wanted["metadata"].pop("resourceVersion", None)
            document = await self.create_document(call, wanted, chosen, warnings)
            return answered(call, document, warnings, 201)
        return answered(call, document, warnings)

    async def patch(self, call: Call) -> Response:
        media_type = patch_type(call)
        chosen = options.parse(call.request, "PatchOptions")
        warnings: list[str] = []
        patch = patches.parse(call, media_type, chosen, warnings, self._lift)

        async def apply(old: Object) -> Object:
            shown = versions.from_storage(old, call.gvk.api_version)
            return self.to_storage(call, patch(shown))

        try:
            document = await self.update_document(call, apply, chosen, warnings, patch.owns_fields)
        except errors.NotFound:
            if media_type != exchange.APPLY_PATCH or call.info.subresource:
                raise
            document = self.to_storage(call, patch(None))
            document = await self.create_document(call, document, chosen, warnings, True)
            return answered(call, document, warnings, 201)
        return answered(call, document, warnings)

    async def update_document(
        self,
        call: Call,
        change: Change,
        chosen: WriteOptions,
        warnings: list[str],
        owns_fields: bool = False,
    ) -> Object:
        """Change the current object; again where another writer came between and none was named."""
        for _ in range(UPDATE_ATTEMPTS):
            with storage.translated():
                entry = await self.store.get(call.key)
            if entry is None:
                raise call.not_found()
            old = codec.from_stored(entry, storage.storage_gvk(call.kind))
            new = await change(codec.copied(old))
            is_guarded = check_preconditions(call, new, old)
            new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
            try:
                return await self._update_from(call, entry, old, new, chosen, warnings, owns_fields)
            except GuardFailed as failure:
                if is_guarded and failure.key == call.key:
                    break
        raise errors.conflict(storage.group_resource(call.kind), call.info.name)

    async def _update_from(
        self,
        call: Call,
        entry: Entry,
        old: Object,
        new: Object,
        chosen: WriteOptions,
        warnings: list[str],
        owns_fields: bool,
    ) -> Object:
        action = Action(
            admission.UPDATE,
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
        prepare = (
            strategies.prepare_status_update
            if call.info.subresource == "status"
            else strategies.prepare_update
        )
        prepare(call.kind, new, old, self.features, call.now)
        new = self._canonical_update(call, new)
        if not owns_fields:
            managedfields.track(call, old, new, chosen)
        action.new = new
        causes = await self.chain.complaints(action)
        self._raise(call, call.info.name, [*causes, *self._complaints(call, new, old)])
        async with self.chain.turn(action):
            return await self._replace(call, action, entry, new, chosen)

    async def _replace(
        self, call: Call, action: Action, entry: Entry, new: Object, chosen: WriteOptions
    ) -> Object:
        also = await self.chain.validate(action)
        if deletion.is_over(new):
            return await self._delete(call, entry, new, also, chosen)
        stored = codec.to_stored(new)
        if stored == entry.value or _only_times_differ(new, action.old):
            unchanged = codec.from_stored(entry, storage.storage_gvk(call.kind))
            unchanged["metadata"]["resourceVersion"] = str(entry.revision)
            return unchanged
        put = Put(call.key, stored, entry.revision, holds.of(call.kind, new, self.features))
        transaction = Transaction((put, *also.operations), also.guards)
        return await self._commit(call, new, transaction, chosen)

    async def _delete(
        self, call: Call, entry: Entry, document: Object, also: Also, chosen: WriteOptions
    ) -> Object:
        """What waited only for its finalizers is gone with the last of them."""
        document["metadata"]["resourceVersion"] = str(entry.revision)
        if not chosen.dry_run:
            delete = Delete(call.key, entry.revision)
            with storage.translated():
                await self.store.commit(Transaction((delete, *also.operations), also.guards))
        return document

    def _read(self, call: Call, chosen: WriteOptions) -> bodies.Body:
        return bodies.read(
            call.request.body, content_type(call), call.gvk, chosen.field_validation, self._lift
        )

    @property
    def _lift(self) -> bodies.Lift:
        if self.features.partition_request:
            return partitionrequest.lift
        return bodies.lift_nothing

    def _complaints(self, call: Call, new: Object, old: Object) -> list[errors.Cause]:
        check = checks.on_status_update if call.info.subresource == "status" else checks.on_update
        return check(call.kind, new, old, self.features, call.info.version)

    def to_storage(self, call: Call, document: Object) -> Object:
        """The wire version with its defaults, as it is stored."""
        document.setdefault("metadata", {})
        if document["metadata"] is None:
            document["metadata"] = {}
        stored = versions.to_storage(document)
        defaults.fill(stored, gotime.write(call.now))
        return stored

    def canonical(self, call: Call, document: Object) -> Object:
        gvk = storage.storage_gvk(call.kind)
        return canonical.write(gvk.schema_type, document)

    def _canonical_update(self, call: Call, new: Object) -> Object:
        """As `canonical`; of a status update all but metadata and status is as it was stored."""
        if call.info.subresource != "status":
            return self.canonical(call, new)
        touched = {key: value for key, value in new.items() if key in ("metadata", "status")}
        written = self.canonical(call, touched)
        kept = {
            key: written.get(key) if key in touched else value
            for key, value in new.items()
            if key in written or key not in touched
        }
        return {**written, **kept} if written.keys() - kept.keys() else kept

    def _raise(self, call: Call, name: str, causes: list[errors.Cause]) -> None:
        if causes:
            raise errors.invalid(GroupKind(call.kind.group, call.kind.kind), name, causes)


def answered(call: Call, document: Object, warnings: list[str], status: int = 200) -> Response:
    """A stored object as the client sees it, with what there is to warn of."""
    shown = versions.from_storage(document, call.gvk.api_version)
    return reads.respond(call, shown, status, warningheaders.headers(warnings))


def _only_times_differ(new: Object, old: Object | None) -> bool:
    """Whether nothing changes but when fields were last applied: not worth a revision."""
    return old is not None and _timeless(new) == _timeless(old)


def _timeless(document: Object) -> Object:
    metadata = dict(document["metadata"])
    entries = metadata.pop("managedFields", None) or ()
    metadata.pop("resourceVersion", None)
    managers = [{key: each[key] for key in each if key != "time"} for each in entries]
    return {**document, "metadata": metadata, "managedFields": managers}


def content_type(call: Call) -> str:
    return call.request.headers.get("content-type", "")


def patch_type(call: Call) -> str:
    """Which of the ways to patch the client has chosen; 415 where it is none of them."""
    media_type = content_type(call).split(";", 1)[0].strip()
    if media_type not in patches.MEDIA_TYPES:
        raise errors.UnsupportedMediaType("415: Unsupported Media Type", errors.Details())
    if media_type == exchange.APPLY_PATCH:
        options.require_manager(call.request)
    return media_type


def _check_namespace(call: Call, document: Object) -> None:
    metadata = document["metadata"]
    if not call.kind.namespaced:
        metadata.pop("namespace", None)
        return
    if metadata.get("namespace", call.namespace) not in ("", call.namespace):
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = call.namespace


def check_name(call: Call, document: Object) -> None:
    name = document["metadata"].get("name")
    if not name:
        raise errors.bad_request(
            "the name of the object must be set: metadata.name: Required value: name is required"
        )
    if name != call.info.name:
        raise errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({call.info.name})"
        )


def check_preconditions(call: Call, new: Object, old: Object) -> bool:
    """Whether the client said which revision it means; 409 where that is not the current one."""
    wanted, current = new["metadata"], old["metadata"]
    if wanted.get("uid") and wanted["uid"] != current["uid"]:
        raise errors.conflict(
            storage.group_resource(call.kind),
            call.info.name,
            f"Precondition failed: UID in precondition: {wanted['uid']}, "
            f"UID in object meta: {current['uid']}",
        )
    revision = wanted.get("resourceVersion")
    if not revision or revision == "0":
        return False
    if revision != current["resourceVersion"]:
        raise errors.conflict(storage.group_resource(call.kind), call.info.name)
    return True
