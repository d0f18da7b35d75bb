import pytest

from dray.api import lists, schema
from dray.api.schema import Form


def test_every_rule_is_about_a_field_of_the_schema() -> None:
    unknown = [
        path
        for path in lists.RULES
        if not schema.has(path[0]) or path[1] not in schema.fields(path[0])
    ]
    assert unknown == []


def test_list_rules_are_about_lists() -> None:
    for (type_name, field), rule in lists.RULES.items():
        form = schema.fields(type_name)[field].type.form
        if rule.list_type != lists.ATOMIC or rule.merge_key:
            assert form is Form.LIST, (type_name, field)
        if rule.is_atomic is not None:
            assert form in (Form.MAP, Form.STRUCT), (type_name, field)


def test_keys_are_fields_of_the_items() -> None:
    for (type_name, field), rule in lists.RULES.items():
        item = schema.fields(type_name)[field].type.content
        for key in {*rule.keys, rule.merge_key} - {""}:
            assert key in schema.fields(item.name), (type_name, field, key)


def test_sets_hold_scalars_and_maps_have_keys() -> None:
    for (type_name, field), rule in lists.RULES.items():
        content = schema.fields(type_name)[field].type.content
        if rule.list_type == lists.SET:
            assert content.form is not Form.STRUCT, (type_name, field)
        assert bool(rule.keys) is (rule.list_type == lists.MAP), (type_name, field)


def test_atomic_structures_are_in_the_schema() -> None:
    assert [name for name in lists.ATOMIC_STRUCTS if not schema.has(name)] == []


def test_enums_are_string_types_of_the_schema() -> None:
    for name, values in lists.ENUMS.items():
        assert schema.type_named(name).form is Form.STRING, name
        assert list(values) == sorted(set(values)), name


@pytest.mark.parametrize(
    ("type_name", "field", "rule"),
    [
        (
            "core.v1.PodSpec",
            "containers",
            lists.Rule("map", ("name",), ("merge",), "name"),
        ),
        (
            "core.v1.PodSpec",
            "resourceClaims",
            lists.Rule("map", ("name",), ("merge", "retainKeys"), "name"),
        ),
        (
            "core.v1.Container",
            "ports",
            lists.Rule("map", ("containerPort", "protocol"), ("merge",), "containerPort"),
        ),
        (
            "resource.v1beta1.ResourceClaimStatus",
            "devices",
            lists.Rule("map", ("driver", "device", "pool", "shareID")),
        ),
        ("meta.v1.ObjectMeta", "finalizers", lists.Rule("set", (), ("merge",))),
        ("resource.v1.DeviceClaim", "requests", lists.Rule("atomic")),
    ],
)
def test_lists_merge_as_kubernetes_says(type_name: str, field: str, rule: lists.Rule) -> None:
    assert lists.rule(type_name, field) == rule


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
    assert lists.is_atomic(type_name, field) is atomic


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
    assert lists.key_default(type_name, key) == default


def test_enum_values_belong_to_the_type_of_a_field() -> None:
    mode = schema.fields("resource.v1.ExactDeviceRequest")["allocationMode"].type
    assert lists.enum_values(mode) == ("All", "ExactCount")
    name = schema.fields("resource.v1.ExactDeviceRequest")["deviceClassName"].type
    assert lists.enum_values(name) == ()
