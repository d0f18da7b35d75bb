"""The registry of rules by kind, which the API server applies before it stores an object.

Upstream, an object is looked at twice: by code written by hand and by declarative rules. Where both
complain about the same thing, only the declarative words are shown. Follows apiserver,
registry/rest/{create,update,validate}.go, and the strategies of pkg/registry.

Objects are in their stored version. `version` is the one the client spoke: paths of declarative
errors are those of that version.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from dray.api import kinds
from dray.api.features import Features
from dray.api.types import core as core_api
from dray.api.types import meta
from dray.api.types.dra import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourcePoolStatusRequest,
    ResourceSlice,
)
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.api.types.rbac import ClusterRole, Role, RoleBinding
from dray.api.types.workloads import (
    ControllerRevision,
    DaemonSet,
    Deployment,
    Job,
    PodGroup,
    ReplicaSet,
    StatefulSet,
)
from dray.validation import core, fields, metadata, nodes, quotas, rbac
from dray.validation.declarative import declarations, rule_language
from dray.validation.dra import claim_status, claims, classes, pool_status, slices, taints
from dray.validation.pods import pod_status, pods
from dray.validation.workloads import daemonsets, jobs, replicated, statefulsets

Creation = Callable[[Any, Features], fields.Errors]
Change = Callable[[Any, Any, Features], fields.Errors]


class Bare(meta.Wire, frozen=True):
    """An object of a kind whose metadata alone is checked."""

    metadata: meta.ObjectMeta = meta.ObjectMeta()


class Rules(NamedTuple):
    """All rules for one kind.

    Without rules of its own a status may be anything. `replaces`: declarative errors take the
    place of covered ones.
    """

    struct: type[meta.Wire]
    created: Creation
    updated: Change
    status_updated: Change
    declared: rule_language.Rule | None = None
    replaces: bool = True


def struct_of(kind: str) -> type[meta.Wire]:
    """Return the type that the functions below expect for a kind."""
    rules = _RULES.get(kind)
    return rules.struct if rules else Bare


def validate_create(
    kind: str, value: Any, features: Features, version: str = "v1"
) -> list[fields.FieldError]:
    """Return the errors of a new object with defaults; an empty list if it may be stored."""
    rules = _rules_for(kind)
    errors = _distinct(rules.created(value, features))
    return _merged(rules, errors, _declared(rules, value, None, features), version)


def validate_update(
    kind: str, new: Any, old: Any, features: Features, version: str = "v1"
) -> list[fields.FieldError]:
    """Return the errors of an update of the object; its status is unchanged."""
    rules = _rules_for(kind)
    errors = _distinct(_common(kind, new, old), rules.updated(new, old, features))
    return _merged(rules, errors, _declared(rules, new, old, features), version)


def validate_status_update(
    kind: str, new: Any, old: Any, features: Features, version: str = "v1"
) -> list[fields.FieldError]:
    """Return the errors of an update of the status; the rest is unchanged."""
    rules = _rules_for(kind)
    errors = _distinct(_common(kind, new, old), rules.status_updated(new, old, features))
    return _merged(rules, errors, _declared(rules, new, old, features), version)


def _common(kind: str, new: Any, old: Any) -> fields.Errors:
    """Check the metadata of updates of all kinds."""
    yield from metadata.any_created(new.metadata, namespaced=_is_namespaced(kind))
    yield from metadata.any_updated(new.metadata, old.metadata)


def _distinct(*sources: fields.Errors) -> list[fields.FieldError]:
    """Return each error once: rules overlap, above all for metadata."""
    errors = list(itertools.chain(*sources))
    if len(errors) < 2:
        return errors
    first: dict[str, fields.FieldError] = {}
    for error in errors:
        first.setdefault(error.message, error)
    return list(first.values())


def _declared(rules: Rules, new: Any, old: Any, features: Features) -> list[fields.FieldError]:
    if rules.declared is None:
        return []
    operation = rule_language.Operation(is_update=old is not None, features=features)
    return list(rules.declared(new, old, fields.ROOT, operation))


def _merged(
    rules: Rules,
    errors: list[fields.FieldError],
    declared: list[fields.FieldError],
    version: str,
) -> list[fields.FieldError]:
    if declared and rules.replaces:
        subjects = {_subject(error) for error in declared if _has_subject(error)}
        errors = [
            error
            for error in errors
            if not (error.covered and _has_subject(error) and _subject(error) in subjects)
        ]
    if version == "v1beta1":
        declared = list(map(_in_v1beta1, declared))
    return errors + declared


_EXACT_REQUEST = re.compile(r"(devices\.requests\[\d+\])\.exactly\.")
_DEVICE = re.compile(r"^(spec\.devices\[\d+\])\.")


def _in_v1beta1(error: fields.FieldError) -> fields.FieldError:
    """Convert the path to v1beta1: no `exactly`, and devices below `basic`."""
    path = _EXACT_REQUEST.sub(r"\1.", _DEVICE.sub(r"\1.basic.", error.field))
    return msgspec.structs.replace(error, path=fields.Path(path))


def _subject(error: fields.FieldError) -> tuple[fields.ErrorType, str, str]:
    """Return a key that two errors about the same problem share."""
    return error.type, error.field, error.origin


def _has_subject(error: fields.FieldError) -> bool:
    """Return whether the error is specific: "Invalid" needs an origin."""
    return error.type is not fields.ErrorType.INVALID or bool(error.origin)


def _new(rule: Callable[[Any], fields.Errors]) -> Creation:
    """Wrap a rule that does not depend on features."""
    return lambda value, _features: rule(value)


def _change(*rules: Callable[[Any, Any], fields.Errors]) -> Change:
    def apply(new: Any, old: Any, _features: Features) -> fields.Errors:
        for rule in rules:
            yield from rule(new, old)

    return apply


def _metadata_updated(new: Any, old: Any) -> fields.Errors:
    return metadata.updated(new.metadata, old.metadata)


_metadata_only = _change(_metadata_updated)


def _again(rule: Callable[[Any], fields.Errors]) -> Callable[[Any, Any], fields.Errors]:
    """Apply a rule for new objects to changed ones."""
    return lambda new, _old: rule(new)


def _template_updated(new: Any, old: Any, features: Features) -> fields.Errors:
    yield from claims.claim_template(new, features)
    yield from claims.claim_template_update(new, old)


_RULES: dict[str, Rules] = {
    "ResourceClaim": Rules(
        ResourceClaim,
        claims.resource_claim,
        _change(claims.resource_claim_update),
        _change(claim_status.status_update),
        declarations.RESOURCE_CLAIM,
    ),
    "ResourceClaimTemplate": Rules(
        ResourceClaimTemplate,
        claims.claim_template,
        _template_updated,
        _metadata_only,
        declarations.RESOURCE_CLAIM_TEMPLATE,
    ),
    "ResourceSlice": Rules(
        ResourceSlice,
        slices.resource_slice,
        slices.resource_slice_update,
        _metadata_only,
        declarations.RESOURCE_SLICE,
    ),
    "DeviceClass": Rules(
        DeviceClass,
        classes.device_class,
        classes.device_class_update,
        _metadata_only,
        declarations.DEVICE_CLASS,
    ),
    "DeviceTaintRule": Rules(
        DeviceTaintRule,
        _new(taints.taint_rule),
        _change(taints.taint_rule_update),
        _change(taints.taint_rule_status_update),
        declarations.DEVICE_TAINT_RULE,
    ),
    "ResourcePoolStatusRequest": Rules(
        ResourcePoolStatusRequest,
        _new(pool_status.pool_status_request),
        _change(pool_status.pool_status_request_update),
        _change(pool_status.pool_status_request_status_update),
        declarations.RESOURCE_POOL_STATUS_REQUEST,
        replaces=False,
    ),
    "Pod": Rules(
        Pod,
        _new(pods.pod),
        _change(pods.pod_update),
        _change(pod_status.pod_status_update),
        declarations.POD,
        replaces=False,
    ),
    "PodGroup": Rules(
        PodGroup,
        _new(core.pod_group),
        _metadata_only,
        _change(core.pod_group_status_update),
        declarations.POD_GROUP,
        replaces=False,
    ),
    "Deployment": Rules(
        Deployment,
        _new(replicated.deployment),
        _change(replicated.deployment_update),
        _change(replicated.deployment_status_update),
    ),
    "ReplicaSet": Rules(
        ReplicaSet,
        _new(replicated.replica_set),
        _change(replicated.replica_set_update),
        _change(replicated.replica_set_status_update),
    ),
    "StatefulSet": Rules(
        StatefulSet,
        _new(statefulsets.stateful_set),
        _change(statefulsets.stateful_set_update),
        _change(statefulsets.stateful_set_status_update),
    ),
    "DaemonSet": Rules(
        DaemonSet,
        _new(daemonsets.daemon_set),
        _change(daemonsets.daemon_set_update),
        _change(daemonsets.daemon_set_status_update),
    ),
    "Job": Rules(
        Job,
        _new(jobs.job),
        _change(jobs.job_update),
        _change(jobs.job_status_update),
    ),
    "Node": Rules(
        Node,
        _new(nodes.node),
        _change(_again(nodes.node), nodes.node_update),
        _change(nodes.node_update),
    ),
    "Namespace": Rules(
        core_api.Namespace,
        _new(core.namespace),
        _change(_again(core.namespace), _metadata_updated),
        _metadata_only,
    ),
    "ResourceQuota": Rules(
        core_api.ResourceQuota,
        _new(quotas.resource_quota),
        _change(quotas.resource_quota_update),
        _change(quotas.resource_quota_status_update),
    ),
    "ConfigMap": Rules(
        core_api.ConfigMap,
        _new(core.config_map),
        _change(core.config_map_update),
        _metadata_only,
    ),
    "Secret": Rules(
        core_api.Secret,
        _new(core.secret),
        _change(core.secret_update),
        _metadata_only,
    ),
    "Binding": Rules(core_api.Binding, _new(core.binding), _metadata_only, _metadata_only),
    "ControllerRevision": Rules(
        ControllerRevision,
        _new(replicated.controller_revision),
        _change(replicated.controller_revision_update),
        _metadata_only,
    ),
    "Lease": Rules(core_api.Lease, _new(core.lease), _change(core.lease_update), _metadata_only),
    "PriorityClass": Rules(
        core_api.PriorityClass,
        _new(core.priority_class),
        _change(core.priority_class_update),
        _metadata_only,
    ),
    "Role": Rules(Role, _new(rbac.role), _change(rbac.role_update), _metadata_only),
    "ClusterRole": Rules(
        ClusterRole, _new(rbac.cluster_role), _change(rbac.cluster_role_update), _metadata_only
    ),
    "RoleBinding": Rules(
        RoleBinding, _new(rbac.role_binding), _change(rbac.role_binding_update), _metadata_only
    ),
    "ClusterRoleBinding": Rules(
        RoleBinding,
        _new(rbac.cluster_role_binding),
        _change(rbac.cluster_role_binding_update),
        _metadata_only,
    ),
    "PodDisruptionBudget": Rules(
        core_api.PodDisruptionBudget,
        _new(core.disruption_budget),
        _change(core.disruption_budget_update),
        _change(core.disruption_budget_status_update),
    ),
}

_NAME_RULES: dict[str, metadata.NameRule] = {
    "Service": metadata.label_name,
}
_NAMESPACED = {kind.kind: kind.namespaced for kind in kinds.KINDS}


def _is_namespaced(kind: str) -> bool:
    return _NAMESPACED[kind]


def _rules_for(kind: str) -> Rules:
    return _RULES.get(kind) or _bare_rules(kind)


@functools.cache
def _bare_rules(kind: str) -> Rules:
    """Return the rules for a kind of which only metadata is checked."""
    namespaced = _is_namespaced(kind)
    name_rule = _NAME_RULES.get(kind, metadata.subdomain_name)

    def created(value: Any, _features: Features) -> fields.Errors:
        return metadata.created(value.metadata, namespaced=namespaced, name_rule=name_rule)

    return Rules(Bare, created, _metadata_only, _metadata_only)
