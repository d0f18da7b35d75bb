"""String functions, `format` and regular expressions."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dray.cel import types
from dray.cel.functions import runtime_costs
from dray.cel.functions.extensions import lists, string_format
from dray.cel.functions.standard import regexes, strings
from dray.cel.runtime import values
from dray.cel.runtime.values import CostExceeded, Duration, Timestamp, UInt
from tests.unit.cel.calling import call, cost, failure


@pytest.mark.parametrize(
    ("function", "arguments", "result"),
    [
        ("charAt", ("tacocat", 3), "o"),
        ("charAt", ("tacocat", 7), ""),
        ("charAt", ("©αT", 1), "α"),
        ("indexOf", ("tacocat", ""), 0),
        ("indexOf", ("tacocat", "ac"), 1),
        ("indexOf", ("tacocat", "none"), -1),
        ("indexOf", ("tacocat", "a", 3), 5),
        ("indexOf", ("tacocat", "", 30), 7),
        ("indexOf", ("tacocat", "a", 30), -1),
        ("indexOf", ("ta©o©αT", "©", 3), 4),
        ("lastIndexOf", ("tacocat", ""), 7),
        ("lastIndexOf", ("tacocat", "at"), 5),
        ("lastIndexOf", ("", "a"), -1),
        ("lastIndexOf", ("tacocat", "a", 4), 1),
        ("lastIndexOf", ("tacocat", "cat", 6), 4),
        ("lastIndexOf", ("tacocat", "cat", 7), -1),
        ("lastIndexOf", ("tacocat", "", 30), 7),
        ("lastIndexOf", ("ab", "abc", 1), -1),
        ("lowerAscii", ("TacoCÆt Xii",), "tacocÆt xii"),
        ("upperAscii", ("tacoCæt Xıı",), "TACOCæT Xıı"),
        ("replace", ("hello hello", "he", "we"), "wello wello"),
        ("replace", ("hello hello", "he", "we", 1), "wello hello"),
        ("replace", ("hello hello", "he", "we", 0), "hello hello"),
        ("replace", ("hello hello", "he", "we", -7), "wello wello"),
        ("replace", ("abc", "", "-"), "-a-b-c-"),
        ("split", ("a b c", " "), ["a", "b", "c"]),
        ("split", ("a b c", " ", 2), ["a", "b c"]),
        ("split", ("a b c", " ", 0), []),
        ("split", ("abc", ""), ["a", "b", "c"]),
        ("split", ("abc", "", 2), ["a", "bc"]),
        ("split", ("", ""), []),
        ("split", ("", ","), [""]),
        ("substring", ("tacocat", 4), "cat"),
        ("substring", ("tacocat", 0, 4), "taco"),
        ("substring", ("ta©o©αT", 2, 6), "©o©α"),
        ("trim", ("\u0085 \t trim\x1c \u3000\n",), "trim\x1c"),
        ("join", (["a", "b"], "-"), "a-b"),
        ("join", ([],), ""),
        ("strings.quote", ('a\n"\\\v',), '"a\\n\\"\\\\\\v"'),
        ("contains", ("abc", "b"), True),
        ("startsWith", ("abc", "a"), True),
        ("endsWith", ("abc", "b"), False),
    ],
)
def test_string_functions(function: str, arguments: tuple[Any, ...], result: Any) -> None:
    assert call(strings.LIBRARY, function, *arguments) == result


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("charAt", ("a", 5), "index out of range: 5"),
        ("charAt", ("a", -1), "index out of range: -1"),
        ("indexOf", ("a", "b", -1), "index out of range: -1"),
        ("lastIndexOf", ("a", "b", -1), "index out of range: -1"),
        ("substring", ("tacocat", 40), "index out of range: 40"),
        ("substring", ("tacocat", 1, 50), "index out of range: 50"),
        ("substring", ("tacocat", 49, 1), "invalid substring range. start: 49, end: 1"),
        ("join", (["a", 1],), "join: invalid input: 1"),
        ("contains", (5, "a"), "no such overload"),
        ("startsWith", ("a", 5), "no such overload"),
        ("lowerAscii", (5,), "no such overload: lowerAscii(int)"),
        ("replace", ("a", "b", 5), "no such overload: replace(string, string, int)"),
        ("join", ([1],), "no such overload: join(list)"),
    ],
)
def test_string_errors(function: str, arguments: tuple[Any, ...], message: str) -> None:
    assert failure(strings.LIBRARY, function, *arguments) == message


def test_strings_do_not_grow_beyond_reason() -> None:
    long = "a" * 2000
    with pytest.raises(CostExceeded):
        call(strings.LIBRARY, "replace", long, "a", long)
    with pytest.raises(CostExceeded):
        call(strings.LIBRARY, "join", [long] * 1000, long)
    with pytest.raises(CostExceeded):
        call(strings.LIBRARY, "join", values.Concatenation([""] * 600_000, [""] * 600_000))
    assert len(call(strings.LIBRARY, "replace", long, "a", long, 3)) == 1997 + 6000


def test_run_time_costs_of_string_functions() -> None:
    text = "a" * 21
    assert cost(strings.LIBRARY, "string_lower_ascii", text) == 3
    assert cost(strings.LIBRARY, "string_char_at_int", text, 1) == 1
    assert cost(strings.LIBRARY, "string_split_string", text, ",") == 5
    assert cost(strings.LIBRARY, "list_join_string", ["a", "b"], "x" * 20) == 5
    assert cost(strings.LIBRARY, "contains_string", text, "b" * 11) == 6
    assert cost(strings.LIBRARY, "starts_with_string", text, "b" * 11) == 2
    assert cost(strings.LIBRARY, "string_index_of_string", "é" * 19, "a") == 3
    assert cost(strings.LIBRARY, "string_index_of_string", "a" * 9, "a") == 0


def test_what_replace_makes_beyond_its_price_is_charged() -> None:
    assert cost(strings.LIBRARY, "string_replace_string_string", "aa", "a", "b" * 500) == 1
    assert cost(strings.LIBRARY, "string_replace_string_string", "aa", "a", "b" * 600) == 121


def test_lists_longer_than_their_price_covers_are_charged() -> None:
    assert cost(strings.LIBRARY, "string_split_string", "a" * 100, "") == 20
    assert cost(strings.LIBRARY, "string_split_string", "a" * 101, "") == 122
    assert cost(regexes.LIBRARY, "string_find_all_string", "a" * 100, ".") == 11
    assert cost(regexes.LIBRARY, "string_find_all_string", "a" * 101, ".") == 112


def test_functions_charged_for_their_output_are_known_as_such() -> None:
    for library in (strings.LIBRARY, string_format.LIBRARY, regexes.LIBRARY, lists.LIBRARY):
        for function in library:
            is_charged = any(
                overload.cost and overload.cost.__qualname__.startswith("with_output")
                for overload in function.overloads
            )
            assert is_charged == (function.name in runtime_costs.AMPLIFYING)


@pytest.mark.parametrize(
    ("template", "arguments", "text"),
    [
        ("%s and %% and %d", ["a", 5], "a and % and 5"),
        ("%d %d", [UInt(7), -3], "7 -3"),
        ("%.3f", [1.2345], "1.234"),
        ("%.0f", [2.5], "2"),
        ("%f", [1234567.5], "1,234,567.500000"),
        ("%f", [-0.0], "0.000000"),
        ("%f", [-0.0000001], "-0.000000"),
        ("%f", ["Infinity"], "∞"),
        ("%f", [-math.inf], "-∞"),
        ("%e", [1052.032911275], "1.052033×10⁰³"),
        ("%e", [-0.00001], "-1.000000×10⁻⁰⁵"),
        ("%e", [0.0], "0.000000×10⁰⁰"),
        ("%.2e", [1e100], "1.000000×10¹⁰⁰"),
        ("%.20e", [1.0], "       1.000000×10⁰⁰"),
        ("%e", [math.nan], "   NaN"),
        ("%.300f", [0.5], "0." + "5".ljust(44, "0")),
        ("%b %b", [5, True], "101 1"),
        ("%o %x %X", [8, -255, 255], "10 -ff FF"),
        ("%x %X", ["é", b"\xab"], "c3a9 AB"),
        ("%s", [None], "null"),
        ("%s", [types.TIMESTAMP], "google.protobuf.Timestamp"),
        ("%s", [1e6], "1e+06"),
        ("%s", [["a\n", 1.5, math.inf, [b"x"]]], '["a\\n", 1.500000, "+Inf", [b"x"]]'),
        (
            "%s",
            [{"b": Duration(10**9), 6: Timestamp(0), values.map_key(True): None}],
            '{"b":duration("1s"), 6:timestamp("1970-01-01T00:00:00Z"), true:null}',
        ),
    ],
)
def test_format(template: str, arguments: list[Any], text: str) -> None:
    assert call(string_format.LIBRARY, "format", template, arguments) == text


@pytest.mark.parametrize(
    ("template", "arguments", "message"),
    [
        ("%d %d", [1], "index 1 out of range"),
        ("%", [], "index 0 out of range"),
        ("%", [1], "unexpected end of string"),
        ("%a", [1], 'could not parse formatting clause: unrecognized formatting clause "a"'),
        (
            "%.f",
            [1.0],
            "could not parse formatting clause: error while parsing precision: error while "
            'converting precision to integer: strconv.Atoi: parsing "": invalid syntax',
        ),
        (
            "%d",
            ["a"],
            "error during formatting: decimal clause can only be used on integers, "
            "was given string",
        ),
        (
            "%s",
            [values.NONE],
            "error during formatting: string clause can only be used on strings, bools, bytes, "
            "ints, doubles, maps, lists, types, durations, and timestamps, was given optional_type",
        ),
        (
            "%s",
            [[values.NONE]],
            "error during formatting: no formatting function for optional_type",
        ),
        (
            "%s",
            [{values.map_key(1.5): 1}],
            "error during formatting: no formatting function for map key of type double",
        ),
        (
            "%s",
            [b"\xff"],
            "error during formatting: could not convert argument "
            '"invalid UTF-8 in bytes, cannot convert to string" to string',
        ),
    ],
)
def test_format_errors(template: str, arguments: list[Any], message: str) -> None:
    assert failure(string_format.LIBRARY, "format", template, arguments) == message


def test_format_stops_before_its_result_is_too_long() -> None:
    nested: list[Any] = [1]
    for _ in range(100):
        nested = [nested, nested]
    with pytest.raises(CostExceeded):
        call(string_format.LIBRARY, "format", "%s", [nested])
    with pytest.raises(CostExceeded):
        call(string_format.LIBRARY, "format", "%s" * 20, ["a" * 100_000] * 20)
    assert call(string_format.LIBRARY, "format", "%.9000000000000000000f", [0.5]) == "0.5" + "0" * (
        9000000000000000000 % 256 - 1
    )


def test_regular_expressions() -> None:
    assert call(regexes.LIBRARY, "matches", "foobar", "o+b")
    assert not call(regexes.LIBRARY, "matches", "foobar", "^o")
    assert call(regexes.LIBRARY, "find", "abc 123", "[0-9]+") == "123"
    assert call(regexes.LIBRARY, "find", "abc", "x") == ""
    assert call(regexes.LIBRARY, "find", "ab", "(a)(b)") == "ab"
    assert call(regexes.LIBRARY, "findAll", "1 2 3", "[0-9]") == ["1", "2", "3"]
    assert call(regexes.LIBRARY, "findAll", "1 2 3", "[0-9]", 2) == ["1", "2"]
    assert call(regexes.LIBRARY, "findAll", "1 2 3", "[0-9]", 0) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [("aab", ["aa", ""]), ("baac", ["", "aa", ""]), ("", [""]), ("äaä", ["", "a", ""])],
)
def test_an_empty_match_next_to_a_match_is_dropped(text: str, found: list[str]) -> None:
    assert call(regexes.LIBRARY, "findAll", text, "a*") == found


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        ("(", "missing closing ): `(`"),
        (")", "unexpected ): `)`"),
        ("[a", "missing closing ]: `[a`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        (r"\8", r"invalid escape sequence: `\8`"),
        (r"\C", r"invalid escape sequence: `\C`"),
    ],
)
def test_bad_expressions_are_complained_about_in_go_words(pattern: str, complaint: str) -> None:
    message = f"error parsing regexp: {complaint}"
    assert failure(regexes.LIBRARY, "matches", "a", pattern) == message
    assert failure(regexes.LIBRARY, "find", "a", pattern) == f"Illegal regex: {message}"


def test_a_quoted_backslash_c_is_text() -> None:
    assert call(regexes.LIBRARY, "matches", r"a\Cb", r"\Q\C\E")
    assert call(regexes.LIBRARY, "matches", r"a\Cb", r"\\C")


def test_matching_needs_strings() -> None:
    assert failure(regexes.LIBRARY, "matches", 5, "a") == "no such overload: matches"
    assert failure(regexes.LIBRARY, "matches", "a", 5) == "no such overload"
    assert failure(regexes.LIBRARY, "find", 5, "a") == "no such overload: find(int, string)"


def test_matching_costs_text_times_expression() -> None:
    assert cost(regexes.LIBRARY, "matches_string", "", "abcdefgh") == 2
    assert cost(regexes.LIBRARY, "string_find_string", "a" * 29, "abcde") == 6
