"""The roles and bindings of a new cluster, as objects to be stored.

The names are Kubernetes' own (plugin/pkg/auth/authorizer/rbac/bootstrappolicy); the rules name
the kinds that dray serves. They are created when missing and never overwritten: changes by an
administrator stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from dray.api import well_known
from dray.api.types.meta import JsonObject

GROUP = "rbac.authorization.k8s.io"
VERSION = f"{GROUP}/v1"
BOOTSTRAP_LABEL = {"kubernetes.io/bootstrapping": "rbac-defaults"}
RESOURCE = "resource.k8s.io"
SCHEDULER = "system:kube-scheduler"
CONTROLLERS = "system:kube-controller-manager"
CRON_JOBS = "system:controller:cronjob-controller"
ROOT_AUTHORITY = "system:controller:root-ca-cert-publisher"
FLEET = "dray:fleet"
"""The user of simulated fleets, which Kubernetes does not have."""
EXPORTER = "dray:exporter"
"""The user of the exporter, which Kubernetes does not have either."""
RECORDER = "dray:recorder"
"""The user of the recorder of the history, which Kubernetes does not have either."""

READ = ("get", "list", "watch")
WRITE = ("create", "delete", "deletecollection", "patch", "update")
FOLLOW = (*READ, "update", "patch")
REST = (*READ, *WRITE)


def rule(verbs: Iterable[str], groups: str, resources: str, names: str = "") -> JsonObject:
    """Return a rule; `groups` and `resources` are lists of words, "core" is the group ""."""
    policy_rule: JsonObject = {
        "verbs": list(verbs),
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": resources.split(),
    }
    if names:
        policy_rule["resourceNames"] = names.split()
    return policy_rule


def paths(*urls: str) -> JsonObject:
    return {"verbs": ["get"], "nonResourceURLs": list(urls)}


_WORKLOADS = "deployments deployments/scale replicasets replicasets/scale statefulsets daemonsets"
_EDITABLE = (
    rule(READ, "core", "pods/attach pods/exec pods/log pods/portforward secrets serviceaccounts"),
    rule(WRITE, "core", "pods pods/attach pods/exec pods/portforward configmaps secrets services"),
    rule(WRITE, "core", "persistentvolumeclaims replicationcontrollers serviceaccounts"),
    rule(("create",), "core", "pods/eviction serviceaccounts/token"),
    rule(WRITE, "apps", _WORKLOADS),
    rule(WRITE, "batch", "jobs cronjobs"),
    rule(WRITE, "policy", "poddisruptionbudgets"),
    rule(WRITE, RESOURCE, "resourceclaims resourceclaimtemplates"),
    rule(WRITE, "scheduling.k8s.io", "podgroups"),
)
_VIEWABLE = (
    rule(READ, "core", "pods pods/log pods/status configmaps services persistentvolumeclaims"),
    rule(READ, "core", "replicationcontrollers resourcequotas events namespaces serviceaccounts"),
    rule(READ, "apps", f"{_WORKLOADS} deployments/status replicasets/status"),
    rule(READ, "apps", "statefulsets/status daemonsets/status"),
    rule(READ, "batch", "jobs jobs/status cronjobs cronjobs/status"),
    rule(READ, "policy", "poddisruptionbudgets"),
    rule(READ, RESOURCE, "resourceclaims resourceclaims/status resourceclaimtemplates"),
    rule(READ, "scheduling.k8s.io", "podgroups"),
    rule(READ, "events.k8s.io", "events"),
)
_EVENTS = rule(("create", "patch", "update"), "core events.k8s.io", "events")

CLUSTER_ROLES: dict[str, tuple[JsonObject, ...]] = {
    "cluster-admin": (
        rule("*", "*", "*"),
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ),
    "system:discovery": (
        paths("/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi"),
        paths("/openapi/*", "/readyz", "/version", "/version/"),
    ),
    "system:basic-user": (
        rule(("create",), "authorization.k8s.io", "selfsubjectaccessreviews"),
        rule(("create",), "authorization.k8s.io", "selfsubjectrulesreviews"),
        rule(("create",), "authentication.k8s.io", "selfsubjectreviews"),
    ),
    "system:public-info-viewer": (paths("/healthz", "/livez", "/readyz", "/version", "/version/"),),
    "system:monitoring": (paths("/healthz", "/livez", "/metrics", "/readyz", "/readyz/*"),),
    "system:aggregate-to-view": _VIEWABLE,
    "system:aggregate-to-edit": _EDITABLE,
    "system:aggregate-to-admin": (
        rule(REST, GROUP, "roles rolebindings"),
        rule(("create",), "authorization.k8s.io", "localsubjectaccessreviews"),
    ),
    "system:node": (
        rule(("create", *READ, "update", "patch"), "core", "nodes"),
        rule(("update", "patch"), "core", "nodes/status"),
        rule((*READ, "create", "delete"), "core", "pods"),
        rule(("update", "patch"), "core", "pods/status"),
        rule(("create",), "core", "pods/eviction serviceaccounts/token"),
        rule(READ, "core", "configmaps secrets services serviceaccounts persistentvolumeclaims"),
        rule(READ, "core", "persistentvolumes"),
        rule(("get",), RESOURCE, "resourceclaims"),
        rule(("update", "patch"), RESOURCE, "resourceclaims/status"),
        rule(
            ("associated-node:update", "associated-node:patch"), RESOURCE, "resourceclaims/driver"
        ),
        rule((*REST,), RESOURCE, "resourceslices"),
        rule(("create", "get", "update", "patch", "delete"), "coordination.k8s.io", "leases"),
        rule(READ, "storage.k8s.io", "csinodes csidrivers volumeattachments"),
        _EVENTS,
    ),
    SCHEDULER: (
        rule(READ, "core", "nodes pods namespaces services replicationcontrollers"),
        rule(READ, "core", "persistentvolumes persistentvolumeclaims"),
        rule(("delete",), "core", "pods"),
        rule(("create",), "core", "pods/binding pods/eviction bindings"),
        rule(("update", "patch"), "core", "pods/status"),
        rule(READ, "apps", "replicasets statefulsets"),
        rule(READ, "policy", "poddisruptionbudgets"),
        rule(READ, RESOURCE, "resourceclaims resourceslices deviceclasses devicetaintrules"),
        rule(READ, RESOURCE, "resourceclaimtemplates"),
        rule(("create", "update", "patch", "delete"), RESOURCE, "resourceclaims"),
        rule(("update", "patch"), RESOURCE, "resourceclaims/status resourceclaims/binding"),
        rule(READ, "storage.k8s.io", "*"),
        rule(READ, "scheduling.k8s.io", "priorityclasses podgroups"),
        rule(("update", "patch"), "scheduling.k8s.io", "podgroups/status"),
        rule((*READ, "create", "update"), "coordination.k8s.io", "leases"),
        rule(("create",), "authorization.k8s.io", "subjectaccessreviews"),
        rule(("create",), "authentication.k8s.io", "tokenreviews"),
        _EVENTS,
    ),
    CONTROLLERS: (
        rule((*READ, "delete", "deletecollection"), "*", "*"),
        rule((*REST,), "core", "pods pods/status serviceaccounts serviceaccounts/token secrets"),
        rule(("create",), "core", "pods/eviction"),
        rule(FOLLOW, "core", "nodes nodes/status namespaces namespaces/status"),
        rule(("update",), "core", "namespaces/finalize"),
        rule(FOLLOW, "core", "resourcequotas resourcequotas/status"),
        rule(FOLLOW, "core", "replicationcontrollers replicationcontrollers/status"),
        rule((*REST,), "apps", "replicasets"),
        rule(FOLLOW, "apps", "deployments deployments/status replicasets/status"),
        rule(FOLLOW, "apps", "statefulsets statefulsets/status daemonsets daemonsets/status"),
        rule(("create", *FOLLOW), "apps", "controllerrevisions"),
        rule(FOLLOW, "batch", "jobs jobs/status"),
        rule((*REST,), RESOURCE, "resourceclaims"),
        rule(FOLLOW, RESOURCE, "resourceclaims/status resourceclaims/binding"),
        rule(FOLLOW, RESOURCE, "devicetaintrules/status resourcepoolstatusrequests/status"),
        rule(FOLLOW, "policy", "poddisruptionbudgets/status"),
        rule(FOLLOW, "scheduling.k8s.io", "podgroups podgroups/status"),
        rule(("update", "patch"), "*", "*/finalizers"),
        rule(FOLLOW, "*", "*"),
        rule((*READ, "create", "update"), "coordination.k8s.io", "leases"),
        rule(("create",), "authorization.k8s.io", "subjectaccessreviews"),
        _EVENTS,
    ),
    ROOT_AUTHORITY: (rule(("create", *FOLLOW), "core", "configmaps"),),
    CRON_JOBS: (
        rule(FOLLOW, "batch", "cronjobs cronjobs/status"),
        rule(("create",), "batch", "jobs"),
    ),
    EXPORTER: (
        rule(("list", "watch"), "core", "namespaces nodes pods"),
        rule(("list", "watch"), RESOURCE, "resourceclaims resourceslices deviceclasses"),
        rule(("list", "watch"), RESOURCE, "devicetaintrules"),
        rule(("list", "watch"), "scheduling.k8s.io", "podgroups"),
    ),
    RECORDER: (
        rule(("list", "watch"), "core", "pods"),
        rule(("get",), "core", "namespaces", "kube-system"),
        rule(("list", "watch"), RESOURCE, "resourceclaims resourceslices deviceclasses"),
        rule(("list", "watch"), RESOURCE, "devicetaintrules"),
    ),
    FLEET: (
        rule(("list", "watch", "create", "patch", "delete"), "core", "nodes"),
        rule(("list", "watch", "delete"), "core", "pods"),
        rule(("patch",), "core", "nodes/status pods/status"),
        rule(("get",), RESOURCE, "resourceclaims"),
        rule((*READ, "create", "update", "delete"), RESOURCE, "resourceslices"),
        rule(("create",), RESOURCE, "deviceclasses"),
        rule(("create", "patch"), "core", "events"),
    ),
}

ROLES: dict[tuple[str, str], tuple[JsonObject, ...]] = {
    ("kube-system", FLEET): (rule((*READ, "create", "patch"), "core", "configmaps"),),
    (well_known.NODE_LEASE_NAMESPACE, FLEET): (
        rule(("create", "patch"), "coordination.k8s.io", "leases"),
    ),
}
"""By namespace and name. Each is bound to the user of its name."""

AGGREGATES: dict[str, tuple[str, ...]] = {
    "admin": ("system:aggregate-to-admin", "system:aggregate-to-edit", "system:aggregate-to-view"),
    "edit": ("system:aggregate-to-edit", "system:aggregate-to-view"),
    "view": ("system:aggregate-to-view",),
}

GROUPS: dict[str, tuple[str, ...]] = {
    "cluster-admin": ("system:masters",),
    "system:discovery": ("system:authenticated",),
    "system:basic-user": ("system:authenticated",),
    "system:public-info-viewer": ("system:authenticated", "system:unauthenticated"),
    "system:monitoring": ("system:monitoring",),
}
"""The groups that a role of the cluster is bound to, by a binding of its name."""
USERS = (SCHEDULER, CONTROLLERS, EXPORTER, RECORDER, FLEET)
"""Each is bound to the role of its name."""
FURTHER_ROLES = ((CRON_JOBS, CONTROLLERS), (ROOT_AUTHORITY, CONTROLLERS))
"""Roles of their own, with a user each: one that is there already keeps its rules."""


def objects() -> Iterator[JsonObject]:
    """Return every role and binding of a new cluster."""
    for name, rules in CLUSTER_ROLES.items():
        yield _role(name, rules=list(rules), labels=_aggregation_labels(name))
    for name in AGGREGATES:
        selector = {"matchLabels": {_aggregation_label(name): "true"}}
        yield _role(name, rules=[], aggregationRule={"clusterRoleSelectors": [selector]})
    for name, groups in GROUPS.items():
        yield _binding(name, "Group", groups)
    for name in USERS:
        yield _binding(name, "User", (name,))
    for name, user in FURTHER_ROLES:
        yield _binding(name, "User", (user,))
    for (namespace, name), rules in ROLES.items():
        yield _role(name, namespace, rules=list(rules))
        yield _binding(name, "User", (name,), namespace)


def _role(
    name: str, namespace: str = "", *, labels: dict[str, str] | None = None, **fields: Any
) -> JsonObject:
    metadata = _metadata(name, namespace, labels or {})
    return {"apiVersion": VERSION, "kind": _kind("Role", namespace), "metadata": metadata, **fields}


def _binding(role: str, kind: str, subjects: Iterable[str], namespace: str = "") -> JsonObject:
    """Return the binding of a role: in its namespace, or without one in the whole cluster."""
    return {
        "apiVersion": VERSION,
        "kind": _kind("RoleBinding", namespace),
        "metadata": _metadata(role, namespace, {}),
        "roleRef": {"apiGroup": GROUP, "kind": _kind("Role", namespace), "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": kind, "name": subject} for subject in subjects],
    }


def _kind(kind: str, namespace: str) -> str:
    return kind if namespace else f"Cluster{kind}"


def _metadata(name: str, namespace: str, labels: dict[str, str]) -> JsonObject:
    metadata: JsonObject = {"name": name, "labels": {**BOOTSTRAP_LABEL, **labels}}
    return {**metadata, "namespace": namespace} if namespace else metadata


def _aggregation_labels(name: str) -> dict[str, str]:
    return {
        _aggregation_label(target): "true"
        for target, sources in AGGREGATES.items()
        if name in sources
    }


def _aggregation_label(name: str) -> str:
    return f"rbac.authorization.k8s.io/aggregate-to-{name}"
