"""namespaces/finalize: removes finalizers of a namespace that has been emptied.

As pkg/registry/core/namespace/storage, FinalizeREST.
"""

from __future__ import annotations

from dataclasses import dataclass

from dray.api import errors
from dray.api.http_messages import Response
from dray.api.ids import GroupKind
from dray.api.semantics import deletion
from dray.api.types.meta import JsonObject
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import AdmissionChain, AdmissionRequest
from dray.apiserver.request import validation, write_options
from dray.apiserver.request.call import Call
from dray.apiserver.request.write_options import WriteOptions
from dray.apiserver.storage import codec, store_keys
from dray.apiserver.subresources import common
from dray.apiserver.verbs import reads, write_checks, writes
from dray.store.store import Delete, Entry, GuardFailed, Operation, Store
from dray.validation import fields, metadata

_FINALIZERS = fields.SPEC.child("finalizers")


@dataclass(frozen=True, slots=True)
class Finalization:
    store: Store
    chain: AdmissionChain

    async def update(self, call: Call) -> Response:
        options = write_options.parse(call.request, "UpdateOptions")
        body = writes.read_form(call, call.gvk, options)
        write_checks.check_name(call, body)
        # As in Go, null in a list of texts is an empty text.
        finalizers = [text or "" for text in (body.get("spec") or {}).get("finalizers") or ()]
        _check_finalizers(call, finalizers)
        for _ in range(common.ATTEMPTS):
            entry, namespace = await reads.stored_object(call, self.store)
            is_guarded = write_checks.check_preconditions(call, body, namespace)
            old = codec.copied(namespace)
            _set_finalizers(namespace, finalizers)
            await self.chain.validate(_admission(call, namespace, old, options))
            try:
                if not options.dry_run:
                    await self._write(entry, namespace)
                return reads.respond(call, namespace)
            except GuardFailed:
                if is_guarded:
                    break
        raise errors.conflict(store_keys.group_resource(call.kind), call.info.name)

    async def _write(self, entry: Entry, namespace: JsonObject) -> None:
        """Write the namespace, or delete it if this was its last finalizer."""
        change: Operation = common.put(entry, namespace)
        if deletion.is_fully_deleted(namespace):
            change = Delete(entry.key, entry.revision)
        revision = await common.commit(self.store, change)
        namespace["metadata"]["resourceVersion"] = str(revision)


def _admission(
    call: Call, new: JsonObject, old: JsonObject, options: WriteOptions
) -> AdmissionRequest:
    return AdmissionRequest(
        operation=admission_chain.UPDATE,
        kind=call.kind,
        user=call.user,
        namespace=call.namespace,
        name=call.info.name,
        new=new,
        old=old,
        subresource=call.info.subresource,
        dry_run=options.dry_run,
        verb=call.info.verb,
        version=call.gvk.version,
        options=options.document("UpdateOptions"),
        notes=call.notes,
    )


def _set_finalizers(namespace: JsonObject, finalizers: list[str]) -> None:
    spec = namespace.setdefault("spec", {})
    if finalizers:
        spec["finalizers"] = finalizers
    else:
        spec.pop("finalizers", None)


def _check_finalizers(call: Call, finalizers: list[str]) -> None:
    field_errors = [
        error
        for index, finalizer in enumerate(finalizers)
        for error in metadata.finalizers((finalizer,), _FINALIZERS.index(index))
    ]
    field_errors += metadata.finalizers_known(finalizers, _FINALIZERS)
    validation.refuse(GroupKind("", "Namespace"), call.info.name, field_errors)
