"""Rules for lists and maps: size, distinct keys, and a rule for each item."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from dray.validation import fields

Item = TypeVar("Item")
Rule = Callable[[Item, fields.Path], fields.Errors]


def each_item(items: Iterable[Item], rule: Rule[Item], path: fields.Path) -> fields.Errors:
    for index, item in enumerate(items):
        yield from rule(item, path.index(index))


def limited(
    items: Sequence[Item],
    maximum: int,
    rule: Rule[Item],
    path: fields.Path,
    *,
    size_covered: bool = False,
) -> fields.Errors:
    """Check the size of a list and, if it is not too long, its items."""
    if len(items) > maximum:
        yield fields.too_many(path, len(items), maximum, origin="maxItems", covered=size_covered)
    else:
        yield from each_item(items, rule, path)


def limited_set(
    items: Sequence[Item],
    maximum: int,
    rule: Rule[Item],
    key: Callable[[Item], Hashable],
    path: fields.Path,
    *,
    covered: bool = False,
) -> fields.Errors:
    """Check as `limited` does, and that no two items have the same key."""
    yield from limited(items, maximum, rule, path, size_covered=covered)
    if len(items) <= maximum:
        yield from distinct(items, key, path, covered=covered)


def distinct(
    items: Sequence[Item],
    key: Callable[[Item], Hashable],
    path: fields.Path,
    *,
    shown: Callable[[Item], object] | None = None,
    covered: bool = False,
) -> fields.Errors:
    """Reject items with the same key; `shown` returns the value for the message."""
    seen: set[Hashable] = set()
    for index, item in enumerate(items):
        item_key = key(item)
        if item_key in seen:
            value = shown(item) if shown else item_key
            yield fields.duplicate(path.index(index), value, covered=covered)
        seen.add(item_key)


def mapped(
    items: Mapping[str, Item],
    key_rule: Rule[str],
    rule: Rule[Item],
    path: fields.Path,
    *,
    longest_key_shown: int,
    keys_covered: bool = False,
) -> fields.Errors:
    """Check a map: a bad key is reported at the map, a bad value at its key."""
    for key, item in items.items():
        key_errors = key_rule(key, path)
        yield from fields.covered(key_errors) if keys_covered else key_errors
        yield from rule(item, path.key(shortened(key, longest_key_shown)))


def shortened(text: str, maximum: int) -> str:
    if len(text) <= maximum:
        return text
    kept = maximum - len("...")
    return f"{text[: (kept + 1) // 2]}...{text[len(text) - kept // 2 :]}"


def itself(item: str) -> str:
    return item
