"""Strategic merge patch: keyed lists, directives and orders."""

from __future__ import annotations

from typing import Any

import pytest

from dray.apiserver.patching import strategic_merge
from dray.apiserver.patching.json_patch import PatchMalformed


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": spec}


def merged(document: dict[str, Any], **spec: Any) -> Any:
    return strategic_merge.merge(document, {"spec": spec}, "core.v1.Pod")["spec"]


CONTAINERS = [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]


def test_items_with_the_same_key_merge_and_others_are_appended() -> None:
    result = merged(
        pod(containers=CONTAINERS),
        containers=[{"name": "b", "image": "3"}, {"name": "c", "image": "4"}],
    )
    assert result["containers"] == [
        {"name": "a", "image": "1"},
        {"name": "b", "image": "3"},
        {"name": "c", "image": "4"},
    ]


def test_delete_directive_removes_the_item() -> None:
    result = merged(pod(containers=CONTAINERS), containers=[{"name": "a", "$patch": "delete"}])
    assert result["containers"] == [{"name": "b", "image": "2"}]


def test_replace_directive_replaces_the_list() -> None:
    patch = [{"$patch": "replace"}, {"name": "z", "image": "9"}]
    assert merged(pod(containers=CONTAINERS), containers=patch)["containers"] == [patch[1]]


def test_item_without_its_key_is_refused() -> None:
    with pytest.raises(PatchMalformed, match="does not contain declared merge key: name"):
        merged(pod(containers=CONTAINERS), containers=[{"image": "1"}])


def test_atomic_lists_are_replaced() -> None:
    document = pod(containers=[{"name": "a", "command": ["x", "y"]}])
    result = merged(document, containers=[{"name": "a", "command": ["z"]}])
    assert result["containers"][0]["command"] == ["z"]


def test_sets_merge_and_lose_what_is_deleted() -> None:
    document = {"metadata": {"finalizers": ["a", "b"]}}
    patch = {"metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]}}
    result = strategic_merge.merge(document, patch, "core.v1.Pod")
    assert result["metadata"]["finalizers"] == ["c", "b"]


def test_what_is_new_comes_first_and_the_rest_stays_in_order() -> None:
    """As a real 1.37 was seen to put conditions: those of the patch, then the others."""
    document = {"status": {"conditions": [{"type": kind} for kind in "abcd"]}}
    patch = {"status": {"conditions": [{"type": "new"}, {"type": "c", "status": "True"}]}}
    result = strategic_merge.merge(document, patch, "core.v1.Pod")
    assert [condition["type"] for condition in result["status"]["conditions"]] == [
        "new",
        "a",
        "b",
        "c",
        "d",
    ]


def test_order_is_obeyed() -> None:
    patch = {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}
    result = strategic_merge.merge(pod(containers=CONTAINERS), {"spec": patch}, "core.v1.Pod")
    assert [container["name"] for container in result["spec"]["containers"]] == ["b", "a"]


def test_retain_keys_clears_the_rest() -> None:
    document = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    result = strategic_merge.merge(document, patch, "apps.v1.Deployment")
    assert result["spec"]["strategy"] == {"type": "Recreate"}


def test_maps_merge_and_null_removes() -> None:
    document = {"metadata": {"labels": {"a": "1", "b": "2"}}}
    patch = {"metadata": {"labels": {"a": None, "c": "3"}}}
    result = strategic_merge.merge(document, patch, "core.v1.Pod")
    assert result["metadata"]["labels"] == {"b": "2", "c": "3"}


def test_items_that_share_a_key_keep_their_places() -> None:
    owners = [{"uid": "a", "name": "1"}, {"uid": "b"}, {"uid": "a", "name": "2"}]
    patch = {"metadata": {"ownerReferences": [{"uid": "a", "name": "3"}, {"uid": "c"}]}}
    document = {"metadata": {"ownerReferences": owners}}
    merged = strategic_merge.merge(document, patch, "core.v1.ConfigMap")
    found = merged["metadata"]["ownerReferences"]
    assert sorted(found, key=str) == sorted(
        [{"uid": "a", "name": "3"}, {"uid": "a", "name": "2"}, {"uid": "b"}, {"uid": "c"}], key=str
    )
    gone = {"metadata": {"ownerReferences": [{"uid": "a", "$patch": "delete"}]}}
    left = strategic_merge.merge(document, gone, "core.v1.ConfigMap")
    assert left["metadata"]["ownerReferences"] == [{"uid": "b"}]


def test_a_new_list_keeps_the_order_of_the_patch_and_merges_repeated_items() -> None:
    items = [{"name": "b", "image": "1"}, {"name": "a", "image": "2"}]
    assert merged(pod(), containers=items)["containers"] == items
    repeated = [*items, {"name": "b", "command": ["x"]}]
    assert merged(pod(), containers=repeated)["containers"] == [
        {"name": "a", "image": "2"},
        {"name": "b", "image": "1", "command": ["x"]},
    ]
