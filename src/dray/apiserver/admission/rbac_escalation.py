"""No privilege escalation: users cannot grant more than they have.

As pkg/registry/rbac: the verbs `escalate` and `bind` on a role are an exception.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dray.api import errors
from dray.api.formats import gotext
from dray.api.ids import GroupResource
from dray.api.types.meta import JsonObject
from dray.api.types.rbac import ClusterRole, PolicyRule, Role, RoleBinding
from dray.apiserver.access import bootstrap_policy, rule_coverage
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

    async def mutate(self, admission: AdmissionRequest) -> None:
        if admission.kind.group != bootstrap_policy.GROUP or admission.new is None:
            return
        if MASTERS in admission.user.groups or _is_only_collected(admission.new, admission.old):
            return
        if admission.kind.kind in ("Role", "ClusterRole"):
            self._check_role(admission, admission.new)
        elif admission.kind.kind in ("RoleBinding", "ClusterRoleBinding"):
            self._check_binding(admission, admission.new)

    def _check_role(self, admission: AdmissionRequest, document: JsonObject) -> None:
        name = admission.name if admission.operation == admission_chain.UPDATE else ""
        if self._may(admission, "escalate", admission.kind.plural, name):
            return
        if admission.kind.kind == "Role":
            self._check_rules(admission, Reader(Role).convert(document).rules)
            return
        self._check_rules(admission, Reader(ClusterRole).convert(document).rules)
        is_aggregate = _aggregates(document) or _aggregates(admission.old or {})
        # An aggregate gets the rules of roles that others write later, whatever these are.
        if is_aggregate and self._missing(admission, _EVERYTHING):
            raise admission.forbidden(
                "must have cluster-admin privileges to use the aggregationRule"
            )

    def _may(self, admission: AdmissionRequest, verb: str, resource: str, name: str) -> bool:
        group, namespace = bootstrap_policy.GROUP, admission.namespace
        attributes = Attributes(verb, group, resource, namespace=namespace, name=name)
        return self._authorizer.authorize(admission.user, attributes).allowed

    def _check_binding(self, admission: AdmissionRequest, document: JsonObject) -> None:
        reference = Reader(RoleBinding).convert(document).role_ref
        resource = "roles" if reference.kind == "Role" else "clusterroles"
        if self._may(admission, "bind", resource, reference.name):
            return
        policy = self._authorizer.policy
        if not policy.knows(reference, admission.namespace):
            # An absent role may become anything.
            raise errors.not_found(GroupResource(bootstrap_policy.GROUP, resource), reference.name)
        self._check_rules(admission, policy.rules_of(reference, admission.namespace))

    def _check_rules(self, admission: AdmissionRequest, rules: Iterable[PolicyRule]) -> None:
        missing = self._missing(admission, rules)
        if missing:
            groups = " ".join(map(gotext.quote, sorted(admission.user.groups)))
            shown = "\n".join(sorted(set(map(_shown, _compacted(missing)))))
            raise admission.forbidden(
                f"user {gotext.quote(admission.user.name)} (groups=[{groups}]) is attempting to "
                f"grant RBAC permissions not currently held:\n{shown}"
            )

    def _missing(
        self, admission: AdmissionRequest, granted: Iterable[PolicyRule]
    ) -> list[PolicyRule]:
        owned = self._authorizer.policy.rules(admission.user, admission.namespace)
        return rule_coverage.uncovered(owned, granted)


def _is_only_collected(new: JsonObject, old: JsonObject | None) -> bool:
    """Return whether only fields of the garbage collector changed."""
    return old is not None and _content(new) == _content(old)


def _content(document: JsonObject) -> JsonObject:
    metadata = {
        key: value for key, value in document["metadata"].items() if key not in _COLLECTED_METADATA
    }
    return {**document, "metadata": metadata}


def _aggregates(document: JsonObject) -> bool:
    return bool((document.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _compacted(subrules: Iterable[PolicyRule]) -> Iterable[PolicyRule]:
    """Merge rules for single verbs that agree in everything else."""
    verbs: dict[PolicyRule, dict[str, None]] = {}
    for subrule in subrules:
        rest = msgspec.structs.replace(subrule, verbs=())
        verbs.setdefault(rest, {}).update(dict.fromkeys(subrule.verbs))
    return [msgspec.structs.replace(rest, verbs=tuple(merged)) for rest, merged in verbs.items()]


def _shown(rule: PolicyRule) -> str:
    """Return a rule in one line, as Kubernetes writes it."""
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
