"""Shared by subresources: bodies, the stored object, responses, conditions."""

from __future__ import annotations

import datetime

from dray.api.formats import gotime
from dray.api.http_messages import Response
from dray.api.kinds import GroupVersionKind
from dray.api.types.meta import JsonObject
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import AdmissionRequest
from dray.apiserver.request import bodies
from dray.apiserver.request.call import Call
from dray.apiserver.request.write_options import WriteOptions
from dray.apiserver.storage import codec, store_keys
from dray.apiserver.verbs import reads
from dray.store.store import Entry, Store

ATTEMPTS = 20


def body_of(call: Call, gvk: GroupVersionKind, chosen: WriteOptions) -> bodies.Body:
    content_type = call.request.headers.get("content-type", "")
    return bodies.read(call.request.body, content_type, gvk, chosen.field_validation)


async def entry_of(store: Store, call: Call) -> Entry:
    """Return the stored object of the request. Raises NotFound."""
    with store_keys.translated():
        entry = await store.get(call.key)
    if entry is None:
        raise call.not_found()
    return entry


def document_of(entry: Entry, call: Call) -> JsonObject:
    return codec.from_stored(entry, store_keys.storage_gvk(call.kind))


def creation(
    call: Call, document: JsonObject, subresource: str, *, dry_run: bool
) -> AdmissionRequest:
    """Return the admission request of a subresource's create."""
    return AdmissionRequest(
        operation=admission_chain.CREATE,
        kind=call.kind,
        user=call.user,
        namespace=call.namespace,
        name=call.info.name,
        new=document,
        subresource=subresource,
        dry_run=dry_run,
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
