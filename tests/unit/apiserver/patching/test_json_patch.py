"""JSON Patch and JSON Merge Patch."""

from __future__ import annotations

from typing import Any

import pytest

from dray.apiserver.patching import json_patch

DOCUMENT = {"a": {"b": [1, 2, 3]}, "x/y": {"~": 1}}


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        pytest.param(
            [{"op": "add", "path": "/a/c", "value": 1}], {"b": [1, 2, 3], "c": 1}, id="add"
        ),
        pytest.param(
            [{"op": "add", "path": "/a/b/1", "value": 9}], {"b": [1, 9, 2, 3]}, id="insert"
        ),
        pytest.param(
            [{"op": "add", "path": "/a/b/-", "value": 9}], {"b": [1, 2, 3, 9]}, id="append"
        ),
        pytest.param([{"op": "remove", "path": "/a/b/0"}], {"b": [2, 3]}, id="remove"),
        pytest.param([{"op": "replace", "path": "/a/b", "value": []}], {"b": []}, id="replace"),
        pytest.param(
            [{"op": "move", "from": "/a/b/0", "path": "/a/b/-"}], {"b": [2, 3, 1]}, id="move"
        ),
        pytest.param(
            [{"op": "copy", "from": "/a/b/0", "path": "/a/d"}], {"b": [1, 2, 3], "d": 1}, id="copy"
        ),
        pytest.param(
            [{"op": "test", "path": "/x~1y/~0", "value": 1}], {"b": [1, 2, 3]}, id="escapes"
        ),
    ],
)
def test_operation(operations: list[Any], expected: Any) -> None:
    assert json_patch.json_patch(DOCUMENT, operations)["a"] == expected
    assert DOCUMENT == {"a": {"b": [1, 2, 3]}, "x/y": {"~": 1}}, "the document is not changed"


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([{"op": "remove", "path": "/nope"}], id="remove-absent"),
        pytest.param([{"op": "replace", "path": "/a/b/7", "value": 1}], id="index-past-end"),
        pytest.param([{"op": "add", "path": "/a/b/x", "value": 1}], id="no-index"),
        pytest.param([{"op": "add", "path": "/n/m", "value": 1}], id="no-parent"),
        pytest.param([{"op": "test", "path": "/a/b/0", "value": True}], id="true-is-not-1"),
        pytest.param([{"op": "jump", "path": "/a"}], id="unknown-op"),
        pytest.param([{"op": "add", "value": 1}], id="no-path"),
        pytest.param([{"op": "add", "path": "/a"}], id="no-value"),
        pytest.param([{"op": "add", "path": "a", "value": 1}], id="no-slash"),
        pytest.param([{"op": "move", "path": "/a"}], id="no-from"),
    ],
)
def test_patch_that_does_not_fit(operations: list[Any]) -> None:
    with pytest.raises(json_patch.PatchFailed):
        json_patch.json_patch(DOCUMENT, operations)


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param({}, id="no-list"),
        pytest.param([1], id="no-object"),
    ],
)
def test_malformed_patch(operations: Any) -> None:
    with pytest.raises(json_patch.PatchMalformed):
        json_patch.json_patch(DOCUMENT, operations)


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        pytest.param({"a": 1}, {"a": None}, {}, id="null-removes"),
        pytest.param({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}, id="merges"),
        pytest.param({"a": [1]}, {"a": [2]}, {"a": [2]}, id="lists-are-replaced"),
        pytest.param({}, {"a": {"b": None}}, {"a": {}}, id="null-inside-something-new"),
        pytest.param({"a": "x"}, {"a": {"b": 1}}, {"a": {"b": 1}}, id="scalar-becomes-object"),
    ],
)
def test_merge_patch(document: Any, patch: Any, expected: Any) -> None:
    assert json_patch.merge_patch(document, patch) == expected


def test_too_many_operations() -> None:
    with pytest.raises(json_patch.PatchTooLarge, match="maximum operations"):
        json_patch.json_patch(DOCUMENT, [{}] * 10_001)


def test_copies_may_add_only_so_much() -> None:
    """Each doubles the document; in the words of Kubernetes' library."""
    doubled = [{"op": "copy", "from": "", "path": f"/c{number}"} for number in range(40)]
    with pytest.raises(json_patch.PatchFailed, match="accumulated size increase of copy is"):
        json_patch.json_patch(DOCUMENT, doubled)
    small = [{"op": "copy", "from": "/a/b/0", "path": "/d"}] * 10_000
    assert json_patch.json_patch(DOCUMENT, small)["d"] == 1


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/a/0", "value": 1},
        {"op": "remove", "path": "/a/0"},
        {"op": "move", "from": "/a/0", "path": "/a/-"},
    ],
)
def test_the_front_of_a_long_list_may_change_only_so_often(operation: dict[str, Any]) -> None:
    long = {"a": [0] * 100_000}
    json_patch.json_patch(long, [operation] * 90)
    with pytest.raises(json_patch.PatchFailed, match="move more than 10000000 items of lists"):
        json_patch.json_patch(long, [operation] * 200)


def test_the_end_of_a_long_list_may_change_as_often_as_one_likes() -> None:
    long = {"a": [0] * 100_000}
    append = {"op": "add", "path": "/a/-", "value": 1}
    assert len(json_patch.json_patch(long, [append] * 10_000)["a"]) == 110_000
