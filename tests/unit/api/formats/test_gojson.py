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
    ("data", "byte"),
    [
        *((b"{bad", 1), (b'{"a" 1}', 5), (b'{"a": 1 "b": 2}', 8), (b'{"a": 1,}', 8)),
        *((b"[1 2]", 3), (b"[1,]", 3), (b"{} x", 4), (b"tru?", 4), (b"nope", 4), (b"-x", 1)),
        *((b"1.x", 2), (b"1e+x", 3), (b"01", 1), (b'"a\tb"', 2), (b'"\\x"', 3)),
        *((b"{'a': 1}", 1), (b'{"a": NaN}', 6)),
        pytest.param('{"é": bad}'.encode(), 7, id="bytes are counted, not characters"),
    ],
)
def test_what_is_not_json_is_refused_with_the_byte_at_fault(data: bytes, byte: int) -> None:
    with pytest.raises(gojson.JsonSyntaxError, match=rf"^JSON is malformed: .* \(byte {byte}\)$"):
        gojson.decode(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "Input data was truncated"),
        (b'{"a": [1', "Input data was truncated"),
        (b'"abc', "Input data was truncated"),
        (b"[" * 100_000, "exceeded max depth"),
    ],
)
def test_what_ends_early_or_nests_too_deep_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(gojson.JsonSyntaxError, match=f"^{message}$"):
        gojson.decode(data)


def test_what_only_go_accepts_is_read() -> None:
    assert gojson.decode(b'["\xff", "\\ud800"]') == ["\ufffd", "\ufffd"]


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


def test_halves_of_surrogate_pairs_are_replaced() -> None:
    text = rb'["\ud83d\ude00", "\ud800\ud83d\ude00", "\udc00", "\\ud800", {"\uD800": 1}]'
    assert gojson.decode(text) == ["😀", "\ufffd😀", "\ufffd", "\\ud800", {"\ufffd": 1}]


@pytest.mark.parametrize("number", [b"1e400", b"-1e400", b"9" * 5_000, b"1e" + b"9" * 5_000])
def test_numbers_that_no_float_holds_are_refused(number: bytes) -> None:
    for text in (number, b'{"a": 1, "a": %b}' % number):
        with pytest.raises(gojson.JsonSyntaxError):
            gojson.decode(text)
