"""Rules for Deployment and ReplicaSet, and what the other workloads have in common with them."""

from __future__ import annotations

import msgspec

from dray.api.formats import gonumbers, names
from dray.api.selectors import label_selectors
from dray.api.types import meta, pods, workloads
from dray.validation import fields, metadata, selector_rules
from dray.validation.pods import pods as pod_rules

ReplicatedStatus = (
    workloads.DeploymentStatus | workloads.ReplicaSetStatus | workloads.StatefulSetStatus
)

_SPEC = fields.SPEC
_TEMPLATE = _SPEC.child("template")


def controller_revision(value: workloads.ControllerRevision) -> fields.Errors:
    yield from _controller_revision(value)
    if value.data is None:
        yield fields.required(fields.Path("data"), "data is mandatory")
    elif not isinstance(value.data, dict):
        yield fields.required(fields.Path("data"), "data must be a valid JSON object")


def controller_revision_update(
    new: workloads.ControllerRevision, old: workloads.ControllerRevision
) -> fields.Errors:
    yield from metadata.any_updated(new.metadata, old.metadata)
    yield from _controller_revision(new)
    yield from fields.immutable(fields.Path("data"), new.data, old.data)


def _controller_revision(value: workloads.ControllerRevision) -> fields.Errors:
    yield from metadata.any_created(
        value.metadata, namespaced=True, name_rule=metadata.subdomain_name
    )
    if value.revision < 0:
        yield fields.invalid(
            fields.Path("revision"), value.revision, "must be greater than or equal to 0"
        )


def deployment(value: workloads.Deployment) -> fields.Errors:
    yield from metadata.created(value.metadata, namespaced=True)
    yield from _deployment_spec(value.spec)


def deployment_update(new: workloads.Deployment, old: workloads.Deployment) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from _deployment_spec(new.spec)
    yield from fields.immutable(_SPEC.child("selector"), new.spec.selector, old.spec.selector)


def deployment_status_update(new: workloads.Deployment, old: workloads.Deployment) -> fields.Errors:
    status = new.status
    yield from metadata.updated(new.metadata, old.metadata)
    yield from counts(
        status,
        "observed_generation",
        "replicas",
        "updated_replicas",
        "ready_replicas",
        "available_replicas",
        "unavailable_replicas",
        "terminating_replicas",
        "collision_count",
    )
    yield from not_more_than_replicas(
        status, "updated_replicas", "ready_replicas", "available_replicas"
    )
    yield from available_are_ready(status, "readyReplicas")
    yield from collisions_grow(status.collision_count, old.status.collision_count)


def replica_set(value: workloads.ReplicaSet) -> fields.Errors:
    yield from metadata.created(value.metadata, namespaced=True)
    yield from _replica_set_spec(value.spec)


def replica_set_update(new: workloads.ReplicaSet, old: workloads.ReplicaSet) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from _replica_set_spec(new.spec)
    yield from fields.immutable(_SPEC.child("selector"), new.spec.selector, old.spec.selector)


def replica_set_status_update(
    new: workloads.ReplicaSet, old: workloads.ReplicaSet
) -> fields.Errors:
    status = new.status
    yield from metadata.updated(new.metadata, old.metadata)
    yield from counts(
        status,
        "replicas",
        "fully_labeled_replicas",
        "ready_replicas",
        "available_replicas",
        "observed_generation",
        "terminating_replicas",
    )
    yield from not_more_than_replicas(
        status, "fully_labeled_replicas", "ready_replicas", "available_replicas"
    )
    yield from available_are_ready(status, "readyReplicas")


def _deployment_spec(spec: workloads.DeploymentSpec) -> fields.Errors:
    yield from metadata.nonnegative(spec.replicas or 0, _SPEC.child("replicas"))
    yield from selected_template(spec.selector, spec.template, "deployment", "ReplicaSet")
    yield from _deployment_strategy(spec.strategy, _SPEC.child("strategy"))
    yield from metadata.nonnegative(spec.min_ready_seconds, _SPEC.child("minReadySeconds"))
    yield from nonnegative_if_set(spec.revision_history_limit, _SPEC.child("revisionHistoryLimit"))
    deadline = spec.progress_deadline_seconds
    if deadline is not None:
        path = _SPEC.child("progressDeadlineSeconds")
        yield from metadata.nonnegative(deadline, path)
        if deadline <= spec.min_ready_seconds:
            yield fields.invalid(path, deadline, "must be greater than minReadySeconds")


def _replica_set_spec(spec: workloads.ReplicaSetSpec) -> fields.Errors:
    yield from metadata.nonnegative(spec.replicas or 0, _SPEC.child("replicas"))
    yield from metadata.nonnegative(spec.min_ready_seconds, _SPEC.child("minReadySeconds"))
    yield from selected_template(spec.selector, spec.template, "deployment", "ReplicaSet")


def nonnegative_if_set(value: int | None, path: fields.Path) -> fields.Errors:
    if value is not None:
        yield from metadata.nonnegative(value, path)


def selected_template(
    selector: meta.LabelSelector | None,
    template: pods.PodTemplateSpec,
    kind_in_words: str,
    owner: str,
    selector_complaint: str = "invalid label selector",
) -> fields.Errors:
    """Check a selector that must match the template, and a template of pods that always restart."""
    path = _SPEC.child("selector")
    if selector is None:
        yield fields.required(path)
    else:
        yield from selector_rules.label_selector(selector, path)
        if selector_rules.is_empty(selector):
            yield fields.invalid(path, selector, f"empty selector is invalid for {kind_in_words}")
    try:
        selected = label_selectors.label_selector(selector)
    except label_selectors.SelectorError:
        yield fields.invalid(path, selector, selector_complaint)
        return
    if selector is None or not selector_rules.is_empty(selector):
        yield from template_selected(selected, template)
    yield from pod_rules.template(template, _TEMPLATE)
    yield from always_running(template.spec, owner)


def template_selected(
    selector: label_selectors.ParsedSelector, template: pods.PodTemplateSpec
) -> fields.Errors:
    labels = template.metadata.labels
    if not selector.matches(labels):
        yield fields.invalid(
            _TEMPLATE.child("metadata").child("labels"),
            labels,
            "`selector` does not match template `labels`",
        )


def always_running(spec: pods.PodSpec, owner: str) -> fields.Errors:
    path = _TEMPLATE.child("spec")
    if spec.restart_policy != "Always":
        yield fields.not_supported(path.child("restartPolicy"), spec.restart_policy, ("Always",))
    if spec.active_deadline_seconds is not None:
        yield fields.forbidden(
            path.child("activeDeadlineSeconds"),
            f"activeDeadlineSeconds in {owner} is not Supported",
        )


def _deployment_strategy(
    strategy: workloads.DeploymentStrategy, path: fields.Path
) -> fields.Errors:
    rolling, rolling_path = strategy.rolling_update, path.child("rollingUpdate")
    if strategy.type == "Recreate":
        if rolling is not None:
            yield fields.forbidden(
                rolling_path, "may not be specified when strategy `type` is 'Recreate'"
            )
    elif strategy.type != "RollingUpdate":
        yield unknown_strategy(path, strategy, ("Recreate", "RollingUpdate"))
    elif rolling is None:
        yield fields.required(rolling_path, "this should be defaulted and never be nil")
    else:
        unavailable, surge = rolling.max_unavailable or 0, rolling.max_surge or 0
        yield from number_or_percent(unavailable, rolling_path.child("maxUnavailable"))
        yield from number_or_percent(surge, rolling_path.child("maxSurge"))
        if number(unavailable) == 0 and number(surge) == 0:
            yield fields.invalid(
                rolling_path.child("maxUnavailable"),
                unavailable,
                "may not be 0 when `maxSurge` is 0",
            )
        yield from at_most_all(unavailable, rolling_path.child("maxUnavailable"))


def unknown_strategy(
    path: fields.Path, strategy: meta.Wire, supported: tuple[str, ...]
) -> fields.FieldError:
    error = fields.not_supported(path, "", supported)
    return msgspec.structs.replace(error, bad_value=strategy)


def number_or_percent(value: int | str, path: fields.Path) -> fields.Errors:
    if isinstance(value, int):
        yield from metadata.nonnegative(value, path)
        return
    yield from fields.invalid_details(path, value, names.percent_errors(value))


def number(value: int | str) -> int:
    """Return a number or the number of a percentage, 0 for other texts."""
    if isinstance(value, int):
        return value
    if names.percent_errors(value):
        return 0
    percent = gonumbers.int64_or_none(value.removesuffix("%"))
    return 2**63 - 1 if percent is None else percent


def at_most_all(value: int | str, path: fields.Path) -> fields.Errors:
    if isinstance(value, str) and number(value) > 100:
        yield fields.invalid(path, value, "must not be greater than 100%")


def counts(status: meta.Wire, *attributes: str) -> fields.Errors:
    """Check that none of these status fields is negative."""
    for attribute in attributes:
        value = getattr(status, attribute)
        if value is not None:
            yield from metadata.nonnegative(value, fields.STATUS.child(_field_name(attribute)))


def _field_name(attribute: str) -> str:
    first, *others = attribute.split("_")
    return first + "".join(map(str.capitalize, others))


def not_more_than_replicas(status: ReplicatedStatus, *attributes: str) -> fields.Errors:
    replicas = status.replicas
    for attribute in attributes:
        value = getattr(status, attribute)
        if value > replicas:
            yield fields.invalid(
                fields.STATUS.child(_field_name(attribute)),
                value,
                "cannot be greater than status.replicas",
            )


def available_are_ready(status: ReplicatedStatus, ready_in_words: str) -> fields.Errors:
    if status.available_replicas > status.ready_replicas:
        yield fields.invalid(
            fields.STATUS.child("availableReplicas"),
            status.available_replicas,
            f"cannot be greater than {ready_in_words}",
        )


def collisions_grow(new: int | None, old: int | None) -> fields.Errors:
    if old is not None and (new is None or new < old):
        yield fields.invalid(
            fields.STATUS.child("collisionCount"), new or 0, "cannot be decremented"
        )
