"""Sets of fields: their algebra, and how objects differ by fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.conversion import canonical
from dray.apiserver.patching import field_sets, schema_node
from dray.apiserver.patching.field_sets import FieldSet
from dray.apiserver.patching.schema_node import SchemaNode

Path = tuple[str, ...]

POD: dict[str, Any] = {
    "metadata": {
        "labels": {"a": "b"},
        "finalizers": ["x/y"],
        "ownerReferences": [{"uid": "1", "name": "o", "kind": "K", "apiVersion": "v1"}],
    },
    "spec": {
        "containers": [
            {
                "name": "c",
                "env": [{"name": "X", "value": "1"}],
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"limits": {"cpu": "1"}},
                "command": ["a", "b"],
            }
        ],
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "securityContext": {},
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
}
CLAIM: dict[str, Any] = {
    "metadata": {"annotations": {"a": "b"}},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
    "status": {},
}


ZERO_POD = canonical.write("core.v1.Pod", {"metadata": {}})
OTHER_POD: dict[str, Any] = {
    "metadata": {"labels": {"a": "c", "d": "e"}, "ownerReferences": []},
    "spec": {
        "containers": [
            {
                "name": "c",
                "env": [{"name": "Y", "value": "1"}],
                "resources": {"limits": {"memory": "1"}},
                "command": ["a"],
            },
            {"name": "d"},
        ],
        "nodeSelector": {"x": "y"},
        "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
    },
}


@pytest.mark.parametrize(
    ("type_name", "old", "new"),
    [
        pytest.param("core.v1.Pod", ZERO_POD, POD, id="new pod"),
        pytest.param("core.v1.Pod", ZERO_POD, {"metadata": {}, "spec": {}}, id="empty pod"),
        pytest.param("core.v1.Pod", POD, OTHER_POD, id="changed pod"),
        pytest.param("core.v1.Pod", OTHER_POD, POD, id="pod changed back"),
        pytest.param("core.v1.Pod", POD, POD, id="same pod"),
        pytest.param("core.v1.Pod", {"spec": None}, {"spec": {}}, id="null became empty"),
        pytest.param("core.v1.Pod", {"spec": {"volumes": None}}, POD, id="null became a list"),
        pytest.param("core.v1.Pod", POD, {"metadata": None, "spec": None}, id="became null"),
        pytest.param(
            "resource.v1.ResourceClaim", {"metadata": {}, "status": {}}, CLAIM, id="claim"
        ),
    ],
)
def test_compare_finds_what_comparing_path_by_path_finds(
    type_name: str, old: dict[str, Any], new: dict[str, Any]
) -> None:
    place = schema_node.root(type_name)
    before, after = values_by_path(old, place), values_by_path(new, place)
    found = field_sets.compare(old, new, place)
    assert set(field_sets.paths(found.removed)) == before.keys() - after.keys()
    assert set(field_sets.paths(found.changed)) == (after.keys() - before.keys()) | {
        path
        for path in before.keys() & after.keys()
        if is_replaced(before[path], after[path], place_of(path, place))
    }
    assert is_sorted(found.changed)
    assert is_sorted(found.removed)


NULLS_AND_EMPTIES: dict[str, Any] = {
    "metadata": {"creationTimestamp": None, "labels": {}},
    "spec": {"containers": [], "volumes": None, "securityContext": {}, "nodeSelector": {}},
    "status": None,
}


@pytest.mark.parametrize(
    ("type_name", "new"),
    [
        pytest.param("core.v1.Pod", POD, id="pod"),
        pytest.param("core.v1.Pod", OTHER_POD, id="other pod"),
        pytest.param("core.v1.Pod", ZERO_POD, id="nothing"),
        pytest.param("core.v1.Pod", NULLS_AND_EMPTIES, id="nulls and empty values"),
        pytest.param("core.v1.Pod", canonical.write("core.v1.Pod", POD), id="canonical pod"),
        pytest.param("resource.v1.ResourceClaim", CLAIM, id="claim"),
        pytest.param(
            "apps.v1.Deployment",
            canonical.write("apps.v1.Deployment", {"metadata": {}, "spec": {"template": POD}}),
            id="deployment",
        ),
        pytest.param("core.v1.ConfigMap", {"metadata": {}, "data": {"a": "b"}}, id="config map"),
    ],
)
def test_a_new_object_is_compared_with_nothing(type_name: str, new: dict[str, Any]) -> None:
    nothing, place = canonical.write(type_name, {"metadata": {}}), schema_node.root(type_name)
    found = field_sets.added(nothing, new, place)
    assert found == field_sets.compare(nothing, new, place).changed
    assert is_sorted(found)


def values_by_path(value: Any, place: SchemaNode, path: Path = ()) -> dict[Path, Any]:
    found = {path: value} if path else {}
    for name, each in (place.parts(value) or {}).items():
        element, inner = place.part(name)
        found |= values_by_path(each, inner, (*path, element))
    return found


def place_of(path: Path, place: SchemaNode) -> SchemaNode:
    for element in path:
        place = place.part(element.removeprefix(place.prefix)).node
    return place


def is_replaced(old: Any, new: Any, place: SchemaNode) -> bool:
    """Members tell what changed inside of what has some, and null is the same as having none."""
    has_members = [place.parts(value) is not None for value in (old, new)]
    if all(has_members) or (any(has_members) and None in (old, new)):
        return False
    return bool(old != new)


def is_sorted(fields: FieldSet) -> bool:
    return list(fields) == sorted(fields) and all(map(is_sorted, fields.values()))


paths = st.lists(
    st.lists(st.sampled_from(["f:a", "f:b", "k:{}", "v:1"]), min_size=1, max_size=4).map(tuple),
    max_size=8,
)


def made(members: Iterable[Path]) -> FieldSet:
    fields: FieldSet = {}
    for path in members:
        inner: FieldSet = {}
        for element in reversed(path):
            inner = {element: inner}
        fields = field_sets.union(fields, inner)
    return fields


@given(paths, paths)
def test_sets_of_paths(left: list[tuple[str, ...]], right: list[tuple[str, ...]]) -> None:
    a, b = made(left), made(right)
    assert set(field_sets.paths(a)) == set(left)
    assert set(field_sets.paths(field_sets.union(a, b))) == set(left) | set(right)
    assert set(field_sets.paths(field_sets.intersection(a, b))) == set(left) & set(right)
    assert set(field_sets.paths(field_sets.difference(a, b))) == set(left) - set(right)
    assert is_sorted(field_sets.union(a, b))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("f:metadata", "f:labels", "f:team"), ".metadata.labels.team"),
        (("f:spec", 'k:{"name":"c"}', "f:image"), '.spec[name="c"].image'),
        (("f:finalizers", 'v:"x"'), '.finalizers[="x"]'),
    ],
)
def test_text_of_a_path(path: tuple[str, ...], expected: str) -> None:
    assert field_sets.text(path) == expected
