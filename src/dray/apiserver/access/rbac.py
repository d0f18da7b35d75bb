"""Role-based access control: the rules of a user, and whether they allow a request.

Decisions are cached until a role or a binding changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from dray.api.http_messages import User
from dray.api.selectors import label_selectors
from dray.api.types.rbac import ClusterRole, PolicyRule, Role, RoleBinding, RoleRef, Subject

ALL = "*"
MASTERS = "system:masters"
MAX_CACHED = 8192
MAX_CACHED_RULES = 512
MAX_CACHED_TEXT = 512
"""A decision about a longer path or name is not kept: clients choose these texts."""


class Attributes(msgspec.Struct, frozen=True):
    """The attributes of a request. `path` is set for requests without a resource.

    `fields` are the values of a field selector; roles do not depend on them.
    """

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    fields: frozenset[tuple[str, str]] = frozenset()

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Decision(NamedTuple):
    """Whether a request is allowed, and a reason if there is a special one."""

    allowed: bool
    reason: str = ""


ALLOWED = Decision(True)


class Policy:
    """The roles and bindings of a cluster, kept in sync by `put` and `remove`."""

    def __init__(self) -> None:
        self._roles: dict[tuple[str, str], Role] = {}
        self._cluster_roles: dict[str, ClusterRole] = {}
        self._bindings: dict[str, dict[str, RoleBinding]] = {}
        self._decisions: dict[tuple[User, Attributes], bool] = {}
        self._rules: dict[tuple[User, str], tuple[PolicyRule, ...]] = {}

    def put(self, thing: Role | ClusterRole | RoleBinding) -> None:
        """Add or replace a role or a binding; without a namespace it is of the cluster."""
        metadata = thing.metadata
        if isinstance(thing, Role):
            self._roles[metadata.namespace, metadata.name] = thing
        elif isinstance(thing, ClusterRole):
            self._cluster_roles[metadata.name] = thing
        else:
            self._bindings.setdefault(metadata.namespace, {})[metadata.name] = thing
        self._forget()

    def remove(self, kind: str, name: str, namespace: str = "") -> None:
        if kind == "Role":
            self._roles.pop((namespace, name), None)
        elif kind == "ClusterRole":
            self._cluster_roles.pop(name, None)
        else:
            self._bindings.get(namespace, {}).pop(name, None)
        self._forget()

    def allows(self, user: User, attributes: Attributes) -> bool:
        if MASTERS in user.groups:
            return True
        # What is allowed without a name is allowed with any: one cached decision for all names.
        nameless = attributes
        if attributes.name or attributes.fields:
            nameless = msgspec.structs.replace(attributes, name="", fields=frozenset())
        if self._decide(user, nameless):
            return True
        named = msgspec.structs.replace(nameless, name=attributes.name)
        return bool(attributes.name) and self._decide(user, named)

    def _decide(self, user: User, attributes: Attributes) -> bool:
        key = (user, attributes)
        allowed = self._decisions.get(key)
        if allowed is None:
            rules = self.rules(user, attributes.namespace)
            allowed = any(permits(rule, attributes) for rule in rules)
            if _length(attributes) <= MAX_CACHED_TEXT:
                if len(self._decisions) >= MAX_CACHED:
                    self._decisions.clear()
                self._decisions[key] = allowed
        return allowed

    def rules(self, user: User, namespace: str) -> tuple[PolicyRule, ...]:
        """Return every rule for `user` in `namespace`, also cluster-wide ones."""
        # A namespace without bindings, which may not even exist, has the rules of the cluster.
        key = (user, namespace if self._bindings.get(namespace) else "")
        cached = self._rules.get(key)
        if cached is None:
            if len(self._rules) >= MAX_CACHED_RULES:
                self._rules.clear()
            cached = self._rules[key] = tuple(self._gather_rules(*key))
        return cached

    def knows(self, reference: RoleRef, namespace: str) -> bool:
        if reference.kind == "Role":
            return (namespace, reference.name) in self._roles
        return reference.name in self._cluster_roles

    def rules_of(self, reference: RoleRef, namespace: str) -> tuple[PolicyRule, ...]:
        """Return the rules that a binding in `namespace` grants by naming this role."""
        if reference.kind == "Role":
            role = self._roles.get((namespace, reference.name))
            return role.rules if role else ()
        cluster_role = self._cluster_roles.get(reference.name)
        return tuple(self._cluster_rules(cluster_role)) if cluster_role else ()

    def _gather_rules(self, user: User, namespace: str) -> Iterator[PolicyRule]:
        for where in dict.fromkeys(("", namespace)):
            for binding in self._bindings.get(where, {}).values():
                if any(_is_subject(subject, user, where) for subject in binding.subjects):
                    yield from self.rules_of(binding.role_ref, where)

    def _cluster_rules(self, role: ClusterRole) -> Iterator[PolicyRule]:
        """Return a cluster role's rules; for an aggregate, those of the roles it selects."""
        yield from role.rules
        if role.aggregation_rule is None:
            return
        selectors = [
            label_selectors.label_selector(selector)
            for selector in role.aggregation_rule.cluster_role_selectors
        ]
        for other in self._cluster_roles.values():
            if other is not role and any(
                selector.matches(other.metadata.labels) for selector in selectors
            ):
                yield from other.rules

    def _forget(self) -> None:
        self._decisions.clear()
        self._rules.clear()


def _length(attributes: Attributes) -> int:
    return (
        len(attributes.path)
        + len(attributes.group)
        + len(attributes.resource)
        + len(attributes.subresource)
        + len(attributes.namespace)
        + len(attributes.name)
        + len(attributes.verb)
    )


def permits(rule: PolicyRule, attributes: Attributes) -> bool:
    if not _has(rule.verbs, attributes.verb):
        return False
    if attributes.path:
        return any(_matches_path(pattern, attributes.path) for pattern in rule.non_resource_urls)
    return (
        _has(rule.api_groups, attributes.group)
        and _names_resource(rule.resources, attributes)
        and (not rule.resource_names or attributes.name in rule.resource_names)
    )


def _has(values: tuple[str, ...], value: str) -> bool:
    return value in values or ALL in values


def _names_resource(resources: tuple[str, ...], attributes: Attributes) -> bool:
    if _has(resources, attributes.full_resource):
        return True
    return bool(attributes.subresource) and f"*/{attributes.subresource}" in resources


def _matches_path(pattern: str, path: str) -> bool:
    return pattern in (ALL, path) or (pattern.endswith(ALL) and path.startswith(pattern[:-1]))


def _is_subject(subject: Subject, user: User, namespace: str) -> bool:
    if subject.kind == "User":
        return subject.name == user.name
    if subject.kind == "Group":
        return subject.name in user.groups
    home = subject.namespace or namespace
    return user.name == f"system:serviceaccount:{home}:{subject.name}"


Authorize = Callable[[User, Attributes], "str | None"]
"""Returns a denial message, or None if the request is allowed."""
