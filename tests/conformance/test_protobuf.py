"""Objects with every field set, as client-go wrote them in protobuf."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.conversion import canonical
from dray.apiserver.request import protobuf, protobuf_encoding, protobuf_types
from tests import recorded

FILE = "protobuf_objects.jsonl"
RECORDED = recorded.CASES.lines(FILE)


def named(line: dict[str, Any]) -> str:
    return f"{line['object']['apiVersion']} {line['object']['kind']}"


@pytest.mark.parametrize("line", RECORDED, ids=named)
def test_every_field_is_read_and_written(line: dict[str, Any]) -> None:
    document = line["object"]
    name = protobuf_types.type_of(document["apiVersion"], document["kind"])
    read = protobuf.decode(bytes.fromhex(line["protobuf"]))
    assert canonical.write(name, read) == canonical.write(name, document)
    written = protobuf.decode(protobuf_encoding.encode(document))
    assert canonical.write(name, written) == canonical.write(name, document)
