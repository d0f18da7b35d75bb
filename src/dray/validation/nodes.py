"""Rules for nodes."""

from __future__ import annotations

import re

from dray.api.formats import gotext, names, quantity
from dray.api.types import nodes
from dray.validation import fields, identifiers, metadata
from dray.validation.pods import placement, resources

_FEATURE = re.compile("[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*")
_FEATURE_COMPLAINT = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' "
    "(e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and "
    "slashes"
)


def node(value: nodes.Node) -> fields.Errors:
    yield from metadata.created(value.metadata, namespaced=False)
    yield from _taints(value.spec.taints, fields.METADATA.child("taints"))
    yield from _status(value.status)


def node_update(new: nodes.Node, old: nodes.Node) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from _status(new.status)
    yield from _addresses(new.status.addresses)
    if old.spec.pod_cidrs and new.spec.pod_cidrs != old.spec.pod_cidrs:
        yield fields.forbidden(
            fields.SPEC.child("podCIDRs"),
            'node updates may not change podCIDR except from "" to valid',
        )
    yield from _provider_unchanged(new.spec.provider_id, old.spec.provider_id)
    yield from _taints(new.spec.taints, fields.METADATA.child("taints"))


def _provider_unchanged(new: str, old: str) -> fields.Errors:
    if old and new != old:
        words = "modified" if new else "cleared"
        yield fields.invalid(
            fields.SPEC.child("providerID"), None, f"field cannot be {words} once set"
        )


def _taints(taints: tuple[nodes.Taint, ...], path: fields.Path) -> fields.Errors:
    """Check taints; errors are reported below metadata, as in Kubernetes."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        taint_path = path.index(index)
        yield from identifiers.label_name(taint.key, taint_path.child("key"))
        details = names.label_value_errors(taint.value)
        if details:
            yield fields.invalid(taint_path.child("value"), taint.value, ";".join(details))
        yield from fields.required_one_of(
            taint_path.child("effect"), taint.effect, placement.TAINT_EFFECTS
        )
        if (taint.key, taint.effect) in seen:
            yield fields.duplicate(
                taint_path, taint, detail="taints must be unique by key and effect pair"
            )
        seen.add((taint.key, taint.effect))


def _status(status: nodes.NodeStatus) -> fields.Errors:
    for field, amounts in (("capacity", status.capacity), ("allocatable", status.allocatable)):
        for name, text in amounts.items():
            path = fields.STATUS.child(field).child(name)
            yield from resources.amount(name, quantity.parse(text), path)
    yield from _declared_features(status.declared_features, fields.STATUS.child("declaredFeatures"))


def _declared_features(values: tuple[str, ...], path: fields.Path) -> fields.Errors:
    for index, feature in enumerate(values):
        complaint = _feature_complaint(feature)
        if complaint:
            detail = f"invalid feature name {gotext.quote(feature)}: {complaint}"
            yield fields.invalid(path.index(index), feature, detail)
        previous = values[index - 1] if index else ""
        if index and feature == previous:
            yield fields.duplicate(path.index(index), feature)
        elif feature < previous:
            yield fields.invalid(path.index(index), feature, "list must be sorted alphabetically")


def _feature_complaint(feature: str) -> str:
    if len(feature.encode()) > names.DNS_SUBDOMAIN_MAX_BYTES:
        return f"must be no more than {names.DNS_SUBDOMAIN_MAX_BYTES} characters"
    return "" if _FEATURE.fullmatch(feature) else _FEATURE_COMPLAINT


def _addresses(addresses: tuple[nodes.NodeAddress, ...]) -> fields.Errors:
    seen: set[nodes.NodeAddress] = set()
    for index, address in enumerate(addresses):
        yield from fields.unrepeated(fields.STATUS.child("addresses").index(index), address, seen)
