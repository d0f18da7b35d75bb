"""delete and deletecollection: grace, finalizers, propagation and preconditions.

An object with finalizers or a grace period is marked and stays; the write that removes the last
finalizer (`writes`) deletes it.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from dray.api import errors, kinds
from dray.api.conversion import canonical, versions
from dray.api.formats import gotext, gotime
from dray.api.http_messages import Request, Response
from dray.api.ids import GroupKind, GroupResource
from dray.api.kinds import GroupVersionKind, Kind
from dray.api.types.meta import JsonObject
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import AdmissionChain, AdmissionRequest
from dray.apiserver.request import bodies, selection, warning_headers, write_options
from dray.apiserver.request.call import Call
from dray.apiserver.storage import codec, store_keys
from dray.apiserver.verbs import reads, write_checks
from dray.store.store import Delete, Entry, GuardFailed, Operation, Put, Store

BACKGROUND, FOREGROUND, ORPHAN = "Background", "Foreground", "Orphan"
FINALIZERS: Mapping[str, str] = {FOREGROUND: "foregroundDeletion", ORPHAN: "orphan"}
ATTEMPTS = 10
_ORPHANING = frozenset({("batch", "Job"), ("", "ReplicationController")})
_WITHOUT_DEPENDENTS = frozenset({("", "Event"), ("events.k8s.io", "Event")})
"""Kinds without dependents: the client's propagation policy is ignored."""
_PODS_ARE_KEPT = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background "
    "to remove them or set propagationPolicy=Orphan to suppress this warning"
)


class DeleteOptions(NamedTuple):
    grace_seconds: int | None = None
    propagation: str = ""
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False
    given: JsonObject = {}
    """What the client has set, as fields of DeleteOptions; not to be changed."""


class DeletionResult(NamedTuple):
    """The object after the request, or its last state if it is gone."""

    document: JsonObject
    is_gone: bool


@dataclass(frozen=True, slots=True)
class Deleter:
    store: Store
    chain: AdmissionChain

    async def delete(self, call: Call) -> Response:
        options = parse_options(call.request)
        outcome = await self.delete_one(call, options)
        headers = warning_headers.headers(_warnings(call, options))
        if outcome.is_gone and not call.kind.answers_deleted(call.info.version):
            return reads.encoded(call.form, _success(call, outcome.document), 200, headers)
        shown = versions.from_storage(outcome.document, call.gvk.api_version)
        return reads.respond(call, shown, 200, headers)

    async def delete_collection(self, call: Call) -> Response:
        options = parse_options(call.request)
        selector = selection.parse(call.request, call.kind, call.info.version)
        prefix = store_keys.prefix(call.kind, call.namespace)
        with store_keys.translated():
            listing = await reads.gather(
                self.store,
                prefix,
                store_keys.storage_gvk(call.kind),
                selector,
                reads.parse_list_options(call.request),
            )
        deleted = []
        for entry in listing.entries:
            one = _call_for(call, entry.key.removeprefix(store_keys.prefix(call.kind)))
            try:
                outcome = await self.delete_one(one, options)
            except errors.NotFound:
                continue
            deleted.append(versions.from_storage(outcome.document, call.gvk.api_version))
        metadata = reads.list_metadata(listing, prefix)
        items = [codec.encode(_without_type(document)) for document in deleted]
        return reads.json_response(reads.encode_list(call, metadata, items))

    async def delete_one(
        self, call: Call, options: DeleteOptions, *, is_decided: bool = False
    ) -> DeletionResult:
        """Delete or mark an object; repeat after another writer's commit.

        `is_decided` says that policies have decided about the request already.
        """
        for _ in range(ATTEMPTS):
            entry, document = await reads.stored_object(call, self.store)
            check_preconditions(call, document, options)
            with contextlib.suppress(GuardFailed):
                return await self._attempt(call, entry, document, options, is_decided)
        raise errors.conflict(store_keys.group_resource(call.kind), call.info.name)

    async def _attempt(
        self,
        call: Call,
        entry: Entry,
        document: JsonObject,
        options: DeleteOptions,
        is_decided: bool,
    ) -> DeletionResult:
        marked = mark_for_deletion(call.kind, codec.copied(document), options, call.now)
        admission = AdmissionRequest(
            operation=admission_chain.DELETE,
            kind=call.kind,
            user=call.user,
            namespace=call.namespace,
            name=call.info.name,
            new=marked,
            old=document,
            dry_run=options.dry_run,
            version=call.gvk.version,
            options={"kind": _OPTIONS.kind, "apiVersion": _OPTIONS.api_version, **options.given},
            notes=call.notes,
            is_decided=is_decided,
        )
        async with self.chain.commit_lock(admission):
            return await self._admit(call, admission, entry, options)

    async def _admit(
        self, call: Call, admission: AdmissionRequest, entry: Entry, options: DeleteOptions
    ) -> DeletionResult:
        document, marked = admission.old, admission.new
        assert document is not None
        requirements = await self.chain.validate(admission)
        if marked == document:
            return DeletionResult(document, False)
        change: Operation = Delete(call.key, entry.revision)
        if marked is not None:
            written = canonical.write(store_keys.storage_gvk(call.kind).schema_type, marked)
            change = Put(call.key, codec.to_stored(written), entry.revision)
        result = _last_seen(call, document) if marked is None else marked
        if not options.dry_run:
            with store_keys.translated():
                revision = await self.store.commit(requirements.transaction(change))
            result["metadata"]["resourceVersion"] = str(revision)
        return DeletionResult(result, marked is None)


def _without_type(document: JsonObject) -> JsonObject:
    return {key: document[key] for key in document if key not in ("kind", "apiVersion")}


def _last_seen(call: Call, document: JsonObject) -> JsonObject:
    """Return the last state of a deleted object; a pod as if it had a grace period."""
    if call.kind is not kinds.POD:
        return document
    metadata = {**document["metadata"], "deletionGracePeriodSeconds": 0}
    if not metadata.get("deletionTimestamp"):
        metadata["generation"] = metadata.get("generation", 0) + 1
        metadata["deletionTimestamp"] = gotime.write(call.now)
    return {**document, "metadata": metadata}


def _warnings(call: Call, options: DeleteOptions) -> list[str]:
    is_job = (call.kind.group, call.kind.kind) == ("batch", "Job")
    return [_PODS_ARE_KEPT] if is_job and not options.propagation else []


def mark_for_deletion(
    kind: Kind, document: JsonObject, options: DeleteOptions, now: datetime.datetime
) -> JsonObject | None:
    """Return the object with its deletion mark, or None if it is deleted at once."""
    metadata = document["metadata"]
    _set_propagation(kind, metadata, options)
    grace = _grace_seconds(kind, document, options)
    if not grace and not metadata.get("finalizers") and not _namespace_finalizers(kind, document):
        return None
    before = metadata.get("deletionGracePeriodSeconds", 0)
    if metadata.get("deletionTimestamp") and before <= grace:
        return document
    end = now + datetime.timedelta(seconds=grace)
    metadata["deletionTimestamp"] = gotime.write(end)
    if kind is not kinds.NAMESPACE:
        metadata["deletionGracePeriodSeconds"] = grace
    if metadata.get("generation"):
        metadata["generation"] += 1
    if _namespace_finalizers(kind, document):
        document.setdefault("status", {})["phase"] = "Terminating"
    return document


def _namespace_finalizers(kind: Kind, document: JsonObject) -> list[str]:
    finalizers = document.get("spec", {}).get("finalizers") or []
    return finalizers if kind is kinds.NAMESPACE else []


def _set_propagation(kind: Kind, metadata: JsonObject, options: DeleteOptions) -> None:
    """Set the finalizer for foreground deletion or orphaning by the garbage collector."""
    if (kind.group, kind.kind) in _WITHOUT_DEPENDENTS:
        return
    policy = options.propagation
    if not policy:
        kept = set(metadata.get("finalizers") or ()) & set(FINALIZERS.values())
        if kept or (kind.group, kind.kind) not in _ORPHANING:
            return
        policy = ORPHAN
    given = metadata.get("finalizers") or ()
    finalizers = [finalizer for finalizer in given if finalizer not in FINALIZERS.values()]
    if policy in FINALIZERS:
        finalizers.append(FINALIZERS[policy])
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)


def _grace_seconds(kind: Kind, document: JsonObject, options: DeleteOptions) -> int:
    """Return the grace period: only for pods on a node that have not ended."""
    if kind is not kinds.POD:
        return 0
    spec, status = document.get("spec", {}), document.get("status", {})
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    if options.grace_seconds is not None:
        return max(options.grace_seconds, 0)
    return int(spec.get("terminationGracePeriodSeconds", 30))


def check_preconditions(call: Call, document: JsonObject, options: DeleteOptions) -> None:
    metadata = document["metadata"]
    resource = GroupResource(*store_keys.group_kind(call.kind))
    if call.kind is kinds.NAMESPACE:
        # The errors of a namespace have other texts.
        expected = {"uid": options.uid, "resourceVersion": options.resource_version}
        plural = store_keys.group_resource(call.kind)
        write_checks.check_metadata(plural, call.info.name, metadata, expected)
    if options.uid and options.uid != metadata["uid"]:
        raise errors.conflict(
            resource,
            call.info.name,
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({metadata['uid']}). The object might have been deleted and then recreated",
        )
    if options.resource_version and options.resource_version != metadata["resourceVersion"]:
        raise errors.conflict(
            resource,
            call.info.name,
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match "
            f"the ResourceVersion in record ({metadata['resourceVersion']}). The object might have "
            "been modified",
        )


def _success(call: Call, document: JsonObject) -> JsonObject:
    details = {
        "name": call.info.name,
        "group": call.kind.group,
        "kind": call.kind.plural,
        "uid": document["metadata"]["uid"],
    }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }


def _call_for(call: Call, rest: str) -> Call:
    """Return the request for one object of the collection; `rest` is [namespace/]name."""
    namespace, _, name = rest.rpartition("/")
    return replace(call, info=replace(call.info, name=name, namespace=namespace))


_OPTIONS = GroupVersionKind("meta.k8s.io", "v1", "DeleteOptions")


def parse_options(request: Request) -> DeleteOptions:
    """Return the DeleteOptions of the body, or of the query without a body."""
    document = _options_of_body(request) if request.body else _options_of_query(request)
    preconditions = document.get("preconditions") or {}
    grace, orphan = document.get("gracePeriodSeconds"), document.get("orphanDependents")
    propagation, dry_run = document.get("propagationPolicy") or "", document.get("dryRun") or []
    causes = [*_propagation_causes(propagation, orphan), *write_options.dry_run_causes(dry_run)]
    if causes:
        raise errors.invalid(GroupKind("meta.k8s.io", "DeleteOptions"), "", causes)
    given = {
        "dryRun": dry_run,
        "gracePeriodSeconds": grace,
        "orphanDependents": orphan,
        "preconditions": preconditions,
        "propagationPolicy": propagation,
    }
    if orphan is not None:
        propagation = ORPHAN if orphan else BACKGROUND
    return DeleteOptions(
        grace_seconds=grace,
        propagation=propagation or "",
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
        dry_run=bool(dry_run),
        given={key: value for key, value in given.items() if value not in (None, "", [], {})},
    )


def _options_of_body(request: Request) -> JsonObject:
    content_type = request.headers.get("content-type", "")
    document = bodies.parse(request.body, content_type, "DeleteOptions")
    document = bodies.checked(document, _OPTIONS, write_options.IGNORE).document
    return canonical.without_nulls(_OPTIONS.schema_type, document)


def _options_of_query(request: Request) -> JsonObject:
    return {
        "gracePeriodSeconds": _query_int(request, "gracePeriodSeconds"),
        "orphanDependents": _query_flag(request, "orphanDependents"),
        "propagationPolicy": request.parameter("propagationPolicy"),
        "dryRun": [value for name, value in request.query if name == "dryRun"],
    }


def _propagation_causes(propagation: str, orphan: bool | None) -> list[errors.Cause]:
    if propagation and orphan is not None:
        message = (
            f"Invalid value: {gotext.quote(propagation)}: "
            "orphanDependents and deletionPropagation cannot be both set"
        )
        return [errors.Cause("propagationPolicy", "FieldValueInvalid", message)]
    if propagation in ("", BACKGROUND, FOREGROUND, ORPHAN):
        return []
    message = (
        f"Unsupported value: {gotext.quote(propagation)}: "
        'supported values: "Foreground", "Background", "Orphan", "nil"'
    )
    return [errors.Cause("propagationPolicy", "FieldValueNotSupported", message)]


def _query_int(request: Request, name: str) -> int | None:
    return reads.integer(request, name) if request.parameter(name) else None


def _query_flag(request: Request, name: str) -> bool | None:
    return request.flag(name) if request.parameter(name) else None
