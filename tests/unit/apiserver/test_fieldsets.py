"""Sets of fields: algebra, and the quick walk for new objects against the general comparison."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api import canonical
from dray.apiserver.patching import fieldsets
from dray.apiserver.patching.fieldsets import FieldSet

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


@pytest.mark.parametrize(
    ("type_name", "document"),
    [
        ("core.v1.Pod", POD),
        ("core.v1.Pod", {"metadata": {}, "spec": {}}),
        ("resource.v1.ResourceClaim", CLAIM),
        ("apps.v1.Deployment", {"spec": {"replicas": 2, "template": {"spec": POD["spec"]}}}),
    ],
)
def test_created_is_what_compare_finds_changed(type_name: str, document: dict[str, Any]) -> None:
    place = fieldsets.root(type_name)
    zero = canonical.write(type_name, {"metadata": {}})
    new = canonical.write(type_name, document)
    expected = fieldsets.compare(zero, new, place).changed
    assert fieldsets.created(new, zero, place) == expected


paths = st.lists(
    st.lists(st.sampled_from(["f:a", "f:b", "k:{}", "v:1"]), min_size=1, max_size=4).map(tuple),
    max_size=8,
)


def made(members: list[tuple[str, ...]]) -> FieldSet:
    fields: FieldSet = {}
    for path in members:
        fieldsets.insert(fields, path)
    return fieldsets.tidy(fields) if not members else fieldsets.union(fields, {})


@given(paths, paths)
def test_sets_of_paths(left: list[tuple[str, ...]], right: list[tuple[str, ...]]) -> None:
    a, b = made(left), made(right)
    assert set(fieldsets.paths(a)) == set(left)
    assert set(fieldsets.paths(fieldsets.union(a, b))) == set(left) | set(right)
    assert set(fieldsets.paths(fieldsets.intersection(a, b))) == set(left) & set(right)
    assert set(fieldsets.paths(fieldsets.difference(a, b))) == set(left) - set(right)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("f:metadata", "f:labels", "f:team"), ".metadata.labels.team"),
        (("f:spec", 'k:{"name":"c"}', "f:image"), '.spec[name="c"].image'),
        (("f:finalizers", 'v:"x"'), '.finalizers[="x"]'),
    ],
)
def test_text_of_a_path(path: tuple[str, ...], expected: str) -> None:
    assert fieldsets.text(path) == expected
