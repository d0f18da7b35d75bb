"""Rules for roles and their bindings (pkg/apis/rbac/validation).

What Kubernetes asks for declaratively comes last, as it does there.
"""

from __future__ import annotations

from dray.api.formats import names
from dray.api.types import rbac
from dray.validation import fields, identifiers, metadata, selector_rules

GROUP = "rbac.authorization.k8s.io"
_RULES = fields.Path("rules")
_SUBJECTS = fields.Path("subjects")
_ROLE_REF = fields.Path("roleRef")
_SELECTORS = fields.Path("aggregationRule").child("clusterRoleSelectors")


def role(value: rbac.Role) -> fields.Errors:
    yield from metadata.any_created(value.metadata, namespaced=True)
    yield from _policy_rules(value.rules, namespaced=True)


def role_update(new: rbac.Role, old: rbac.Role) -> fields.Errors:
    yield from role(new)
    yield from metadata.any_updated(new.metadata, old.metadata)


def cluster_role(value: rbac.ClusterRole) -> fields.Errors:
    yield from metadata.any_created(value.metadata, namespaced=False)
    yield from _policy_rules(value.rules, namespaced=False)
    if value.aggregation_rule is None:
        return
    selectors = value.aggregation_rule.cluster_role_selectors
    if not selectors:
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield fields.required(_SELECTORS, detail)
    for number, selector in enumerate(selectors):
        yield from selector_rules.label_selector(selector, _SELECTORS.index(number))


def cluster_role_update(new: rbac.ClusterRole, old: rbac.ClusterRole) -> fields.Errors:
    yield from cluster_role(new)
    yield from metadata.any_updated(new.metadata, old.metadata)


def _policy_rules(rules: tuple[rbac.PolicyRule, ...], *, namespaced: bool) -> fields.Errors:
    for number, rule in enumerate(rules):
        yield from _policy_rule(rule, _RULES.index(number), namespaced=namespaced)
    for number, rule in enumerate(rules):
        if not rule.verbs:
            yield fields.required(_RULES.index(number).child("verbs"))


def _policy_rule(rule: rbac.PolicyRule, path: fields.Path, *, namespaced: bool) -> fields.Errors:
    if rule.non_resource_urls:
        yield from _addresses(rule, path.child("nonResourceURLs"), namespaced=namespaced)
        return
    if not rule.api_groups:
        detail = "resource rules must supply at least one api group"
        yield fields.required(path.child("apiGroups"), detail)
    if not rule.resources:
        detail = "resource rules must supply at least one resource"
        yield fields.required(path.child("resources"), detail)


def _addresses(rule: rbac.PolicyRule, path: fields.Path, *, namespaced: bool) -> fields.Errors:
    shown = list(rule.non_resource_urls)
    if namespaced:
        yield fields.invalid(path, shown, "namespaced rules cannot apply to non-resource URLs")
    if rule.api_groups or rule.resources or rule.resource_names:
        detail = "rules cannot apply to both regular resources and non-resource URLs"
        yield fields.invalid(path, shown, detail)


def role_binding(value: rbac.RoleBinding) -> fields.Errors:
    yield from _binding(value, namespaced=True)


def role_binding_update(new: rbac.RoleBinding, old: rbac.RoleBinding) -> fields.Errors:
    yield from _binding(new, namespaced=True)
    yield from _binding_update(new, old)


def cluster_role_binding(value: rbac.RoleBinding) -> fields.Errors:
    yield from _binding(value, namespaced=False)


def cluster_role_binding_update(new: rbac.RoleBinding, old: rbac.RoleBinding) -> fields.Errors:
    yield from _binding(new, namespaced=False)
    yield from _binding_update(new, old)


def _binding_update(new: rbac.RoleBinding, old: rbac.RoleBinding) -> fields.Errors:
    """Reject a change of the role: permission to change subjects must not allow another role."""
    yield from metadata.any_updated(new.metadata, old.metadata)
    yield from fields.immutable(_ROLE_REF, new.role_ref, old.role_ref)


def _binding(value: rbac.RoleBinding, *, namespaced: bool) -> fields.Errors:
    yield from metadata.any_created(value.metadata, namespaced=namespaced)
    reference = value.role_ref
    bindable = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if reference.api_group != GROUP:
        yield fields.not_supported(_ROLE_REF.child("apiGroup"), reference.api_group, [GROUP])
    yield from fields.one_of(_ROLE_REF.child("kind"), reference.kind, bindable)
    for detail in names.path_segment_errors(reference.name):
        yield fields.invalid(_ROLE_REF.child("name"), reference.name, detail)
    for number, subject in enumerate(value.subjects):
        yield from _subject(subject, _SUBJECTS.index(number), namespaced=namespaced)
    yield from _names_missing(value)


def _names_missing(value: rbac.RoleBinding) -> fields.Errors:
    yield from fields.required_text(_ROLE_REF.child("name"), value.role_ref.name)
    for number, subject in enumerate(value.subjects):
        yield from fields.required_text(_SUBJECTS.index(number).child("name"), subject.name)


def _subject(subject: rbac.Subject, path: fields.Path, *, namespaced: bool) -> fields.Errors:
    if subject.kind == "ServiceAccount":
        yield from _account(subject, path, namespaced=namespaced)
    elif subject.kind not in ("User", "Group"):
        kinds = ("ServiceAccount", "User", "Group")
        yield fields.not_supported(path.child("kind"), subject.kind, kinds)
    elif subject.api_group != GROUP:
        yield fields.not_supported(path.child("apiGroup"), subject.api_group, [GROUP])


def _account(subject: rbac.Subject, path: fields.Path, *, namespaced: bool) -> fields.Errors:
    if subject.name:
        yield from identifiers.object_name(subject.name, path.child("name"))
    if subject.api_group:
        yield fields.not_supported(path.child("apiGroup"), subject.api_group, [""])
    if not namespaced and not subject.namespace:
        yield fields.required(path.child("namespace"))
