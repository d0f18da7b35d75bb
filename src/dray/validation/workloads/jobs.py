"""Rules for Job."""

from __future__ import annotations

import contextlib

import msgspec

from dray.api.formats import names
from dray.api.selectors import label_selectors
from dray.api.types import containers, pods, workloads
from dray.validation import fields, metadata, selector_rules
from dray.validation.pods import pods as pod_rules
from dray.validation.workloads import job_policies
from dray.validation.workloads import replicated as workload_rules

_SPEC = fields.SPEC
_TEMPLATE = _SPEC.child("template")
_INDEXED = "Indexed"
_INDEXED_MAX_PARALLELISM = 100_000
_MANY_COMPLETIONS = 100_000
_MANY_COMPLETIONS_LIMIT = 10_000
_MANAGER_MAX_BYTES = 63
_CONTROLLER_LABELS = (
    ("controller-uid", "uid"),
    ("job-name", "name"),
    ("batch.kubernetes.io/controller-uid", "uid"),
    ("batch.kubernetes.io/job-name", "name"),
)


def job(value: workloads.Job) -> fields.Errors:
    yield from metadata.created(value.metadata, namespaced=True)
    yield from _generated_selector(value)
    yield from _spec(value.spec)
    yield from _names_of_indexes(value)


def job_update(new: workloads.Job, old: workloads.Job) -> fields.Errors:
    spec, old_spec = new.spec, old.spec
    yield from metadata.updated(new.metadata, old.metadata)
    yield from _spec(spec)
    yield from _completions_updated(spec, old_spec)
    yield from fields.immutable(_SPEC.child("selector"), spec.selector, old_spec.selector)
    yield from _template_updated(new, old)
    for field, value, old_value in (
        ("completionMode", spec.completion_mode, old_spec.completion_mode),
        ("podFailurePolicy", spec.pod_failure_policy, old_spec.pod_failure_policy),
        ("backoffLimitPerIndex", spec.backoff_limit_per_index, old_spec.backoff_limit_per_index),
        ("managedBy", spec.managed_by, old_spec.managed_by),
        ("successPolicy", spec.success_policy, old_spec.success_policy),
    ):
        yield from fields.immutable(_SPEC.child(field), value, old_value)
    yield from _names_of_indexes(new)


def job_status_update(new: workloads.Job, old: workloads.Job) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from workload_rules.counts(
        new.status, "active", "succeeded", "failed", "ready", "terminating"
    )


def _generated_selector(value: workloads.Job) -> fields.Errors:
    """Check the labels and selector that the server generates unless `manualSelector` is set."""
    if value.spec.manual_selector or value.spec.selector is None:
        return
    yield from fields.required_text(fields.METADATA.child("uid"), value.metadata.uid)
    labels = value.spec.template.metadata.labels
    expected = {
        label: value.metadata.uid if source == "uid" else value.metadata.name
        for label, source in _CONTROLLER_LABELS
    }
    for label, text in expected.items():
        path = _TEMPLATE.child("metadata").child("labels").key(label)
        if label not in labels:
            yield fields.required(path, f"must be '{text}'")
        elif labels[label] != text:
            yield fields.invalid(path, labels, f"must be '{text}'")
    with contextlib.suppress(label_selectors.SelectorError):
        if not label_selectors.label_selector(value.spec.selector).matches(expected):
            yield fields.invalid(
                _SPEC.child("selector"), value.spec.selector, "`selector` not auto-generated"
            )


def _names_of_indexes(value: workloads.Job) -> fields.Errors:
    """Check the name of the pod with the last index."""
    if value.spec.completion_mode == _INDEXED and (value.spec.completions or 0) > 0:
        assert value.spec.completions is not None
        hostname = f"{value.metadata.name}-{value.spec.completions - 1}"
        if names.dns_label_errors(hostname):
            yield fields.invalid(
                fields.METADATA.child("name"),
                value.metadata.name,
                f"will not able to create pod with invalid DNS label: {hostname}",
            )


def without_selector(spec: workloads.JobSpec) -> fields.Errors:
    """Check all of a spec but its selector."""
    yield from _numbers(spec)
    if spec.managed_by is not None:
        yield from _manager(spec.managed_by, _SPEC.child("managedBy"))
    yield from _completion_mode(spec)
    if spec.pod_failure_policy is not None:
        yield from job_policies.failure_policy(spec, spec.pod_failure_policy)
    if spec.success_policy is not None:
        yield from job_policies.success_policy(spec, spec.success_policy)
    yield from _replacement_policy(spec, _SPEC.child("podReplacementPolicy"))
    yield from pod_rules.template(spec.template, _TEMPLATE)
    yield from _restart_policy(spec, _TEMPLATE.child("spec").child("restartPolicy"))


def _spec(spec: workloads.JobSpec) -> fields.Errors:
    yield from without_selector(spec)
    if spec.selector is None:
        yield fields.required(_SPEC.child("selector"))
    else:
        yield from selector_rules.label_selector(spec.selector, _SPEC.child("selector"))
    with contextlib.suppress(label_selectors.SelectorError):
        selected = label_selectors.label_selector(spec.selector)
        yield from workload_rules.template_selected(selected, spec.template)


def _numbers(spec: workloads.JobSpec) -> fields.Errors:
    for field, value in (
        ("parallelism", spec.parallelism),
        ("completions", spec.completions),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("backoffLimit", spec.backoff_limit),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished),
        ("backoffLimitPerIndex", spec.backoff_limit_per_index),
        ("maxFailedIndexes", spec.max_failed_indexes),
    ):
        yield from workload_rules.nonnegative_if_set(value, _SPEC.child(field))
    if spec.max_failed_indexes is not None and spec.backoff_limit_per_index is None:
        yield fields.required(
            _SPEC.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"
        )


def _manager(value: str, path: fields.Path) -> fields.Errors:
    domain, _, name = value.partition("/")
    if not value:
        yield fields.required(path)
    elif not (domain and name):
        yield fields.invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from fields.invalid_details(path, domain, names.dns_subdomain_errors(domain))
        yield from fields.invalid_details(path, name, names.http_path_errors(name))
    yield from fields.limited_bytes(path, value, _MANAGER_MAX_BYTES)


def _completion_mode(spec: workloads.JobSpec) -> fields.Errors:
    mode = spec.completion_mode
    yield from fields.one_of(_SPEC.child("completionMode"), mode, ("NonIndexed", _INDEXED))
    if mode == _INDEXED:
        yield from _indexed(spec)
    elif mode in (None, "NonIndexed"):
        for field, value in (
            ("backoffLimitPerIndex", spec.backoff_limit_per_index),
            ("maxFailedIndexes", spec.max_failed_indexes),
        ):
            if value is not None:
                yield fields.invalid(_SPEC.child(field), value, "requires indexed completion mode")


def _indexed(spec: workloads.JobSpec) -> fields.Errors:
    parallelism, completions = spec.parallelism, spec.completions
    failed, failed_path = spec.max_failed_indexes, _SPEC.child("maxFailedIndexes")
    if completions is None:
        yield fields.required(_SPEC.child("completions"), "when completion mode is Indexed")
    yield from job_policies.at_most(
        parallelism,
        _INDEXED_MAX_PARALLELISM,
        _SPEC.child("parallelism"),
        " when completion mode is Indexed",
    )
    if completions is not None and failed is not None and failed > completions:
        yield fields.invalid(failed_path, failed, "must be less than or equal to completions")
    yield from job_policies.at_most(failed, _INDEXED_MAX_PARALLELISM, failed_path)
    if (completions or 0) > _MANY_COMPLETIONS and spec.backoff_limit_per_index is not None:
        if failed is None:
            yield fields.required(
                failed_path, f"must be specified when completions is above {_MANY_COMPLETIONS}"
            )
        words = (
            f" when completions are above {_MANY_COMPLETIONS} and used with backoff limit per index"
        )
        yield from job_policies.at_most(
            parallelism, _MANY_COMPLETIONS_LIMIT, _SPEC.child("parallelism"), words
        )
        yield from job_policies.at_most(failed, _MANY_COMPLETIONS_LIMIT, failed_path, words)


def _replacement_policy(spec: workloads.JobSpec, path: fields.Path) -> fields.Errors:
    supported: tuple[str, ...] = ("Failed", "TerminatingOrFailed")
    if spec.pod_failure_policy is not None:
        supported = ("Failed",)
    yield from fields.one_of(path, spec.pod_replacement_policy, supported)


def _restart_policy(spec: workloads.JobSpec, path: fields.Path) -> fields.Errors:
    policy = spec.template.spec.restart_policy
    if policy in ("", "Always"):
        yield fields.required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield fields.not_supported(path, policy, ("OnFailure", "Never"))
    elif spec.pod_failure_policy is not None and policy != "Never":
        yield fields.invalid(
            path, policy, 'only "Never" is supported when podFailurePolicy is specified'
        )


def _completions_updated(new: workloads.JobSpec, old: workloads.JobSpec) -> fields.Errors:
    path = _SPEC.child("completions")
    if new.completion_mode != _INDEXED:
        yield from fields.immutable(path, new.completions, old.completions)
    elif new.completions not in (None, old.completions) and new.completions != new.parallelism:
        yield fields.invalid(
            path, new.completions, "can only be modified in tandem with spec.parallelism"
        )


def _template_updated(new: workloads.Job, old: workloads.Job) -> fields.Errors:
    """Allow changes of placement and size in a suspended job without pods."""
    template, old_template = new.spec.template, old.spec.template
    if not _is_at_rest(old):
        yield from fields.immutable(_TEMPLATE, template, old_template)
        return
    allowed = _with_directives_of(old_template.spec, template.spec)
    yield from fields.immutable(_SPEC.child("template.spec"), template.spec, allowed)


def _is_at_rest(value: workloads.Job) -> bool:
    """Return the result of pkg/registry/batch/job, shouldAllowMutablePodTemplate."""
    is_suspended = value.status.start_time is None or any(
        condition.type == "Suspended" and condition.status == "True"
        for condition in value.status.conditions
    )
    return bool(value.spec.suspend) and is_suspended and value.status.active == 0


def _with_directives_of(spec: pods.PodSpec, source: pods.PodSpec) -> pods.PodSpec:
    """Return `spec` with the fields that may change taken from `source`: placement and size."""
    affinity = source.affinity
    if spec.affinity is not None:
        node_affinity = source.affinity.node_affinity if source.affinity else None
        affinity = msgspec.structs.replace(spec.affinity, node_affinity=node_affinity)
        if source.affinity is None and affinity == pods.Affinity():
            affinity = None
    elif affinity is not None:
        affinity = pods.Affinity(node_affinity=affinity.node_affinity)
    return msgspec.structs.replace(
        spec,
        affinity=affinity,
        node_selector=source.node_selector,
        tolerations=source.tolerations,
        scheduling_gates=source.scheduling_gates,
        containers=_with_resources_of(spec.containers, source.containers),
        init_containers=_with_resources_of(spec.init_containers, source.init_containers),
    )


def _with_resources_of(
    values: tuple[containers.Container, ...], source: tuple[containers.Container, ...]
) -> tuple[containers.Container, ...]:
    if len(values) != len(source):
        return values
    return tuple(
        msgspec.structs.replace(container, resources=other.resources)
        if container.name == other.name
        else container
        for container, other in zip(values, source, strict=True)
    )
