"""Rules for the small kinds around pods: namespaces, configuration, leases, budgets, bindings."""

from __future__ import annotations

import base64
from typing import Final

from dray.api.formats import gojson
from dray.api.types import core, workloads
from dray.validation import fields, identifiers, metadata, selector_rules
from dray.validation.pods import pod_specs
from dray.validation.workloads import replicated as workload_rules

CONFIGURATION_MAX_BYTES: Final = 1024 * 1024
HIGHEST_USER_PRIORITY: Final = 1_000_000_000
_SYSTEM_PRIORITIES = {
    "system-node-critical": 2_000_001_000,
    "system-cluster-critical": 2_000_000_000,
}
_FROZEN = "field is immutable when `immutable` is set"


def namespace(value: core.Namespace) -> fields.Errors:
    yield from metadata.created(value.metadata, namespaced=False, name_rule=metadata.label_name)
    path = fields.SPEC.child("finalizers")
    for finalizer in value.spec.finalizers:
        yield from metadata.finalizers((finalizer,), path)
        if not metadata.is_known_finalizer(finalizer):
            yield metadata.unknown_finalizer(finalizer, path)


def config_map(value: core.ConfigMap) -> fields.Errors:
    yield from metadata.created(value.metadata, namespaced=True)
    size = sum(len(text.encode()) for text in value.data.values())
    size += sum(map(_decoded_size, value.binary_data.values()))
    yield from _keys(value.data, fields.Path("data"))
    for key in value.data:
        if key in value.binary_data:
            yield fields.invalid(
                fields.Path("data").key(key), key, "duplicate of key present in binaryData"
            )
    yield from _keys(value.binary_data, fields.Path("binaryData"))
    if size > CONFIGURATION_MAX_BYTES:
        yield fields.too_long(fields.WHOLE_OBJECT, CONFIGURATION_MAX_BYTES)


def config_map_update(new: core.ConfigMap, old: core.ConfigMap) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    if old.immutable:
        yield from _still_immutable(new.immutable)
        yield from _frozen("data", new.data, old.data)
        yield from _frozen("binaryData", new.binary_data, old.binary_data)
    yield from config_map(new)


def _keys(data: dict[str, str], path: fields.Path) -> fields.Errors:
    for key in data:
        yield from identifiers.config_key(key, path.key(key))


def _decoded_size(text: str) -> int:
    """Return the number of bytes that base64 encodes."""
    return len(text) // 4 * 3 - text.count("=", -2)


def _still_immutable(immutable: bool | None) -> fields.Errors:
    if not immutable:
        yield fields.forbidden(fields.Path("immutable"), _FROZEN)


def _frozen(field: str, new: dict[str, str], old: dict[str, str]) -> fields.Errors:
    if new != old:
        yield fields.forbidden(fields.Path(field), _FROZEN)


_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_JSON_KEYS = (".dockercfg", ".dockerconfigjson")
_ACCOUNT_NAME = "kubernetes.io/service-account.name"


def secret(value: core.Secret) -> fields.Errors:
    yield from metadata.created(value.metadata, namespaced=True)
    path = fields.Path("data")
    yield from _keys(value.data, path)
    if sum(map(_decoded_size, value.data.values())) > CONFIGURATION_MAX_BYTES:
        yield fields.too_long(path, CONFIGURATION_MAX_BYTES)
    for key in _SECRET_KEYS.get(value.type, ()):
        if key not in value.data:
            yield fields.required(path.key(key))
        elif key in _JSON_KEYS:
            yield from _json_object(value.data[key], path.key(key))
    if value.type == "kubernetes.io/basic-auth" and not {"username", "password"} & set(value.data):
        yield fields.required(path.key("username"))
        yield fields.required(path.key("password"))
    is_token = value.type == "kubernetes.io/service-account-token"
    if is_token and not value.metadata.annotations.get(_ACCOUNT_NAME):
        yield fields.required(fields.METADATA.child("annotations").key(_ACCOUNT_NAME))


def _json_object(encoded: str, path: fields.Path) -> fields.Errors:
    """Refuse what is no JSON object, without a word of it: it is secret."""
    shown = "<secret contents redacted>"
    try:
        is_object = isinstance(gojson.decode(base64.b64decode(encoded)), dict | None)
    except gojson.JsonSyntaxError:
        yield fields.invalid(path, shown, "it is not JSON")
        return
    if not is_object:
        yield fields.invalid(path, shown, "it is not a JSON object")


def secret_update(new: core.Secret, old: core.Secret) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from fields.immutable(fields.Path("type"), new.type, old.type)
    if old.immutable:
        yield from _still_immutable(new.immutable)
        yield from _frozen("data", new.data, old.data)
    yield from secret(new)


def binding(value: core.Binding) -> fields.Errors:
    target, path = value.target, fields.Path("target")
    if target.kind not in ("", "Node"):
        yield fields.not_supported(path.child("kind"), target.kind, ("Node", "<empty>"))
    if not target.name:
        yield fields.required(path.child("name"))
    elif target.kind in ("", "Node"):
        yield from identifiers.object_name(target.name, path.child("name"))


def lease(value: core.Lease) -> fields.Errors:
    yield from metadata.any_created(
        value.metadata, namespaced=True, name_rule=metadata.subdomain_name
    )
    yield from _lease_spec(value.spec)


def lease_update(new: core.Lease, old: core.Lease) -> fields.Errors:
    yield from metadata.any_updated(new.metadata, old.metadata)
    yield from _lease_spec(new.spec)


def _lease_spec(spec: core.LeaseSpec) -> fields.Errors:
    if spec.lease_duration_seconds is not None and spec.lease_duration_seconds <= 0:
        yield fields.invalid(
            fields.SPEC.child("leaseDurationSeconds"),
            spec.lease_duration_seconds,
            "must be greater than 0",
        )
    if spec.lease_transitions is not None and spec.lease_transitions < 0:
        yield fields.invalid(
            fields.SPEC.child("leaseTransitions"),
            spec.lease_transitions,
            "must be greater than or equal to 0",
        )
    if spec.preferred_holder and not spec.strategy:
        yield fields.forbidden(
            fields.SPEC.child("preferredHolder"), "may only be specified if `strategy` is defined"
        )


def priority_class(value: core.PriorityClass) -> fields.Errors:
    yield from metadata.created(value.metadata, namespaced=False)
    yield from _priority(value)
    if value.preemption_policy is not None:
        yield from fields.required_one_of(
            fields.Path("preemptionPolicy"), value.preemption_policy, pod_specs.PREEMPTION_POLICIES
        )


def _priority(value: core.PriorityClass) -> fields.Errors:
    name = value.metadata.name
    if not name.startswith("system-"):
        if value.value > HIGHEST_USER_PRIORITY:
            yield fields.forbidden(
                fields.Path("value"),
                f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}",
            )
        return
    complaint = ""
    if name not in _SYSTEM_PRIORITIES:
        complaint = f"{name} is not a known system priority class"
    elif value.value != _SYSTEM_PRIORITIES[name]:
        complaint = f"value of {name} PriorityClass must be {_SYSTEM_PRIORITIES[name]}"
    elif value.global_default:
        complaint = f"globalDefault of {name} PriorityClass must be false"
    if complaint:
        yield fields.forbidden(
            fields.METADATA.child("name"),
            "priority class names with 'system-' prefix are reserved for system use only. "
            f"error: {complaint}",
        )


def priority_class_update(new: core.PriorityClass, old: core.PriorityClass) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    if new.value != old.value:
        yield fields.forbidden(fields.Path("value"), "may not be changed in an update.")
    yield from fields.immutable(
        fields.Path("preemptionPolicy"), new.preemption_policy, old.preemption_policy
    )


def disruption_budget(value: core.PodDisruptionBudget) -> fields.Errors:
    """Check a budget. Metadata is checked only if nothing else is wrong, as in Kubernetes."""
    errors = list(_budget_spec(value.spec))
    yield from errors or metadata.any_created(value.metadata, namespaced=True)


def disruption_budget_update(
    new: core.PodDisruptionBudget, _old: core.PodDisruptionBudget
) -> fields.Errors:
    yield from _budget_spec(new.spec)


def disruption_budget_status_update(
    new: core.PodDisruptionBudget, _old: core.PodDisruptionBudget
) -> fields.Errors:
    yield from metadata.conditions(new.status.conditions, fields.STATUS.child("conditions"))
    yield from workload_rules.counts(
        new.status, "disruptions_allowed", "current_healthy", "desired_healthy", "expected_pods"
    )


def _budget_spec(spec: core.PodDisruptionBudgetSpec) -> fields.Errors:
    if spec.min_available is not None and spec.max_unavailable is not None:
        yield fields.invalid(
            fields.SPEC, spec, "minAvailable and maxUnavailable cannot be both set"
        )
    for field, value in (
        ("minAvailable", spec.min_available),
        ("maxUnavailable", spec.max_unavailable),
    ):
        if value is not None:
            yield from workload_rules.number_or_percent(value, fields.SPEC.child(field))
            yield from workload_rules.at_most_all(value, fields.SPEC.child(field))
    yield from selector_rules.label_selector(spec.selector, fields.SPEC.child("selector"))
    policy = spec.unhealthy_pod_eviction_policy
    yield from fields.one_of(
        fields.SPEC.child("unhealthyPodEvictionPolicy"), policy, ("AlwaysAllow", "IfHealthyBudget")
    )


def pod_group(value: workloads.PodGroup) -> fields.Errors:
    yield from metadata.created(value.metadata, namespaced=True)
    spec = value.spec
    if spec.parent_composite_pod_group_name is not None and spec.workload_ref is None:
        yield fields.required(
            fields.SPEC.child("workloadRef"), "must be set when parentCompositePodGroupName is set"
        )


def workload(value: workloads.Workload) -> fields.Errors:
    yield from metadata.created(value.metadata, namespaced=True)
    yield from _one_priority(value.spec)


def workload_update(new: workloads.Workload, old: workloads.Workload) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from _one_priority(new.spec)


def _one_priority(spec: workloads.WorkloadSpec) -> fields.Errors:
    templates = spec.pod_group_templates
    if len({(template.priority_class_name, template.priority) for template in templates}) > 1:
        yield fields.invalid(fields.SPEC, None, "detected multiple priority configurations")


def pod_group_status_update(new: workloads.PodGroup, old: workloads.PodGroup) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from metadata.conditions(new.status.conditions, fields.STATUS.child("conditions"))
    claim_names = {claim.name for claim in new.spec.resource_claims}
    for index, status in enumerate(new.status.resource_claim_statuses):
        if status.name not in claim_names:
            yield fields.invalid(
                fields.STATUS.child("resourceClaimStatuses").index(index).child("name"),
                status.name,
                "must match the name of an entry in `spec.resourceClaims`",
            )
