"""Rules for metadata: names, namespace, labels, annotations, owners, finalizers, immutable fields.

Follows apimachinery, pkg/api/validation/objectmeta.go, and what pkg/apis/core/validation adds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from dray.api.formats import gotext, names
from dray.api.types import meta
from dray.validation import fields, identifiers

NameRule = Callable[[str, bool], list[str]]
"""What is wrong with a name; the flag says that it is a prefix to which something is appended."""

ANNOTATIONS_MAX_BYTES: Final = 256 * 1024

_ORPHAN = "orphan"
_FOREGROUND_DELETION = "foregroundDeletion"
_STANDARD_FINALIZERS = frozenset(("kubernetes", _ORPHAN, _FOREGROUND_DELETION))


def subdomain_name(name: str, is_prefix: bool) -> list[str]:
    return names.dns_subdomain_errors(names.generated_name_example(name) if is_prefix else name)


def label_name(name: str, is_prefix: bool) -> list[str]:
    return names.dns_label_errors(names.generated_name_example(name) if is_prefix else name)


def any_name(name: str, is_prefix: bool) -> list[str]:
    """Return the errors of a name of any kind: it must fit into a URL."""
    if is_prefix:
        return names.path_segment_prefix_errors(name)
    return names.path_segment_errors(name)


def created(
    metadata: meta.ObjectMeta,
    *,
    namespaced: bool,
    name_rule: NameRule = subdomain_name,
    path: fields.Path = fields.METADATA,
) -> fields.Errors:
    """Check the metadata of a new object, after its name was generated."""
    yield from any_created(metadata, namespaced=namespaced, name_rule=name_rule, path=path)
    yield from finalizers_known(metadata.finalizers, path.child("finalizers"))


def any_created(
    metadata: meta.ObjectMeta,
    *,
    namespaced: bool,
    name_rule: NameRule = any_name,
    path: fields.Path = fields.METADATA,
) -> fields.Errors:
    """Check the metadata of a new object of any kind."""
    if metadata.generate_name:
        for detail in name_rule(metadata.generate_name, True):
            yield fields.invalid(path.child("generateName"), metadata.generate_name, detail)
    if metadata.name:
        for detail in name_rule(metadata.name, False):
            yield fields.invalid(path.child("name"), metadata.name, detail)
    else:
        yield name_missing(path)
    yield from nameless(metadata, namespaced=namespaced, path=path)


def name_missing(path: fields.Path) -> fields.FieldError:
    return fields.required(path.child("name"), "name or generateName is required")


def nameless(metadata: meta.ObjectMeta, *, namespaced: bool, path: fields.Path) -> fields.Errors:
    """Check all of metadata but its name. Most objects lack most of it."""
    yield from _namespace(metadata.namespace, namespaced, path.child("namespace"))
    if metadata.generation:
        yield from _generation(metadata.generation, path.child("generation"))
    if metadata.labels:
        yield from identifiers.labels(metadata.labels, path.child("labels"))
    if metadata.annotations:
        yield from valid_annotations(metadata.annotations, path.child("annotations"))
    if metadata.owner_references:
        yield from owner_references(metadata.owner_references, path.child("ownerReferences"))
    if metadata.finalizers:
        yield from finalizers(metadata.finalizers, path.child("finalizers"))


def _namespace(namespace: str, namespaced: bool, path: fields.Path) -> fields.Errors:
    if not namespaced:
        if namespace:
            yield fields.forbidden(path, "not allowed on this type")
    elif not namespace:
        yield fields.required(path)
    else:
        yield from fields.invalid_details(path, namespace, names.dns_label_errors(namespace))


def _generation(generation: int, path: fields.Path) -> fields.Errors:
    yield from fields.covered(nonnegative(generation, path))


def nonnegative(value: int, path: fields.Path) -> fields.Errors:
    if value < 0:
        yield fields.invalid(path, value, "must be greater than or equal to 0", origin="minimum")


def updated(
    new: meta.ObjectMeta, old: meta.ObjectMeta, path: fields.Path = fields.METADATA
) -> fields.Errors:
    yield from any_updated(new, old, path)
    yield from finalizers_known(new.finalizers, path.child("finalizers"))


def any_updated(
    new: meta.ObjectMeta, old: meta.ObjectMeta, path: fields.Path = fields.METADATA
) -> fields.Errors:
    """Check the metadata that an update must not change."""
    if is_as_stored(new, old):
        return
    if old.deletion_timestamp is not None:
        yield from _no_new_finalizers(new.finalizers, old.finalizers, path.child("finalizers"))
    if not new.resource_version:
        yield fields.invalid(path.child("resourceVersion"), "", "must be specified for an update")
    yield from _generation(new.generation, path.child("generation"))
    if new.generation < old.generation:
        yield fields.invalid(path.child("generation"), new.generation, "must not be decremented")
    yield from _identity_unchanged(new, old, path)
    yield from identifiers.labels(new.labels, path.child("labels"))
    yield from valid_annotations(new.annotations, path.child("annotations"))
    yield from owner_references(new.owner_references, path.child("ownerReferences"))


def is_as_stored(new: meta.ObjectMeta, old: meta.ObjectMeta) -> bool:
    """Return whether an update left the metadata as it is: it was checked when it was stored."""
    return new == old and bool(new.resource_version)


def _identity_unchanged(
    new: meta.ObjectMeta, old: meta.ObjectMeta, path: fields.Path
) -> fields.Errors:
    yield from fields.immutable(path.child("name"), new.name, old.name)
    yield from fields.immutable(path.child("namespace"), new.namespace, old.namespace)
    for field, value, old_value in (
        ("uid", new.uid, old.uid),
        ("creationTimestamp", new.creation_timestamp, old.creation_timestamp),
        ("deletionTimestamp", new.deletion_timestamp, old.deletion_timestamp),
        (
            "deletionGracePeriodSeconds",
            new.deletion_grace_period_seconds,
            old.deletion_grace_period_seconds,
        ),
    ):
        if value != old_value:
            errors = fields.immutable(path.child(field), value, old_value)
            yield from fields.covered(errors, "immutable")


def valid_annotations(values: dict[str, str], path: fields.Path) -> fields.Errors:
    for key in values:
        for detail in names.qualified_name_errors(key.lower()):
            yield fields.invalid(path, key, detail, origin=identifiers.LABEL_KEY)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in values.items())
    if size > ANNOTATIONS_MAX_BYTES:
        yield fields.too_long(path, ANNOTATIONS_MAX_BYTES)


def owner_references(
    references: tuple[meta.OwnerReference, ...], path: fields.Path
) -> fields.Errors:
    controller = ""
    for index, reference in enumerate(references):
        yield from _owner_reference(reference, path.index(index))
        if reference.controller:
            this = f"{reference.kind}/{reference.name}"
            if controller:
                yield fields.invalid(
                    path,
                    references,
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {this}',
                )
            controller = controller or this


_GROUP_VERSION = re.compile("([^/]*/)?[^/]+")


def _owner_reference(reference: meta.OwnerReference, path: fields.Path) -> fields.Errors:
    if reference.api_version and not _GROUP_VERSION.fullmatch(reference.api_version):
        yield fields.invalid(
            path.child("apiVersion"),
            reference.api_version,
            "must be <group>/<version> or <version>",
        )
    for field, value in (
        ("apiVersion", reference.api_version),
        ("kind", reference.kind),
        ("name", reference.name),
        ("uid", reference.uid),
    ):
        if not value:
            yield fields.required(path.child(field), "must not be empty", covered=True)
    if (reference.api_version, reference.kind) == ("v1", "Event"):
        yield fields.invalid(path, reference, "/v1, Kind=Event is disallowed from being an owner")


def finalizers(values: tuple[str, ...], path: fields.Path) -> fields.Errors:
    for finalizer in values:
        yield from fields.invalid_details(path, finalizer, names.qualified_name_errors(finalizer))
    if _ORPHAN in values and _FOREGROUND_DELETION in values:
        yield fields.invalid(
            path, values, f"finalizer {_ORPHAN} and {_FOREGROUND_DELETION} cannot be both set"
        )


def is_known_finalizer(finalizer: str) -> bool:
    """Return whether a finalizer has a domain or is one of Kubernetes' own."""
    return "/" in finalizer or finalizer in _STANDARD_FINALIZERS


def unknown_finalizer(finalizer: str, path: fields.Path) -> fields.FieldError:
    return fields.invalid(
        path, finalizer, "name is neither a standard finalizer name nor is it fully qualified"
    )


def finalizers_known(values: Iterable[str], path: fields.Path) -> fields.Errors:
    for index, finalizer in enumerate(values):
        if not is_known_finalizer(finalizer):
            yield unknown_finalizer(finalizer, path.index(index))


def _no_new_finalizers(new: Iterable[str], old: Iterable[str], path: fields.Path) -> fields.Errors:
    added = sorted(set(new) - set(old))
    if added:
        yield fields.forbidden(
            path,
            "no new finalizers can be added if the object is being deleted, "
            f"found new finalizers []string{{{gotext.quoted_list(added)}}}",
        )


_TEMPLATE_FIELDS = (
    ("name", "name"),
    ("generate_name", "generateName"),
    ("namespace", "namespace"),
    ("uid", "uID"),
    ("resource_version", "resourceVersion"),
    ("generation", "generation"),
    ("creation_timestamp", "creationTimestamp"),
    ("deletion_timestamp", "deletionTimestamp"),
    ("deletion_grace_period_seconds", "deletionGracePeriodSeconds"),
    ("owner_references", "ownerReferences"),
    ("finalizers", "finalizers"),
)


def of_template(metadata: meta.ObjectMeta, path: fields.Path) -> fields.Errors:
    """Check the metadata of a template: labels and annotations only."""
    yield from valid_annotations(metadata.annotations, path.child("annotations"))
    yield from identifiers.labels(metadata.labels, path.child("labels"))
    for attribute, field in _TEMPLATE_FIELDS:
        if getattr(metadata, attribute):
            yield fields.forbidden(path.child(field), "cannot be set")


_CONDITION_STATUSES = ("False", "True", "Unknown")
_CONDITION_REASON = re.compile("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_CONDITION_REASON_COMPLAINT = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' "
    "(e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', "
    f"regex used for validation is '{_CONDITION_REASON.pattern}')"
)
_REASON_MAX_BYTES = 1024
_MESSAGE_MAX_BYTES = 32 * 1024


def conditions(values: tuple[meta.Condition, ...], path: fields.Path) -> fields.Errors:
    seen: set[str] = set()
    for index, condition in enumerate(values):
        if condition.type in seen:
            yield fields.duplicate(path.index(index), condition.type, covered=True)
        seen.add(condition.type)
        yield from _condition(condition, path.index(index))


def _condition(condition: meta.Condition, path: fields.Path) -> fields.Errors:
    if condition.type:
        yield from identifiers.label_name(condition.type, path.child("type"))
    else:
        yield fields.required(path.child("type"), "is required", covered=True)
    yield from fields.required_one_of(
        path.child("status"), condition.status, _CONDITION_STATUSES, covered=True
    )
    if condition.observed_generation < 0:
        yield fields.invalid(
            path.child("observedGeneration"),
            condition.observed_generation,
            "must be greater than or equal to zero",
            origin="minimum",
            covered=True,
        )
    if condition.last_transition_time is None:
        yield fields.required(path.child("lastTransitionTime"), covered=True)
    yield from _condition_reason(condition.reason, path.child("reason"))
    yield from fields.limited_bytes(path.child("message"), condition.message, _MESSAGE_MAX_BYTES)


def _condition_reason(reason: str, path: fields.Path) -> fields.Errors:
    if not reason:
        yield fields.required(path, covered=True)
        return
    if not _CONDITION_REASON.fullmatch(reason):
        yield fields.invalid(path, reason, _CONDITION_REASON_COMPLAINT)
    if len(reason.encode()) > _REASON_MAX_BYTES:
        yield fields.too_long(path, _REASON_MAX_BYTES, origin="maxBytes", covered=True)
