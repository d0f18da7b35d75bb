"""Shared by subresources: bodies, the stored object, responses, conditions."""

from __future__ import annotations

import datetime

from dray.api.formats import gotime
from dray.api.http_messages import Response
from dray.api.types.meta import JsonObject
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import AdmissionRequest
from dray.apiserver.request.call import Call
from dray.apiserver.request.write_options import WriteOptions
from dray.apiserver.storage import codec, store_keys
from dray.apiserver.verbs import reads
from dray.store.store import Entry, Operation, Put, Store, Transaction

ATTEMPTS = 20


async def commit(store: Store, change: Operation) -> int:
    """Commit one change, and return its revision."""
    with store_keys.translated():
        return await store.commit(Transaction((change,)))


def put(entry: Entry, document: JsonObject) -> Put:
    """Return the write of a new state of an entry, unless it has changed meanwhile."""
    return Put(entry.key, codec.to_stored(document), entry.revision)


def creation(
    call: Call, document: JsonObject, options: WriteOptions, *, dry_run: bool
) -> AdmissionRequest:
    """Return the admission request of a subresource's create."""
    return AdmissionRequest(
        operation=admission_chain.CREATE,
        kind=call.kind,
        user=call.user,
        namespace=call.namespace,
        name=call.info.name,
        new=document,
        subresource=call.info.subresource,
        dry_run=dry_run,
        version=call.gvk.version,
        options=options.document("CreateOptions"),
        body_kind=call.body_kind,
        notes=call.notes,
    )


def success(call: Call, status: int = 201) -> Response:
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": status,
    }
    return reads.encoded(call.form, document, status, {})


def set_condition(
    document: JsonObject, new: JsonObject, now: datetime.datetime, *, times: tuple[str, ...] = ()
) -> None:
    """Add or replace a condition; the time of its last transition stays if its status does.

    `times` are further time fields that the kind always has, here as null.
    """
    conditions = document.setdefault("status", {}).setdefault("conditions", [])
    condition = {**new, "lastTransitionTime": gotime.write(now), **dict.fromkeys(times)}
    for index, existing in enumerate(conditions):
        if existing.get("type") == new["type"]:
            if existing.get("status") == new["status"]:
                condition["lastTransitionTime"] = existing.get("lastTransitionTime")
            conditions[index] = condition
            return
    conditions.append(condition)
