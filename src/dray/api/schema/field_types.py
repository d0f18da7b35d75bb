"""Field types and texts of every kind dray serves, as Kubernetes 1.37 defines them.

Two generated tables, made from lightkube-models by `python -m tools.make_schema`, are loaded when
first asked for: `schema_types.json` (every read and write needs it) and `schema_texts.json` (only
`explain` and OpenAPI do). Types are named `<package>.<version>.<Type>`, such as
`resource.v1.ResourceClaim`, and written as Go writes them, because Go's names show in messages.

Who reads a value by these types: `api.decoding` (is it well formed), `api.canonical` (as Go would
write it), `api.openapi`, and the API server's patch and apply.
"""

from __future__ import annotations

import enum
import functools
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import cast

import msgspec


class Form(enum.Enum):
    """The form of a value on the wire."""

    STRUCT = enum.auto()
    MAP = enum.auto()
    LIST = enum.auto()
    STRING = enum.auto()
    BOOLEAN = enum.auto()
    INT32 = enum.auto()
    INT64 = enum.auto()
    FLOAT = enum.auto()
    BYTES = enum.auto()
    """A string in base64."""
    QUANTITY = enum.auto()
    """A string or a number."""
    INT_OR_STRING = enum.auto()
    TIME = enum.auto()
    MICRO_TIME = enum.auto()
    RAW = enum.auto()
    """Any JSON, kept as it is."""
    FIELD_SET = enum.auto()
    """The fields that a manager owns: any JSON object."""


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """There is one of each, so that comparing and hashing are cheap.

    `name` is the schema's name of a structure or a named type, empty for others. `go` is what Go's
    reflection calls the type. `element` is what lists and maps hold.
    """

    form: Form
    go: str
    name: str = ""
    element: Type | None = None
    is_pointer: bool = False

    @property
    def content(self) -> Type:
        """The type inside all lists and maps."""
        return self.element.content if self.element else self


class Omission(enum.Enum):
    """The condition under which Go leaves a field out."""

    WHEN_EMPTY = "omitempty"
    WHEN_ZERO = "omitzero"
    NEVER = "always"


@dataclass(frozen=True, slots=True)
class Field:
    """`embedded` is the Go structure through which the field belongs to its type, if any."""

    name: str
    type: Type
    is_required: bool
    omission: Omission
    embedded: str = ""


Table = Mapping[str, Mapping[str, str] | str]

_BUILTIN = {
    "string": Type(Form.STRING, "string"),
    "bool": Type(Form.BOOLEAN, "bool"),
    "int32": Type(Form.INT32, "int32"),
    "int64": Type(Form.INT64, "int64"),
    "float64": Type(Form.FLOAT, "float64"),
    "[]byte": Type(Form.BYTES, "[]uint8"),
    "Quantity": Type(Form.QUANTITY, "resource.Quantity"),
    "IntOrString": Type(Form.INT_OR_STRING, "intstr.IntOrString"),
    "Time": Type(Form.TIME, "v1.Time"),
    "MicroTime": Type(Form.MICRO_TIME, "v1.MicroTime"),
    "RawExtension": Type(Form.RAW, "runtime.RawExtension"),
    "FieldsV1": Type(Form.FIELD_SET, "v1.FieldsV1"),
}


@functools.cache
def _types() -> Table:
    return cast(Table, _load("schema_types.json"))


@functools.cache
def _texts() -> Mapping[str, Mapping[str, str]]:
    return cast(Mapping[str, Mapping[str, str]], _load("schema_texts.json"))


def _load(file_name: str) -> object:
    data = pkgutil.get_data("dray.api.schema", file_name)
    assert data is not None, file_name
    return msgspec.json.decode(data)


def names() -> Iterator[str]:
    """Yield the name of every structure of the schema."""
    return (name for name, definition in _types().items() if isinstance(definition, Mapping))


def has(name: str) -> bool:
    """Return whether a structure of this name is in the schema."""
    return isinstance(_types().get(name), Mapping)


@functools.cache
def fields(name: str) -> Mapping[str, Field]:
    """Return the fields of one structure by their name on the wire."""
    definition = _types()[name]
    assert isinstance(definition, Mapping), name
    return MappingProxyType(
        {field: _parse_field(field, text) for field, text in definition.items()}
    )


def text(name: str, field: str = "") -> str:
    """Return the description of a structure or of one of its fields."""
    return _texts().get(name, {}).get(field, "")


@functools.cache
def type_named(expression: str) -> Type:
    """Return the type of an expression of the table, such as `[]core.v1.Container`."""
    if expression in _BUILTIN:
        return _BUILTIN[expression]
    if expression.startswith("*"):
        return replace(type_named(expression[1:]), is_pointer=True)
    if expression.startswith("[]"):
        element = type_named(expression[2:])
        return Type(Form.LIST, f"[]{_go_element(element)}", element=element)
    if expression.startswith("map["):
        key, _, value = expression.removeprefix("map[").partition("]")
        element = type_named(value)
        return Type(Form.MAP, f"map[{type_named(key).go}]{_go_element(element)}", element=element)
    return _defined(expression)


def _go_element(element: Type) -> str:
    return f"*{element.go}" if element.is_pointer else element.go


def _defined(name: str) -> Type:
    definition = _types()[name]
    go = ".".join(name.split(".")[-2:])
    if isinstance(definition, Mapping):
        return Type(Form.STRUCT, go, name)
    return replace(type_named(definition), go=go, name=name)


def _parse_field(name: str, text: str) -> Field:
    """Parse a line of the table: a type, then words, then `in` and the embedding type."""
    expression, *words = text.split(" ")
    is_required = "required" in words
    usual = Omission.NEVER if is_required else Omission.WHEN_EMPTY
    omission = next((stated for stated in Omission if stated.value in words), usual)
    embedded = words[-1] if "in" in words else ""
    return Field(name, type_named(expression), is_required, omission, embedded)
