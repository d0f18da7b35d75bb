"""Rules for where a pod may run: tolerations, affinity, spreading."""

from __future__ import annotations

from typing import Final

from dray.api.formats import names
from dray.api.types import meta, pods
from dray.api.well_known import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE
from dray.validation import fields, identifiers, lists, selector_rules

TAINT_EFFECTS: Final = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
_WEIGHT_RANGE = "must be in the range 1-100"
_INCLUSION_POLICIES = ("Honor", "Ignore")


def toleration(value: pods.Toleration, path: fields.Path) -> fields.Errors:
    if value.key:
        yield from identifiers.label_name(value.key, path.child("key"))
    elif value.operator != "Exists":
        yield fields.invalid(
            path.child("operator"),
            value.operator,
            'operator must be Exists when `key` is empty, which means "match all values and all '
            'keys"',
        )
    if value.toleration_seconds is not None and value.effect != NO_EXECUTE:
        yield fields.invalid(
            path.child("effect"),
            value.effect,
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        )
    yield from _toleration_operator(value, path.child("operator"))
    if value.effect:
        yield from fields.one_of(path.child("effect"), value.effect, TAINT_EFFECTS)


def _toleration_operator(value: pods.Toleration, path: fields.Path) -> fields.Errors:
    if value.operator in ("", "Equal"):
        details = names.label_value_errors(value.value)
        if details:
            yield fields.invalid(path, value.value, ";".join(details))
    elif value.operator == "Exists":
        if value.value:
            yield fields.invalid(
                path, value.value, "value must be empty when `operator` is 'Exists'"
            )
    elif value.operator in ("Lt", "Gt"):
        yield fields.not_supported(path, value.operator, ("Equal", "Exists", "Lt", "Gt"))
    else:
        yield fields.not_supported(path, value.operator, ("Equal", "Exists"))


def affinity(value: pods.Affinity | None, path: fields.Path) -> fields.Errors:
    if value is None:
        return
    if value.node_affinity is not None:
        yield from _node_affinity(value.node_affinity, path.child("nodeAffinity"))
    if value.pod_affinity is not None:
        yield from _pod_affinity(value.pod_affinity, path.child("podAffinity"))
    if value.pod_anti_affinity is not None:
        yield from _pod_affinity(value.pod_anti_affinity, path.child("podAntiAffinity"))


def _node_affinity(value: pods.NodeAffinity, path: fields.Path) -> fields.Errors:
    required = value.required_during_scheduling_ignored_during_execution
    if required is not None:
        yield from selector_rules.node_selector(
            required, path.child("requiredDuringSchedulingIgnoredDuringExecution")
        )
    yield from lists.each_item(
        value.preferred_during_scheduling_ignored_during_execution,
        _preferred_term,
        path.child("preferredDuringSchedulingIgnoredDuringExecution"),
    )


def _preferred_term(value: pods.PreferredSchedulingTerm, path: fields.Path) -> fields.Errors:
    """Check a preferred term, which may have label values that no node can have."""
    if not 1 <= value.weight <= 100:
        yield fields.invalid(path.child("weight"), value.weight, _WEIGHT_RANGE)
    yield from selector_rules.term(value.preference, path.child("preference"), any_label_value=True)


def _pod_affinity(
    value: pods.PodAffinity | pods.PodAntiAffinity, path: fields.Path
) -> fields.Errors:
    yield from lists.each_item(
        value.required_during_scheduling_ignored_during_execution,
        _pod_term,
        path.child("requiredDuringSchedulingIgnoredDuringExecution"),
    )
    yield from lists.each_item(
        value.preferred_during_scheduling_ignored_during_execution,
        _weighted_pod_term,
        path.child("preferredDuringSchedulingIgnoredDuringExecution"),
    )


def _weighted_pod_term(value: pods.WeightedPodAffinityTerm, path: fields.Path) -> fields.Errors:
    if not 1 <= value.weight <= 100:
        yield fields.invalid(path.child("weight"), value.weight, _WEIGHT_RANGE)
    yield from _pod_term(value.pod_affinity_term, path.child("podAffinityTerm"))


def _pod_term(term: pods.PodAffinityTerm, path: fields.Path) -> fields.Errors:
    yield from selector_rules.label_selector(term.label_selector, path.child("labelSelector"))
    yield from selector_rules.label_selector(
        term.namespace_selector, path.child("namespaceSelector")
    )
    for namespace in term.namespaces:
        yield from identifiers.dns_label(namespace, path.child("namespace"))
    yield from _label_keys(
        term.match_label_keys, term.mismatch_label_keys, term.label_selector, path
    )
    if not term.topology_key:
        yield fields.required(path.child("topologyKey"), "can not be empty")
    yield from identifiers.label_name(term.topology_key, path.child("topologyKey"))


def _label_keys(
    match: tuple[str, ...],
    mismatch: tuple[str, ...],
    selector: meta.LabelSelector | None,
    path: fields.Path,
) -> fields.Errors:
    for keys, keys_path in (
        (match, path.child("matchLabelKeys")),
        (mismatch, path.child("mismatchLabelKeys")),
    ):
        if keys and selector is None:
            yield fields.forbidden(keys_path, "must not be specified when labelSelector is not set")
        elif keys:
            yield from lists.each_item(keys, identifiers.label_name, keys_path)
    for index, key in enumerate(match):
        if selector is not None and _is_selected_twice(key, selector):
            yield fields.invalid(
                path.index(index), key, "exists in both matchLabelKeys and labelSelector"
            )
    for index, key in enumerate(match):
        if key in mismatch:
            yield fields.invalid(
                path.child("matchLabelKeys").index(index),
                key,
                "exists in both matchLabelKeys and mismatchLabelKeys",
            )


def _is_selected_twice(key: str, selector: meta.LabelSelector) -> bool:
    """Return whether the user selects by a key for which the API server added an expression."""
    expressions = sum(expression.key == key for expression in selector.match_expressions)
    return expressions > 1 or (expressions == 1 and key in selector.match_labels)


def spread_constraints(
    values: tuple[pods.TopologySpreadConstraint, ...], path: fields.Path
) -> fields.Errors:
    for index, constraint in enumerate(values):
        constraint_path = path.index(index)
        yield from _spread_constraint(constraint, constraint_path)
        rule = (constraint.topology_key, constraint.when_unsatisfiable)
        if any(
            rule == (other.topology_key, other.when_unsatisfiable) for other in values[index + 1 :]
        ):
            yield fields.duplicate(
                constraint_path.child("{topologyKey, whenUnsatisfiable}"),
                f"{{{constraint.topology_key}, {constraint.when_unsatisfiable}}}",
            )


def _spread_constraint(
    constraint: pods.TopologySpreadConstraint, path: fields.Path
) -> fields.Errors:
    yield from _positive(constraint.max_skew, path.child("maxSkew"))
    if not constraint.topology_key:
        yield fields.required(path.child("topologyKey"), "can not be empty")
    action = constraint.when_unsatisfiable
    yield from fields.one_of(
        path.child("whenUnsatisfiable"), action, ("DoNotSchedule", "ScheduleAnyway")
    )
    if constraint.min_domains is not None:
        yield from _positive(constraint.min_domains, path.child("minDomains"))
        if action != "DoNotSchedule":
            yield fields.invalid(
                path.child("minDomains"),
                constraint.min_domains,
                f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}",
            )
    for field, policy in (
        ("nodeAffinityPolicy", constraint.node_affinity_policy),
        ("nodeTaintsPolicy", constraint.node_taints_policy),
    ):
        yield from fields.one_of(path.child(field), policy, _INCLUSION_POLICIES)
    yield from _label_keys(constraint.match_label_keys, (), constraint.label_selector, path)
    yield from selector_rules.label_selector(constraint.label_selector, path.child("labelSelector"))


def _positive(value: int, path: fields.Path) -> fields.Errors:
    if value <= 0:
        yield fields.invalid(path, value, "must be greater than zero")
