"""Permissions that a role grants beyond the rules of a user, found without listing each.

A rule is a product of verbs, groups, resources and names: four lists of a hundred entries are a
hundred million permissions. So whole products are subtracted from each other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from dray.api.types.rbac import PolicyRule

ALL = "*"
MAX_LISTED = 1000
"""Permissions that are listed one by one; more of them are returned as products."""
MAX_PRODUCTS = 10_000
MAX_LOOKED_UP = 64
"""Values of a part by which rules are looked up; for more, all rules are tried."""

_ANY_NAME = ""
"""The name of a rule without names. Marked, no name is the same: a rule may have an empty one."""
_MARK = "="

Part = frozenset[str]


class _Product(NamedTuple):
    """The verbs, groups, resources and names of a rule; or its verbs and paths only."""

    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        return math.prod(map(len, self.parts))


def uncovered(owned: Iterable[PolicyRule], granted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Return the part of `granted` that no rule in `owned` covers.

    Each returned rule is for one verb and one resource, unless these are more than MAX_LISTED;
    the rules after these are not looked at. If the rules overlap in more than MAX_PRODUCTS ways,
    the rest counts as not covered.
    """
    rules = tuple(owned)
    resource_covers = _Covers([_resource_cover(own) for own in rules if own.resources])
    path_covers = _Covers([_path_cover(own) for own in rules if own.non_resource_urls])
    missing: list[PolicyRule] = []
    for rule in dict.fromkeys(granted):
        names = _marked(rule.resource_names) or (_ANY_NAME,)
        resources = (rule.verbs, rule.api_groups, rule.resources, names)
        missing += _as_rules(resources, _rest(resources, resource_covers), _resource_rule)
        paths = (rule.verbs, rule.non_resource_urls)
        missing += _as_rules(paths, _rest(paths, path_covers), _path_rule)
        if len(missing) > MAX_LISTED:
            break
    return missing


class _PartCover(NamedTuple):
    """The cover of one part of a product by a rule; `values` if it covers nothing but these."""

    take: Callable[[Part], Part]
    values: Part | None = None


Cover = tuple[_PartCover, ...]


class _Covers:
    """The rules that may cover a product, found by its values: a role may have many rules."""

    def __init__(self, covers: list[Cover]) -> None:
        self._all = range(len(covers))
        self._covers = covers
        parts = len(covers[0]) if covers else 0
        self._by_value: list[dict[str | None, list[int]]] = [{} for _ in range(parts)]
        for number, cover in enumerate(covers):
            for index, part in zip(self._by_value, cover, strict=True):
                for value in (None,) if part.values is None else part.values:
                    index.setdefault(value, []).append(number)

    def of(self, whole: tuple[Part, ...]) -> Iterator[Cover]:
        best: Collection[int] = self._all
        for index, part in zip(self._by_value, whole, strict=False):
            if len(part) <= MAX_LOOKED_UP:
                found = {number for value in (None, *part) for number in index.get(value, ())}
                best = found if len(found) < len(best) else best
        return (self._covers[number] for number in sorted(best))


def _rest(lists: tuple[tuple[str, ...], ...], covers: _Covers) -> list[_Product]:
    """Return the products that remain of one after all covers are subtracted."""
    whole = tuple(frozenset(values) for values in lists)
    rest = [_Product(whole)] if all(whole) else []
    for cover in covers.of(whole):
        if covered := _covered(cover, whole):
            rest = [left for product in rest for left in _subtracted(product, covered)]
        if not rest or len(rest) > MAX_PRODUCTS:
            break
    return rest


def _covered(cover: Cover, whole: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the part of a product that a rule covers; empty if there is none."""
    parts = []
    for part_cover, part in zip(cover, whole, strict=True):
        if not (taken := part_cover.take(part)):
            return ()
        parts.append(taken)
    return tuple(parts)


def _subtracted(product: _Product, covered: tuple[Part, ...]) -> Iterator[_Product]:
    """Yield disjoint products that together are `product` without `covered`."""
    common = [part & cover for part, cover in zip(product.parts, covered, strict=True)]
    if not all(common):
        yield product
        return
    for index, part in enumerate(product.parts):
        if outside := part - common[index]:
            yield _Product((*common[:index], outside, *product.parts[index + 1 :]))


def _resource_cover(own: PolicyRule) -> Cover:
    names = frozenset(_marked(own.resource_names))
    return (
        _listed(own.verbs),
        _listed(own.api_groups),
        _resources(own.resources),
        _PartCover(lambda part: part & names, names) if names else _PartCover(lambda part: part),
    )


def _marked(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_MARK + name for name in names)


def _path_cover(own: PolicyRule) -> Cover:
    return _listed(own.verbs), _paths(own.non_resource_urls)


def _listed(values: tuple[str, ...]) -> _PartCover:
    own = frozenset(values)
    return _PartCover(lambda part: part) if ALL in own else _PartCover(lambda part: part & own, own)


def _resources(values: tuple[str, ...]) -> _PartCover:
    """Return a cover by resources: `*` is all of them, `*/status` one subresource of all."""
    own = frozenset(values)
    if not any(value.startswith("*/") for value in own):
        return _listed(values)

    def covered(part: Part) -> Part:
        if ALL in own:
            return part
        return frozenset(name for name in part if name in own or _any_of(name) in own)

    return _PartCover(covered)


def _any_of(resource: str) -> str:
    _, slash, subresource = resource.partition("/")
    return f"*/{subresource}" if slash and subresource else resource


def _paths(patterns: tuple[str, ...]) -> _PartCover:
    exact = frozenset(patterns)
    prefixes = frozenset(pattern[:-1] for pattern in patterns if pattern.endswith(ALL))
    lengths = sorted({len(prefix) for prefix in prefixes})
    if not prefixes:
        return _listed(patterns)

    def covered(part: Part) -> Part:
        return frozenset(
            path
            for path in part
            if path in exact
            or any(len(path) >= length and path[:length] in prefixes for length in lengths)
        )

    return _PartCover(covered)


def _as_rules(
    lists: tuple[tuple[str, ...], ...],
    products: list[_Product],
    make: Callable[[tuple[tuple[str, ...], ...]], PolicyRule],
) -> Iterator[PolicyRule]:
    """Yield rules for products, with the values in the order of the lists."""
    unique = [tuple(dict.fromkeys(values)) for values in lists]
    ordered = [
        tuple(
            tuple(value for value in values if value in part)
            for values, part in zip(unique, product.parts, strict=True)
        )
        for product in products
    ]
    if sum(product.size for product in products) > MAX_LISTED:
        yield from map(make, ordered)
        return
    for parts in ordered:
        for single in itertools.product(*parts):
            yield make(tuple((value,) for value in single))


def _resource_rule(parts: tuple[tuple[str, ...], ...]) -> PolicyRule:
    verbs, groups, resources, names = parts
    return PolicyRule(
        verbs=verbs,
        api_groups=groups,
        resources=resources,
        resource_names=tuple(name.removeprefix(_MARK) for name in names if name != _ANY_NAME),
    )


def _path_rule(parts: tuple[tuple[str, ...], ...]) -> PolicyRule:
    verbs, paths = parts
    return PolicyRule(verbs=verbs, non_resource_urls=paths)
