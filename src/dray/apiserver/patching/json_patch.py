"""JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386). Pure: documents are not changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 2**20
"""What all `copy` operations of a patch may add: each of them can double the document."""
MAX_SHIFTED_ITEMS = 10_000_000
"""Items that have to move for operations at the front of lists: one step each, some 10 ms."""


class PatchFailed(Exception):
    """A well-formed patch cannot be applied to the document."""


class PatchMalformed(Exception):
    """The patch is invalid; the text names the operation and the reason."""


class PatchTooLarge(Exception):
    """The patch has more operations than are allowed."""


class _Work:
    """The cost of a patch so far. Raises PatchFailed for one that costs too much."""

    def __init__(self) -> None:
        self._copied = 0
        self._shifted = 0

    def copy(self, value: Any) -> Any:
        """Return a deep copy."""
        encoded = msgspec.json.encode(value)
        self._copied += len(encoded)
        if self._copied > MAX_COPIED_BYTES:
            raise PatchFailed(
                "Unable to complete the copy, the accumulated size increase of copy is "
                f"{self._copied}, exceeding the limit {MAX_COPIED_BYTES}"
            )
        return msgspec.json.decode(encoded)

    def shift(self, items: int) -> None:
        self._shifted += items
        if self._shifted > MAX_SHIFTED_ITEMS:
            raise PatchFailed(
                f"the operations move more than {MAX_SHIFTED_ITEMS} items of lists: change the "
                "ends of lists, or replace a list as a whole"
            )


def json_patch(document: Any, operations: Any) -> Any:
    """Return `document` after all operations. Raises PatchFailed or PatchMalformed."""
    if not isinstance(operations, list):
        raise PatchMalformed("a JSON patch is a list of operations")
    if len(operations) > MAX_OPERATIONS:
        raise PatchTooLarge(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, "
            f"got {len(operations)}"
        )
    result = msgspec.json.decode(msgspec.json.encode(document))
    work = _Work()
    try:
        for operation in operations:
            result = _apply(result, operation, work)
    except RecursionError as error:
        raise PatchFailed("the patched document is nested too deep") from error
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


def _apply(document: Any, operation: Any, work: _Work) -> Any:
    if not isinstance(operation, dict):
        raise PatchMalformed("an operation of a JSON patch is an object")
    apply = _OPERATIONS.get(str(operation.get("op")))
    if apply is None:
        raise PatchFailed(f"Unexpected kind: {operation.get('op') or 'unknown'}")
    if not isinstance(operation.get("path"), str):
        raise PatchFailed(f"operation {operation['op']} has no path")
    return apply(document, operation, work)


def _add(document: Any, operation: dict[str, Any], work: _Work) -> Any:
    return _put(document, operation["path"], _value(operation), "add", work)


def _replace(document: Any, operation: dict[str, Any], work: _Work) -> Any:
    path = operation["path"]
    _get(document, path, "replace")
    return _put(document, path, _value(operation), "replace", work)


def _remove(document: Any, operation: dict[str, Any], work: _Work) -> Any:
    path = operation["path"]
    _get(document, path, "remove")
    parent, key = _parent(document, path, "remove")
    if isinstance(parent, list):
        work.shift(len(parent) - key)
    del parent[key]
    return document


def _move(document: Any, operation: dict[str, Any], work: _Work) -> Any:
    value = _get(document, _from(operation), "move")
    document = _remove(document, {"path": operation["from"]}, work)
    return _put(document, operation["path"], value, "move", work)


def _copy(document: Any, operation: dict[str, Any], work: _Work) -> Any:
    value = work.copy(_get(document, _from(operation), "copy"))
    return _put(document, operation["path"], value, "copy", work)


def _test(document: Any, operation: dict[str, Any], _work: _Work) -> Any:
    path = operation["path"]
    try:
        value = _get(document, path, "test")
    except PatchFailed:
        value = None
    if not _equal(value, operation.get("value")):
        raise PatchFailed(f"testing value {path} failed: test failed")
    return document


_OPERATIONS: dict[str, Callable[[Any, dict[str, Any], _Work], Any]] = {
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


def _put(document: Any, path: str, value: Any, operation: str, work: _Work) -> Any:
    if not path:
        return value
    parent, key = _parent(document, path, operation)
    if isinstance(parent, list) and operation in _INSERTING:
        work.shift(len(parent) - key)
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
