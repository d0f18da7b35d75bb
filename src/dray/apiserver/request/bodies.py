"""Decoding of request bodies: JSON, YAML or protobuf to a checked dict, with warnings."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

from dray.api import errors, http_messages, kinds
from dray.api.conversion import decoding
from dray.api.formats import bounded_yaml, gojson
from dray.api.kinds import GroupVersionKind
from dray.api.types.meta import JsonObject
from dray.apiserver.request import protobuf, write_options

MAX_DEPTH = 200
MAX_YAML_BYTES = 2**20
"""A third of the limit of other bodies: byte by byte, YAML is ten times as expensive as JSON."""
ACCEPTED = (http_messages.JSON, http_messages.YAML, http_messages.PROTOBUF)


class Body(NamedTuple):
    """An object that has the fields of its type, and warnings."""

    document: JsonObject
    warnings: tuple[str, ...] = ()


def _unchanged(_document: JsonObject) -> None:
    pass


def _no_warnings(_document: JsonObject) -> list[str]:
    return []


class BodyHooks(NamedTuple):
    """Additions of one kind to the reading of its objects; `composition` registers them.

    `transform` changes an object, in any version, before its fields are checked. It replaces
    members and changes nothing inside of them. `creation_warnings` is called for an object that is
    to be created, before defaults are filled in.
    """

    transform: Callable[[JsonObject], None] = _unchanged
    creation_warnings: Callable[[JsonObject], list[str]] = _no_warnings


NO_HOOKS = BodyHooks()


def read(
    body: bytes,
    content_type: str,
    expected: GroupVersionKind,
    field_validation: str,
    hooks: BodyHooks = NO_HOOKS,
) -> Body:
    """Return the object of a request for `expected`. Raises 400, worded as Kubernetes does."""
    document = parse(body, content_type, expected.kind)
    gvk = _declared(document, expected)
    if gvk != expected:
        raise _wrong_type(gvk, expected)
    hooks.transform(document)
    return checked(document, expected, field_validation)


def checked(document: JsonObject, gvk: GroupVersionKind, field_validation: str) -> Body:
    """As `decode_strict`. Raises 400, worded as Kubernetes does, instead of TypeMismatch."""
    try:
        return decode_strict(document, gvk, field_validation)
    except TypeMismatch as refusal:
        raise wrong_fields(gvk, refusal) from refusal


def wrong_fields(gvk: GroupVersionKind, why: object) -> errors.BadRequest:
    return errors.bad_request(
        f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {gvk.kind}: {why}'
    )


class TypeMismatch(ValueError):
    """The fields of an object are not those of its type."""


def decode_strict(document: JsonObject, gvk: GroupVersionKind, field_validation: str) -> Body:
    """Check an object against its type; unknown fields are an error, a warning or ignored.

    So are repeated ones. Raises TypeMismatch, always for fields of a wrong type.
    """
    problems = decoding.check(gvk.schema_type, document)
    if not problems:
        return Body(document)
    strict = decoding.strict_messages(problems)
    fatal = [problem for problem in problems if problem.message not in strict]
    refusal = decoding.refusal(problems if field_validation == write_options.STRICT else fatal)
    if refusal:
        raise TypeMismatch(refusal)
    # Dropped: another version of the API may have a field of that name.
    without_unknown = decoding.without_unknown(gvk.schema_type, document)
    return Body(without_unknown, tuple(strict) if field_validation == write_options.WARN else ())


def parse(body: bytes, content_type: str, kind: str = "") -> JsonObject:
    """Decode a JSON, YAML or protobuf object of any type. Raises 400 or 415."""
    media_type = content_type.split(";", 1)[0].strip().lower() or http_messages.JSON
    if media_type not in ACCEPTED:
        raise errors.unsupported_media_type(ACCEPTED)
    if media_type == http_messages.PROTOBUF:
        decoded = protobuf.decode(body)
        refuse_deep_json(decoded, body)
        return decoded
    try:
        document = yaml_or_json(body) if media_type == http_messages.YAML else gojson.decode(body)
    except ValueError as error:
        raise errors.bad_request(_unreadable(body, kind, error)) from error
    if not isinstance(document, dict):
        raise errors.bad_request(_unreadable(body, kind, "it is not an object"))
    refuse_deep_json(document, body)
    return document


def yaml_or_json(body: bytes) -> Any:
    """Decode YAML, or JSON as clients send it for YAML. Raises ValueError, or 413.

    JSON is YAML, too; its own decoder is much faster and so takes larger bodies.
    """
    if body.lstrip().startswith(b"{"):
        with contextlib.suppress(gojson.JsonSyntaxError):
            return gojson.decode(body)
    if len(body) > MAX_YAML_BYTES:
        raise errors.request_entity_too_large(f"limit is {MAX_YAML_BYTES}")
    return bounded_yaml.load(body, bounded_yaml.REQUEST)


def _unreadable(body: bytes, kind: str, error: object) -> str:
    shown = body[:1024].decode("utf-8", "replace")
    return (
        f"the object provided is unrecognized (must be of type {kind}): couldn't get "
        f"version/kind; json parse error: {error} ({shown})"
    )


def refuse_deep_json(document: Any, body: bytes) -> None:
    """As `refuse_deep`, but faster: JSON with few brackets cannot be deep."""
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH:
        refuse_deep(document)


def refuse_deep(document: Any) -> None:
    """Raise 400 for an object that is nested too deep for recursive functions."""
    level = [document] if isinstance(document, (dict, list)) else []
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise errors.bad_request(f"the object is nested more than {MAX_DEPTH} levels deep")
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, (dict, list))
        ]


def _declared(document: JsonObject, expected: GroupVersionKind) -> GroupVersionKind:
    """Return the type that an object declares, completed from the request's path."""
    for key, default in (("apiVersion", expected.api_version), ("kind", expected.kind)):
        if document.get(key) in (None, ""):
            document[key] = default
    api_version, kind = document["apiVersion"], document["kind"]
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {expected.kind}): "
            f"Object 'Kind' and 'apiVersion' must both be set"
        )
    if (api_version, kind) == (expected.api_version, expected.kind):
        return expected
    return GroupVersionKind(*kinds.parse_api_version(api_version), kind)


def _wrong_type(declared: GroupVersionKind, expected: GroupVersionKind) -> errors.BadRequest:
    if declared.kind == expected.kind:
        return errors.bad_request(
            f"the API version in the data ({declared.api_version}) does not match the expected API "
            f"version ({expected.api_version})"
        )
    package = expected.group.partition(".")[0] or "core"
    return errors.bad_request(
        f'{declared.kind} in version "{declared.version}" cannot be handled as a {expected.kind}: '
        f"converting ({declared.version}.{declared.kind}) to ({package}.{expected.kind}): "
        "unknown conversion"
    )
