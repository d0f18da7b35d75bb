import pytest

from dray.api.schema import field_types, merge_rules
from dray.api.schema.field_types import WireForm


def test_every_rule_is_about_a_field_of_the_schema() -> None:
    unknown = [
        path
        for path in merge_rules.RULES
        if not field_types.has(path[0]) or path[1] not in field_types.fields(path[0])
    ]
    assert unknown == []


def test_list_rules_are_about_lists() -> None:
    for (type_name, field), rule in merge_rules.RULES.items():
        form = field_types.fields(type_name)[field].type.form
        if rule.list_type != merge_rules.ATOMIC or rule.merge_key:
            assert form is WireForm.LIST, (type_name, field)
        if rule.is_atomic is not None:
            assert form in (WireForm.MAP, WireForm.STRUCT), (type_name, field)


def test_keys_are_fields_of_the_items() -> None:
    for (type_name, field), rule in merge_rules.RULES.items():
        item = field_types.fields(type_name)[field].type.content
        for key in {*rule.keys, rule.merge_key} - {""}:
            assert key in field_types.fields(item.name), (type_name, field, key)


def test_sets_hold_scalars_and_maps_have_keys() -> None:
    for (type_name, field), rule in merge_rules.RULES.items():
        content = field_types.fields(type_name)[field].type.content
        if rule.list_type == merge_rules.SET:
            assert content.form is not WireForm.STRUCT, (type_name, field)
        assert bool(rule.keys) is (rule.list_type == merge_rules.MAP), (type_name, field)


def test_atomic_structures_are_in_the_schema() -> None:
    assert [name for name in merge_rules.ATOMIC_STRUCTS if not field_types.has(name)] == []


def test_enums_are_string_types_of_the_schema() -> None:
    for name, values in merge_rules.ENUMS.items():
        assert field_types.type_named(name).form is WireForm.STRING, name
        assert list(values) == sorted(set(values)), name


@pytest.mark.parametrize(
    ("type_name", "field", "rule"),
    [
        (
            "core.v1.PodSpec",
            "containers",
            merge_rules.MergeRule("map", ("name",), ("merge",), "name"),
        ),
        (
            "core.v1.PodSpec",
            "resourceClaims",
            merge_rules.MergeRule("map", ("name",), ("merge", "retainKeys"), "name"),
        ),
        (
            "core.v1.Container",
            "ports",
            merge_rules.MergeRule(
                "map", ("containerPort", "protocol"), ("merge",), "containerPort"
            ),
        ),
        (
            "resource.v1beta1.ResourceClaimStatus",
            "devices",
            merge_rules.MergeRule("map", ("driver", "device", "pool", "shareID")),
        ),
        ("meta.v1.ObjectMeta", "finalizers", merge_rules.MergeRule("set", (), ("merge",))),
        ("resource.v1.DeviceClaim", "requests", merge_rules.MergeRule("atomic")),
    ],
)
def test_lists_merge_as_kubernetes_says(
    type_name: str, field: str, rule: merge_rules.MergeRule
) -> None:
    assert merge_rules.rule(type_name, field) == rule


@pytest.mark.parametrize(
    ("type_name", "field", "atomic"),
    [
        ("core.v1.PodSpec", "nodeSelector", True),
        ("resource.v1.ResourceSliceSpec", "nodeSelector", True),
        ("core.v1.PersistentVolumeSpec", "claimRef", False),
        ("meta.v1.ObjectMeta", "labels", False),
        ("apps.v1.DeploymentSpec", "selector", True),
        ("apps.v1.DeploymentSpec", "template", False),
    ],
)
def test_some_maps_and_structures_have_one_owner(type_name: str, field: str, atomic: bool) -> None:
    assert merge_rules.is_atomic(type_name, field) is atomic


@pytest.mark.parametrize(
    ("type_name", "key", "default"),
    [
        ("core.v1.ContainerPort", "protocol", "TCP"),
        ("core.v1.EnvVar", "name", ""),
        ("core.v1.LocalObjectReference", "name", ""),
        ("resource.v1.AllocatedDeviceStatus", "shareID", None),
    ],
)
def test_keys_that_an_item_leaves_out(type_name: str, key: str, default: str | None) -> None:
    assert merge_rules.key_default(type_name, key) == default


def test_enum_values_belong_to_the_type_of_a_field() -> None:
    mode = field_types.fields("resource.v1.ExactDeviceRequest")["allocationMode"].type
    assert merge_rules.enum_values(mode) == ("All", "ExactCount")
    name = field_types.fields("resource.v1.ExactDeviceRequest")["deviceClassName"].type
    assert merge_rules.enum_values(name) == ()
