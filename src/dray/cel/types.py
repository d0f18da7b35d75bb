"""Static types, as cel-go names and prints them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    DYN = "dyn"
    ANY = "any"
    ERROR = "!error!"
    NULL = "null_type"
    BOOL = "bool"
    INT = "int"
    UINT = "uint"
    DOUBLE = "double"
    STRING = "string"
    BYTES = "bytes"
    DURATION = "google.protobuf.Duration"
    TIMESTAMP = "google.protobuf.Timestamp"
    LIST = "list"
    MAP = "map"
    TYPE = "type"
    OPTIONAL = "optional_type"
    OPAQUE = "opaque"
    OBJECT = "object"
    PARAMETER = "parameter"


@dataclass(frozen=True, slots=True)
class Type:
    """`name` tells opaque, object and parameter types apart; `parameters` are element types."""

    kind: Kind
    name: str
    parameters: tuple[Type, ...] = ()

    def __str__(self) -> str:
        if self.parameters:
            return f"{self.name}({', '.join(map(str, self.parameters))})"
        return self.name


def _simple(kind: Kind) -> Type:
    return Type(kind, kind.value)


DYN = _simple(Kind.DYN)
ANY = _simple(Kind.ANY)
ERROR = _simple(Kind.ERROR)
NULL = Type(Kind.NULL, "null")
BOOL = _simple(Kind.BOOL)
INT = _simple(Kind.INT)
UINT = _simple(Kind.UINT)
DOUBLE = _simple(Kind.DOUBLE)
STRING = _simple(Kind.STRING)
BYTES = _simple(Kind.BYTES)
DURATION = _simple(Kind.DURATION)
TIMESTAMP = _simple(Kind.TIMESTAMP)


def list_of(element: Type) -> Type:
    return Type(Kind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type(Kind.MAP, "map", (key, value))


def type_of(inner: Type) -> Type:
    return Type(Kind.TYPE, "type", (inner,))


def optional_of(inner: Type) -> Type:
    return Type(Kind.OPTIONAL, "optional_type", (inner,))


def opaque(name: str, *parameters: Type) -> Type:
    return Type(Kind.OPAQUE, name, parameters)


def object_type(name: str) -> Type:
    return Type(Kind.OBJECT, name)


def parameter(name: str) -> Type:
    return Type(Kind.PARAMETER, name)


QUANTITY = opaque("kubernetes.Quantity")
SEMVER = opaque("kubernetes.Semver")
URL = opaque("kubernetes.URL")
IP = opaque("net.IP")
CIDR = opaque("net.CIDR")
NAMED_FORMAT = opaque("kubernetes.NamedFormat")
