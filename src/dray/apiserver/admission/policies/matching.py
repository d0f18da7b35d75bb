"""Matches requests with policies and bindings (apiserver, admission/plugin/policy/matching)."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from dray.api import kinds
from dray.api.kinds import GroupVersionKind, Kind
from dray.api.selectors import label_selectors
from dray.api.types.admission import MatchResources, NamedRuleWithOperations
from dray.api.types.meta import JsonObject, LabelSelector
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import AdmissionRequest
from dray.apiserver.storage import store_keys

EXACT = "Exact"

NamespaceLabels = Callable[[str], Awaitable[Mapping[str, str]]]
"""Returns the labels of a namespace. Raises NotFound."""


class MatchedResource(NamedTuple):
    """The resource as which a policy sees the object of a request."""

    kind: Kind
    gvk: GroupVersionKind

    @classmethod
    def of(cls, kind: Kind, version: str) -> MatchedResource:
        return cls(kind, kind.in_version(version))


class Foreseen(NamedTuple):
    """The match of all requests for one resource with one operation, as far as that decides it."""

    resource: MatchedResource | None
    """None where no such request is matched."""
    is_certain: bool
    """False where names or labels decide, too."""


def foreseen(match: MatchResources, admission: AdmissionRequest) -> Foreseen:
    """Return what resource and operation of a request say about its match."""
    if not _depends_on_object(match):
        return Foreseen(_matched_resource(match, admission), True)
    if (
        match.resource_rules
        and _named_by(match.resource_rules, match, admission, any_name=True) is None
    ):
        return Foreseen(None, True)
    return Foreseen(None, False)


def _depends_on_object(match: MatchResources) -> bool:
    rules = (*match.resource_rules, *match.exclude_resource_rules)
    selectors = (match.object_selector, match.namespace_selector)
    return any(rule.resource_names for rule in rules) or any(map(_selects, selectors))


def _selects(selector: LabelSelector | None) -> bool:
    return selector is not None and bool(selector.match_labels or selector.match_expressions)


def _matched_resource(match: MatchResources, admission: AdmissionRequest) -> MatchedResource | None:
    """Return the resource that the rules name and do not exclude."""
    if _named_by(match.exclude_resource_rules, match, admission) is not None:
        return None
    if not match.resource_rules:
        return MatchedResource.of(admission.kind, admission.version)
    return _named_by(match.resource_rules, match, admission)


async def matched(
    match: MatchResources, admission: AdmissionRequest, labels_of: NamespaceLabels
) -> MatchedResource | None:
    """Return the resource as which a request is matched, or None if it is not.

    Raises StatusError where the namespace cannot be read.
    """
    found = _matched_resource(match, admission)
    if found is None or not _matches_object(match.object_selector, admission):
        return None
    # Last: the only question that may need the store.
    if not await _matches_namespace(match.namespace_selector, admission, labels_of):
        return None
    return found


async def _matches_namespace(
    selector: LabelSelector | None, admission: AdmissionRequest, labels_of: NamespaceLabels
) -> bool:
    is_namespace = admission.kind is kinds.NAMESPACE
    if not admission.namespace and not is_namespace:
        return True
    if selector is None or not _selects(selector):
        return True
    is_written = admission.operation in (admission_chain.CREATE, admission_chain.UPDATE)
    if is_namespace and not admission.subresource and is_written:
        found = _labels(admission.new)
    else:
        found = await labels_of(admission.name if is_namespace else admission.namespace)
    return label_selectors.label_selector(selector).matches(found)


def _matches_object(selector: LabelSelector | None, admission: AdmissionRequest) -> bool:
    if selector is None or not _selects(selector):
        return True
    parsed = label_selectors.label_selector(selector)
    documents = (admission.shown(admission.current), admission.shown(admission.old))
    # The options of a connection have no metadata, and no selector matches them.
    return any(
        parsed.matches(_labels(document))
        for document in documents
        if document is not None and "metadata" in document
    )


def _labels(document: JsonObject | None) -> Mapping[str, str]:
    return ((document or {}).get("metadata") or {}).get("labels") or {}


def _named_by(
    rules: Iterable[NamedRuleWithOperations],
    match: MatchResources,
    admission: AdmissionRequest,
    *,
    any_name: bool = False,
) -> MatchedResource | None:
    """Return the resource that one of the rules names; `any_name` ignores names of objects.

    That of the request comes first; others only where equivalent ones count.
    """
    rules = [rule for rule in rules if any_name or _has_name(rule, admission)]
    original = MatchedResource.of(admission.kind, admission.version)
    if any(_names(rule, admission, original) for rule in rules):
        return original
    if match.match_policy in (None, EXACT):
        return None
    for rule in rules:
        for other in _equivalents(admission.kind):
            if other != original and _names(rule, admission, other):
                return other
    return None


@functools.cache
def _equivalents(kind: Kind) -> tuple[MatchedResource, ...]:
    """Return the resources of the same stored objects: versions, and both groups of events."""
    stored = store_keys.stored_kind(kind)
    return tuple(
        MatchedResource.of(other, version)
        for other in kinds.KINDS
        if store_keys.stored_kind(other) is stored
        for version in other.versions
    )


def _names(
    rule: NamedRuleWithOperations, admission: AdmissionRequest, resource: MatchedResource
) -> bool:
    return (
        _has_resource(rule.resources, admission)
        and _has(rule.operations, admission.operation)
        and _has(rule.api_groups, resource.kind.group)
        and _has(rule.api_versions, resource.gvk.version)
        and _has_scope(rule.scope, admission)
    )


def _has_name(rule: NamedRuleWithOperations, admission: AdmissionRequest) -> bool:
    return not rule.resource_names or admission.name in rule.resource_names


def _has_scope(scope: str | None, admission: AdmissionRequest) -> bool:
    if scope in (None, "*"):
        return True
    return admission.kind.namespaced == (scope == "Namespaced")


def _has(values: Collection[str], value: str) -> bool:
    return value in values or "*" in values


def _has_resource(resources: Iterable[str], admission: AdmissionRequest) -> bool:
    for text in resources:
        resource, _, subresource = text.partition("/")
        if resource in ("*", admission.kind.plural) and subresource in (
            "*",
            admission.subresource,
        ):
            return True
    return False
