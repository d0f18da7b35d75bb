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
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from dray.api import kinds
from dray.api.features import Features
from dray.api.types import admission as admission_api
from dray.api.types import core as core_api
from dray.api.types import dra, meta, workloads
from dray.api.types import nodes as node_api
from dray.api.types import pods as pod_api
from dray.api.types import rbac as rbac_api
from dray.validation import core, fields, metadata, nodes, policies, quotas, rbac
from dray.validation.declarative import declarations, rule_language
from dray.validation.dra import claim_status, claims, classes, pool_status, slices, taints
from dray.validation.pods import limit_ranges, pod_status, pods, runtime_classes
from dray.validation.workloads import cronjobs, daemonsets, jobs, replicated, statefulsets

Creation = Callable[[Any, Features], fields.Errors]
Change = Callable[[Any, Any, Features], fields.Errors]

MAX_TOLD = 2**20
"""Characters of messages: thousands of errors that each show a whole list would be gigabytes."""


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
    if not metadata.is_as_stored(new.metadata, old.metadata):
        yield from metadata.any_created(new.metadata, namespaced=_NAMESPACED[kind])
    yield from metadata.any_updated(new.metadata, old.metadata)


def _distinct(*sources: fields.Errors) -> list[fields.FieldError]:
    """Return each error once: rules overlap, above all for metadata."""
    first: dict[str, fields.FieldError] = {}
    for message, error in _told(itertools.chain(*sources)):
        first.setdefault(message, error)
    return list(first.values())


def _told(errors: Iterable[fields.FieldError]) -> Iterator[tuple[str, fields.FieldError]]:
    """Yield errors with their messages, until these have MAX_TOLD characters."""
    size = 0
    for error in errors:
        message = error.message
        yield message, error
        size += len(message)
        if size > MAX_TOLD:
            return


def _declared(rules: Rules, new: Any, old: Any, features: Features) -> list[fields.FieldError]:
    if rules.declared is None:
        return []
    operation = rule_language.Operation(is_update=old is not None, features=features)
    found = rules.declared(new, old, fields.ROOT, operation)
    return [error for _, error in _told(found)]


def _merged(
    rules: Rules, errors: list[fields.FieldError], declared: list[fields.FieldError], version: str
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


def _change(rule: Callable[[Any, Any], fields.Errors]) -> Change:
    """Wrap a rule that does not depend on features."""
    return lambda new, old, _features: rule(new, old)


def _metadata_updated(new: Any, old: Any) -> fields.Errors:
    return metadata.updated(new.metadata, old.metadata)


_metadata_only = _change(_metadata_updated)


def _without_features(
    struct: type[meta.Wire],
    created: Callable[[Any], fields.Errors],
    updated: Callable[[Any, Any], fields.Errors] = _metadata_updated,
    status_updated: Callable[[Any, Any], fields.Errors] = _metadata_updated,
    declared: rule_language.Rule | None = None,
    *,
    replaces: bool = True,
) -> Rules:
    """Return rules of which the hand-written ones do not depend on features."""
    return Rules(
        struct,
        lambda value, _features: created(value),
        _change(updated),
        _change(status_updated),
        declared,
        replaces,
    )


def _template_updated(new: Any, old: Any, features: Features) -> fields.Errors:
    yield from claims.claim_template(new, features)
    yield from claims.claim_template_update(new, old)


def _node_updated(new: Any, old: Any) -> fields.Errors:
    yield from nodes.node(new)
    yield from nodes.node_update(new, old)


def _namespace_updated(new: Any, old: Any) -> fields.Errors:
    yield from core.namespace(new)
    yield from _metadata_updated(new, old)


_RULES: dict[str, Rules] = {
    "ResourceClaim": Rules(
        dra.ResourceClaim,
        claims.resource_claim,
        _change(claims.resource_claim_update),
        _change(claim_status.status_update),
        declarations.RESOURCE_CLAIM,
    ),
    "ResourceClaimTemplate": Rules(
        dra.ResourceClaimTemplate,
        claims.claim_template,
        _template_updated,
        _metadata_only,
        declarations.RESOURCE_CLAIM_TEMPLATE,
    ),
    "ResourceSlice": Rules(
        dra.ResourceSlice,
        slices.resource_slice,
        slices.resource_slice_update,
        _metadata_only,
        declarations.RESOURCE_SLICE,
    ),
    "DeviceClass": Rules(
        dra.DeviceClass,
        classes.device_class,
        classes.device_class_update,
        _metadata_only,
        declarations.DEVICE_CLASS,
    ),
    "DeviceTaintRule": _without_features(
        dra.DeviceTaintRule,
        taints.taint_rule,
        taints.taint_rule_update,
        taints.taint_rule_status_update,
        declarations.DEVICE_TAINT_RULE,
    ),
    "ResourcePoolStatusRequest": _without_features(
        dra.ResourcePoolStatusRequest,
        pool_status.pool_status_request,
        pool_status.pool_status_request_update,
        pool_status.pool_status_request_status_update,
        declarations.RESOURCE_POOL_STATUS_REQUEST,
        replaces=False,
    ),
    "Pod": _without_features(
        pod_api.Pod,
        pods.pod,
        pods.pod_update,
        pod_status.pod_status_update,
        declarations.POD,
        replaces=False,
    ),
    "PodGroup": _without_features(
        workloads.PodGroup,
        core.pod_group,
        status_updated=core.pod_group_status_update,
        declared=declarations.POD_GROUP,
        replaces=False,
    ),
    "Workload": _without_features(
        workloads.Workload,
        core.workload,
        core.workload_update,
        declared=declarations.WORKLOAD,
        replaces=False,
    ),
    "Deployment": _without_features(
        workloads.Deployment,
        replicated.deployment,
        replicated.deployment_update,
        replicated.deployment_status_update,
    ),
    "ReplicaSet": _without_features(
        workloads.ReplicaSet,
        replicated.replica_set,
        replicated.replica_set_update,
        replicated.replica_set_status_update,
    ),
    "ReplicationController": _without_features(
        workloads.ReplicationController,
        replicated.replication_controller,
        replicated.replication_controller_update,
        replicated.replica_set_status_update,
    ),
    "PodTemplate": _without_features(
        workloads.PodTemplate, replicated.pod_template, replicated.pod_template_update
    ),
    "StatefulSet": _without_features(
        workloads.StatefulSet,
        statefulsets.stateful_set,
        statefulsets.stateful_set_update,
        statefulsets.stateful_set_status_update,
    ),
    "DaemonSet": _without_features(
        workloads.DaemonSet,
        daemonsets.daemon_set,
        daemonsets.daemon_set_update,
        daemonsets.daemon_set_status_update,
    ),
    "CronJob": _without_features(
        workloads.CronJob,
        cronjobs.cron_job,
        cronjobs.cron_job_update,
        cronjobs.cron_job_status_update,
    ),
    "Job": _without_features(workloads.Job, jobs.job, jobs.job_update, jobs.job_status_update),
    "Node": _without_features(node_api.Node, nodes.node, _node_updated, nodes.node_update),
    "Namespace": _without_features(core_api.Namespace, core.namespace, _namespace_updated),
    "ResourceQuota": _without_features(
        core_api.ResourceQuota,
        quotas.resource_quota,
        quotas.resource_quota_update,
        quotas.resource_quota_status_update,
    ),
    "LimitRange": _without_features(
        core_api.LimitRange, limit_ranges.limit_range, limit_ranges.limit_range_update
    ),
    "RuntimeClass": _without_features(
        pod_api.RuntimeClass, runtime_classes.runtime_class, runtime_classes.runtime_class_update
    ),
    "ConfigMap": _without_features(core_api.ConfigMap, core.config_map, core.config_map_update),
    "Secret": _without_features(core_api.Secret, core.secret, core.secret_update),
    "Binding": _without_features(core_api.Binding, core.binding),
    "ControllerRevision": _without_features(
        workloads.ControllerRevision,
        replicated.controller_revision,
        replicated.controller_revision_update,
    ),
    "Lease": _without_features(core_api.Lease, core.lease, core.lease_update),
    "PriorityClass": _without_features(
        core_api.PriorityClass, core.priority_class, core.priority_class_update
    ),
    "ValidatingAdmissionPolicy": _without_features(
        admission_api.ValidatingAdmissionPolicy,
        policies.validating_policy,
        policies.validating_policy_update,
        policies.validating_policy_status_update,
    ),
    "ValidatingAdmissionPolicyBinding": _without_features(
        admission_api.ValidatingAdmissionPolicyBinding,
        policies.policy_binding,
        policies.policy_binding_update,
    ),
    "Role": _without_features(rbac_api.Role, rbac.role, rbac.role_update),
    "ClusterRole": _without_features(
        rbac_api.ClusterRole, rbac.cluster_role, rbac.cluster_role_update
    ),
    "RoleBinding": _without_features(
        rbac_api.RoleBinding, rbac.role_binding, rbac.role_binding_update
    ),
    "ClusterRoleBinding": _without_features(
        rbac_api.RoleBinding, rbac.cluster_role_binding, rbac.cluster_role_binding_update
    ),
    "PodDisruptionBudget": _without_features(
        core_api.PodDisruptionBudget,
        core.disruption_budget,
        core.disruption_budget_update,
        core.disruption_budget_status_update,
    ),
}

_NAME_RULES: dict[str, metadata.NameRule] = {"Service": metadata.label_name}
_NAMESPACED = {kind.kind: kind.namespaced for kind in kinds.KINDS}


def _rules_for(kind: str) -> Rules:
    return _RULES.get(kind) or _bare_rules(kind)


@functools.cache
def _bare_rules(kind: str) -> Rules:
    """Return the rules for a kind whose metadata alone is checked."""
    namespaced = _NAMESPACED[kind]
    name_rule = _NAME_RULES.get(kind, metadata.subdomain_name)

    def created(value: Any) -> fields.Errors:
        return metadata.created(value.metadata, namespaced=namespaced, name_rule=name_rule)

    return _without_features(Bare, created)
