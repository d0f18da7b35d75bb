"""Rules for ResourceQuota."""

from __future__ import annotations

from typing import Final

from dray.api.formats import quantity
from dray.api.schema import merge_rules
from dray.api.semantics import pod_resources
from dray.api.types import core
from dray.validation import fields, metadata
from dray.validation.pods import resources

SCOPES: Final = frozenset(merge_rules.ENUMS["core.v1.ResourceQuotaScope"])
_EXISTING = SCOPES - {"PriorityClass", "VolumeAttributesClass"}
_CONFLICTS = (
    frozenset(("BestEffort", "NotBestEffort")),
    frozenset(("Terminating", "NotTerminating")),
)
_COMPUTE = frozenset(("cpu", "memory", "limits.cpu", "limits.memory"))
_POD_RESOURCES = _COMPUTE | {"requests.cpu", "requests.memory", "pods"}
_STORAGE_RESOURCES = frozenset(("persistentvolumeclaims", "requests.storage"))
_STANDARD = (resources.COMPUTE | resources.COUNTED | resources.LIMITED) - {"storage"}


def resource_quota(value: core.ResourceQuota) -> fields.Errors:
    yield from metadata.created(value.metadata, namespaced=True)
    yield from _spec(value.spec)
    yield from _status(value.status)


def resource_quota_update(new: core.ResourceQuota, old: core.ResourceQuota) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from _spec(new.spec)
    if set(new.spec.scopes) != set(old.spec.scopes):
        yield fields.invalid(fields.SPEC.child("scopes"), new.spec.scopes, "field is immutable")


def resource_quota_status_update(new: core.ResourceQuota, old: core.ResourceQuota) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from _status(new.status)


def _status(status: core.ResourceQuotaStatus) -> fields.Errors:
    yield from _amounts(status.hard, fields.STATUS.child("hard"))
    yield from _amounts(status.used, fields.STATUS.child("used"))


def _spec(spec: core.ResourceQuotaSpec) -> fields.Errors:
    yield from _amounts(spec.hard, fields.SPEC.child("hard"))
    yield from _scopes(spec, fields.SPEC.child("scopes"))
    if spec.scope_selector is not None:
        yield from _scope_selector(spec, spec.scope_selector, fields.SPEC.child("scopeSelector"))


def _amounts(values: dict[str, str], path: fields.Path) -> fields.Errors:
    for name, text in values.items():
        key_path = path.key(name)
        yield from resources.resource_name(name, key_path)
        if "/" not in name and not _is_standard(name):
            yield fields.invalid(key_path, name, "must be a standard resource for quota")
        yield from resources.amount(name, quantity.parse(text), key_path)


def _is_standard(name: str) -> bool:
    return name in _STANDARD or pod_resources.is_huge_page_resource(
        name.removeprefix(pod_resources.REQUESTS_PREFIX)
    )


def _applies(scope: str, resource: str) -> bool:
    if scope == "BestEffort":
        return resource == "pods"
    if scope == "VolumeAttributesClass":
        return resource in _STORAGE_RESOURCES
    return scope not in SCOPES or resource in _POD_RESOURCES


def _scopes(spec: core.ResourceQuotaSpec, path: fields.Path) -> fields.Errors:
    for scope in spec.scopes:
        if scope not in SCOPES:
            yield fields.invalid(path, spec.scopes, "unsupported scope")
        for name in spec.hard:
            if _is_standard(name) and not _applies(scope, name):
                yield fields.invalid(path, spec.scopes, "unsupported scope applied to resource")
    yield from _no_conflict(set(spec.scopes), spec, path)


def _no_conflict(
    scopes: set[str], spec: core.ResourceQuotaSpec, path: fields.Path
) -> fields.Errors:
    for conflict in _CONFLICTS:
        if conflict <= scopes:
            yield fields.invalid(path, spec.scopes, "conflicting scopes")


def _scope_selector(
    spec: core.ResourceQuotaSpec, selector: core.ScopeSelector, path: fields.Path
) -> fields.Errors:
    path = path.child("matchExpressions")
    for requirement in selector.match_expressions:
        if requirement.scope_name not in SCOPES:
            yield fields.invalid(
                path.child("scopeName"), requirement.scope_name, "unsupported scope"
            )
        for name in spec.hard:
            if _is_standard(name) and not _applies(requirement.scope_name, name):
                yield fields.invalid(path, selector, "unsupported scope applied to resource")
        yield from _scope_operator(requirement, path)
    names = {requirement.scope_name for requirement in selector.match_expressions}
    yield from _no_conflict(names, spec, path)


def _scope_operator(
    requirement: core.ScopedResourceSelectorRequirement, path: fields.Path
) -> fields.Errors:
    operator, values = requirement.operator, requirement.values
    if requirement.scope_name in _EXISTING and operator != "Exists":
        yield fields.invalid(
            path.child("operator"),
            operator,
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
            "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
            "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
        )
    if operator in ("In", "NotIn"):
        if not values:
            yield fields.required(
                path.child("values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            )
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield fields.invalid(
                path.child("values"),
                values,
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            )
    else:
        yield fields.invalid(path.child("operator"), operator, "not a valid selector operator")
