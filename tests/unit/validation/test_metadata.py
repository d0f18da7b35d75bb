"""Rules for the metadata of every kind."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.types import meta
from dray.validation import fields, metadata
from tests.unit.validation import objects


def object_meta(**values: Any) -> meta.ObjectMeta:
    return msgspec.convert(objects.metadata(**values), meta.ObjectMeta)


def created(**values: Any) -> list[str]:
    return objects.messages(metadata.created(object_meta(**values), namespaced=True))


def updated(new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    return objects.messages(metadata.updated(object_meta(**new), object_meta(**old)))


def test_ordinary_metadata_is_valid() -> None:
    assert not created(
        labels={"app.kubernetes.io/name": "x"},
        annotations={"Example.COM/Key": "any text \n"},
        finalizers=["example.com/protect", "orphan"],
        ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}],
    )


def test_a_name_is_required() -> None:
    assert created(name="") == ["metadata.name: Required value: name or generateName is required"]


def test_a_name_must_be_a_dns_subdomain() -> None:
    (message,) = created(name="Bad_Name")
    assert message.startswith('metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123')


def test_the_prefix_of_a_generated_name_may_end_with_a_dash() -> None:
    assert not created(generateName="pod-", name="pod-x7k2f")
    (message,) = created(generateName="Pod-", name="pod-x7k2f")
    assert message.startswith('metadata.generateName: Invalid value: "Pod-"')


def test_a_namespace_is_required_where_kinds_have_one() -> None:
    assert created(namespace="") == ["metadata.namespace: Required value"]


def test_a_namespace_is_forbidden_where_kinds_have_none() -> None:
    errors = metadata.created(object_meta(), namespaced=False)
    assert objects.messages(errors) == ["metadata.namespace: Forbidden: not allowed on this type"]


def test_labels_are_reported_at_the_map_with_the_bad_part() -> None:
    first, second = created(labels={"bad key": "bad value!"})
    assert first.startswith('metadata.labels: Invalid value: "bad key": name part must consist')
    assert second.startswith('metadata.labels: Invalid value: "bad value!": a valid label must be')


def test_annotations_are_limited_in_size() -> None:
    (message,) = created(annotations={"a": "x" * 256 * 1024})
    assert message == "metadata.annotations: Too long: may not be more than 262144 bytes"


def test_an_owner_needs_all_of_its_fields() -> None:
    assert created(ownerReferences=[{"apiVersion": "a/b/c"}]) == [
        'metadata.ownerReferences[0].apiVersion: Invalid value: "a/b/c": '
        "must be <group>/<version> or <version>",
        "metadata.ownerReferences[0].kind: Required value: must not be empty",
        "metadata.ownerReferences[0].name: Required value: must not be empty",
        "metadata.ownerReferences[0].uid: Required value: must not be empty",
    ]


def test_an_event_owns_nothing() -> None:
    owner = {"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}
    (message,) = created(ownerReferences=[owner])
    assert message == (
        'metadata.ownerReferences[0]: Invalid value: {"apiVersion":"v1","kind":"Event","name":"e",'
        '"uid":"u"}: /v1, Kind=Event is disallowed from being an owner'
    )


def test_only_one_owner_is_the_controller() -> None:
    owners = [
        {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
        for name in ("a", "b")
    ]
    (message,) = created(ownerReferences=owners)
    assert message.endswith(
        "Only one reference can have Controller set to true. "
        'Found "true" in references for Pod/a and Pod/b'
    )


@pytest.mark.parametrize("finalizer", ["kubernetes", "orphan", "foregroundDeletion", "a.io/b"])
def test_known_and_qualified_finalizers_are_valid(finalizer: str) -> None:
    assert not created(finalizers=[finalizer])


def test_a_finalizer_of_ones_own_needs_a_domain() -> None:
    assert created(finalizers=["protect"]) == [
        'metadata.finalizers[0]: Invalid value: "protect": '
        "name is neither a standard finalizer name nor is it fully qualified"
    ]


def test_an_object_cannot_both_orphan_and_delete_its_dependents() -> None:
    assert created(finalizers=["orphan", "foregroundDeletion"]) == [
        'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: '
        "finalizer orphan and foregroundDeletion cannot be both set"
    ]


def test_an_update_without_changes_is_valid() -> None:
    assert not updated({}, {})


def test_an_update_needs_a_resource_version() -> None:
    assert updated({"resourceVersion": ""}, {}) == [
        'metadata.resourceVersion: Invalid value: "": must be specified for an update'
    ]


@pytest.mark.parametrize("field", ["name", "namespace", "uid"])
def test_identity_cannot_change(field: str) -> None:
    assert updated({field: "other"}, {}) == [
        f'metadata.{field}: Invalid value: "other": field is immutable'
    ]


def test_generation_does_not_go_back() -> None:
    assert updated({"generation": 1}, {"generation": 2}) == [
        "metadata.generation: Invalid value: 1: must not be decremented"
    ]


def test_no_finalizer_is_added_while_the_object_is_being_deleted() -> None:
    deleted = {"deletionTimestamp": objects.NOW, "finalizers": ["a.io/b"]}
    assert updated({**deleted, "finalizers": ["a.io/b", "c.io/d"]}, deleted) == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being "
        'deleted, found new finalizers []string{"c.io/d"}'
    ]
    assert not updated({**deleted, "finalizers": []}, deleted)


def test_templates_have_labels_and_annotations_only() -> None:
    value = object_meta(labels={"a": "b"}, finalizers=["a.io/b"], uid="u")
    errors = metadata.of_template(value, fields.SPEC.child("metadata"))
    assert [error.field for error in errors] == [
        "spec.metadata.name",
        "spec.metadata.namespace",
        "spec.metadata.uID",
        "spec.metadata.resourceVersion",
        "spec.metadata.finalizers",
    ]


def test_conditions_need_their_fields_and_distinct_types() -> None:
    good = meta.Condition("Ready", "True", 1, objects.NOW, "Because", "")
    bad = meta.Condition("Ready", "Maybe", -1, None, "no spaces allowed", "")
    errors = list(metadata.conditions((good, bad), fields.STATUS.child("conditions")))
    assert [(error.field, error.type.value) for error in errors] == [
        ("status.conditions[1]", "FieldValueDuplicate"),
        ("status.conditions[1].status", "FieldValueNotSupported"),
        ("status.conditions[1].observedGeneration", "FieldValueInvalid"),
        ("status.conditions[1].lastTransitionTime", "FieldValueRequired"),
        ("status.conditions[1].reason", "FieldValueInvalid"),
    ]
