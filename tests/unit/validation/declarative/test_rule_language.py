"""The language of declarative rules."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.features import DEFAULT
from dray.api.types import dra
from dray.validation import fields
from dray.validation.declarative import formats, rule_language
from dray.validation.declarative.rule_language import Operation, Rule, Struct

CREATE = Operation(is_update=False, features=DEFAULT)
UPDATE = Operation(is_update=True, features=DEFAULT)


def check(rule: Rule, new: Any, old: Any = None, operation: Operation = CREATE) -> list[str]:
    return [error.message for error in rule(new, old, fields.ROOT, operation)]


def named(name: str) -> dra.DeviceRequest:
    return dra.DeviceRequest(name=name)


def test_a_required_field_must_not_be_empty() -> None:
    assert check(rule_language.required("name"), named("")) == ["name: Required value"]
    assert not check(rule_language.required("name"), named("x"))


def test_an_optional_field_is_checked_only_where_it_is_set() -> None:
    rule = rule_language.optional("name", formats.short_name)
    assert not check(rule, named(""))
    assert len(check(rule, named("BAD"))) == 1


def test_an_optional_pointer_to_nothing_is_checked() -> None:
    rule = rule_language.optional_pointer("match_attribute", formats.fully_qualified_name)
    assert not check(rule, dra.DeviceConstraint())
    assert check(rule, dra.DeviceConstraint(match_attribute=""))


def test_an_update_does_not_check_what_it_leaves_alone() -> None:
    rule = rule_language.required("name", formats.short_name)
    assert not check(rule, named("BAD"), named("BAD"), UPDATE)
    assert len(check(rule, named("BAD"), named("WORSE"), UPDATE)) == 1


def test_a_stop_keeps_the_other_rules_from_being_asked() -> None:
    rule = rule_language.optional(
        "requests", rule_language.unique(), stops=(rule_language.max_items(2),)
    )
    constraint = dra.DeviceConstraint(requests=("a", "a", "a"))
    assert check(rule, constraint) == ["requests: Too many: 3: must have at most 2 items"]


def test_an_immutable_field_cannot_be_removed_either() -> None:
    rule = rule_language.optional("requests", stops=(rule_language.immutable,))
    old = dra.DeviceConstraint(requests=("a",))
    assert check(rule, dra.DeviceConstraint(), old, UPDATE) == [
        "requests: Invalid value: null: field is immutable"
    ]
    assert not check(rule, old, None, CREATE)


@pytest.mark.parametrize(
    ("rule", "new", "old", "complaint"),
    [
        (rule_language.no_modification, 2, 1, "field cannot be modified once set"),
        (rule_language.no_setting, 2, None, "field cannot be set once created"),
        (rule_language.no_clearing, None, 1, "field cannot be cleared once set"),
    ],
)
def test_transitions_are_refused_one_by_one(
    rule: Rule, new: int | None, old: int | None, complaint: str
) -> None:
    field = rule_language.optional_pointer("int_value", stops=(rule,))
    after, before = dra.DeviceAttribute(int_value=new), dra.DeviceAttribute(int_value=old)
    assert check(field, after, before, UPDATE) == [f"intValue: Invalid value: null: {complaint}"]
    assert not check(field, before, before, UPDATE)
    assert not check(field, after, None, CREATE)


def test_items_are_compared_with_their_former_selves() -> None:
    rule = rule_language.optional(
        "requests",
        rule_language.each_item(
            Struct(rule_language.required("exactly")), lambda request: request.name
        ),
    )
    old = dra.DeviceClaim(requests=(named("a"), named("b")))
    new = dra.DeviceClaim(requests=(named("b"), named("a"), named("c")))
    assert check(rule, new, old, UPDATE) == ["requests[2].exactly: Required value"]


def test_only_new_keys_of_a_map_are_checked() -> None:
    rule = rule_language.required("counters", rule_language.each_key(formats.short_name))
    old = dra.CounterSet(counters={"BAD": dra.Counter()})
    new = dra.CounterSet(counters={"BAD": dra.Counter("1"), "ALSO": dra.Counter()})
    (message,) = check(rule, new, old, UPDATE)
    assert message.startswith('counters: Invalid value: "ALSO"')


def test_exactly_one_member_of_a_union_is_set() -> None:
    rule = rule_language.union(("int_value", "int"), ("string_value", "string"))
    none, both = dra.DeviceAttribute(), dra.DeviceAttribute(int_value=0, string_value="")
    assert not check(rule, dra.DeviceAttribute(int_value=0))
    (empty,) = rule(none, None, fields.SPEC, CREATE)
    (multiple,) = rule(both, None, fields.SPEC, CREATE)
    assert empty.body == 'Invalid value: "": must specify one of: `int`, `string`'
    assert multiple.body == (
        'Invalid value: "{int, string}": must specify exactly one of: `int`, `string`'
    )
    assert not check(rule, both, both, UPDATE)


def test_a_field_may_depend_on_a_gate() -> None:
    rule = rule_language.optional_pointer(
        "partition_type_attribute",
        stops=(rule_language.allowed_with("partitionable_devices_type"),),
    )
    spec = dra.ResourceSliceSpec(partition_type_attribute="d.io/x")
    assert check(rule, spec) == ["partitionTypeAttribute: Forbidden"]


@pytest.mark.parametrize(
    ("rule", "value", "details"),
    [
        (formats.uuid, "00000000-0000-0000-0000-00000000000A", 1),
        (formats.uuid, "00000000-0000-0000-0000-00000000000a", 0),
        (formats.pool_name, "a//b", 1),
        (formats.pool_name, "a/b.c", 0),
        (formats.fully_qualified_name, "numa", 1),
        (formats.fully_qualified_name, "d.io/numa", 0),
        (formats.fully_qualified_name, "d.io/", 1),
        (formats.fully_qualified_name, "/numa", 1),
        (formats.extended_resource_name, "example.com/gpu", 0),
        (formats.extended_resource_name, "gpu", 1),
        (formats.extended_resource_name, "kubernetes.io/gpu", 1),
        (formats.extended_resource_name, "requests.example.com/gpu", 1),
        (formats.long_name_caseless, "GPU.Example.com", 0),
        (rule_language.max_characters(2), "äöü", 1),
        (rule_language.max_bytes(4), "äöü", 1),
        (rule_language.minimum(1), 0, 1),
        (rule_language.maximum(1), 2, 1),
    ],
)
def test_values_have_their_forms(rule: Rule, value: Any, details: int) -> None:
    assert len(list(rule(value, None, fields.SPEC, CREATE))) == details
