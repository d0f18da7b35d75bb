"""What a role grants beyond the rules of a user, by subtraction and by enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from dray.api.types.rbac import PolicyRule
from dray.apiserver.access import rbac, rule_coverage
from dray.apiserver.access.rbac import Attributes

Permission = tuple[str, ...]


def parts(*values: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), max_size=3).map(tuple)


rules = st.builds(
    PolicyRule,
    verbs=parts("get", "list", "*"),
    api_groups=parts("", "apps", "*"),
    resources=parts("pods", "pods/status", "*/status", "*", "nodes"),
    resource_names=parts("a", "b"),
    non_resource_urls=parts("/a", "/a/*", "/a/b", "*", "/b*"),
)


def permissions(granted: Iterable[PolicyRule]) -> set[Permission]:
    found: set[Permission] = set()
    for rule in granted:
        names = rule.resource_names or ("",)
        found |= set(itertools.product(rule.verbs, rule.api_groups, rule.resources, names))
        found |= set(itertools.product(rule.verbs, rule.non_resource_urls))
    return found


def is_allowed(owned: list[PolicyRule], permission: Permission) -> bool:
    if len(permission) == 2:
        attributes = Attributes(permission[0], path=permission[1])
    else:
        verb, group, full, name = permission
        resource, _, subresource = full.partition("/")
        attributes = Attributes(verb, group, resource, subresource, name=name)
    return any(rbac.permits(rule, attributes) for rule in owned)


@given(st.lists(rules, max_size=4), st.lists(rules, max_size=3))
def test_subtraction_finds_what_enumeration_does(
    owned: list[PolicyRule], granted: list[PolicyRule]
) -> None:
    missing = rule_coverage.uncovered(owned, granted)
    expected = {each for each in permissions(granted) if not is_allowed(owned, each)}
    assert permissions(missing) == expected


def test_long_lists_are_not_multiplied() -> None:
    many = tuple(f"x{number}" for number in range(10_000))
    everything = PolicyRule(verbs=many, api_groups=many, resources=many, resource_names=many)
    assert rule_coverage.uncovered([], [everything]) == [everything]
    assert rule_coverage.uncovered([everything], [everything]) == []
    less = PolicyRule(verbs=many[1:], api_groups=many, resources=many, resource_names=many)
    (missing,) = rule_coverage.uncovered([less], [everything])
    assert missing.verbs == many[:1]
    assert missing.api_groups == many


def test_many_rules_that_are_missing_are_not_all_looked_at() -> None:
    granted = [
        PolicyRule(verbs=(f"v{number}",), api_groups=("",), resources=("pods",))
        for number in range(50_000)
    ]
    missing = rule_coverage.uncovered([], granted)
    assert len(missing) == rule_coverage.MAX_LISTED + 1
