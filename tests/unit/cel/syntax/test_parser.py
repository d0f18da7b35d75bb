from __future__ import annotations

import pytest

from dray.cel.issues import CompilationFailed
from dray.cel.syntax import parser
from dray.cel.syntax.nodes import (
    Comprehension,
    FunctionCall,
    Identifier,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
)


def shown(node: Node) -> str:
    """A tree as text, with operators as calls."""
    match node:
        case Literal():
            return repr(node.value)
        case Identifier():
            return node.name
        case Select():
            field = f"{shown(node.operand)}.{node.field}"
            return f"has({field})" if node.test_only else field
        case FunctionCall():
            target = f"{shown(node.target)}." if node.target else ""
            return f"{target}{node.function}({', '.join(map(shown, node.arguments))})"
        case ListLiteral():
            return f"[{', '.join(map(shown, node.elements))}]"
        case MapLiteral():
            entries = (f"{shown(entry.key)}: {shown(entry.value)}" for entry in node.entries)
            return f"{{{', '.join(entries)}}}"
        case StructLiteral():
            return f"{node.type_name}{{}}"
        case Comprehension():
            parts = (node.range, node.init, node.condition, node.step, node.result)
            return f"fold({node.variable}, {node.accumulator}, {', '.join(map(shown, parts))})"
    raise AssertionError(node)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1 + 2 * 3 - 4", "_-_(_+_(1, _*_(2, 3)), 4)"),
        ("a < b == c", "_==_(_<_(a, b), c)"),
        ("a || b && c", "_||_(a, _&&_(b, c))"),
        ("a && b && c && d", "_&&_(_&&_(a, b), _&&_(c, d))"),
        ("a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))"),
        ("!!a", "a"),
        ("---a", "-_(a)"),
        ("-1", "-1"),
        ("--1", "1"),
        ("a - -1", "_-_(a, -1)"),
        ("-1.x", "-1.x"),
        ("a.b.c(1)[2].?d[?3]", "_[?_](_?._(_[_](a.b.c(1), 2), 'd'), 3)"),
        (".a.b", ".a.b"),
        ("a.`b-c`", "a.b-c"),
        ("[1, ?a, ]", "[1, a]"),
        ("{1: 2, ?a: b,}", "{1: 2, a: b}"),
        ("a.b.C{x: 1}", "a.b.C{}"),
        ("(a)", "a"),
        ("'x' in y", "@in('x', y)"),
    ],
)
def test_trees(text: str, tree: str) -> None:
    assert shown(parser.parse(text)) == tree


@pytest.mark.parametrize(
    ("text", "position"),
    [
        pytest.param("ab + c", 3, id="operator"),
        pytest.param("ab.cd", 2, id="the dot of a selection"),
        pytest.param("ab.cd(e)", 5, id="the parenthesis of a call"),
        pytest.param("ab[0]", 2, id="the bracket of an index"),
        pytest.param("(ab ? c : d)", 4, id="the question mark"),
        pytest.param("a && b && c", 7, id="the middle of a chain"),
        pytest.param("  -5", 2, id="the sign of a number"),
        pytest.param("ab.all(x, x)", 6, id="the parenthesis of a macro"),
    ],
)
def test_positions_are_those_of_cel_go(text: str, position: int) -> None:
    assert parser.parse(text).position == position


def problems(text: str) -> list[tuple[int | None, str]]:
    with pytest.raises(CompilationFailed) as caught:
        parser.parse(text)
    return [(issue.position, issue.message) for issue in caught.value.issues]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for == 1", [(0, "reserved identifier: for")]),
        ("as(1)", [(0, "reserved identifier: as")]),
        ("1 == 9223372036854775808", [(5, "invalid int literal")]),
        ("'\\ud800' == a", [(0, "invalid unicode code point")]),
        ("for == b'\\u0041'", [(0, "reserved identifier: for"), (7, "unable to unescape string")]),
        ("has(a)", [(4, "invalid argument to has() macro")]),
        ("[1].all(a.b, true)", [(9, "argument must be a simple name")]),
        ("[1].map(1, true)", [(8, "argument is not an identifier")]),
        ("[1].all(x, x, true)", [(11, "duplicate variable name: x")]),
        ("[1].all(__result__, true)", [(8, "iteration variable overwrites accumulator variable")]),
        ("cel.bind(1, 2, 3)", [(9, "cel.bind() variable names must be simple identifiers")]),
        ("a.optMap(1, 2)", [(9, "optMap() variable name must be a simple identifier")]),
    ],
)
def test_what_is_no_syntax_error_does_not_stop_parsing(
    text: str, expected: list[tuple[int | None, str]]
) -> None:
    assert problems(text) == expected


EXPRESSION = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, "
    "BYTES, IDENTIFIER}"
)


FIELD = "{IDENTIFIER, ESC_IDENTIFIER}"


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("1 +", 3, f"mismatched input '<EOF>' expecting {EXPRESSION}"),
        ("'a' 'b'", 4, "extraneous input ''b'' expecting <EOF>"),
        ("'a'()", 3, "mismatched input '(' expecting <EOF>"),
        ("in + 1", 0, f"mismatched input 'in' expecting {EXPRESSION}"),
        ("in 1", 0, f"extraneous input 'in' expecting {EXPRESSION}"),
        ("(a", 2, "missing ')' at '<EOF>'"),
        ("((a", 3, "mismatched input '<EOF>' expecting ')'"),
        ("[(a]", 3, "missing ')' at ']'"),
        ("f(a b)", 4, "extraneous input 'b' expecting ')'"),
        ("a[1", 3, "missing ']' at '<EOF>'"),
        ("[1", 2, "mismatched input '<EOF>' expecting {']', ','}"),
        ("[1, )", 4, "mismatched input ')' expecting ']'"),
        ("[1, b c]", 6, "extraneous input 'c' expecting {']', ','}"),
        ("{1 2}", 3, "missing ':' at '2'"),
        ("a ? b", 5, "mismatched input '<EOF>' expecting ':'"),
        ("a ? b c", 6, "missing ':' at 'c'"),
        ("a. == 1", 3, "no viable alternative at input '. =='"),
        ("a.(b)", 2, "no viable alternative at input '.('"),
        ("..a", 1, "no viable alternative at input '..'"),
        ("!-a", 2, "no viable alternative at input '-a'"),
        ("!", 1, f"extraneous input '<EOF>' expecting {EXPRESSION}"),
        ("1 '''\n'''", 2, "extraneous input ''''\\n'''' expecting <EOF>"),
    ],
)
def test_a_syntax_error_is_worded_as_by_antlr(text: str, position: int, message: str) -> None:
    assert problems(text) == [(position, f"Syntax error: {message}")]


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("a.in == 1", [(2, "no viable alternative at input '.in'"), (5, "extraneous input '=='")]),
        ("a ? : b", [(4, "extraneous input ':'"), (7, "mismatched input '<EOF>' expecting ':'")]),
        ("- - +", [(4, "no viable alternative at input '- +'"), (4, "mismatched input '+'")]),
        ("a.?1", [(3, f"mismatched input '1' expecting {FIELD}")]),
    ],
)
def test_parsing_goes_on_behind_what_can_be_mended(
    text: str, messages: list[tuple[int, str]]
) -> None:
    found = [each for each in problems(text) if each[1].startswith("Syntax error: ")]
    assert len(found) == len(messages)
    for (where, said), (position, message) in zip(found, messages, strict=True):
        assert where == position
        assert said.startswith(f"Syntax error: {message}")


@pytest.mark.parametrize(
    ("text", "position"),
    [("(((", 3), ("f(+", 2), ("a[", 2), (" ".join(["a ? ) )"] * 100), 4)],
)
def test_parsing_ends_at_another_syntax_error(text: str, position: int) -> None:
    ((where, message),) = problems(text)
    assert where == position
    assert message.startswith("Syntax error: mismatched input ")


@pytest.mark.parametrize("text", ["[,]", "{,}", "[1,]", "{1: 2,}", "T{,}", "T{a: 1,}"])
def test_a_comma_may_end_a_list(text: str) -> None:
    assert parser.parse(text)


def test_a_syntax_error_comes_after_the_characters_that_are_no_token() -> None:
    assert problems("a = 1") == [
        (2, "Syntax error: token recognition error at: '= '"),
        (4, "Syntax error: extraneous input '1' expecting <EOF>"),
    ]


def test_reserved_names_may_be_fields_and_members() -> None:
    assert shown(parser.parse("a.if.while(1)")) == "a.if.while(1)"


@pytest.mark.parametrize(
    ("nested", "limit"),
    [
        pytest.param(lambda n: "(" * n + "1" + ")" * n, 249, id="parentheses"),
        pytest.param(lambda n: "[" * n + "1" + "]" * n, 249, id="lists"),
        pytest.param(lambda n: "f(" * n + "1" + ")" * n, 249, id="calls"),
        pytest.param(lambda n: "a ? b : " * n + "c", 249, id="conditions"),
        pytest.param(lambda n: "1 + 2 * (" * n + "1" + ")" * n, 83, id="arithmetic"),
    ],
)
def test_nesting_is_limited_as_in_cel_go(nested: object, limit: int) -> None:
    assert callable(nested)
    parser.parse(nested(limit))
    assert problems(nested(limit + 1)) == [(None, "expression recursion limit exceeded: 250")]


@pytest.mark.parametrize("link", ["+1", ".a", "[0]", ".a()"])
def test_chains_are_limited_as_in_cel_go(link: str) -> None:
    parser.parse("a" + link * 250)
    assert problems("a" + link * 251) == [(None, "max recursion depth exceeded")]


def test_chains_of_and_are_not_limited() -> None:
    parser.parse(" && ".join(["a"] * 3000))


def test_size_is_limited() -> None:
    assert problems("a" * 100_001) == [
        (None, "expression code point size exceeds limit: size: 100001, limit 100000")
    ]
