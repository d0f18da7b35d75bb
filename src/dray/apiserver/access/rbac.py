"""Role-based access control: which rules apply to a user, and whether they allow a request.

Answers are remembered until a role or a binding changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from dray.api.http_messages import User
from dray.api.selectors import label_selectors
from dray.api.types.rbac import ClusterRole, PolicyRule, Role, RoleBinding, RoleRef, Subject

ALL = "*"
MASTERS = "system:masters"
MAX_REMEMBERED = 20_000


class Attributes(msgspec.Struct, frozen=True):
    """What a request wants to do. `path` is set for requests that are about no resource.

    `fields` are the values that a field selector demands; no role looks at them.
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
    """Whether a request is allowed; a reason where something special can be said about it."""

    allowed: bool
    reason: str = ""


ALLOWED = Decision(True)


class Policy:
    """The roles and bindings of a cluster, kept in step by `put` and `remove`."""

    def __init__(self) -> None:
        self._roles: dict[tuple[str, str], Role] = {}
        self._cluster_roles: dict[str, ClusterRole] = {}
        self._bindings: dict[str, dict[str, RoleBinding]] = {}
        self._answers: dict[tuple[User, Attributes], bool] = {}
        self._rules: dict[tuple[User, str], tuple[PolicyRule, ...]] = {}

    def put(self, thing: Role | ClusterRole | RoleBinding) -> None:
        """Add or replace a role or a binding; a binding without a namespace is a cluster's."""
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
        # What is allowed without a name is allowed with any: one answer for all of them.
        nameless = attributes
        if attributes.name or attributes.fields:
            nameless = msgspec.structs.replace(attributes, name="", fields=frozenset())
        if self._answer(user, nameless):
            return True
        return bool(attributes.name) and self._answer(
            user, msgspec.structs.replace(attributes, fields=frozenset())
        )

    def _answer(self, user: User, attributes: Attributes) -> bool:
        question = (user, attributes)
        answer = self._answers.get(question)
        if answer is None:
            rules = self.rules(user, attributes.namespace)
            answer = any(permits(rule, attributes) for rule in rules)
            if len(self._answers) >= MAX_REMEMBERED:
                self._answers.clear()
            self._answers[question] = answer
        return answer

    def rules(self, user: User, namespace: str) -> tuple[PolicyRule, ...]:
        """Every rule that applies to `user` in `namespace`, cluster-wide ones included."""
        key = (user, namespace)
        found = self._rules.get(key)
        if found is None:
            found = self._rules[key] = tuple(self._gather_rules(user, namespace))
        return found

    def knows(self, reference: RoleRef, namespace: str) -> bool:
        if reference.kind == "Role":
            return (namespace, reference.name) in self._roles
        return reference.name in self._cluster_roles

    def rules_of(self, reference: RoleRef, namespace: str) -> tuple[PolicyRule, ...]:
        """The rules a binding in `namespace` grants by naming this role."""
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
        """A role's own rules, and for an aggregate those of every role its selectors match."""
        yield from role.rules
        if role.aggregation_rule is None:
            return
        wanted = [
            label_selectors.label_selector(selector)
            for selector in role.aggregation_rule.cluster_role_selectors
        ]
        for other in self._cluster_roles.values():
            if other is not role and any(w.matches(other.metadata.labels) for w in wanted):
                yield from other.rules

    def _forget(self) -> None:
        self._answers.clear()
        self._rules.clear()


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


def uncovered(owned: Iterable[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """The parts of `wanted` that nothing in `owned` grants: what granting them would escalate."""
    rules = tuple(owned)
    return [
        subrule
        for rule in wanted
        for subrule in _pieces(rule)
        if not any(_covers(own, subrule) for own in rules)
    ]


def _pieces(rule: PolicyRule) -> Iterator[PolicyRule]:
    """A rule as rules for one verb and one thing each."""
    for verb in rule.verbs:
        for group in rule.api_groups:
            for resource in rule.resources:
                for name in rule.resource_names or ("",):
                    yield PolicyRule(
                        verbs=(verb,),
                        api_groups=(group,),
                        resources=(resource,),
                        resource_names=(name,) if name else (),
                    )
        for path in rule.non_resource_urls:
            yield PolicyRule(verbs=(verb,), non_resource_urls=(path,))


def _covers(own: PolicyRule, subrule: PolicyRule) -> bool:
    if not _has(own.verbs, subrule.verbs[0]):
        return False
    if subrule.non_resource_urls:
        path = subrule.non_resource_urls[0]
        return any(_matches_path(pattern, path) for pattern in own.non_resource_urls)
    resource, _, subresource = subrule.resources[0].partition("/")
    attributes = Attributes(
        subrule.verbs[0],
        subrule.api_groups[0],
        resource,
        subresource,
        name="".join(subrule.resource_names),
    )
    return (
        _has(own.api_groups, attributes.group)
        and _names_resource(own.resources, attributes)
        and (not own.resource_names or attributes.name in own.resource_names)
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
"""Why a user may not do something; None where he may."""
