"""Static types, as cel-go names and prints them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum


class Kind(Enum):
    DYN = "dyn"
    ANY = "google.protobuf.Any"
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

    # Members are equal only to themselves; the hash of an Enum is that of its name, in Python code.
    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """`name` tells opaque, object and parameter types apart; `parameters` are element types.

    The rest is derived once, so that asking costs nothing: `depth` and `weight` (levels and nodes
    when written out) let the checker refuse types grown out of hand, `is_open` says that a type
    parameter occurs somewhere. Nothing here calls itself: types nest as deep as expressions.
    """

    kind: Kind
    name: str
    parameters: tuple[Type, ...] = ()
    depth: int = field(init=False, repr=False)
    weight: int = field(init=False, repr=False)
    is_open: bool = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        inner = self.parameters
        derive = object.__setattr__
        derive(self, "depth", 1 + max([parameter.depth for parameter in inner], default=0))
        derive(self, "weight", 1 + sum([parameter.weight for parameter in inner]))
        derive(
            self,
            "is_open",
            self.kind is Kind.PARAMETER or any(parameter.is_open for parameter in inner),
        )
        derive(self, "_hash", hash((self.kind, self.name, inner)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Type) or self._hash != other._hash:
            return False
        waiting: list[tuple[Type, Type]] = [(self, other)]
        while waiting:
            one, two = waiting.pop()
            if one is two:
                continue
            if one.kind is not two.kind or one.name != two.name:
                return False
            if len(one.parameters) != len(two.parameters):
                return False
            waiting += zip(one.parameters, two.parameters, strict=True)
        return True

    def __str__(self) -> str:
        """Return the run-time name, as cel-go's Type.String."""
        return _written(self, _run_time_name)


def display_name(type: Type) -> str:
    """Return the name in the checker's messages (cel-go checker/format.go, FormatCELType)."""
    return _written(type, _message_name)


def _run_time_name(type: Type) -> str:
    return f"<{type.name}>" if type.kind is Kind.PARAMETER else type.name


_MESSAGE_NAMES = {
    Kind.ANY: "any",
    Kind.DURATION: "duration",
    Kind.NULL: "null",
    Kind.TIMESTAMP: "timestamp",
}


def _message_name(type: Type) -> str:
    return _MESSAGE_NAMES.get(type.kind, type.name)


def _written(type: Type, name: Callable[[Type], str]) -> str:
    parts: list[str] = []
    waiting: list[Type | str] = [type]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            parts.append(part)
            continue
        parts.append(name(part))
        if part.parameters:
            first, *rest = part.parameters
            waiting.append(")")
            for parameter in reversed(rest):
                waiting += (parameter, ", ")
            waiting += (first, "(")
    return "".join(parts)


def _simple(kind: Kind) -> Type:
    return Type(kind, kind.value)


DYN = _simple(Kind.DYN)
ANY = _simple(Kind.ANY)
ERROR = _simple(Kind.ERROR)
NULL = _simple(Kind.NULL)
BOOL = _simple(Kind.BOOL)
INT = _simple(Kind.INT)
UINT = _simple(Kind.UINT)
DOUBLE = _simple(Kind.DOUBLE)
STRING = _simple(Kind.STRING)
BYTES = _simple(Kind.BYTES)
DURATION = _simple(Kind.DURATION)
TIMESTAMP = _simple(Kind.TIMESTAMP)
TYPE = _simple(Kind.TYPE)


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


QUANTITY = object_type("kubernetes.Quantity")
SEMVER = object_type("kubernetes.Semver")
URL = object_type("kubernetes.URL")
NAMED_FORMAT = object_type("kubernetes.NamedFormat")
IP = opaque("net.IP")
CIDR = opaque("net.CIDR")
