"""Rules for pods as a whole: what a new one must be, and what an update may change."""

from __future__ import annotations

import re

import msgspec

from dray.api import well_known
from dray.api.formats import gonumbers
from dray.api.types import containers, meta, pods
from dray.validation import equality, fields, identifiers, lists, metadata
from dray.validation.pods import containers as container_rules
from dray.validation.pods import placement, pod_specs

_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_DELETION_COST_FORM = re.compile("0|[1-9][0-9]*|-[1-9][0-9]*", re.ASCII)
_INT32_LIMIT = 2**31
_UPDATABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously "
        "negative)",
    )
)


def pod(value: pods.Pod) -> fields.Errors:
    yield from _metadata_and_spec(value)
    if value.spec.ephemeral_containers:
        yield fields.forbidden(fields.SPEC.child("ephemeralContainers"), "cannot be set on create")
    if value.spec.node_name and value.spec.scheduling_gates:
        yield fields.forbidden(
            fields.SPEC.child("nodeName"),
            "cannot be set until all schedulingGates have been cleared",
        )


def _metadata_and_spec(value: pods.Pod) -> fields.Errors:
    yield from metadata.created(value.metadata, namespaced=True)
    yield from annotations_of_pod(
        value.metadata.annotations, value.spec, fields.METADATA.child("annotations")
    )
    yield from pod_specs.pod_spec(value.spec, fields.SPEC, value.metadata)
    yield from _only_for_pods(value.spec)


def annotations_of_pod(
    annotations: dict[str, str], spec: pods.PodSpec, path: fields.Path
) -> fields.Errors:
    if well_known.MIRROR_POD_ANNOTATION in annotations and not spec.node_name:
        yield fields.invalid(
            path.key(well_known.MIRROR_POD_ANNOTATION),
            annotations[well_known.MIRROR_POD_ANNOTATION],
            "must set spec.nodeName if mirror pod annotation is set",
        )
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not _is_int32(cost):
        yield fields.invalid(path.key(_DELETION_COST), cost, "must be a 32bit integer")


def _is_int32(text: str) -> bool:
    if not _DELETION_COST_FORM.fullmatch(text):
        return False
    number = gonumbers.int64_or_none(text)
    return number is not None and -_INT32_LIMIT <= number < _INT32_LIMIT


def _only_for_pods(spec: pods.PodSpec) -> fields.Errors:
    """Check fields that a template may leave open."""
    if not spec.service_account_name:
        yield from _no_token(spec)
    grace_period = spec.termination_grace_period_seconds
    if grace_period is not None:
        yield from metadata.nonnegative(
            grace_period, fields.SPEC.child("terminationGracePeriodSeconds")
        )
    for field, values in (
        ("containers", spec.containers),
        ("initContainers", spec.init_containers),
    ):
        yield from lists.each_item(values, container_rules.trimmed_image, fields.SPEC.child(field))


def _no_token(spec: pods.PodSpec) -> fields.Errors:
    for index, volume in enumerate(spec.volumes):
        path = fields.SPEC.child("volumes").index(index).child("projected").child("sources")
        for source_index, source in enumerate(volume.projected.sources if volume.projected else ()):
            if source.service_account_token is not None:
                yield fields.forbidden(
                    path.index(source_index).child("serviceAccountToken"),
                    "must not be specified when serviceAccountName is not set",
                )


def template(value: pods.PodTemplateSpec, path: fields.Path) -> fields.Errors:
    """Check the template of a workload's pods."""
    yield from identifiers.labels(value.metadata.labels, path.child("labels"))
    yield from metadata.valid_annotations(value.metadata.annotations, path.child("annotations"))
    yield from annotations_of_pod(value.metadata.annotations, value.spec, path.child("annotations"))
    yield from pod_specs.pod_spec(value.spec, path.child("spec"), None)
    if value.spec.ephemeral_containers:
        yield fields.forbidden(
            path.child("spec").child("ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        )


def pod_update(new: pods.Pod, old: pods.Pod) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from _metadata_and_spec(new)
    yield from annotations_updated(new, old)
    yield from _spec_updated(new.spec, old.spec)


def annotations_updated(new: pods.Pod, old: pods.Pod) -> fields.Errors:
    path, mirror = fields.METADATA.child("annotations"), well_known.MIRROR_POD_ANNOTATION
    added, kept = new.metadata.annotations, old.metadata.annotations
    if mirror in kept and added.get(mirror) != kept[mirror]:
        yield fields.forbidden(path.key(mirror), "may not remove or update mirror pod annotation")
    elif mirror in added and mirror not in kept:
        yield fields.forbidden(path.key(mirror), "may not add mirror pod annotation")
    yield from annotations_of_pod(added, new.spec, path)


def _spec_updated(new: pods.PodSpec, old: pods.PodSpec) -> fields.Errors:
    for field, values, old_values in (
        ("containers", new.containers, old.containers),
        ("initContainers", new.init_containers, old.init_containers),
    ):
        path = fields.SPEC.child(field)
        if len(values) != len(old_values):
            yield fields.forbidden(path, "pod updates may not add or remove containers")
            return
        yield from lists.each_item(values, _image_updated, path)
    deadline_errors = list(_deadline_updated(new, old))
    yield from deadline_errors
    if deadline_errors and new.active_deadline_seconds is not None:
        return
    yield from _tolerations_added(new, old)
    yield from _scheduling_gates_removed(new, old)
    yield from _rest_unchanged(new, old)


def _image_updated(container: containers.Container, path: fields.Path) -> fields.Errors:
    yield from fields.required_text(path.child("image"), container.image)
    yield from container_rules.trimmed_image(container, path)


def _deadline_updated(new: pods.PodSpec, old: pods.PodSpec) -> fields.Errors:
    """Check a deadline, which may be set and brought forward."""
    path = fields.SPEC.child("activeDeadlineSeconds")
    deadline, old_deadline = new.active_deadline_seconds, old.active_deadline_seconds
    if deadline is None:
        if old_deadline is not None:
            yield fields.invalid(path, None, "must not update from a positive integer to nil value")
    elif not 0 <= deadline < _INT32_LIMIT:
        yield fields.invalid(path, deadline, f"must be between 0 and {_INT32_LIMIT - 1}, inclusive")
    elif old_deadline is not None and old_deadline < deadline:
        yield fields.invalid(path, deadline, "must be less than or equal to previous value")


def _tolerations_added(new: pods.PodSpec, old: pods.PodSpec) -> fields.Errors:
    path = fields.SPEC.child("tolerations")
    kept = {_without_seconds(toleration) for toleration in new.tolerations}
    if any(_without_seconds(toleration) not in kept for toleration in old.tolerations):
        yield fields.forbidden(
            path, "existing toleration can not be modified except its tolerationSeconds"
        )
        return
    yield from lists.each_item(new.tolerations, placement.toleration, path)


def _without_seconds(toleration: pods.Toleration) -> pods.Toleration:
    return msgspec.structs.replace(toleration, toleration_seconds=None)


def _scheduling_gates_removed(new: pods.PodSpec, old: pods.PodSpec) -> fields.Errors:
    old_names = {gate.name for gate in old.scheduling_gates}
    for index, gate in enumerate(new.scheduling_gates):
        if gate.name not in old_names:
            yield fields.forbidden(
                fields.SPEC.child("schedulingGates").index(index).child("name"),
                f"only deletion is allowed, but found new scheduling gate '{gate.name}'",
            )


def _rest_unchanged(new: pods.PodSpec, old: pods.PodSpec) -> fields.Errors:
    allowed = _with_allowed_changes_undone(new, old)
    if old.scheduling_gates:
        yield from _narrowed(new, old)
        allowed = msgspec.structs.replace(
            allowed, node_selector=old.node_selector, affinity=_affinity_undone(new, old)
        )
    if not equality.are_equal(allowed, old):
        yield fields.forbidden(
            fields.SPEC,
            f"pod updates may not change fields other than {_UPDATABLE}; changed: "
            + ", ".join(equality.changed_fields(allowed, old, "spec")),
        )


def _with_allowed_changes_undone(new: pods.PodSpec, old: pods.PodSpec) -> pods.PodSpec:
    grace_period = new.termination_grace_period_seconds
    if grace_period == 1 and (old.termination_grace_period_seconds or 0) < 0:
        grace_period = old.termination_grace_period_seconds
    return msgspec.structs.replace(
        new,
        containers=_with_images_of(new.containers, old.containers),
        init_containers=_with_images_of(new.init_containers, old.init_containers),
        active_deadline_seconds=old.active_deadline_seconds,
        scheduling_gates=old.scheduling_gates,
        tolerations=old.tolerations,
        termination_grace_period_seconds=grace_period,
    )


def _with_images_of(
    new: tuple[containers.Container, ...], old: tuple[containers.Container, ...]
) -> tuple[containers.Container, ...]:
    return tuple(
        msgspec.structs.replace(container, image=former.image)
        for container, former in zip(new, old, strict=True)
    )


def _narrowed(new: pods.PodSpec, old: pods.PodSpec) -> fields.Errors:
    """Check the nodes of a gated pod, which may only become fewer."""
    if not old.node_selector.items() <= new.node_selector.items():
        yield fields.invalid(
            fields.SPEC.child("nodeSelector"),
            new.node_selector,
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
        )
    path = (
        fields.SPEC.child("affinity")
        .child("nodeAffinity")
        .child("requiredDuringSchedulingIgnoredDuringExecution")
        .child("nodeSelectorTerms")
    )
    terms, old_terms = _required_terms(new), _required_terms(old)
    if not old_terms:
        return
    if len(terms) != len(old_terms):
        yield fields.invalid(
            path, terms, "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        )
        return
    for index, (term, old_term) in enumerate(zip(terms, old_terms, strict=True)):
        if not _has_only_additions(term, old_term):
            yield fields.invalid(
                path.index(index), term, "only additions are allowed (no mutations or deletions)"
            )


def _required_terms(spec: pods.PodSpec) -> tuple[meta.NodeSelectorTerm, ...]:
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    return required.node_selector_terms if required else ()


def _has_only_additions(new: meta.NodeSelectorTerm, old: meta.NodeSelectorTerm) -> bool:
    if not (old.match_expressions or old.match_fields):
        return not (new.match_expressions or new.match_fields)
    return (
        new.match_expressions[: len(old.match_expressions)] == old.match_expressions
        and new.match_fields[: len(old.match_fields)] == old.match_fields
    )


def _affinity_undone(new: pods.PodSpec, old: pods.PodSpec) -> pods.Affinity | None:
    node_affinity = old.affinity.node_affinity if old.affinity else None
    if new.affinity is None:
        return pods.Affinity(node_affinity=node_affinity) if node_affinity else None
    others = (new.affinity.pod_affinity, new.affinity.pod_anti_affinity)
    if old.affinity is None and others == (None, None):
        return None
    return msgspec.structs.replace(new.affinity, node_affinity=node_affinity)
