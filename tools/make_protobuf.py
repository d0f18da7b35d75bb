"""Make the table of protobuf field numbers: `python -m tools.make_protobuf KUBERNETES`.

KUBERNETES is a checkout of Kubernetes of the version that the schema has. Its `generated.proto`
files say which number a field has; the table has a row for each structure of `dray.api.schema`, and
for each structure that one of them embeds (`*core.v1.VolumeSource`). Fields of dray's own, which
Kubernetes does not have, keep their numbers: they are 1000 or more.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

import dray.apiserver.request
from dray.api.schema import field_types
from tools.make_schema import render

DESTINATION = Path(dray.apiserver.request.__file__).parent / "protobuf_fields.json"
FIRST_OWN_NUMBER = 1000
_TYPE_META = frozenset({"apiVersion", "kind"})
# Names that JSON spells in another way.
_SPELLED = {"uID": "uid"}

_PACKAGE = re.compile(r"^package k8s\.io\.(?:api|apimachinery\.pkg\.apis)\.([\w.]+);", re.M)
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.M | re.S)
_FIELD = re.compile(r"^  (?:optional |repeated )?(map<[^>]+>|[\w.]+) (\w+) = (\d+);", re.M)


class MessageField(NamedTuple):
    number: int
    name: str
    type: str


Messages = Mapping[str, list[MessageField]]


def read_messages(kubernetes: Path) -> dict[str, list[MessageField]]:
    """Return the fields of every message, by its name in the schema."""
    staging = kubernetes / "staging/src/k8s.io"
    messages: dict[str, list[MessageField]] = {}
    for path in sorted(staging.glob("ap*/**/generated.proto")):
        text = path.read_text()
        package = _PACKAGE.search(text)
        if package is None:
            continue
        for name, body in _MESSAGE.findall(text):
            messages[f"{package[1]}.{name}"] = [
                MessageField(int(number), _SPELLED.get(field, field), type_)
                for type_, field, number in _FIELD.findall(body)
            ]
    return messages


def make_table(messages: Messages, present: Mapping[str, str]) -> dict[str, str]:
    """Return the rows. Raises SystemExit with every field of the schema without a number."""
    rows: dict[str, str] = {}
    problems: list[str] = []
    for name in field_types.names():
        if name == "meta.v1.Patch":
            continue
        names = set(field_types.fields(name))
        own = dict(_own_fields(present.get(name, ""), names))
        rest = names - set(own.values())
        if name not in messages:
            problems.append(f"{name}: no such message")
            continue
        row = {**own, **_numbered(messages, name, rest, rows)}
        problems += [f"{name}.{field}: no number" for field in sorted(rest - _TYPE_META)]
        rows[name] = _written(row)
    if problems:
        raise SystemExit("\n".join(problems))
    return dict(sorted(rows.items()))


def _numbered(
    messages: Messages, name: str, rest: set[str], rows: dict[str, str]
) -> dict[int, str]:
    """Return the numbers of a message's fields, and take these away from `rest`.

    A message whose fields all belong to the structure is embedded, and gets a row of its own.
    """
    row: dict[int, str] = {}
    for field in messages[name]:
        # Some names begin with a capital letter in protobuf alone.
        for spelled in (field.name, field.name[:1].lower() + field.name[1:]):
            if spelled in rest:
                row[field.number] = spelled
                rest.discard(spelled)
                break
        else:
            embedded = f"{name.rpartition('.')[0]}.{field.type}"
            if embedded in messages:
                left = set(rest)
                inner = _numbered(messages, embedded, left, rows)
                if len(inner) == len(messages[embedded]):
                    row[field.number] = f"*{embedded}"
                    rows[embedded] = _written(inner)
                    rest &= left
    return row


def _own_fields(row: str, names: set[str]) -> Iterator[tuple[int, str]]:
    for item in row.split():
        number, _, name = item.partition("=")
        if int(number) >= FIRST_OWN_NUMBER and name in names:
            yield int(number), name


def _written(row: Mapping[int, str]) -> str:
    return " ".join(f"{number}={name}" for number, name in sorted(row.items()))


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    present = msgspec.json.decode(DESTINATION.read_bytes(), type=dict[str, str])
    DESTINATION.write_text(render(make_table(read_messages(Path(sys.argv[1])), present)))


if __name__ == "__main__":
    main()
