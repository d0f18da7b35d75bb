"""JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386). Pure: documents are not changed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

MAX_OPERATIONS = 10_000


class PatchFailed(Exception):
    """A well-formed patch cannot be applied to the document."""


class PatchMalformed(Exception):
    """The patch is invalid; the text names the operation and the reason."""


def json_patch(document: Any, operations: Any) -> Any:
    """Return `document` after all operations. Raises PatchFailed or PatchMalformed."""
    if not isinstance(operations, list):
        raise PatchMalformed("a JSON patch is a list of operations")
    if len(operations) > MAX_OPERATIONS:
        raise PatchMalformed(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, "
            f"got {len(operations)}"
        )
    result = copy.deepcopy(document)
    for operation in operations:
        result = _apply(result, operation)
    return result


def merge_patch(document: Any, patch: Any) -> Any:
    """Return `document` with `patch` merged: null removes, objects merge, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def _apply(document: Any, operation: Any) -> Any:
    if not isinstance(operation, dict):
        raise PatchMalformed("an operation of a JSON patch is an object")
    apply = _OPERATIONS.get(str(operation.get("op")))
    if apply is None:
        raise PatchFailed(f"Unexpected kind: {operation.get('op') or 'unknown'}")
    if not isinstance(operation.get("path"), str):
        raise PatchFailed(f"operation {operation['op']} has no path")
    return apply(document, operation)


def _add(document: Any, operation: dict[str, Any]) -> Any:
    return _put(document, operation["path"], _value(operation), "add")


def _replace(document: Any, operation: dict[str, Any]) -> Any:
    path = operation["path"]
    _get(document, path, "replace")
    return _put(document, path, _value(operation), "replace")


def _remove(document: Any, operation: dict[str, Any]) -> Any:
    path = operation["path"]
    _get(document, path, "remove")
    parent, key = _parent(document, path, "remove")
    del parent[key]
    return document


def _move(document: Any, operation: dict[str, Any]) -> Any:
    value = _get(document, _from(operation), "move")
    document = _remove(document, {"path": operation["from"]})
    return _put(document, operation["path"], value, "move")


def _copy(document: Any, operation: dict[str, Any]) -> Any:
    value = copy.deepcopy(_get(document, _from(operation), "copy"))
    return _put(document, operation["path"], value, "copy")


def _test(document: Any, operation: dict[str, Any]) -> Any:
    path = operation["path"]
    try:
        value = _get(document, path, "test")
    except PatchFailed:
        value = None
    if not _equal(value, operation.get("value")):
        raise PatchFailed(f"testing value {path} failed: test failed")
    return document


_OPERATIONS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "add": _add,
    "replace": _replace,
    "remove": _remove,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise PatchFailed(f"operation {operation['op']} at {operation['path']} has no value")
    return operation["value"]


def _from(operation: dict[str, Any]) -> str:
    source = operation.get("from")
    if not isinstance(source, str):
        raise PatchFailed(f"operation {operation['op']} has no from")
    return source


def _equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal as JSON, where true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def _tokens(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise PatchFailed(f"path {path!r} does not start with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _get(document: Any, path: str, operation: str) -> Any:
    value = document
    for token in _tokens(path):
        value = _step(value, token, path, operation)
    return value


def _step(container: Any, token: str, path: str, operation: str) -> Any:
    if isinstance(container, dict) and token in container:
        return container[token]
    if isinstance(container, list):
        return container[_index(container, token, path, operation, past_end=False)]
    raise _missing(path, operation)


def _parent(document: Any, path: str, operation: str) -> tuple[Any, Any]:
    """Return the container that `path` points into, and the key or index in it."""
    if not path:
        raise PatchFailed("the whole document cannot be moved or removed")
    *leading, last = _tokens(path)
    parent = document
    for token in leading:
        parent = _step(parent, token, path, operation)
    if isinstance(parent, list):
        return parent, _index(parent, last, path, operation, past_end=operation in _INSERTING)
    if isinstance(parent, dict):
        return parent, last
    raise _missing(path, operation)


_INSERTING = frozenset({"add", "move", "copy"})


def _put(document: Any, path: str, value: Any, operation: str) -> Any:
    if not path:
        return value
    parent, key = _parent(document, path, operation)
    if isinstance(parent, list) and operation in _INSERTING:
        parent.insert(key, value)
    else:
        parent[key] = value
    return document


def _index(container: list[Any], token: str, path: str, operation: str, *, past_end: bool) -> int:
    if token == "-" and past_end:
        return len(container)
    if not token.isascii() or not token.isdigit():
        raise _missing(path, operation)
    index = int(token[:10])
    if index > len(container) or (index == len(container) and not past_end):
        raise PatchFailed(
            f"{operation} operation does not apply: doc is missing path: {path}: "
            f"Unable to access invalid index: {index}: invalid index referenced"
        )
    return index


def _missing(path: str, operation: str) -> PatchFailed:
    return PatchFailed(
        f"{operation} operation does not apply: doc is missing path: {path}: missing value"
    )
