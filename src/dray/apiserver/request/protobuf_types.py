"""The protobuf form of every type: which number each field has, and what it holds.

`protobuf_fields.json` has the numbers, made by `python -m tools.make_protobuf`; `api.schema` has
the types of fields, and so the encoding of their bytes. A name with a star embeds that type's
fields: in JSON they are fields of the type itself.
"""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from dray.api import kinds
from dray.api.kinds import GroupVersionKind
from dray.api.schema import field_types
from dray.api.schema.field_types import SchemaField, Type

MAGIC = b"k8s\0"
"""The first bytes of a body, before a message of runtime.Unknown."""
_OF_META = frozenset({"APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"})
METADATA, METADATA_LIST = "meta.v1.PartialObjectMetadata", "meta.v1.PartialObjectMetadataList"


class Numbered(NamedTuple):
    """A field: its name in JSON and its type."""

    name: str
    type: Type


class Embedded(NamedTuple):
    """A message whose fields are in JSON those of the type that has it."""

    fields: Layout


Layout: TypeAlias = Mapping[int, "Numbered | Embedded"]


def type_of(api_version: str, kind: str) -> str:
    """Return the name of the type in the schema. Raises KeyError if it has no protobuf form."""
    group, version = kinds.parse_api_version(api_version)
    if kind == "DeleteOptions" and (group == "meta.k8s.io" or _serves(group, version)):
        # Clients declare them in the group and version of what they delete.
        return "meta.v1.DeleteOptions"
    if api_version == "v1" and kind in _OF_META:
        return f"meta.v1.{kind}"
    if group == "meta.k8s.io" and f"meta.v1.{kind}" in (METADATA, METADATA_LIST):
        return f"meta.v1.{kind}"
    name = GroupVersionKind(group, version, kind).schema_type
    if not (field_types.has(name) and name in numbers() and _serves(group, version)):
        raise KeyError(f"no {kind} in {api_version or 'an empty apiVersion'}")
    return name


def _serves(group: str, version: str) -> bool:
    return group == "autoscaling" or version in kinds.VERSIONS_BY_GROUP.get(group, ())


@functools.cache
def numbers() -> Mapping[str, Mapping[int, str]]:
    """Return the names of fields by their numbers, of each type."""
    data = pkgutil.get_data("dray.apiserver.request", "protobuf_fields.json")
    assert data is not None
    table: dict[str, str] = msgspec.json.decode(data)
    return {name: _parse_row(row) for name, row in table.items()}


def _parse_row(row: str) -> dict[int, str]:
    return {int(number): name for number, _, name in (item.partition("=") for item in row.split())}


@functools.cache
def layout(type_name: str) -> Layout:
    """Return the fields of a type by their numbers."""
    if type_name == METADATA:
        return {1: Numbered("metadata", field_types.type_named("meta.v1.ObjectMeta"))}
    if type_name == METADATA_LIST:
        return {1: Numbered("metadata", field_types.type_named("meta.v1.ListMeta"))}
    return _layout(type_name, field_types.fields(type_name))


def _layout(message: str, types: Mapping[str, SchemaField]) -> Layout:
    """Return the fields of a message that belong to a type with these fields."""
    fields: dict[int, Numbered | Embedded] = {}
    for number, name in numbers()[message].items():
        if name.startswith("*"):
            fields[number] = Embedded(_layout(name[1:], types))
        else:
            fields[number] = Numbered(name, types[name].type)
    return fields
