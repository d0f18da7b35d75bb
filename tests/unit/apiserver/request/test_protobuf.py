"""Every type in protobuf: nothing of an object is lost, in either direction."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from dray.api import errors, http_messages
from dray.api.conversion import canonical
from dray.api.kinds import GroupVersionKind
from dray.api.schema import field_types
from dray.apiserver.request import (
    bodies,
    protobuf,
    protobuf_encoding,
    protobuf_types,
    write_options,
)
from dray.apiserver.request.protobuf_types import Embedded, Layout
from tests import all_fields

WITHOUT_FORM = {"meta.v1.Patch"}
HOW = (
    "run: python -m tools.make_protobuf KUBERNETES; a field of dray's own gets a number from 1000 "
    "on by hand in protobuf_fields.json"
)
CLAIM = GroupVersionKind("resource.k8s.io", "v1", "ResourceClaim")


@pytest.mark.parametrize("name", sorted(set(field_types.names()) - WITHOUT_FORM))
def test_every_field_of_the_schema_has_a_number(name: str) -> None:
    assert name in protobuf_types.numbers(), HOW
    found = list(names(protobuf_types.layout(name)))
    fields_of_type = field_types.fields(name).values()
    expected = [field.name for field in fields_of_type if field.embedded != "TypeMeta"]
    assert sorted(found) == sorted(expected), HOW


def names(layout: Layout) -> Iterator[str]:
    for field in layout.values():
        if isinstance(field, Embedded):
            yield from names(field.fields)
        else:
            yield field.name


@pytest.mark.parametrize("gvk", all_fields.served(), ids=str)
def test_an_object_with_all_fields_reads_the_same_from_both(gvk: GroupVersionKind) -> None:
    document = all_fields.make(gvk)
    sent = {
        http_messages.JSON: json.dumps(document).encode(),
        http_messages.PROTOBUF: protobuf_encoding.encode(document),
    }
    read = [
        bodies.read(body, media_type, gvk, write_options.STRICT).document
        for media_type, body in sent.items()
    ]
    assert read == [document, document]


@pytest.mark.parametrize("gvk", all_fields.served(), ids=str)
def test_empty_values_that_go_writes_mean_nothing(gvk: GroupVersionKind) -> None:
    """Go writes every string that is no pointer, also an empty one."""
    name = gvk.schema_type
    empty = {
        field.name: ""
        for field in field_types.fields(name).values()
        if field.type.form is field_types.WireForm.STRING
        and not field.type.is_pointer
        and field.embedded != "TypeMeta"
    }
    document = {"apiVersion": gvk.api_version, "kind": gvk.kind}
    decoded = protobuf.decode(protobuf_encoding.encode({**document, **empty}))
    assert canonical.write(name, decoded) == canonical.write(name, document)


@pytest.mark.parametrize("api_version", ["v1", "apps/v1", "policy/v1", "resource.k8s.io/v1beta1"])
def test_options_of_a_deletion_are_declared_in_the_group_of_its_objects(api_version: str) -> None:
    document = {"apiVersion": api_version, "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    assert protobuf.decode(protobuf_encoding.encode(document)) == document


@pytest.mark.parametrize("api_version", ["apps/v9", "unknown.example/v1", ""])
def test_options_in_a_version_that_is_not_served_are_refused(api_version: str) -> None:
    document = {"apiVersion": "apps/v1", "kind": "DeleteOptions"}
    body = protobuf_encoding.encode(document)
    old = b"\x0a\x07apps/v1"
    new = b"\x0a" + bytes([len(api_version)]) + api_version.encode()
    start = body.index(old)
    length = body[start - 1] + len(new) - len(old)
    changed = body[: start - 1] + bytes([length]) + new + body[start + len(old) :]
    with pytest.raises(errors.BadRequest, match="no DeleteOptions in"):
        protobuf.decode(changed)


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "VolumeSource"),
        ("v1", "ConditionStatus"),
        ("v1", "Patch"),
        ("meta.k8s.io/v1", "PartialObjectMetadataX"),
        ("meta.k8s.io/v1", "Patch"),
        ("autoscaling/v9", "Scale"),
        ("", ""),
    ],
)
def test_kinds_without_a_form_are_refused(api_version: str, kind: str) -> None:
    meta = protobuf_encoding._bytes(1, api_version.encode())
    meta += protobuf_encoding._bytes(2, kind.encode())
    body = protobuf_types.MAGIC + protobuf_encoding._bytes(1, meta)
    with pytest.raises(errors.BadRequest, match=f"no {kind} in"):
        protobuf.decode(body)


def test_a_body_of_many_empty_values_is_refused_early() -> None:
    meta = protobuf_encoding._bytes(1, b"v1") + protobuf_encoding._bytes(2, b"Pod")
    containers = protobuf_encoding._bytes(2, b"\x12\x00" * (protobuf.MAX_VALUES + 1))
    body = protobuf_types.MAGIC + protobuf_encoding._bytes(1, meta)
    with pytest.raises(errors.RequestEntityTooLarge, match="250000 values"):
        protobuf.decode(body + protobuf_encoding._bytes(2, containers))


def test_a_body_that_was_cut_or_changed_is_read_or_refused() -> None:
    body = protobuf_encoding.encode(all_fields.make(CLAIM))
    chosen = random.Random(20)
    for _ in range(300):
        changed = bytearray(body[: chosen.randrange(1, len(body))])
        for _ in range(chosen.randrange(3)):
            changed[chosen.randrange(len(changed))] = chosen.randrange(256)
        try:
            bodies.parse(bytes(changed), http_messages.PROTOBUF)
        except errors.BadRequest:
            continue


@pytest.mark.parametrize(
    "parameters", [b"{", b"k8s\0", b"", b"[" * 5000 + b"]" * 5000, b'{"a":\xff}']
)
def test_parameters_that_are_no_json_are_refused(parameters: bytes) -> None:
    marked = {"opaque": {"driver": "d", "parameters": {"here": 1}}}
    document = {
        "apiVersion": CLAIM.api_version,
        "kind": CLAIM.kind,
        "spec": {"devices": {"config": [marked]}},
    }
    body = protobuf_encoding.encode(document)
    with pytest.raises(errors.BadRequest):
        bodies.parse(_replaced(body, b'{"here":1}', parameters), http_messages.PROTOBUF)


def _replaced(data: bytes, old: bytes, new: bytes) -> bytes:
    """The message with other bytes in a field, and the lengths around it as they are then."""
    if data.startswith(protobuf_types.MAGIC):
        head = protobuf_types.MAGIC
        return head + _replaced(data[len(head) :], old, new)
    if data == old:
        return new
    parts = []
    for number, value in protobuf._fields(data):
        if isinstance(value, int):
            parts.append(protobuf_encoding._varint(number << 3) + protobuf_encoding._varint(value))
        else:
            inner = _replaced(value, old, new) if old in value else value
            parts.append(protobuf_encoding._bytes(number, inner))
    return b"".join(parts)
