"""Paths and messages are worded as Kubernetes words them."""

from __future__ import annotations

import pytest

from dray.api.types import dra
from dray.validation import fields

PATH = fields.SPEC.child("devices").child("requests").index(0).child("name")


def test_a_path_names_fields_indexes_and_keys() -> None:
    assert str(PATH) == "spec.devices.requests[0].name"
    assert str(fields.SPEC.child("hard").key("cpu")) == "spec.hard[cpu]"


def test_a_path_from_the_root_has_no_leading_dot() -> None:
    assert str(fields.ROOT.child("spec").child("x")) == "spec.x"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (fields.required(PATH), "Required value"),
        (fields.required(PATH, "must be set"), "Required value: must be set"),
        (fields.invalid(PATH, "GPU", "is bad"), 'Invalid value: "GPU": is bad'),
        (fields.invalid(PATH, 33, "is bad"), "Invalid value: 33: is bad"),
        (fields.invalid(PATH, False, "is bad"), "Invalid value: false: is bad"),
        (fields.invalid(PATH, None, "is bad"), "Invalid value: null: is bad"),
        (fields.invalid(PATH, ("a", "b"), "is bad"), 'Invalid value: ["a","b"]: is bad'),
        (fields.invalid(PATH, (), "is bad"), "Invalid value: null: is bad"),
        (fields.invalid(PATH, fields.NO_VALUE, "is bad"), "Invalid value: is bad"),
        (
            fields.invalid(PATH, {"b": "<&>", "a": 1}, "is bad"),
            'Invalid value: {"a":1,"b":"\\u003c\\u0026\\u003e"}: is bad',
        ),
        (
            fields.invalid(PATH, dra.ExactDeviceRequest("c", admin_access=False), "is bad"),
            'Invalid value: {"deviceClassName":"c","adminAccess":false}: is bad',
        ),
        (
            fields.duplicate(PATH, dra.AllocatedDeviceStatus("d.io", "p", "gpu-0")),
            'Duplicate value: {"driver":"d.io","pool":"p","device":"gpu-0"}',
        ),
        (fields.duplicate(PATH, "gpu"), 'Duplicate value: "gpu"'),
        (fields.not_found(PATH, "gpu"), 'Not found: "gpu"'),
        (fields.forbidden(PATH, "cannot be set"), "Forbidden: cannot be set"),
        (
            fields.not_supported(PATH, "Some", ("All", "ExactCount")),
            'Unsupported value: "Some": supported values: "All", "ExactCount"',
        ),
        (fields.too_long(PATH, 64), "Too long: may not be more than 64 bytes"),
        (fields.too_long(PATH, 1, "character"), "Too long: may not be more than 1 character"),
        (fields.too_many(PATH, 33, 32), "Too many: 33: must have at most 32 items"),
        (fields.too_many(PATH, 2, 1), "Too many: 2: must have at most 1 item"),
        (fields.internal_error(PATH, "broken"), "Internal error: broken"),
    ],
)
def test_the_body_says_type_value_and_detail(error: fields.FieldError, message: str) -> None:
    assert error.body == message
    assert error.message == f"spec.devices.requests[0].name: {message}"


def test_strings_are_quoted_as_go_quotes_them() -> None:
    error = fields.invalid(PATH, 'a"b\n\x01\u200b', "is bad")
    assert error.body == r'Invalid value: "a\"b\n\x01\u200b": is bad'


def test_an_unchanged_field_is_no_error() -> None:
    assert not list(fields.immutable(PATH, "a", "a"))


def test_a_changed_field_shows_the_new_value() -> None:
    (error,) = fields.immutable(PATH, "b", "a")
    assert error.body == 'Invalid value: "b": field is immutable'


def test_covered_errors_keep_their_origin_unless_another_is_given() -> None:
    error = fields.invalid(PATH, "x", "is bad", origin="format")
    (kept,) = fields.covered([error])
    (renamed,) = fields.covered([error], "other")
    assert (kept.origin, kept.covered) == ("format", True)
    assert (renamed.origin, renamed.covered) == ("other", True)
