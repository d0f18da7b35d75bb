"""The subresource scale: the number of replicas, as autoscaling/v1.

As pkg/registry/apps/*/storage, ScaleREST.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from dray.api import errors
from dray.api.conversion import canonical
from dray.api.http_messages import Response
from dray.api.ids import GroupKind
from dray.api.kinds import Kind
from dray.api.selectors import label_selectors
from dray.api.types.meta import JsonObject, LabelSelector
from dray.apiserver.patching import patches
from dray.apiserver.request import warning_headers, write_options
from dray.apiserver.request.call import Call
from dray.apiserver.verbs import reads, write_checks, writes
from dray.apiserver.verbs.writes import PendingWrite, Writer
from dray.store.store import Store

SCALE = Kind("autoscaling", "Scale", "scales")
_GUARDS = ("uid", "resourceVersion")
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


@dataclass(frozen=True, slots=True)
class Scales:
    store: Store
    writer: Writer

    async def get(self, call: Call) -> Response:
        return _respond(call, (await reads.stored_object(call, self.store)).document)

    async def update(self, call: Call) -> Response:
        options = write_options.parse(call.request, "UpdateOptions")
        body = writes.read_body(call, _as_scale(call).gvk, options)
        write_checks.check_name(call, body.document)
        write = PendingWrite(call, options, list(body.warnings))
        return await self._change(write, lambda _scale: body.document)

    async def patch(self, call: Call) -> Response:
        media_type = writes.patch_type(call)
        options = write_options.parse(call.request, "PatchOptions")
        warnings: list[str] = []
        change = patches.parse(_as_scale(call), media_type, options, warnings)
        return await self._change(PendingWrite(call, options, warnings), change)

    async def _change(
        self, write: PendingWrite, change: Callable[[JsonObject], JsonObject]
    ) -> Response:
        async def scaled(document: JsonObject) -> JsonObject:
            return _with_scale(document, change(_scale_of(document)))

        write = write._replace(view=_scale_of)
        written = await self.writer.update_document(write, scaled)
        return _respond(write.call, written.document, warning_headers.headers(write.warnings))


def _as_scale(call: Call) -> Call:
    """Return the same request for kind Scale."""
    info = replace(call.info, group=SCALE.group, version=SCALE.versions[0], subresource="")
    return call.about(SCALE, info)


def _respond(call: Call, document: JsonObject, headers: dict[str, str] | None = None) -> Response:
    return reads.respond(_as_scale(call), _scale_of(document), headers=headers)


def _scale_of(document: JsonObject) -> JsonObject:
    metadata, spec, status = document["metadata"], document["spec"], document.get("status") or {}
    scale = {
        "kind": SCALE.kind,
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in _METADATA if key in metadata},
        "spec": {"replicas": spec.get("replicas", 0)},
        "status": {
            "replicas": status.get("replicas", 0),
            "selector": str(_selector(spec.get("selector") or {})),
        },
    }
    return canonical.write(SCALE.in_version("v1").schema_type, scale)


def _selector(selector: JsonObject) -> label_selectors.ParsedSelector:
    """Return the selector; replication controllers have plain labels."""
    if all(isinstance(value, str) for value in selector.values()):
        return label_selectors.exact_labels(selector)
    return label_selectors.label_selector(msgspec.convert(selector, LabelSelector))


def _with_scale(document: JsonObject, scale: JsonObject) -> JsonObject:
    metadata = scale.get("metadata") or {}
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas < 0:
        cause = errors.Cause(
            "spec.replicas",
            "FieldValueInvalid",
            f"Invalid value: {replicas}: must be greater than or equal to 0",
        )
        group_kind = GroupKind(SCALE.group, SCALE.kind)
        raise errors.invalid(group_kind, document["metadata"]["name"], [cause])
    kept = {key: document["metadata"][key] for key in document["metadata"] if key not in _GUARDS}
    named = {key: metadata[key] for key in _GUARDS if metadata.get(key)}
    return {
        **document,
        "metadata": {**kept, **named},
        "spec": {**document["spec"], "replicas": replicas},
    }
