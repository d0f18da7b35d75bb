"""YAML within limits, and scalars as Kubernetes reads them."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.formats import bounded_yaml, gojson
from dray.api.formats.bounded_yaml import FILE, REQUEST, Limits, YamlError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y", True),
        ("No", False),
        ("on", True),
        ("~", None),
        ("''", ""),
        ("'1'", "1"),
        ("|\n 1", "1"),
        ("!!str 1", "1"),
        ("!!float 1", 1),
        ("17", 17),
        ("+17", 17),
        ("017", 15),
        ("0o17", 15),
        ("08", 8),
        ("0x1F", 31),
        ("-0b11", -3),
        ("1_000", 1000),
        ("1e3", 1000),
        ("1.5", 1.5),
        (".5", 0.5),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2.0**64),
        ("1e400", "1e400"),
        ("9" * 5000, "9" * 5000),
        ("0x" + "f" * 5000, "0x" + "f" * 5000),
        ("190:20:30", "190:20:30"),
        ("2020-01-01", "2020-01-01"),
        ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
        ("=", "="),
        ("-", None),
    ],
)
def test_scalars_mean_what_they_mean_to_kubernetes(text: str, expected: Any) -> None:
    found = bounded_yaml.load(f"a: {text}" if text != "-" else "a:", REQUEST)
    assert found == {"a": expected}
    assert type(found["a"]) is type(expected)


def test_keys_are_text() -> None:
    found = bounded_yaml.load("1: a\ntrue: b\n1.5: c\n'<<': d", REQUEST)
    assert found == {"1": "a", "true": "b", "1.5": "c", "<<": "d"}


def test_repeated_keys_are_recorded() -> None:
    found = bounded_yaml.load("a: 1\nb: 2\na: 3", REQUEST)
    assert isinstance(found, gojson.ObjectWithDuplicateKeys)
    assert (found, found.repeated) == ({"a": 3, "b": 2}, {"a"})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("&a 1", "anchors are not supported: &a"),
        ("- *a", "aliases are not supported: *a"),
        ("<<: {}", "merge keys (<<) are not supported"),
        ("a\n---\nb", "expected a single document in the stream"),
        ("!!binary AAAA", "cannot decode `AAAA` as a !!binary"),
        ("!x {}", "the tag !x is not supported here"),
        (".inf", ".inf is no number of JSON"),
        ("? [a]\n: b", "a key must be text, a number or a boolean"),
        ("[" * 201, "nested more than 200 levels deep"),
        ("- " * 100_000, "nested more than 200 levels deep"),
        ("[" + "1," * 40_000 + "]", "the text has more than 40000 values"),
        ("%TAG !a! b\n" * 9 + "--- a", "more than 8 %TAG directives"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(YamlError) as refusal:
        bounded_yaml.load(text, REQUEST)
    assert refusal.value.problem == problem


def test_bytes_are_utf_8_or_utf_16() -> None:
    assert bounded_yaml.load("a: é".encode("utf-16"), REQUEST) == {"a": "é"}
    assert bounded_yaml.load("\ufeffa: é".encode(), REQUEST) == {"a": "é"}
    with pytest.raises(YamlError, match="line 2: invalid UTF-8"):
        bounded_yaml.load(b"a: b\nc: \xff", REQUEST)


def test_files_may_have_aliases_and_merge_keys() -> None:
    text = "a: &a {x: 1, z: 2}\nb: {<<: *a, x: 3}\nc: {<<: [{x: 4}, *a]}\nd: [*a]"
    found = bounded_yaml.load(text, FILE)
    assert found["b"] == {"x": 3, "z": 2}
    assert found["c"] == {"x": 4, "z": 2}
    assert found["d"] == [{"x": 1, "z": 2}]


def test_an_alias_counts_as_all_that_it_stands_for() -> None:
    limits = Limits(parts=100, depth=10, has_aliases=True)
    bounded_yaml.check("- &a [1, 2, 3]\n" + "- *a\n" * 20, limits)
    with pytest.raises(YamlError, match="more than 100 values"):
        bounded_yaml.check("- &a [1, 2, 3]\n" + "- *a\n" * 30, limits)
    with pytest.raises(YamlError, match="unknown anchor 'b'"):
        bounded_yaml.check("- *b", limits)


def test_merged_keys_are_counted_too() -> None:
    limits = Limits(parts=100, depth=10, has_aliases=True)
    mapping = "{" + ", ".join(f"k{i}: 1" for i in range(20)) + "}"
    with pytest.raises(YamlError, match="more than 100 values"):
        bounded_yaml.check(f"- &a {mapping}\n" + "- {<<: [*a]}\n" * 3, limits)


def test_several_documents() -> None:
    assert list(bounded_yaml.load_all("a\n---\nb\n", FILE)) == ["a", "b"]
    assert bounded_yaml.load("", REQUEST) is None
