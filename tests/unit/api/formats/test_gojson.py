import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.formats import gojson


def test_plain_json_is_plain_objects() -> None:
    assert gojson.decode(b' {"a": [1, 2.5, "x", null, true], "b": {}} ') == {
        "a": [1, 2.5, "x", None, True],
        "b": {},
    }


def test_repeated_keys_are_remembered_and_the_last_value_counts() -> None:
    value = gojson.decode(b'{"a": 1, "b": 2, "a": 3}')
    assert isinstance(value, gojson.ObjectWithDuplicateKeys)
    assert (value, value.repeated) == ({"a": 3, "b": 2}, {"a"})


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ("{bad", "invalid character 'b' looking for beginning of object key string"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a": 1 "b": 2}', "invalid character '\"' after object key:value pair"),
        ('{"a": 1,}', "invalid character '}' looking for beginning of object key string"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("{} x", "invalid character 'x' after top-level value"),
        ("tru?", "invalid character '?' in literal true (expecting 'e')"),
        ("nil", "invalid character 'i' in literal null (expecting 'u')"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1e+x", "invalid character 'x' in exponent of numeric literal"),
        ("01", "invalid character '1' after top-level value"),
        ('"a\tb"', "invalid character '\\t' in string literal"),
        ('"\\x"', "invalid character 'x' in string escape code"),
        ('"\\u12g4"', "invalid character 'g' in \\u hexadecimal character escape"),
        ("{'a': 1}", "invalid character '\\'' looking for beginning of object key string"),
        ('{"a": NaN}', "invalid character 'N' looking for beginning of value"),
        ("", "unexpected end of JSON input"),
        ('{"a": [1', "unexpected end of JSON input"),
        ('"abc', "unexpected end of JSON input"),
        ("[" * 100_000, "exceeded max depth"),
    ],
)
def test_what_is_not_json_is_refused_in_the_words_of_go(data: str, complaint: str) -> None:
    with pytest.raises(gojson.JsonSyntaxError) as raised:
        gojson.decode(data.encode())
    assert str(raised.value) == complaint


@pytest.mark.parametrize("data", ["{}", "[]", "0", "-1.5e-3", '"\\u00e4\\n"', "[[], {}, null]"])
def test_nothing_is_wrong_with_json(data: str) -> None:
    assert gojson.syntax_error_message(data.encode()) == ""


texts = st.sampled_from(["a", "b", 'q"', "\\", '\\"', "é", "\n", "u0022"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(st.tuples(texts, inner), max_size=3).map(lambda pairs: Members(pairs))
    ),
    max_leaves=8,
)


class Members(tuple[tuple[str, Any], ...]):
    """An object whose keys may repeat."""


def written(value: Any, *, ascii_only: bool) -> str:
    if isinstance(value, Members):
        members = (
            f"{json.dumps(key, ensure_ascii=ascii_only)} : {written(each, ascii_only=ascii_only)}"
            for key, each in value
        )
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{','.join(written(each, ascii_only=ascii_only) for each in value)}]"
    return json.dumps(value, ensure_ascii=ascii_only)


def plain(value: Any) -> Any:
    """What decoding should make of it: a dict, with the keys that repeat where some do."""
    if isinstance(value, Members):
        keys = [key for key, _ in value]
        repeated = {key for key in keys if keys.count(key) > 1}
        return {key: plain(each) for key, each in value}, repeated
    return list(map(plain, value)) if isinstance(value, list) else value


def seen(value: Any) -> Any:
    if isinstance(value, dict):
        members = {key: seen(each) for key, each in value.items()}
        return members, value.repeated if isinstance(
            value, gojson.ObjectWithDuplicateKeys
        ) else set()
    return list(map(seen, value)) if isinstance(value, list) else value


@given(values, st.booleans())
def test_repeated_keys_are_found_at_any_depth(value: Any, ascii_only: bool) -> None:
    assert seen(gojson.decode(written(value, ascii_only=ascii_only).encode())) == plain(value)


def test_go_escapes_what_could_be_markup() -> None:
    text = '{"a":"<b> & \u2028é€"}'.encode()
    assert gojson.escaped(text) == b'{"a":"\\u003cb\\u003e \\u0026 \\u2028' + 'é€"}'.encode()
