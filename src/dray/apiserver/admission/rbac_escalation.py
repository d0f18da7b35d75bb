"""Nobody grants what he does not have: roles and bindings are checked against their author.

As pkg/registry/rbac: whoever may `escalate` a role or `bind` it is trusted with it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dray.api import errors
from dray.api.formats import gotext
from dray.api.http_messages import User
from dray.api.ids import GroupResource
from dray.api.types.meta import JsonObject
from dray.api.types.rbac import ClusterRole, PolicyRule, Role, RoleBinding, RoleRef
from dray.apiserver.access import bootstrap_policy, rbac
from dray.apiserver.access.authorization import Authorizer
from dray.apiserver.access.rbac import ALL, MASTERS, Attributes
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import AdmissionRequest, AdmissionRule
from dray.apiserver.storage.lookup import Reader

_EVERYTHING = (
    PolicyRule(verbs=(ALL,), api_groups=(ALL,), resources=(ALL,)),
    PolicyRule(verbs=(ALL,), non_resource_urls=(ALL,)),
)
_COLLECTED_METADATA = ("finalizers", "managedFields", "ownerReferences", "resourceVersion")


class NoEscalation(AdmissionRule):
    about = frozenset({"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"})

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def mutate(self, action: AdmissionRequest) -> None:
        if action.kind.group != bootstrap_policy.GROUP or action.new is None:
            return
        if MASTERS in action.user.groups or _is_only_collected(action.new, action.old):
            return
        if action.kind.kind in ("Role", "ClusterRole"):
            self._check_role(action, action.new)
        elif action.kind.kind in ("RoleBinding", "ClusterRoleBinding"):
            self._check_binding(action, action.new)

    def _check_role(self, action: AdmissionRequest, document: JsonObject) -> None:
        name = action.name if action.operation == admission_chain.UPDATE else ""
        escalate = Attributes(
            "escalate", bootstrap_policy.GROUP, action.kind.plural, "", action.namespace, name
        )
        if self._authorizer.authorize(action.user, escalate).allowed:
            return
        if action.kind.kind == "Role":
            self._check_rules(action, Reader(Role).convert(document).rules)
            return
        role = Reader(ClusterRole).convert(document)
        self._check_rules(action, role.rules)
        if _aggregates(document) or _aggregates(action.old or {}):
            self._check_everything(action)

    def _check_everything(self, action: AdmissionRequest) -> None:
        """A role that gathers others may come to hold anything."""
        if self._missing(action.user, action.namespace, _EVERYTHING):
            raise action.forbidden("must have cluster-admin privileges to use the aggregationRule")

    def _check_binding(self, action: AdmissionRequest, document: JsonObject) -> None:
        reference = Reader(RoleBinding).convert(document).role_ref
        resource = "roles" if reference.kind == "Role" else "clusterroles"
        bind = Attributes(
            "bind",
            bootstrap_policy.GROUP,
            resource,
            namespace=action.namespace,
            name=reference.name,
        )
        if self._authorizer.authorize(action.user, bind).allowed:
            return
        self._check_rules(action, self._rules_of(reference, resource, action.namespace))

    def _rules_of(
        self, reference: RoleRef, resource: str, namespace: str
    ) -> tuple[PolicyRule, ...]:
        """What is not there yet may turn out to be anything, so it cannot be bound."""
        known = self._authorizer.policy
        if not known.knows(reference, namespace):
            raise errors.not_found(GroupResource(bootstrap_policy.GROUP, resource), reference.name)
        return known.rules_of(reference, namespace)

    def _check_rules(self, action: AdmissionRequest, rules: Iterable[PolicyRule]) -> None:
        missing = self._missing(action.user, action.namespace, rules)
        if missing:
            groups = " ".join(map(gotext.quote, sorted(action.user.groups)))
            shown = "\n".join(sorted(set(map(_shown, _compacted(missing)))))
            raise action.forbidden(
                f"user {gotext.quote(action.user.name)} (groups=[{groups}]) is attempting to grant "
                f"RBAC permissions not currently held:\n{shown}"
            )

    def _missing(
        self, user: User, namespace: str, wanted: Iterable[PolicyRule]
    ) -> list[PolicyRule]:
        return rbac.uncovered(self._authorizer.rules(user, namespace), wanted)


def _is_only_collected(new: JsonObject, old: JsonObject | None) -> bool:
    """Whether only those fields changed with which the garbage collector does its work."""
    return old is not None and _content(new) == _content(old)


def _content(document: JsonObject) -> JsonObject:
    metadata = {
        key: value for key, value in document["metadata"].items() if key not in _COLLECTED_METADATA
    }
    return {**document, "metadata": metadata}


def _aggregates(document: JsonObject) -> bool:
    return bool((document.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _compacted(subrules: Iterable[PolicyRule]) -> Iterable[PolicyRule]:
    """Rules for one verb each, joined where all else is the same."""
    verbs: dict[PolicyRule, dict[str, None]] = {}
    for subrule in subrules:
        verbs.setdefault(msgspec.structs.replace(subrule, verbs=()), {}).update(
            dict.fromkeys(subrule.verbs)
        )
    return [
        msgspec.structs.replace(subrule, verbs=tuple(found)) for subrule, found in verbs.items()
    ]


def _shown(rule: PolicyRule) -> str:
    """As Kubernetes writes a rule in one line."""
    parts = {
        "APIGroups": rule.api_groups,
        "Resources": rule.resources,
        "ResourceNames": rule.resource_names,
        "NonResourceURLs": rule.non_resource_urls,
        "Verbs": rule.verbs,
    }
    texts = [
        f"{name}:[{' '.join(map(gotext.quote, values))}]"
        for name, values in parts.items()
        if values
    ]
    return f"{{{', '.join(texts)}}}"
