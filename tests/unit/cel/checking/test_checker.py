"""The checker finds cel-go's types, overloads and messages."""

from __future__ import annotations

import pytest

from dray.cel.checking import checker, environment
from dray.cel.checking.checker import Checked
from dray.cel.issues import CompilationFailed
from dray.cel.syntax import parser
from dray.cel.syntax.nodes import FunctionCall, Node

NEW = environment.device_environment(
    stored=False, consumable_capacity=True, list_type_attributes=False
)
STORED = environment.device_environment(
    stored=True, consumable_capacity=True, list_type_attributes=False
)


def check(text: str, known: environment.Environment = NEW) -> Checked:
    return checker.check(text, parser.parse(text), known)


def result_type(text: str, known: environment.Environment = NEW) -> str:
    return str(check(text, known).result_type)


def messages(text: str, known: environment.Environment = NEW) -> list[str]:
    with pytest.raises(CompilationFailed) as failure:
        check(text, known)
    return [issue.message for issue in failure.value.issues]


def root_overloads(text: str, known: environment.Environment = NEW) -> tuple[str, ...]:
    checked = check(text, known)
    return checked.references[checked.root.id].overload_ids


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", "int"),
        ("1u", "uint"),
        ("1.0", "double"),
        ("'a'", "string"),
        ("b'a'", "bytes"),
        ("null", "null_type"),
        ("true", "bool"),
        ("[]", "list(dyn)"),
        ("[[], [1]]", "list(list(int))"),
        ("{}", "map(dyn, dyn)"),
        ("{'a': 1u}", "map(string, uint)"),
        ("int", "type(int)"),
        ("type(1)", "type(int)"),
        ("type", "type(type)"),
        ("list", "type(list(dyn))"),
        ("net.IP", "type(net.IP)"),
        ("google.protobuf.Duration", "type(google.protobuf.Duration)"),
        ("duration('1s')", "google.protobuf.Duration"),
        ("dyn(1)", "dyn"),
        ("device", "kubernetes.DRADevice"),
        ("device.attributes", "map(string, map(string, google.protobuf.Any))"),
        ("device.capacity['a'].b", "kubernetes.Quantity"),
        ("has(device.attributes.a)", "bool"),
        ("true ? 1 : 2", "int"),
        ("[1, 2].map(x, string(x))", "list(string)"),
        ("{'a': 1}.transformMap(k, v, [v])", "map(string, list(int))"),
        ("cel.bind(x, 'a', [x, x])", "list(string)"),
        ("optional.of(1)", "optional_type(int)"),
        ("optional.none().orValue(1)", "int"),
        ("device.attributes[?'a'].b", "optional_type(google.protobuf.Any)"),
        ("[?optional.of(1), 2]", "list(int)"),
        ("{?'a': optional.of(1)}", "map(string, int)"),
        ("[1].sortBy(x, -x)", "list(int)"),
    ],
)
def test_an_expression_has_a_type(text: str, expected: str) -> None:
    assert result_type(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nope", "undeclared reference to 'nope' (in container '')"),
        (".nope", "undeclared reference to '.nope' (in container '')"),
        ("nope(1)", "undeclared reference to 'nope' (in container '')"),
        ("'a'.nope()", "undeclared reference to 'nope' (in container '')"),
        ("device.nope", "undefined field 'nope'"),
        ("device.driver.x", "type 'string' does not support field selection"),
        ("ip('1.2.3.4').x", "type 'net.IP' does not support field selection"),
        ("quantity('1').x", "unexpected failed resolution of 'kubernetes.Quantity'"),
        ("1 + 1.0", "found no matching overload for '_+_' applied to '(int, double)'"),
        ("'a'.size(1)", "found no matching overload for 'size' applied to 'string.(int)'"),
        ("1 in [1.0]", "found no matching overload for '@in' applied to '(int, list(double))'"),
        (
            "duration('1s') == null || null == 1",
            "found no matching overload for '_==_' applied to '(null, int)'",
        ),
        (
            "[] + timestamp(0)",
            "found no matching overload for '_+_' applied to '(list(dyn), timestamp)'",
        ),
        ("1 && true", "expected type 'bool' but found 'int'"),
        ("[?1]", "expected type 'optional_type(int)' but found 'int'"),
        ("[1].all(x, x)", "expected type 'bool' but found 'int'"),
        (
            "'abc'.all(x, true)",
            "expression of type 'string' cannot be range of a comprehension"
            " (must be list, map, or dynamic)",
        ),
        ("nope{}", "undeclared reference to 'nope' (in container '')"),
        ("int{}", "'int' is not a message type"),
        ("[1, 'a']", "expected type 'int' but found 'string'"),
        ("[1, dyn('a')]", "expected type 'int' but found 'dyn'"),
        ("[null, 1]", "expected type 'null' but found 'int'"),
        ("{'a': 1, 'b': 'x'}", "expected type 'int' but found 'string'"),
        ("{'a': 1, 1: 1}", "expected type 'string' but found 'int'"),
        ("duration('1d')", "invalid duration argument"),
        ("timestamp('noon')", "invalid timestamp argument"),
        ("timestamp(253402300800)", "invalid timestamp argument"),
        ("'a'.matches('(')", "invalid matches argument"),
        (
            "'%d'.format(['a'])",
            "error during formatting: decimal clause can only be used on integers,"
            " was given string",
        ),
        ("'%d %d'.format([1])", "index 1 out of range"),
        ("'%'.format([])", "unexpected end of string"),
        (
            "'a'.format([1])",
            "too many arguments supplied to string.format (expected 0, got 1)",
        ),
        (
            "'%y'.format([1])",
            'could not parse formatting clause: unrecognized formatting clause "y"',
        ),
    ],
)
def test_one_thing_wrong_gives_one_message(text: str, expected: str) -> None:
    assert messages(text) == [expected]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("1 + 'a'", 2),
        ("size(1)", 4),
        ("'a'.trim(1)", 8),
        ("device.nope", 6),
        ("device[0]", 6),
        ("[1, 2, 'a']", 7),
        ("'%d'.format([1, 'a'])", 11),
        ("'%d %d'.format([1, 'a'])", 19),
        ("'%s'.format([[1, device]])", 17),
    ],
)
def test_an_issue_points_where_cel_go_points(text: str, place: int) -> None:
    with pytest.raises(CompilationFailed) as failure:
        check(text)
    assert [issue.position for issue in failure.value.issues] == [place]


def test_everything_wrong_is_reported() -> None:
    assert messages("nope + (1 + 'a')") == [
        "undeclared reference to 'nope' (in container '')",
        "found no matching overload for '_+_' applied to '(int, string)'",
    ]


def test_a_second_mixed_list_element_is_not_reported() -> None:
    assert len(messages("[1, 'a', 2.0]")) == 1


def test_every_mixed_map_entry_is_reported() -> None:
    assert len(messages("{'a': 1, 'b': 'x', 'c': 2.0}")) == 2


def test_literals_inside_format_may_mix_types() -> None:
    assert result_type("'%s %s'.format([1, [1, 'a']])") == "string"


def test_only_the_first_argument_of_matches_is_taken_for_a_pattern() -> None:
    assert messages("matches('(', 'a')") == ["invalid matches argument"]
    assert result_type("matches('a', '(')") == "bool"


def test_an_any_value_is_no_range_and_a_dyn_value_is() -> None:
    text = "device.attributes['a'].b.all(x, true)"
    assert messages(text)[0].startswith("expression of type 'any' cannot be range")
    assert result_type(text, STORED) == "bool"


def test_static_types_choose_the_overload() -> None:
    assert root_overloads("1 + 2") == ("add_int64",)
    assert root_overloads("'a'.size()") == ("string_size",)


def test_dyn_arguments_leave_every_overload_they_may_mean() -> None:
    assert root_overloads("dyn(1) + 2") == ("add_int64",)
    assert root_overloads("size(dyn('a'))") == (
        "size_bytes",
        "size_list",
        "size_map",
        "size_string",
    )


def test_overloads_that_disagree_make_the_result_dyn() -> None:
    assert result_type("dyn(1) + dyn(1)") == "dyn"
    assert result_type("size(dyn(1))") == "int"


def test_the_first_overload_that_fits_decides_what_an_empty_list_holds() -> None:
    assert result_type("[].sum()") == "int"


def test_a_namespace_is_no_receiver() -> None:
    checked = check("optional.of(1)")
    root = checked.root
    assert isinstance(root, FunctionCall)
    assert checked.receiver(root) is None
    assert checked.references[root.id].name == "optional.of"


def test_a_value_before_a_member_function_is_its_receiver() -> None:
    checked = check("'a'.size()")
    root = checked.root
    assert isinstance(root, FunctionCall)
    assert checked.receiver(root) is root.target


def test_a_qualified_name_is_one_reference() -> None:
    checked = check("net.IP")
    assert checked.references[checked.root.id].constant is not None
    assert len(checked.types) == 1


def test_a_type_that_is_no_value_has_no_constant() -> None:
    checked = check("duration")
    assert checked.references[checked.root.id].constant is None


def test_local_variables_hide_global_ones_until_the_loop_ends() -> None:
    assert result_type("[1].map(device, device) == [1] && device.driver == 'a'") == "bool"


def test_a_leading_dot_reaches_past_a_local_variable() -> None:
    checked = check("['a'].exists(device, device == .device.driver)")
    names = {reference.name for reference in checked.references.values()}
    assert {"device", ".device"} <= names


def test_local_variables_hide_qualified_names() -> None:
    assert result_type("[{'IP': 1}].map(net, net.IP)") == "list(int)"


def test_the_accumulator_is_unknown_after_its_loop() -> None:
    assert messages("cel.bind(x, 1, x) == 1 && x == 1") == [
        "undeclared reference to 'x' (in container '')"
    ]


def nested(opening: str, closing: str, levels: int = 245) -> str:
    return opening * levels + "1" + closing * levels


@pytest.mark.parametrize(
    "text",
    [
        nested("[", "]"),
        nested("{1: ", "}"),
        nested("(1 + ", ")", 120),
        nested("[1].map(x, ", ")", 120),
        nested("[", "]") + " == " + nested("[", "]"),
        "[" * 245 + "]" * 245 + " == []",
        "dyn(1)" + ".a" * 240,
    ],
    ids=["lists", "maps", "sums", "loops", "comparison", "empty lists", "selections"],
)
def test_deep_nesting_is_no_problem(text: str) -> None:
    check(text)


@pytest.mark.parametrize(
    "text",
    [
        "[1]" + ".map(a, {a: a})" * 100,
        "[]" + ".map(a, {a: a})" * 100,
        "[1]" + (".map(a, " + nested("[", "]", 100) + ")").replace("1", "a") * 20,
        "".join(f"cel.bind(v{n}, [], " for n in range(100))
        + " && ".join(f"v{n} == [{{v{n + 1}: v{n + 1}}}]" for n in range(99))
        + ")" * 100,
    ],
    ids=["doubling", "doubling what is unknown", "wrapping", "doubling by comparison"],
)
def test_types_that_grow_out_of_hand_are_refused(text: str) -> None:
    assert messages(text) == ["expression has a type that is too complex"]


def test_the_tree_is_left_as_it_was() -> None:
    text = "optional.of(net.IP).hasValue()"
    root: Node = parser.parse(text)
    checker.check(text, root, NEW)
    assert root == parser.parse(text)
