"""Selectors: what they match, how they are written, and the words for wrong ones."""

from __future__ import annotations

import pytest

from dray.api.selectors import field_selectors, label_selectors, node_selectors
from dray.api.types.meta import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from dray.api.types.pods import PreferredSchedulingTerm

GPU = {"model": "h100", "count": "8", "zone": "a"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("model", True),
        ("!model", False),
        ("!maker", True),
        ("model=h100", True),
        ("model==h100", True),
        ("model!=h100", False),
        ("maker!=x", True),
        ("maker=", False),
        ("model in (a100, h100)", True),
        ("model notin (a100,h100)", False),
        ("maker notin (x)", True),
        ("maker in ()", False),
        ("count>7", True),
        ("count>8", False),
        ("count<9", True),
        ("model>1", False),
        ("maker<1", False),
        ("model=h100,zone in (b)", False),
        (" model = h100 ,\tzone ", True),
    ],
)
def test_label_text_matches(text: str, matches: bool) -> None:
    assert label_selectors.parse(text).matches(GPU) is matches


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("b=2,a=1", "a=1,b=2"),
        ("x in (c,a,b)", "x in (a,b,c)"),
        ("x notin (a)", "x notin (a)"),
        ("x==1", "x==1"),
        ("!x", "!x"),
        ("x", "x"),
        ("x>1,y<2", "x>1,y<2"),
        ("x in (,a)", "x in (,a)"),
        ("x in (a,,b)", "x in (,a,b)"),
        ("x in (a,)", "x in (,a)"),
        ("x in ()", "x in ()"),
        ("in in (in,notin)", "in in (in,notin)"),
        ("x=,y", "x=,y"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    selector = label_selectors.parse(text)
    assert str(selector) == canonical
    assert label_selectors.parse(canonical) == selector


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("=x", "found '=', expected: !, identifier, or 'end of string'"),
        ("x,", "found '', expected: identifier after ','"),
        ("x,,y", "found ',', expected: identifier after ','"),
        ("!x=1", "found '=', expected: ',' or 'end of string'"),
        ("x=1=2", "found '=', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        (
            "x y",
            "unable to parse requirement: found 'y', expected: in, notin, =, ==, !=, gt, lt",
        ),
        ("x in a", "unable to parse requirement: found 'a' expected: '('"),
        ("x in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("x in (a", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("x in (a,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("x=(", "unable to parse requirement: found '(', expected: identifier"),
        (
            "-=1",
            'unable to parse requirement: <nil>: Invalid value: "-": name part must consist of '
            "alphanumeric characters, '-', '_' or '.', and must start and end with an "
            "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
            "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
        (
            "x>a",
            'unable to parse requirement: values[0]: Invalid value: "a": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "x=-",
            'unable to parse requirement: values[0][x]: Invalid value: "-": a valid label must be '
            "an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
            "'12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
    ],
)
def test_wrong_label_text(text: str, message: str) -> None:
    with pytest.raises(label_selectors.SelectorError) as wrong:
        label_selectors.parse(text)
    assert str(wrong.value) == message


def test_no_label_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert not label_selectors.label_selector(None).matches({})
    assert label_selectors.label_selector(LabelSelector()).matches({})
    assert label_selectors.NOTHING != label_selectors.EVERYTHING


def test_label_selector_struct_needs_labels_and_expressions() -> None:
    selector = label_selectors.label_selector(
        LabelSelector(
            match_labels={"model": "h100"},
            match_expressions=(
                LabelSelectorRequirement("zone", "In", ("b", "a")),
                LabelSelectorRequirement("maker", "DoesNotExist"),
            ),
        )
    )
    assert selector.matches(GPU)
    assert not selector.matches({**GPU, "maker": "x"})
    assert str(selector) == "!maker,model=h100,zone in (a,b)"


def test_label_selector_struct_with_unknown_operator() -> None:
    wrong = LabelSelector(match_expressions=(LabelSelectorRequirement("a", "Gt", ("1",)),))
    with pytest.raises(label_selectors.SelectorError, match='"Gt" is not a valid label selector'):
        label_selectors.label_selector(wrong)


def test_label_selector_struct_without_values() -> None:
    wrong = LabelSelector(match_expressions=(LabelSelectorRequirement("a", "In"),))
    with pytest.raises(label_selectors.SelectorError) as error:
        label_selectors.label_selector(wrong)
    assert str(error.value) == (
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    )


@pytest.mark.parametrize(
    ("text", "fields", "matches"),
    [
        ("", {}, True),
        ("metadata.name=x", {"metadata.name": "x"}, True),
        ("metadata.name==x", {"metadata.name": "x"}, True),
        ("metadata.name!=x", {"metadata.name": "x"}, False),
        ("spec.nodeName=", {}, True),
        ("status.phase!=Failed,status.phase!=Succeeded", {"status.phase": "Running"}, True),
        ("status.phase!=Failed,status.phase!=Succeeded", {"status.phase": "Failed"}, False),
        (r"a=b\,c\=d\\", {"a": "b,c=d\\"}, True),
    ],
)
def test_field_text_matches(text: str, fields: dict[str, str], matches: bool) -> None:
    assert field_selectors.parse_fields(text).matches(fields) is matches


def test_field_text_is_canonical() -> None:
    selector = field_selectors.parse_fields(r"b!=x\,y,,a==1")
    assert str(selector) == r"a=1,b!=x\,y"
    assert field_selectors.parse_fields(str(selector)) == selector


def test_required_value_of_a_field() -> None:
    selector = field_selectors.parse_fields("metadata.name=x,status.phase!=Failed")
    assert selector.required_value("metadata.name") == "x"
    assert selector.required_value("status.phase") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=1,b", "invalid selector: 'a=1,b'; can't understand 'b'"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        ("a=\\", "invalid field selector: invalid escape sequence: \\"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_wrong_field_text(text: str, message: str) -> None:
    with pytest.raises(label_selectors.SelectorError) as wrong:
        field_selectors.parse_fields(text)
    assert str(wrong.value) == message


def term(*expressions: NodeSelectorRequirement, name: str | None = None) -> NodeSelectorTerm:
    fields = () if name is None else (NodeSelectorRequirement("metadata.name", "In", (name,)),)
    return NodeSelectorTerm(match_expressions=expressions, match_fields=fields)


def requirement(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key, operator, values)


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        pytest.param([], False, id="no term matches nothing"),
        pytest.param([term()], False, id="an empty term matches nothing"),
        pytest.param([term(), term(requirement("zone", "Exists"))], True, id="terms are or-ed"),
        pytest.param(
            [term(requirement("zone", "In", "a"), requirement("model", "In", "x"))],
            False,
            id="expressions are and-ed",
        ),
        pytest.param([term(requirement("count", "Gt", "7"))], True, id="greater"),
        pytest.param([term(requirement("count", "Lt", "8"))], False, id="less"),
        pytest.param([term(requirement("maker", "NotIn", "x"))], True, id="not in, absent"),
        pytest.param([term(requirement("maker", "DoesNotExist"))], True, id="does not exist"),
        pytest.param([term(name="node-1")], True, id="name"),
        pytest.param([term(name="node-2")], False, id="other name"),
        pytest.param(
            [term(requirement("zone", "In", "b"), name="node-1")], False, id="name and labels"
        ),
        pytest.param(
            [
                NodeSelectorTerm(
                    match_fields=(
                        requirement("metadata.name", "NotIn", "node-2"),
                        requirement("metadata.other", "NotIn", "x"),
                    )
                )
            ],
            True,
            id="fields that a node does not have are empty",
        ),
    ],
)
def test_node_selector(terms: list[NodeSelectorTerm], matches: bool) -> None:
    test = node_selectors.compile_node_selector(NodeSelector(tuple(terms)))
    assert test(GPU, "node-1") is matches


def test_fields_are_not_asked_of_a_node_without_a_name() -> None:
    test = node_selectors.compile_node_selector(NodeSelector((term(name="node-1"),)))
    assert test({}, "")


WRONG_TERM = NodeSelectorTerm(
    match_expressions=(requirement("zone", "Near"), requirement("count", "Gt", "x")),
    match_fields=(requirement("metadata.name", "In", "a", "b"), requirement("f", "Exists")),
)
WRONG_TERM_MESSAGE = (
    '[nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Near": supported '
    'values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", '
    'nodeSelectorTerms[0].matchExpressions[1].values[0]: Invalid value: "x": '
    "for 'Gt', 'Lt' operators, the value must be an integer, "
    'nodeSelectorTerms[0].matchFields[0].values: Invalid value: ["a","b"]: '
    "must have one element, "
    'nodeSelectorTerms[0].matchFields[1].operator: Unsupported value: "Exists": '
    'supported values: "In", "NotIn"]'
)


def test_a_wrong_term_fails_the_node_selector_at_once() -> None:
    wrong = NodeSelector((WRONG_TERM, term(requirement("zone", "Exists"))))
    with pytest.raises(label_selectors.SelectorError) as error:
        node_selectors.compile_node_selector(wrong)
    assert str(error.value) == WRONG_TERM_MESSAGE


def test_a_wrong_term_of_an_affinity_fails_only_where_no_other_matches() -> None:
    affinity = NodeSelector((WRONG_TERM, term(requirement("zone", "Exists"))))
    test = node_selectors.compile_required_affinity({}, affinity)
    assert test(GPU, "node-1")
    with pytest.raises(label_selectors.SelectorError) as error:
        test({}, "node-1")
    assert str(error.value) == WRONG_TERM_MESSAGE


def test_labels_are_asked_before_the_affinity() -> None:
    test = node_selectors.compile_required_affinity({"zone": "b"}, NodeSelector((WRONG_TERM,)))
    assert not test(GPU, "node-1")


def test_a_pod_without_affinity_needs_its_labels_only() -> None:
    assert node_selectors.compile_required_affinity({"zone": "a"}, None)(GPU, "x")
    assert node_selectors.compile_required_affinity({}, None)({}, "x")


def test_preferred_terms_add_their_weights() -> None:
    score = node_selectors.compile_preferred_affinity(
        [
            PreferredSchedulingTerm(10, term(requirement("zone", "In", "a"))),
            PreferredSchedulingTerm(3, term(name="node-1")),
            PreferredSchedulingTerm(50, term()),
            PreferredSchedulingTerm(0, WRONG_TERM),
        ]
    )
    assert score(GPU, "node-1") == 13
    assert score({}, "node-2") == 0


def test_a_wrong_preferred_term_is_named() -> None:
    wrong = PreferredSchedulingTerm(1, term(requirement("a", "Near")))
    with pytest.raises(
        label_selectors.SelectorError, match=r"^\[0\]\.matchExpressions\[0\]\.operator"
    ):
        node_selectors.compile_preferred_affinity([wrong])
