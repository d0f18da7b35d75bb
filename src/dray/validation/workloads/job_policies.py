"""Rules for when a Job has failed and when it has succeeded."""

from __future__ import annotations

import re
from collections.abc import Collection

from dray.api.formats import gonumbers, gotext
from dray.api.types import workloads
from dray.validation import fields, identifiers, metadata

_RULES_MAX_ITEMS = 20
_EXIT_CODES_MAX_ITEMS = 255
_INDEXES_MAX_BYTES = 64 * 1024
_FAILURE_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_CONDITION_STATUSES = ("False", "True", "Unknown")
_INTEGER = re.compile("[+-]?[0-9]+", re.ASCII)


def at_most(
    value: int | None, maximum: int, path: fields.Path, circumstances: str = ""
) -> fields.Errors:
    if value is not None and value > maximum:
        yield fields.invalid(path, value, f"must be less than or equal to {maximum}{circumstances}")


def failure_policy(spec: workloads.JobSpec, policy: workloads.PodFailurePolicy) -> fields.Errors:
    path = fields.SPEC.child("podFailurePolicy").child("rules")
    yield from fields.limited_items(path, policy.rules, _RULES_MAX_ITEMS)
    template = spec.template.spec
    container_names = {
        container.name for container in (*template.containers, *template.init_containers)
    }
    for index, rule in enumerate(policy.rules):
        yield from _failure_rule(spec, rule, path.index(index), container_names)


def _failure_rule(
    spec: workloads.JobSpec,
    rule: workloads.PodFailurePolicyRule,
    path: fields.Path,
    container_names: Collection[str],
) -> fields.Errors:
    yield from _one_of(rule.action, _FAILURE_ACTIONS, path.child("action"))
    if rule.action == "FailIndex" and spec.backoff_limit_per_index is None:
        yield fields.invalid(
            path.child("action"), rule.action, "requires the backoffLimitPerIndex to be set"
        )
    if rule.on_exit_codes is not None:
        yield from _exit_codes(rule.on_exit_codes, path.child("onExitCodes"), container_names)
    yield from _failure_conditions(rule.on_pod_conditions, path.child("onPodConditions"))
    if rule.on_exit_codes is not None and rule.on_pod_conditions:
        yield fields.invalid(
            path,
            fields.NO_VALUE,
            "specifying both OnExitCodes and OnPodConditions is not supported",
        )
    if rule.on_exit_codes is None and not rule.on_pod_conditions:
        yield fields.invalid(
            path, fields.NO_VALUE, "specifying one of OnExitCodes and OnPodConditions is required"
        )


def _one_of(value: str, supported: tuple[str, ...], path: fields.Path) -> fields.Errors:
    listed = " ".join(map(gotext.quote, supported))
    yield from fields.required_one_of(path, value, supported, f"valid values: [{listed}]")


def _exit_codes(
    requirement: workloads.PodFailurePolicyOnExitCodesRequirement,
    path: fields.Path,
    container_names: Collection[str],
) -> fields.Errors:
    yield from _one_of(requirement.operator, ("In", "NotIn"), path.child("operator"))
    name = requirement.container_name
    if name is not None and name not in container_names:
        yield fields.invalid(
            path.child("containerName"),
            name,
            "must be one of the container or initContainer names in the pod template",
        )
    values, values_path = requirement.values, path.child("values")
    if not values:
        yield fields.invalid(values_path, None, "at least one value is required")
    elif len(values) > _EXIT_CODES_MAX_ITEMS:
        yield fields.too_many(values_path, len(values), _EXIT_CODES_MAX_ITEMS)
    for index, code in enumerate(values):
        if requirement.operator == "In" and code == 0:
            yield fields.invalid(
                values_path.index(index), code, "must not be 0 for the In operator"
            )
        if code in values[:index]:
            yield fields.duplicate(values_path.index(index), code)
    if list(values) != sorted(values):
        yield fields.invalid(values_path, values, "must be ordered")


def _failure_conditions(
    patterns: tuple[workloads.PodFailurePolicyOnPodConditionsPattern, ...], path: fields.Path
) -> fields.Errors:
    yield from fields.limited_items(path, patterns, _RULES_MAX_ITEMS)
    for index, pattern in enumerate(patterns):
        pattern_path = path.index(index)
        yield from identifiers.label_name(pattern.type, pattern_path.child("type"))
        yield from _one_of(pattern.status, _CONDITION_STATUSES, pattern_path.child("status"))


def success_policy(spec: workloads.JobSpec, policy: workloads.SuccessPolicy) -> fields.Errors:
    path = fields.SPEC.child("successPolicy")
    if spec.completion_mode != "Indexed":
        yield fields.invalid(path, policy, "requires indexed completion mode")
        return
    path = path.child("rules")
    if not policy.rules:
        yield fields.required(
            path, "at least one rules must be specified when the successPolicy is specified"
        )
    yield from fields.limited_items(path, policy.rules, _RULES_MAX_ITEMS)
    for index, rule in enumerate(policy.rules):
        yield from _success_rule(rule, spec.completions or 0, path.index(index))


def _success_rule(
    rule: workloads.SuccessPolicyRule, completions: int, path: fields.Path
) -> fields.Errors:
    if rule.succeeded_count is None and rule.succeeded_indexes is None:
        yield fields.required(
            path, "at least one of succeededCount or succeededIndexes must be specified"
        )
    available = 0
    if rule.succeeded_indexes is not None:
        indexes = path.child("succeededIndexes")
        yield from fields.limited_bytes(indexes, rule.succeeded_indexes, _INDEXES_MAX_BYTES)
        try:
            available = _count_indexes(rule.succeeded_indexes, completions)
        except ValueError as error:
            yield fields.invalid(
                indexes, rule.succeeded_indexes, f"error parsing succeededIndexes: {error}"
            )
    if rule.succeeded_count is not None:
        count = path.child("succeededCount")
        yield from metadata.nonnegative(rule.succeeded_count, count)
        words = " (the number of specified completions)"
        yield from at_most(rule.succeeded_count, completions, count, words)
        if rule.succeeded_indexes is not None:
            words = " (the number of indexes in the specified succeededIndexes field)"
            yield from at_most(rule.succeeded_count, available, count, words)


def _count_indexes(text: str, completions: int) -> int:
    """Count the indexes in "0,3-5". Raises ValueError with Kubernetes' message."""
    total, last = 0, None
    for interval in text.split(",") if text else ():
        first, final = _interval(interval, completions)
        if last is not None and last >= first:
            raise _not_increasing(last, first)
        total += final - first + 1
        last = final
    return total


def _interval(text: str, completions: int) -> tuple[int, int]:
    limits = text.split("-")
    if len(limits) > 2:
        raise ValueError(
            f"the fragment {gotext.quote(text)} violates the requirement that an index interval "
            "can have at most two parts separated by '-'"
        )
    first, final = _index(limits[0], completions), _index(limits[-1], completions)
    if len(limits) == 2 and first >= final:
        raise _not_increasing(first, final)
    return first, final


def _index(text: str, completions: int) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"cannot convert string to integer for index: {gotext.quote(text)}")
    index = gonumbers.int64_or_none(text)
    if index is None or index >= completions:
        raise ValueError(f"too large index: {gotext.quote(text)}")
    return index


def _not_increasing(previous: int, current: int) -> ValueError:
    return ValueError(f"non-increasing order, previous: {previous}, current: {current}")
