"""Which requests a policy or a binding is about (apiserver, admission/plugin/policy/matching)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

from dray.api import kinds
from dray.api.selectors import label_selectors
from dray.api.types.admission import MatchResources, NamedRuleWithOperations
from dray.api.types.meta import JsonObject, LabelSelector
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import AdmissionRequest

EXACT = "Exact"

NamespaceLabels = Callable[[str], Awaitable[Mapping[str, str]]]
"""Returns the labels of a namespace. Raises NotFound."""


async def matched_version(
    match: MatchResources, admission: AdmissionRequest, labels_of: NamespaceLabels
) -> str | None:
    """Return the API version in which a request is matched, or None if it is not.

    Raises StatusError where the namespace cannot be read.
    """
    if not _matches_object(match.object_selector, admission):
        return None
    if _rule_version(match.exclude_resource_rules, match, admission) is not None:
        return None
    version: str | None = admission.version
    if match.resource_rules:
        version = _rule_version(match.resource_rules, match, admission)
    if version is None:
        return None
    # Last: the only question that may need the store.
    if not await _matches_namespace(match.namespace_selector, admission, labels_of):
        return None
    return version


async def _matches_namespace(
    selector: LabelSelector | None, admission: AdmissionRequest, labels_of: NamespaceLabels
) -> bool:
    is_namespace = admission.kind is kinds.NAMESPACE
    if not admission.namespace and not is_namespace:
        return True
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return True
    is_written = admission.operation in (admission_chain.CREATE, admission_chain.UPDATE)
    if is_namespace and not admission.subresource and is_written:
        found = _labels(admission.new)
    else:
        found = await labels_of(admission.name if is_namespace else admission.namespace)
    return label_selectors.label_selector(selector).matches(found)


def _matches_object(selector: LabelSelector | None, admission: AdmissionRequest) -> bool:
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return True
    parsed = label_selectors.label_selector(selector)
    documents = (admission.current, admission.old)
    return any(parsed.matches(_labels(document)) for document in documents if document)


def _labels(document: JsonObject | None) -> Mapping[str, str]:
    return ((document or {}).get("metadata") or {}).get("labels") or {}


def _rule_version(
    rules: Iterable[NamedRuleWithOperations], match: MatchResources, admission: AdmissionRequest
) -> str | None:
    """Return the version of the resource that one of the rules names.

    The version of the request comes first; others only where equivalent ones count.
    """
    versions = [admission.version]
    if match.match_policy not in (None, EXACT):
        versions += [version for version in admission.kind.versions if version != versions[0]]
    for version in versions:
        if any(_names(rule, admission, version) for rule in rules):
            return version
    return None


def _names(rule: NamedRuleWithOperations, admission: AdmissionRequest, version: str) -> bool:
    return (
        _has_scope(rule.scope, admission)
        and _has(rule.operations, admission.operation)
        and _has(rule.api_groups, admission.kind.group)
        and _has(rule.api_versions, version)
        and _has_resource(rule.resources, admission)
        and (not rule.resource_names or admission.name in rule.resource_names)
    )


def _has_scope(scope: str | None, admission: AdmissionRequest) -> bool:
    if scope in (None, "*"):
        return True
    return admission.kind.namespaced == (scope == "Namespaced")


def _has(values: Iterable[str], value: str) -> bool:
    return any(item in ("*", value) for item in values)


def _has_resource(resources: Iterable[str], admission: AdmissionRequest) -> bool:
    for text in resources:
        resource, _, subresource = text.partition("/")
        if resource in ("*", admission.kind.plural) and subresource in (
            "*",
            admission.subresource,
        ):
            return True
    return False
