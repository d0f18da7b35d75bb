"""The error tree: through Status and back, and the words Kubernetes uses."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from dray.api import errors
from dray.api.ids import GroupKind, GroupResource

CLAIMS = GroupResource("resource.k8s.io", "resourceclaims")
PODS = GroupResource("", "pods")


def walk(root: type[errors.StatusError]) -> Iterator[type[errors.StatusError]]:
    for child in root.__subclasses__():
        yield child
        yield from walk(child)


LEAVES = [cls for cls in walk(errors.StatusError) if not cls.__subclasses__()]


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.__name__)
def test_every_error_survives_the_wire(leaf: type[errors.StatusError]) -> None:
    details = errors.Details(
        name="x",
        group="g",
        kind="k",
        uid="u",
        causes=(errors.Cause("spec.a", "FieldValueInvalid", "no"),),
        retry_after_seconds=3,
    )
    sent = leaf("why", details, continue_token="next")
    wire = msgspec.json.decode(msgspec.json.encode(errors.to_status(sent)))
    received = errors.from_status(wire)
    assert type(received) is leaf
    assert (received.message, received.details) == ("why", details)
    assert (received.code, received.reason) == (leaf.default_code, leaf.__name__)
    assert received.continue_token == "next"
    assert str(received) == "why"


def test_the_tree_has_a_leaf_for_every_reason_of_kubernetes() -> None:
    assert len(LEAVES) == 19
    assert {leaf.default_reason for leaf in LEAVES} == {leaf.__name__ for leaf in LEAVES}


def test_refusals_are_4xx_and_failures_5xx() -> None:
    for leaf in LEAVES:
        parent = errors.ClientError if leaf.default_code < 500 else errors.ServerError
        assert issubclass(leaf, parent)


@pytest.mark.parametrize(
    ("reason", "code", "cls"),
    [
        ("Overloaded", 418, errors.ClientError),
        ("Overloaded", 599, errors.ServerError),
        ("", 409, errors.Conflict),
        ("", 410, errors.Gone),
        ("NewReason", 404, errors.NotFound),
        ("", 500, errors.InternalError),
        ("NotFound", 500, errors.NotFound),
    ],
)
def test_an_unknown_reason_survives(reason: str, code: int, cls: type[errors.StatusError]) -> None:
    error = errors.from_status({"kind": "Status", "reason": reason, "code": code, "message": "m"})
    assert type(error) is cls
    status = errors.to_status(error)
    assert status.get("reason", "") == reason
    assert status["code"] == code


def test_an_empty_status_is_an_internal_error() -> None:
    error = errors.from_status({})
    assert isinstance(error, errors.InternalError)
    assert error.code == 500


def test_status_has_the_fields_of_the_api_in_their_order() -> None:
    status = errors.to_status(errors.not_found(CLAIMS, "x"))
    assert list(status) == [
        "kind",
        "apiVersion",
        "metadata",
        "status",
        "message",
        "reason",
        "details",
        "code",
    ]
    assert status["details"] == {"name": "x", "group": "resource.k8s.io", "kind": "resourceclaims"}


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (errors.not_found(CLAIMS, "x"), 'resourceclaims.resource.k8s.io "x" not found'),
        (errors.not_found(PODS, 'a"b'), 'pods "a\\"b" not found'),
        (errors.already_exists(PODS, "x"), 'pods "x" already exists'),
        (
            errors.conflict(CLAIMS, "x"),
            'Operation cannot be fulfilled on resourceclaims.resource.k8s.io "x": the object has '
            "been modified; please apply your changes to the latest version and try again",
        ),
        (errors.forbidden(PODS, "x", "no"), 'pods "x" is forbidden: no'),
        (errors.forbidden(PODS, "", "no"), "pods is forbidden: no"),
        (errors.forbidden(None, "", "no"), "forbidden: no"),
        (errors.unauthorized(), "not authorized"),
        (errors.too_old(1, 4072), "too old resource version: 1 (4072)"),
        (
            errors.too_large_resource_version(9, 3),
            "Timeout: Too large resource version: 9, current: 3",
        ),
        (errors.internal_error("disk"), "Internal error occurred: disk"),
        (errors.request_entity_too_large("limit is 3145728"), "Request entity too large: limit"),
        (
            errors.unsupported_media_type(["application/json", "application/yaml"]),
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json, application/yaml",
        ),
    ],
)
def test_words(error: errors.StatusError, message: str) -> None:
    assert error.message.startswith(message)


def test_invalid_with_one_cause() -> None:
    cause = errors.Cause("spec.devices.requests", "FieldValueTooMany", "Too many: 33")
    error = errors.invalid(GroupKind("resource.k8s.io", "ResourceClaim"), "bad", [cause])
    assert error.message == (
        'ResourceClaim.resource.k8s.io "bad" is invalid: spec.devices.requests: Too many: 33'
    )
    assert errors.to_status(error)["details"] == {
        "name": "bad",
        "group": "resource.k8s.io",
        "kind": "ResourceClaim",
        "causes": [
            {
                "reason": "FieldValueTooMany",
                "message": "Too many: 33",
                "field": "spec.devices.requests",
            }
        ],
    }


def test_invalid_names_each_cause_once_in_the_message_and_keeps_all_in_the_details() -> None:
    first, second = errors.Cause("a", "FieldValueRequired", "x"), errors.Cause("b", "R", "y")
    error = errors.invalid(GroupKind("", "Pod"), "p", [first, second, first])
    assert error.message == 'Pod "p" is invalid: [a: x, b: y]'
    assert error.causes == (first, second, first)


def test_invalid_without_causes() -> None:
    assert errors.invalid(GroupKind("", "Pod"), "p", []).message == 'Pod "p" is invalid'


@pytest.mark.parametrize(
    ("code", "body", "cls", "message"),
    [
        (404, "page", errors.NotFound, "the server could not find the requested resource"),
        (403, "who are you", errors.Forbidden, "who are you"),
        (502, "oops", errors.ServerError, 'an error on the server ("oops") has prevented the'),
        (
            418,
            "tea",
            errors.ClientError,
            "the server responded with the status code 418 but did not",
        ),
    ],
)
def test_answers_that_are_no_status(
    code: int, body: str, cls: type[errors.StatusError], message: str
) -> None:
    error = errors.from_response(code, body)
    assert type(error) is cls
    assert error.code == code
    assert error.message.startswith(message)
