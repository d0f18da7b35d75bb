"""Rules for RuntimeClass."""

from __future__ import annotations

from dray.api.types import pods
from dray.validation import fields, identifiers, metadata
from dray.validation.pods import placement, resources

_HANDLER = fields.Path("handler")


def runtime_class(value: pods.RuntimeClass) -> fields.Errors:
    yield from metadata.created(value.metadata, namespaced=False)
    if value.handler:
        yield from identifiers.dns_label(value.handler, _HANDLER)
    else:
        yield fields.required(_HANDLER)
    if value.overhead is not None:
        yield from resources.overhead(value.overhead.pod_fixed, fields.Path("overhead"))
    if value.scheduling is not None:
        yield from _scheduling(value.scheduling, fields.Path("scheduling"))


def runtime_class_update(new: pods.RuntimeClass, old: pods.RuntimeClass) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from fields.immutable(_HANDLER, new.handler, old.handler)


def _scheduling(value: pods.RuntimeScheduling, path: fields.Path) -> fields.Errors:
    yield from identifiers.labels(value.node_selector, path.child("nodeSelector"))
    path = path.child("tolerations")
    seen: set[tuple[str, ...]] = set()
    for index, item in enumerate(value.tolerations):
        yield from placement.toleration(item, path.index(index))
        key = (item.key, item.operator, item.value, item.effect)
        if key in seen:
            yield fields.duplicate(path.index(index), item)
        seen.add(key)
