"""Bodies that no honest client sends: sixty ideas and more for every media type."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, Final

from dray.apiserver.request import protobuf_types

NAME: Final = "victim"
DEEP: Final = 100_000
DIGITS: Final = "9" * 5_000
MEGABYTE: Final = 2**20
Bodies = dict[str, bytes]


def config_map(**changes: Any) -> dict[str, Any]:
    """Return a ConfigMap that is valid but for the changes."""
    metadata = {"name": NAME, **changes.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **changes}


def _metadata(**changes: Any) -> dict[str, Any]:
    return {"metadata": changes}


OWNER: Final = {"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}
FIELDS: Final[dict[str, Any]] = {"f:data": {"f:a": {}}}

WRONG_PARTS: Final[Mapping[str, dict[str, Any]]] = {
    "labels are a list": _metadata(labels=["a"]),
    "a label is a number": _metadata(labels={"a": 1}),
    "a label is an object": _metadata(labels={"a": {"b": "c"}}),
    "a label has a space": _metadata(labels={"a": "b c"}),
    "a label is long": _metadata(labels={"a": "b" * 64}),
    "a label has half a surrogate pair": _metadata(labels={"a": "\ud800"}),
    "a label has a NUL": _metadata(labels={"a": "\0"}),
    "the key of a label is long": _metadata(labels={"a" * 64: "b"}),
    "the key of a label has two slashes": _metadata(labels={"a/b/c": "d"}),
    "the key of a label is empty": _metadata(labels={"": "d"}),
    "ten thousand wrong labels": _metadata(labels={f"-{i}": "x" for i in range(10_000)}),
    "annotations are text": _metadata(annotations="a"),
    "an annotation is a list": _metadata(annotations={"a": []}),
    "annotations are large": _metadata(annotations={"a": "x" * (MEGABYTE // 2)}),
    "the key of an annotation is long": _metadata(annotations={"a" * 500: "b"}),
    "finalizers are an object": _metadata(finalizers={"a": "b"}),
    "a finalizer is a number": _metadata(finalizers=[1]),
    "a finalizer is no name": _metadata(finalizers=["a b"]),
    "ten thousand wrong finalizers": _metadata(finalizers=[f" {i}" for i in range(10_000)]),
    "owners are text": _metadata(ownerReferences="a"),
    "an owner is a list": _metadata(ownerReferences=[[]]),
    "an owner has no name": _metadata(ownerReferences=[{**OWNER, "name": ""}]),
    "an owner is an event": _metadata(ownerReferences=[{**OWNER, "kind": "Event"}]),
    "two controllers": _metadata(
        ownerReferences=[{**OWNER, "uid": str(i), "controller": True} for i in range(2)]
    ),
    "two thousand controllers": _metadata(
        ownerReferences=[{**OWNER, "uid": str(i), "controller": True} for i in range(2_000)]
    ),
    "the time of creation is text": _metadata(creationTimestamp="yesterday"),
    "the time of creation is a number": _metadata(creationTimestamp=1),
    "the time of creation has 5,000 digits": _metadata(creationTimestamp=DIGITS),
    "the generation is text": _metadata(generation="1"),
    "the generation is a fraction": _metadata(generation=1.5),
    "the generation has 20 digits": _metadata(generation=10**20),
    "the grace period is a list": _metadata(deletionGracePeriodSeconds=[]),
    "the uid is a number": _metadata(uid=1),
    "managed fields are text": _metadata(managedFields="a"),
    "an entry of managed fields is a number": _metadata(managedFields=[1]),
    "the time of managed fields is none": _metadata(
        managedFields=[{"manager": "m", "operation": "Apply", "time": "now"}]
    ),
    "data is a list": {"data": ["a"]},
    "data is text": {"data": "a"},
    "a value of data is a number": {"data": {"a": 1}},
    "a value of data is an object": {"data": {"a": {"b": "c"}}},
    "a value of data is a truth": {"data": {"a": True}},
    "a key of data has a slash": {"data": {"a/b": "c"}},
    "a key of data is two dots": {"data": {"..": "c"}},
    "a key of data is empty": {"data": {"": "c"}},
    "a key of data is long": {"data": {"a" * 254: "c"}},
    "a key of data has a line break": {"data": {"a\nb": "c"}},
    "ten thousand wrong keys of data": {"data": {f"/{i}": "" for i in range(10_000)}},
    "data is large": {"data": {"a": "x" * (MEGABYTE + 1)}},
    "binary data is no base64": {"binaryData": {"a": "!"}},
    "binary data is cut": {"binaryData": {"a": "AAA"}},
    "binary data is a list": {"binaryData": []},
    "the same key twice": {"data": {"a": "b"}, "binaryData": {"a": "AAAA"}},
    "immutable is text": {"immutable": "yes"},
    "immutable is a number": {"immutable": 1},
}
"""Parts of an object that are wrong in every encoding and in every patch."""


def _whole_objects() -> dict[str, dict[str, Any]]:
    return {name: config_map(**json.loads(json.dumps(part))) for name, part in WRONG_PARTS.items()}


def _texts() -> Bodies:
    """Return texts that are no JSON; those without quotes are no YAML of an object either."""
    return {
        "nothing": b"",
        "a number": b"7",
        "null": b"null",
        "a list": b"[]",
        "a text": b'"a"',
        "open lists": b"[" * DEEP,
        "open objects": b'{"a":' * DEEP,
        "closed lists": b"[" * DEEP + b"]" * DEEP,
        "a deep object": b'{"a":' * 1_000 + b"1" + b"}" * 1_000,
        "lists and objects in turn": b'{"a":[' * 500 + b"]}" * 500,
        "closing brackets": b"]" * DEEP,
        "an open text": b'{"a": "' + b"x" * MEGABYTE,
        "no UTF-8": b"\xff\xfe\xfd",
        "a BOM of UTF-32": b"\xff\xfe\x00\x00" + b"{\x00\x00\x00",
        "NULs": b"\0" * 1_000,
        "an escape": b"\x1b[2J",
    }


def json_bodies() -> Bodies:
    bodies = {name: json.dumps(body).encode() for name, body in _whole_objects().items()}
    return {
        **bodies,
        **_texts(),
        "a number of 5,000 digits": _json_generation(DIGITS),
        "a number beyond all exponents": _json_generation("1e400"),
        "an exponent of 5,000 digits": _json_generation(f"1e{DIGITS}"),
        "no number": _json_generation("NaN"),
        "infinity": _json_generation("-Infinity"),
        "a number with a leading zero": _json_generation("01"),
        "a hexadecimal number": _json_generation("0x10"),
        "two values": b"{} {}",
        "a trailing comma": b'{"a": 1,}',
        "a comment": b"{} // a",
        "a control character in a text": b'{"a": "\x01"}',
        "single quotes": b"{'a': 1}",
        "a repeated key of the wrong type": b'{"metadata": {}, "metadata": 1}',
        "more than the limit of bodies": b'{"a": "' + b"x" * (3 * MEGABYTE) + b'"}',
    }


def _json_generation(number: str) -> bytes:
    return json.dumps(config_map(metadata={"generation": 0})).replace(": 0", f": {number}").encode()


def yaml_bodies() -> Bodies:
    """Return YAML; a text of JSON is also YAML, and read by the decoder of JSON."""
    bodies = {name: _yaml(body) for name, body in _whole_objects().items()}
    head = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: victim}\n"
    bombs = [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    merges = [f"- &m{i} {{<<: [{','.join([f'*m{i - 1}'] * 12)}]}}" for i in range(1, 9)]
    return {
        **bodies,
        **_texts(),
        "block lists": b"- " * DEEP,
        "block mappings": b"".join(b" " * i + b"a:\n" for i in range(1_000)),
        "questions": b"? " * DEEP,
        "mappings in a flow": b"{a: " * DEEP,
        "lists of an object": head + b"data: " + b"[" * DEEP,
        "aliases of aliases": "\n".join(["a0: &a0 [x]", *bombs]).encode(),
        "merge keys": "\n".join(["- &m0 {a: 1}", *merges]).encode(),
        "one merge key": head + b"data: {<<: {a: b}}",
        "an anchor": head + b"data: &a {}",
        "an alias of itself": b"&a [*a]",
        "an alias of nothing": head + b"data: *a",
        "many anchors": b"".join(b"- &a%d 1\n" % i for i in range(30_000)),
        "a command": b"!!python/object/apply:os.system [ls]",
        "bytes": head + b"data: {a: !!binary AAAA}",
        "a set": head + b"data: !!set {a}",
        "an ordered map": head + b"data: !!omap [a: b]",
        "a tag of one's own": head + b"data: !mine {a: b}",
        "a text that claims to be a number": head + b"data: {a: !!int x}",
        "base 60": head + b"immutable: 1" + b":1" * 10_000,
        "a date that is no text": head + b"immutable: 2020-01-01",
        "infinity": head + b"immutable: .inf",
        "no number": head + b"immutable: .nan",
        "a number of 5,000 digits": head + f"immutable: {DIGITS}".encode(),
        "a key that is a list": head + b"data: {[a]: b}",
        "a key that is null": head + b"data: {~: b}",
        "two documents": head + b"---\n" + head,
        "many documents": b"---\n" * 100_000,
        "many directives": b"".join(b"%%TAG !a%d! tag:x\n" % i for i in range(20_000)) + b"--- a",
        "an unknown version": b"%YAML 9.9\n--- a",
        "a tab": head + b"data:\n\ta: b",
        "more values than allowed": head + b"data: [" + b"1," * 100_000 + b"]",
        "more bytes than allowed": head + b"data: {a: " + b"x" * MEGABYTE + b"}",
        "half of a surrogate pair": head + b'data: {a: "\\ud800"}',
        "a control character": head + b"data: {a: \x01}",
        "an open text": head + b'data: {a: "',
        "comments only": b"# a\n" * 100_000,
        "UTF-16 of a list": "[a]".encode("utf-16"),
    }


def _yaml(body: dict[str, Any]) -> bytes:
    """Write block style for the first level, so that nothing takes it for JSON."""
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in body.items()).encode()


def _varint(value: int) -> bytes:
    groups = []
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _unknown(raw: bytes, api_version: bytes = b"v1", kind: bytes = b"ConfigMap") -> bytes:
    meta = _field(1, api_version) + _field(2, kind)
    return protobuf_types.MAGIC + _field(1, meta) + _field(2, raw)


def _named(rest: bytes = b"") -> bytes:
    """Return the metadata of an object, field 1 of every kind."""
    return _field(1, _field(1, NAME.encode()) + rest)


def protobuf_bodies() -> Bodies:
    """Return bodies; field 1 is metadata, 2 data, 3 binary data and 4 immutable."""
    cut = [
        _unknown(_named(_field(11, _field(1, b"a") + _field(2, b"b"))))[:-n] for n in range(1, 13)
    ]
    wire = {f"wire type {n}": _unknown(_named() + bytes([5 << 3 | n, 1])) for n in (3, 4, 6, 7)}
    values = {
        f"metadata of wire type {n}": _unknown(bytes([1 << 3 | n]) + b"\x01" * 8) for n in (0, 1, 5)
    }
    names = {
        f"field {number} of the metadata is a number": _unknown(
            _field(1, _varint(number << 3) + b"\x07")
        )
        for number in (1, 2, 3, 5, 6, 8, 11, 12, 13, 14, 17)
    }
    lengths = {
        f"a length of 2**{bits}": protobuf_types.MAGIC + b"\x12" + _varint(2**bits)
        for bits in (20, 30, 31, 32, 62, 63)
    }
    return {
        **{f"cut by {number}": body for number, body in enumerate(cut, 1)},
        **wire,
        **values,
        **names,
        **lengths,
        **_wrong_protobuf(),
    }


def _wrong_protobuf() -> Bodies:
    return {
        "nothing": b"",
        "no magic bytes": b"k9s\0",
        "JSON": b"{}",
        "magic bytes alone": protobuf_types.MAGIC,
        "magic bytes twice": protobuf_types.MAGIC * 2,
        "an endless number": protobuf_types.MAGIC + b"\xff" * MEGABYTE,
        "a number of 11 bytes": _unknown(_named() + b"\x20" + b"\xff" * 10 + b"\x01"),
        "another kind": _unknown(_named(), kind=b"Secret"),
        "another version": _unknown(_named(), api_version=b"v9"),
        "an unknown kind": _unknown(_named(), kind=b"Nothing"),
        "no kind": protobuf_types.MAGIC + _field(2, _named()),
        "a kind that is no UTF-8": _unknown(_named(), kind=b"\xff"),
        "a version with many slashes": _unknown(_named(), api_version=b"/" * DEEP),
        "a compressed body": _unknown(_named()) + _field(3, b"gzip"),
        "a name that is no UTF-8": _unknown(_field(1, _field(1, b"\xff\xfe"))),
        "a name with a NUL": _unknown(_field(1, _field(1, b"a\0b"))),
        "a long name": _unknown(_field(1, _field(1, b"a" * MEGABYTE))),
        "nested messages": _unknown(_nested(DEEP // 10)),
        "a time out of range": _unknown(_named(_field(8, b"\x08" + _varint(2**62)))),
        "a label of wire type 0": _unknown(_named(_field(11, b"\x08\x01"))),
        "a label that is no UTF-8": _unknown(_named(_field(11, _field(1, b"\xff")))),
        "many wrong labels": _unknown(_named(_field(11, _field(1, b" ")) * 10_000)),
        "managed fields that are no JSON": _unknown(_named(_field(17, _field(7, _field(1, b"{"))))),
        "managed fields that are deep": _unknown(
            _named(_field(17, _field(7, _field(1, b'{"f:a":' * DEEP))))
        ),
        "data of wire type 5": _unknown(_named() + b"\x15" + struct.pack("<I", 1)),
        "an entry of data that is cut": _unknown(_named() + _field(2, b"\x0a\x05a")),
        "a key of data with a slash": _unknown(_named() + _field(2, _field(1, b"a/b"))),
        "data that is large": _unknown(
            _named() + _field(2, _field(1, b"a") + _field(2, b"x" * (MEGABYTE + 1)))
        ),
        "the same key twice": _unknown(
            _named() + _field(2, _field(1, b"a")) + _field(3, _field(1, b"a"))
        ),
        "more than the limit of bodies": _unknown(_named() + b"\0" * (3 * MEGABYTE)),
        "field number 0": _unknown(b"\x02\x00"),
    }


def _nested(levels: int) -> bytes:
    """Return a message inside of messages, as if metadata had metadata."""
    data = b""
    for _ in range(min(levels, 2_000)):
        data = _field(1, data)
    return data


def _operation(op: Any = "add", path: Any = "/data/x", **more: Any) -> dict[str, Any]:
    return {"op": op, "path": path, **more}


def json_patch_bodies() -> Bodies:
    added = {
        f"adds: {name}": [
            _operation(
                "add", f"/{outer}" + (f"/{inner}" if outer == "metadata" else ""), value=value
            )
            for outer, members in part.items()
            for inner, value in (members.items() if outer == "metadata" else [("", members)])
        ]
        for name, part in WRONG_PARTS.items()
    }
    patches: dict[str, Any] = {**added, **_large_json_patches(), **_wrong_json_patches()}
    return {
        **{name: json.dumps(patch).encode() for name, patch in patches.items()},
        **_no_patches(),
    }


def _large_json_patches() -> dict[str, Any]:
    return {
        "copies that double": [
            _operation("copy", f"/data/c{i}", **{"from": "/data"}) for i in range(100)
        ],
        "copies of everything": [
            _operation("copy", f"/data/c{i}", **{"from": ""}) for i in range(100)
        ],
        "too many operations": [_operation("test", "/kind", value="ConfigMap")] * 10_001,
        "inserts at the front": [
            _operation(path="/x", value=[1] * 400_000),
            *[_operation(path="/x/0", value=1)] * 9_000,
        ],
        "removals at the front": [
            _operation(path="/x", value=[1] * 400_000),
            *[_operation("remove", "/x/0")] * 9_000,
        ],
        "ever deeper adds": [
            _operation(path="/data" + "/a" * i, value={}) for i in range(1, 1_200)
        ],
        "ever deeper moves": [
            _operation(path="/x", value={}),
            *[
                operation
                for _ in range(3_000)
                for operation in (
                    _operation(path="/y", value={}),
                    _operation("move", "/y/x", **{"from": "/x"}),
                    _operation("move", "/x", **{"from": "/y"}),
                )
            ],
        ],
        "a long path": [_operation(path="/a" * 500_000, value=1)],
        "a path of escapes": [_operation(path="/" + "~1~0" * 200_000 + "/x", value=1)],
    }


def _wrong_json_patches() -> dict[str, Any]:
    return {
        "a path without a slash": [_operation(path="data", value=1)],
        "a path that is a number": [_operation(path=1, value=1)],
        "an index of 5,000 digits": [_operation(path=f"/metadata/managedFields/{DIGITS}", value=1)],
        "an index below zero": [_operation("remove", "/metadata/managedFields/-1")],
        "an index of other digits": [_operation("remove", "/metadata/managedFields/\u0661")],
        "an operation that is a list": [_operation([])],
        "an unknown operation": [_operation("explode")],
        "no operation": [{"path": "/a"}],
        "an operation of text": ["add"],
        "an object": {"op": "add"},
        "add without a value": [_operation()],
        "copy without a source": [_operation("copy")],
        "a source that is a list": [_operation("copy", **{"from": []})],
        "a move into itself": [_operation("move", "/metadata/name/x", **{"from": "/metadata"})],
        "a move of everything": [_operation("move", "/a", **{"from": ""})],
        "a removal of everything": [_operation("remove", "")],
        "a removal of nothing": [_operation("remove", "/data/nothing")],
        "everything becomes a list": [_operation("replace", "", value=[])],
        "everything becomes null": [_operation("replace", "", value=None)],
        "another kind": [_operation("replace", "/kind", value="Secret")],
        "another name": [_operation("replace", "/metadata/name", value="x")],
        "another uid": [_operation("replace", "/metadata/uid", value="x")],
        "metadata becomes a list": [_operation("replace", "/metadata", value=[])],
        "a failing test": [_operation("test", "/kind", value=True)],
        "a test of a deep value": [_operation("test", "/kind", value=_lists(150))],
    }


def _lists(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def _no_patches() -> Bodies:
    texts = _texts()
    return {name: body for name, body in texts.items() if name not in ("a list",)}


def merge_patch_bodies() -> Bodies:
    patches: dict[str, Any] = {**WRONG_PARTS, **_wrong_changes()}
    return {**{name: json.dumps(patch).encode() for name, patch in patches.items()}, **_texts()}


def _wrong_changes() -> dict[str, Any]:
    """Return merge patches that no object can take."""
    return {
        "another kind": {"kind": "Secret"},
        "another version": {"apiVersion": "v9"},
        "another name": _metadata(name="x"),
        "another namespace": _metadata(namespace="x"),
        "another uid": _metadata(uid="x"),
        "metadata is a number": {"metadata": 1},
        "a resource version of 5,000 digits": _metadata(resourceVersion=DIGITS),
        "an old resource version": _metadata(resourceVersion="1"),
    }


def strategic_merge_patch_bodies() -> Bodies:
    changes = _wrong_changes()
    # Strategic merge patches of Kubernetes leave the type alone, whatever they say.
    del changes["another kind"], changes["another version"]
    owners = [{**OWNER, "uid": f"u{i}", "name": ""} for i in range(10_000)]
    patches: dict[str, Any] = {
        **WRONG_PARTS,
        **changes,
        "an unknown directive": {"$patch": "explode"},
        "a directive that is a list": {"$patch": []},
        "a directive inside that is an object": {"data": {"a": {"$patch": {}}}},
        "keys to retain that are a number": {"$retainKeys": 1},
        "keys to retain that are an object": {"metadata": {"$retainKeys": {}}},
        "owners without their key": _metadata(ownerReferences=[{"name": "n"}]),
        "owners that are numbers": _metadata(ownerReferences=[1]),
        "ten thousand wrong owners": _metadata(ownerReferences=owners),
        "a replaced list with a number": _metadata(ownerReferences=[{"$patch": "replace"}, 1]),
        "everything is replaced by nothing": {"$patch": "replace"},
    }
    return {**{name: json.dumps(patch).encode() for name, patch in patches.items()}, **_texts()}


def apply_yaml_bodies() -> Bodies:
    return yaml_bodies()


def apply_json_bodies() -> Bodies:
    bodies = {name: json.dumps(body).encode() for name, body in _whole_objects().items()}
    changes: dict[str, Any] = {
        name: {**config_map(), **change, "metadata": {"name": NAME, **change.get("metadata", {})}}
        for name, change in _wrong_changes().items()
        if name != "metadata is a number"
    }
    managed = [{"manager": "m", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": FIELDS}]
    changes |= {
        "metadata is a number": {**config_map(), "metadata": 1},
        "managed fields": config_map(metadata={"managedFields": managed}),
        "no kind": {"apiVersion": "v1", "metadata": {"name": NAME}},
        "a kind that is a list": {**config_map(), "kind": []},
    }
    return {
        **bodies,
        **{name: json.dumps(change).encode() for name, change in changes.items()},
        **_texts(),
    }
