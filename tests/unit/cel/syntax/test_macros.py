from __future__ import annotations

import pytest

from dray.cel.syntax import parser
from dray.cel.syntax.factory import children, children_first
from dray.cel.syntax.nodes import Comprehension, Node
from tests.unit.cel.syntax.test_parser import shown

SHORT_FORMS = {
    "@result": "$",
    "@not_strictly_false": "open",
    "optional.none()": "none",
    "fold(#unused, x, [], ": "bind(x, ",
    ", False, x, f)": ", f)",
}


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("has(a.b)", "has(a.b)"),
        ("has(has(a.b))", "has(a.b)"),
        ("a.all(x, p)", "fold(x, $, a, True, open($), _&&_($, p), $)"),
        ("a.exists(x, p)", "fold(x, $, a, False, open(!_($)), _||_($, p), $)"),
        ("a.exists_one(x, p)", "fold(x, $, a, 0, True, _?_:_(p, _+_($, 1), $), _==_($, 1))"),
        ("a.map(x, f)", "fold(x, $, a, [], True, _+_($, [f]), $)"),
        ("a.map(x, p, f)", "fold(x, $, a, [], True, _?_:_(p, _+_($, [f]), $), $)"),
        ("a.filter(x, p)", "fold(x, $, a, [], True, _?_:_(p, _+_($, [x]), $), $)"),
        ("a.transformMap(k, v, f)", "fold(k, $, a, {}, True, cel.@mapInsert($, k, f), $)"),
        (
            "a.transformMapEntry(k, v, p, f)",
            "fold(k, $, a, {}, True, _?_:_(p, cel.@mapInsert($, f), $), $)",
        ),
        ("cel.bind(x, a, f)", "bind(x, a, f)"),
        ("a.optFlatMap(x, f)", "_?_:_(a.hasValue(), bind(x, a.value(), f), none)"),
        ("a.optMap(x, f)", "_?_:_(a.hasValue(), optional.of(bind(x, a.value(), f)), none)"),
        ("a.bind(x, 1, 2)", "a.bind(x, 1, 2)"),
        ("a.existsOne(x, p)", "a.existsOne(x, p)"),
        ("a.all(x)", "a.all(x)"),
        ("all(a, x, p)", "all(a, x, p)"),
    ],
)
def test_expansions(text: str, tree: str) -> None:
    """`$` is the accumulator, `open` tests that it is not strictly false."""
    found = shown(parser.parse(text))
    for long, short in SHORT_FORMS.items():
        found = found.replace(long, short)
    assert found == tree


@pytest.mark.parametrize("macro", ["all", "exists", "existsOne", "exists_one", "transformList"])
def test_two_variables(macro: str) -> None:
    tree = parser.parse(f"a.{macro}(i, v, p)")
    assert isinstance(tree, Comprehension)
    assert (tree.variable, tree.second_variable) == ("i", "v")


def test_sort_by_names_its_target_once() -> None:
    tree = parser.parse("f(a).sortBy(x, x.k)")
    assert isinstance(tree, Comprehension)
    assert shown(tree.init) == "f(a)"
    assert shown(tree.result).startswith("@__sortBy_input__.@sortByAssociatedKeys(fold(x,")


def every_node(root: Node) -> list[Node]:
    found = [root]
    for node in found:
        found += children(node)
    return found


def test_copies_have_ids_of_their_own() -> None:
    tree = parser.parse("{1: [a.b, C{d: 2}]}.f(3)[?4].all(y, y).optMap(x, x)")
    ids = [node.id for node in every_node(tree)]
    assert len(set(ids)) == len(ids)


def test_children_come_first() -> None:
    seen: set[int] = set()
    for node in children_first(parser.parse("f(a + b, [c])[d].all(x, x)")):
        assert all(child.id in seen for child in children(node))
        seen.add(node.id)
