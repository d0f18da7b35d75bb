"""Roles and their bindings, as authorization reads them."""

from __future__ import annotations

import msgspec

from dray.api.types.meta import LabelSelector, ObjectMeta, Wire


class PolicyRule(Wire, frozen=True):
    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")


class AggregationRule(Wire, frozen=True):
    cluster_role_selectors: tuple[LabelSelector, ...] = ()


class Role(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    rules: tuple[PolicyRule, ...] = ()


class ClusterRole(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    rules: tuple[PolicyRule, ...] = ()
    aggregation_rule: AggregationRule | None = None


class Subject(Wire, frozen=True):
    kind: str = ""
    api_group: str = ""
    name: str = ""
    namespace: str = ""


class RoleRef(Wire, frozen=True):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class RoleBinding(Wire, frozen=True):
    """Also a ClusterRoleBinding, which has no namespace."""

    metadata: ObjectMeta = ObjectMeta()
    subjects: tuple[Subject, ...] = ()
    role_ref: RoleRef = RoleRef()
