"""Rules for StatefulSet."""

from __future__ import annotations

import msgspec

from dray.api.types import pods, volumes, workloads
from dray.validation import fields, identifiers, metadata
from dray.validation.workloads import replicated as workload_rules

_SPEC = fields.SPEC


def stateful_set(value: workloads.StatefulSet) -> fields.Errors:
    yield from metadata.created(value.metadata, namespaced=True, name_rule=metadata.label_name)
    yield from _stateful_set_spec(value.spec)
    if value.spec.service_name:
        yield from identifiers.dns_label(value.spec.service_name, _SPEC.child("serviceName"))


def stateful_set_update(new: workloads.StatefulSet, old: workloads.StatefulSet) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from _stateful_set_spec(new.spec)
    for field, value, old_value in (
        ("selector", new.spec.selector, old.spec.selector),
        ("volumeClaimTemplates", new.spec.volume_claim_templates, old.spec.volume_claim_templates),
        ("serviceName", new.spec.service_name, old.spec.service_name),
        ("podManagementPolicy", new.spec.pod_management_policy, old.spec.pod_management_policy),
    ):
        yield from fields.immutable(_SPEC.child(field), value, old_value)


def stateful_set_status_update(
    new: workloads.StatefulSet, old: workloads.StatefulSet
) -> fields.Errors:
    status = new.status
    yield from workload_rules.counts(
        status,
        "replicas",
        "ready_replicas",
        "current_replicas",
        "updated_replicas",
        "available_replicas",
        "observed_generation",
        "collision_count",
    )
    yield from workload_rules.not_more_than_replicas(
        status, "ready_replicas", "current_replicas", "updated_replicas", "available_replicas"
    )
    yield from workload_rules.available_are_ready(status, "status.readyReplicas")
    yield from metadata.updated(new.metadata, old.metadata)
    yield from workload_rules.collisions_grow(status.collision_count, old.status.collision_count)


def _stateful_set_spec(spec: workloads.StatefulSetSpec) -> fields.Errors:
    policy, policy_path = spec.pod_management_policy, _SPEC.child("podManagementPolicy")
    if not policy:
        yield fields.required(policy_path)
    elif policy not in ("OrderedReady", "Parallel"):
        yield fields.invalid(policy_path, policy, "must be 'OrderedReady' or 'Parallel'")
    yield from _stateful_set_strategy(spec.update_strategy, _SPEC.child("updateStrategy"))
    yield from metadata.nonnegative(spec.replicas or 0, _SPEC.child("replicas"))
    yield from metadata.nonnegative(spec.min_ready_seconds, _SPEC.child("minReadySeconds"))
    if spec.ordinals is not None:
        yield from metadata.nonnegative(spec.ordinals.start, _SPEC.child("ordinals.start"))
    yield from workload_rules.selected_template(
        spec.selector, _with_claimed_volumes(spec), "statefulset", "StatefulSet", ""
    )


def _with_claimed_volumes(spec: workloads.StatefulSetSpec) -> pods.PodTemplateSpec:
    """Return the template as the controller completes it: pod names, volumes of claim templates."""
    claimed = [
        str(template.get("metadata", {}).get("name", ""))
        for template in spec.volume_claim_templates
    ]
    added = tuple(
        volumes.Volume(
            name=name,
            persistent_volume_claim=volumes.PersistentVolumeClaimVolumeSource(claim_name=name),
        )
        for name in claimed
    )
    kept = tuple(volume for volume in spec.template.spec.volumes if volume.name not in claimed)
    pod_spec = msgspec.structs.replace(
        spec.template.spec, hostname="", subdomain="", volumes=added + kept
    )
    return msgspec.structs.replace(spec.template, spec=pod_spec)


def _stateful_set_strategy(
    strategy: workloads.StatefulSetUpdateStrategy, path: fields.Path
) -> fields.Errors:
    rolling, rolling_path = strategy.rolling_update, path.child("rollingUpdate")
    if not strategy.type:
        yield fields.required(path)
    elif strategy.type == "OnDelete":
        if rolling is not None:
            yield fields.invalid(
                rolling_path, rolling, "only allowed for updateStrategy 'RollingUpdate'"
            )
    elif strategy.type != "RollingUpdate":
        yield fields.invalid(path, strategy, "must be 'RollingUpdate' or 'OnDelete'")
    elif rolling is not None:
        yield from metadata.nonnegative(rolling.partition or 0, rolling_path.child("partition"))
        if rolling.max_unavailable is not None:
            yield from _some_unavailable(
                rolling.max_unavailable, rolling_path.child("maxUnavailable")
            )


def _some_unavailable(value: int | str, path: fields.Path) -> fields.Errors:
    yield from workload_rules.number_or_percent(value, path)
    if workload_rules.number(value) == 0:
        yield fields.invalid(path, value, "cannot be 0")
    yield from workload_rules.at_most_all(value, path)
