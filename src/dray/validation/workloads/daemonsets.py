"""Rules for DaemonSet."""

from __future__ import annotations

import contextlib

from dray.api.selectors import label_selectors
from dray.api.types import workloads
from dray.validation import fields, metadata, selector_rules
from dray.validation.pods import pods as pod_rules
from dray.validation.workloads import replicated as workload_rules

_SPEC = fields.SPEC
_TEMPLATE = _SPEC.child("template")


def daemon_set(value: workloads.DaemonSet) -> fields.Errors:
    yield from metadata.created(value.metadata, namespaced=True)
    yield from _daemon_set_spec(value.spec)


def daemon_set_update(new: workloads.DaemonSet, old: workloads.DaemonSet) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from fields.immutable(_SPEC.child("selector"), new.spec.selector, old.spec.selector)
    yield from _daemon_set_spec(new.spec)


def daemon_set_status_update(new: workloads.DaemonSet, old: workloads.DaemonSet) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from workload_rules.counts(
        new.status,
        "current_number_scheduled",
        "number_misscheduled",
        "desired_number_scheduled",
        "number_ready",
        "observed_generation",
        "updated_number_scheduled",
        "number_available",
        "number_unavailable",
        "collision_count",
    )
    yield from workload_rules.collisions_grow(
        new.status.collision_count, old.status.collision_count
    )


def _daemon_set_spec(spec: workloads.DaemonSetSpec) -> fields.Errors:
    path = _SPEC.child("selector")
    yield from selector_rules.label_selector(spec.selector, path)
    with contextlib.suppress(label_selectors.SelectorError):
        selected = label_selectors.label_selector(spec.selector)
        yield from workload_rules.template_selected(selected, spec.template)
    if spec.selector is not None and selector_rules.is_empty(spec.selector):
        yield fields.invalid(path, spec.selector, "empty selector is invalid for daemonset")
    yield from pod_rules.template(spec.template, _TEMPLATE)
    yield from workload_rules.always_running(spec.template.spec, "DaemonSet")
    yield from metadata.nonnegative(spec.min_ready_seconds, _SPEC.child("minReadySeconds"))
    yield from _daemon_set_strategy(spec.update_strategy, _SPEC.child("updateStrategy"))
    yield from workload_rules.nonnegative_if_set(
        spec.revision_history_limit, _SPEC.child("revisionHistoryLimit")
    )


def _daemon_set_strategy(
    strategy: workloads.DaemonSetUpdateStrategy, path: fields.Path
) -> fields.Errors:
    rolling, rolling_path = strategy.rolling_update, path.child("rollingUpdate")
    if strategy.type == "OnDelete":
        return
    if strategy.type != "RollingUpdate":
        yield workload_rules.unknown_strategy(path, strategy, ("RollingUpdate", "OnDelete"))
        return
    if rolling is None:
        yield fields.required(rolling_path)
        return
    unavailable, surge = rolling.max_unavailable or 0, rolling.max_surge or 0
    unavailable_path = rolling_path.child("maxUnavailable")
    surge_path = rolling_path.child("maxSurge")
    yield from workload_rules.number_or_percent(unavailable, unavailable_path)
    yield from workload_rules.number_or_percent(surge, surge_path)
    yield from workload_rules.at_most_all(unavailable, unavailable_path)
    yield from workload_rules.at_most_all(surge, surge_path)
    if workload_rules.number(unavailable) and workload_rules.number(surge):
        yield fields.invalid(surge_path, surge, "may not be set when maxUnavailable is non-zero")
    elif not workload_rules.number(unavailable) and not workload_rules.number(surge):
        yield fields.required(unavailable_path, "cannot be 0 when maxSurge is 0")
