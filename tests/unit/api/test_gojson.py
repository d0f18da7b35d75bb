import pytest

from dray.api import gojson


def test_plain_json_is_plain_objects() -> None:
    assert gojson.decode(b' {"a": [1, 2.5, "x", null, true], "b": {}} ') == {
        "a": [1, 2.5, "x", None, True],
        "b": {},
    }


def test_repeated_keys_are_remembered_and_the_last_value_counts() -> None:
    value = gojson.decode(b'{"a": 1, "b": 2, "a": 3}')
    assert isinstance(value, gojson.RepeatingObject)
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
    with pytest.raises(gojson.SyntaxProblem) as raised:
        gojson.decode(data.encode())
    assert str(raised.value) == complaint


@pytest.mark.parametrize("data", ["{}", "[]", "0", "-1.5e-3", '"\\u00e4\\n"', "[[], {}, null]"])
def test_nothing_is_wrong_with_json(data: str) -> None:
    assert gojson.complaint(data.encode()) == ""
